"""Measure again what docs/results claims, as far as it fits into an hour: ``make results``.

The table of docs/results/index.md says which command belongs to which page and how long it takes.
This runs those that take minutes, the shortest first, and lists the others. What they print
goes to ``--out``, one file per command; the pages themselves are written by people.

    python benchmarks/results.py                    # an hour on two idle cores
    python benchmarks/results.py --minutes 10       # the shortest ones
    python benchmarks/results.py --list             # what there is, and how long it takes
"""

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_INDEX = _ROOT / "docs" / "results" / "index.md"
_ROW = re.compile(
    r"\| \[(?P<page>[^\]]+)\]\([^)]+\) \| `(?P<command>[^`]+)` \| (?P<minutes>\d+) \|"
)


@dataclass(frozen=True)
class Measurement:
    """A command, the page that tells its results, and how long it takes on two idle cores."""

    page: str
    command: str
    minutes: int


def measurements(index: Path = _INDEX) -> list[Measurement]:
    """Read the table of the index, the shortest measurement first."""
    rows = _ROW.finditer(index.read_text())
    found = [Measurement(row["page"], row["command"], int(row["minutes"])) for row in rows]
    return sorted(found, key=lambda each: each.minutes)


def within(found: list[Measurement], minutes: int) -> list[Measurement]:
    """Take measurements, shortest first, as long as all of them together fit."""
    chosen, left = [], minutes
    for each in found:
        if each.minutes <= left:
            chosen.append(each)
            left -= each.minutes
    return chosen


def run(measurement: Measurement, out: Path) -> bool:
    """Run one command with this interpreter; say whether it succeeded."""
    words = measurement.command.split()
    words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
    name = re.sub(r"[^a-z0-9]+", "-", measurement.command.lower()).strip("-")
    began = time.perf_counter()
    with (out / f"{name}.txt").open("w") as printed:
        done = subprocess.run(
            words, cwd=_ROOT, stdout=printed, stderr=subprocess.STDOUT, check=False
        )
    took = (time.perf_counter() - began) / 60
    outcome = f"failed with exit code {done.returncode}" if done.returncode else "done"
    print(f"{measurement.command}: {outcome} after {took:.1f} minutes, see {printed.name}")
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=60, help="how long it may take in all")
    parser.add_argument("--out", type=Path, default=Path("results"), help="a new folder")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    asked = parser.parse_args()
    found = measurements()
    chosen = within(found, asked.minutes)
    for each in found:
        mark = "now" if each in chosen else "by hand"
        print(f"{mark:8} {each.minutes:4} min  {each.command}  ({each.page})")
    if asked.list:
        return 0
    if asked.out.exists():
        parser.error(f"{asked.out} exists; name a new folder with --out, or move it away")
    asked.out.mkdir(parents=True)
    failed = [each for each in chosen if not run(each, asked.out)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Draw how time and memory of grouping by likelihood grow with observations and with steps.

python benchmarks/growth_figure.py [--rows FILE] [--out docs/results/growth]

Each point is one run of `grouping_scale.py` in a process of its own, so that peak memory is its
own too. Points that FILE holds already are not run again. About 8 minutes on an idle machine.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from grid import read
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PER_OBSERVATION = 1_000
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
FIXED = 10_000
STEPS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
COLUMNS = (
    "observations",
    "steps",
    "distinct",
    "groups",
    "wrong",
    "often",
    "count",
    "fit",
    "memory",
)


def measure(size: int, steps: int) -> dict[str, str | float]:
    """Run one case and read its line of the table."""
    script = Path(__file__).with_name("grouping_scale.py")
    command = [sys.executable, script, "--observations", str(size), "--steps", str(steps)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cells = [cell.strip().replace(",", "") for cell in printed.splitlines()[-1].split("|")[1:-1]]
    row: dict[str, str | float] = dict(zip(COLUMNS, cells, strict=True))
    return row | {name: float(row[name]) for name in COLUMNS if name != "often"}


def draw(axes: Axes, rows: list[dict[str, float]], along: str) -> None:
    """Draw time (left scale) and memory (right scale) with the growth exponent of time."""
    x = np.array([row[along] for row in rows])
    seconds = np.array([row["count"] + row["fit"] for row in rows])
    fit = np.array([row["fit"] for row in rows])
    memory = np.array([row["memory"] for row in rows])
    axes.loglog(x, seconds, "o-", color="#0072B2", label="counting and fit, seconds")
    axes.loglog(x, fit, "s--", color="#56B4E9", label="fit alone, seconds")
    axes.loglog(x, memory, "D-", color="#D55E00", label="peak memory, GB")
    axes.loglog(x, seconds[-1] * x / x[-1], ":", color="#666666", label="linear")
    axes.grid(alpha=0.3)


def main() -> None:
    """Run what is missing and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("benchmarks/out/growth.jsonl"))
    parser.add_argument("--out", default="docs/results/growth")
    arguments = parser.parse_args()
    rows = list(read(arguments.rows)) if arguments.rows.exists() else []
    known = {(row["observations"], row["steps"]) for row in rows}
    cases = [(size, size * PER_OBSERVATION) for size in SIZES] + [(FIXED, n) for n in STEPS]
    for size, steps in dict.fromkeys(cases):
        if (size, steps) in known:
            continue
        rows.append(measure(size, steps))
        print(rows[-1], flush=True)
        arguments.rows.parent.mkdir(parents=True, exist_ok=True)
        with arguments.rows.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    rows.sort(key=lambda row: (row["observations"], row["steps"]))
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(
        left, [r for r in rows if r["steps"] == PER_OBSERVATION * r["observations"]], "observations"
    )
    left.set_xlabel(f"observations ({PER_OBSERVATION:,} steps for each)")
    draw(right, [r for r in rows if r["observations"] == FIXED], "steps")
    right.set_xlabel(f"steps ({FIXED:,} observations)")
    left.legend(frameon=False)
    for suffix in ("png", "svg"):
        figure.savefig(f"{arguments.out}.{suffix}", dpi=150)


if __name__ == "__main__":
    main()

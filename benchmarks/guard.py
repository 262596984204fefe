"""The guard: every figure that romdp claims, measured again and held against its band.

    python benchmarks/guard.py             # a sample, at most 8 minutes on two cores: make guard
    python benchmarks/guard.py --full      # every row with all its repeats: make guard-full
    python benchmarks/guard.py --only lock digits --seeds 5 --first 200
    python benchmarks/guard.py --list

The rows are in ``guard.toml``. Each has a figure, the spread of one repeat and the number of
repeats; what is measured may be worse than claimed by as much as happens by chance once in a
thousand times. Ratios and shares are compared, never seconds. A row that is known to fail names the
issue that mends it, and fails from the moment on when it passes, until that mark is taken away.
Seeds begin at 9,000: nothing was ever chosen on these.
"""

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import sys
import time
import tomllib
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

FIRST = 9_000
CLAIMS = Path(__file__).with_name("guard.toml")
_CHANCE = 3.09  # standard errors that a figure exceeds by chance once in a thousand times
_QUICK = 20.0  # seconds that all repeats of a quick row take

Repeat = tuple[list[float], float]
"""The numbers of a repeat, and its seconds."""


@dataclass(frozen=True, eq=False)
class Row:
    """A figure that is claimed; its fields are those of ``guard.toml``."""

    name: str
    measure: list[Any]
    repeats: tuple[int, int]
    seconds: float
    page: str
    spread: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    middle: bool = False
    fails: int | None = None

    @property
    def claimed(self) -> float:
        """The figure on the page."""
        claimed = self.at_most if self.at_least is None else self.at_least
        assert claimed is not None
        return claimed

    @property
    def quick(self) -> bool:
        """Whether the row takes seconds, so that many settings can be tried on it."""
        return 0 < self.repeats[0] * self.seconds <= _QUICK

    def bound(self, repeats: int) -> float:
        """Return the worst figure that so many repeats may have by chance."""
        share = math.sqrt(max(0.0, self.claimed * (1.0 - self.claimed)))
        spread = share if self.spread is None else self.spread
        error = _CHANCE * spread / math.sqrt(repeats) * (1.25 if self.middle else 1.0)
        return self.claimed + (error if self.at_least is None else -error)

    def holds(self, figure: float, bound: float) -> bool:
        """Say whether a figure is no worse than the bound; NaN never is."""
        return figure <= bound + 1e-12 if self.at_least is None else figure >= bound - 1e-12

    def sum_up(self, repeats: Sequence[Repeat]) -> tuple[float, float]:
        """Return the figure, and the spread of one repeat as it was measured."""
        numbers = [numbers for numbers, _ in repeats]
        if any(len(row) != len(numbers[0]) for row in numbers):
            return math.nan, math.nan  # some repeat broke
        table = np.array(numbers, np.float64)
        ddof = int(len(table) > 1)
        if table.shape[1] == 2:
            ratio = float(table[:, 0].sum() / table[:, 1].sum())
            left = (table[:, 0] - ratio * table[:, 1]) / table[:, 1].mean()
            return ratio, float(left.std(ddof=ddof))
        figure = float(np.median(table) if self.middle else table.mean())
        return figure, float(table.std(ddof=ddof))


def read_rows(path: Path = CLAIMS) -> dict[str, Row]:
    """Read what is claimed."""
    found = tomllib.loads(path.read_text())
    return {name: Row(name, **row) for name, row in found.items()}


def measure(row: Row, seed: int) -> Repeat:
    """Measure one repeat of a row, in a process of its own."""
    import guard_measures

    name, *arguments = row.measure
    begin = getattr(guard_measures, name)
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):  # benchmarks talk
        found = begin(*arguments)(seed) if arguments else begin(seed)
    numbers = found if isinstance(found, tuple) else (found,)
    return [float(number) for number in numbers], time.perf_counter() - began


def measure_all(
    wanted: dict[Row, range], workers: int, console: Console
) -> dict[Row, list[Repeat]]:
    """Measure all repeats of all rows, the longest rows first; what breaks has no figure."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"  # the processes that are started inherit it
    found: dict[Row, list[Repeat]] = {row: [] for row in wanted}
    context = multiprocessing.get_context("spawn")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn())
    with (
        Progress(*columns, TimeElapsedColumn(), console=console) as progress,
        ProcessPoolExecutor(workers, mp_context=context) as pool,
    ):
        order = sorted(wanted, key=lambda row: -row.seconds)
        futures = {pool.submit(measure, row, seed): row for row in order for seed in wanted[row]}
        task = progress.add_task("", total=len(futures))
        for future in as_completed(futures):
            row = futures[future]
            if future.exception() is None:
                found[row].append(future.result())
            else:
                progress.print(f"{row.name}: {future.exception()!r}")
                found[row].append(([], 0.0))
            progress.update(task, advance=1, description=row.name)
            if len(found[row]) == len(wanted[row]) and not console.is_terminal:
                console.print(f"{row.name}: measured")
    return found


def judge(row: Row, repeats: Sequence[Repeat]) -> tuple[str, bool]:
    """Return the verdict on a row, and whether it is as it should be."""
    holds = row.holds(row.sum_up(repeats)[0], row.bound(len(repeats)))
    if row.fails is None:
        return ("holds" if holds else "LEFT ITS BAND"), holds
    return f"{'HOLDS, so unmark' if holds else 'fails, see'} issue {row.fails}", not holds


def show(found: dict[Row, list[Repeat]], console: Console) -> bool:
    """Print the table; says whether every row is as it should be."""
    table = Table(box=None, pad_edge=False)
    for heading in ("row", "figure", "must be", "claimed", "repeats", "spread", "s", "verdict"):
        table.add_column(heading, justify="left" if heading in ("row", "verdict") else "right")
    well = True
    for row, repeats in found.items():
        (figure, spread), (verdict, right) = row.sum_up(repeats), judge(row, repeats)
        well = well and right
        table.add_row(
            row.name,
            f"{figure:.4g}",
            f"{'<=' if row.at_least is None else '>='} {row.bound(len(repeats)):.4g}",
            f"{row.claimed:.4g}",
            str(len(repeats)),
            f"{spread:.2g}",
            f"{sum(seconds for _, seconds in repeats):.0f}",
            verdict if right else f"[bold red]{verdict}[/]",
        )
    console.print(table)
    return well


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all repeats of all rows")
    parser.add_argument("--quick", action="store_true", help="the rows that take seconds")
    parser.add_argument("--only", nargs="*", default=[""], help="rows whose name contains this")
    parser.add_argument("--seeds", type=int, help="so many repeats of each row")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--out", type=Path, help="write all repeats to this JSON file")
    options = parser.parse_args()
    wanted = {}
    for row in read_rows().values():
        repeats = options.seeds or row.repeats[options.full]
        chosen = any(part in row.name for part in options.only)
        if chosen and repeats and (row.quick or not options.quick):
            wanted[row] = range(options.first, options.first + repeats)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    if options.list:
        for row, seeds in wanted.items():
            console.print(f"{row.name}: {len(seeds)} repeats; docs/results/{row.page}.md")
        return 0
    began = time.perf_counter()
    found = measure_all(wanted, options.workers, console)
    well = show(found, console)
    minutes = (time.perf_counter() - began) / 60
    console.print(f"{len(found)} rows after {minutes:.1f} minutes")
    if options.out is not None:
        options.out.write_text(json.dumps({row.name: each for row, each in found.items()}))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())

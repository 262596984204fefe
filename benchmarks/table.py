"""One table of all that is claimed about speed and memory: ``make bench``.

Every speed is a ratio to plain code that was timed in the same run. Prints how far it is; the
page goes to docs/results/bench.md or to ``--out``.

    python benchmarks/table.py                          # some 3 minutes on two idle cores
    python benchmarks/table.py --quick --out quick.md   # a few seconds, rough
"""

import os

# Before NumPy loads its linear algebra; workers inherit it.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
os.environ.update(dict.fromkeys(("MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment
import grouping_scale
import learning
import machine
import planner
import simulator

import romdp

DEFAULT = machine.ROOT / "docs" / "results" / "bench.md"


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    simulator_sizes: tuple[int, ...] = (30, 300, 1_000)
    simulator_steps: int = 10_000_000
    environment_sizes: tuple[int, ...] = (30, 1_000)
    planner_states: tuple[int, ...] = (20, 30, 100, 300, 1_000)
    # Y, steps of ours, steps of the twin (the same where it can bear them)
    learning: tuple[tuple[int, int, int], ...] = (
        (30, 1_000_000, 1_000_000),
        (30, 10_000_000, 0),
        (300, 1_000_000, 20_000),
        (1_000, 1_000_000, 0),
    )
    grouping: tuple[tuple[int, int], ...] = (
        (1_000, 3_000_000),
        (3_000, 3_000_000),
        (10_000, 3_000_000),
        (3_000, 1_000_000),
        (3_000, 10_000_000),
    )
    grouping_states: int = 50
    repeats: int = 5


FULL = Effort()
QUICK = Effort(
    simulator_sizes=(30,),
    simulator_steps=200_000,
    environment_sizes=(30,),
    planner_states=(20,),
    learning=((30, 5_000, 500),),
    grouping=((50, 5_000),),
    grouping_states=5,
    repeats=1,
)


def tell(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


def markdown(heading: str, note: str, columns: str, rows: Iterable[Iterable[Any]]) -> str:
    """Return a section with a table; ``columns`` are parted by bars."""
    width = columns.count("|") + 1
    lines = [f"| {columns} |", "|" + "---|" * width]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return f"## {heading}\n\n{note}\n\n" + "\n".join(lines) + "\n"


def simulator_part(effort: Effort) -> str:
    found = simulator.speeds(effort.simulator_sizes, [], effort.simulator_steps, effort.repeats)
    rows = [
        (f"{s.n_observations:,}", f"{s.speed:,.0f}", f"{s.plain:,.0f}", f"{s.ratio:,.0f}")
        for s in found
    ]
    return markdown(
        "Simulator",
        "X = 5, A = 4; one core, counting included, compared with a loop that calls `rng.choice` "
        "once per step and counts in NumPy arrays. More: `python benchmarks/simulator.py`.",
        "Y | steps per second | plain loop | ratio",
        rows,
    )


def environment_part(effort: Effort) -> str:
    rows = []
    for size in effort.environment_sizes:
        found = environment.rates(5, 4, size, effort.simulator_steps // 50)
        (_, base), *others = found.items()
        rows += [
            (f"{size:,}", what, f"{v:,.0f}", f"{base:,.0f}", f"{v / base:.1f}")
            for what, v in others
        ]
    return markdown(
        "Gymnasium environment",
        "Stepped from Python, one call per step, compared with the same loop with `rng.choice`. "
        "More: `python benchmarks/environment.py`.",
        "Y | what | steps per second | plain loop | ratio",
        rows,
    )


def planner_part(effort: Effort) -> str:
    rows = []
    for n_states in effort.planner_states:
        found = planner.time_calls(n_states, None if n_states <= 30 else 0.3)
        sweep, product = planner.time_dense(n_states, 0.3)
        rows.append(
            (
                f"{n_states:,}",
                f"{found.call:,.1f}",
                f"{found.twin:,.0f}",
                f"{found.twin / found.call:.1f}",
                f"{sweep / product:.2f}",
            )
        )
    return markdown(
        "Planner",
        "Extended value iteration, A = 4: a whole call from a cold start, checks included, against "
        "a vectorised NumPy twin that returns the same gain (width 0.3 from S = 100 on, below that "
        "UCRL2's x 0.2); and one sweep at width 0.3 as a multiple of one dense product "
        "`transition @ values`. More: `python benchmarks/planner.py`.",
        "S | call, microseconds | NumPy twin | ratio | sweep / product",
        rows,
    )


def learning_part(effort: Effort) -> str:
    agent = romdp.UCRL2(romdp.Hoeffding(learning.SCALE))
    rows = []
    for size, steps, twin_steps in effort.learning:
        world = romdp.worlds.random_romdp(5, 4, size, seed=0)
        ours = learning.seconds(agent, world, steps, 3)
        plain = learning.plain_loop(world, 20_000) / 20_000
        twin = "-"
        if twin_steps:
            taken, _ = learning.plain_ucrl2(world, twin_steps)
            same = ours if twin_steps == steps else learning.seconds(agent, world, twin_steps, 3)
            twin = f"{taken / same:,.0f} ({twin_steps:,} steps)"
        rate = steps / ours
        rows.append(
            (
                f"{size:,}",
                f"{steps:,}",
                f"{ours:.2f}",
                f"{rate / 1e6:.2f}",
                f"{rate * plain:,.0f}",
                twin,
            )
        )
    return markdown(
        "Learning loop",
        "UCRL2, widths scaled by 0.1, X = 5, A = 4, planning included, best of three. The plain "
        "loop calls `rng.choice` once per step and learns nothing; the twin is UCRL2 written with "
        "NumPy (compared over the steps in brackets). More: `python benchmarks/learning.py`.",
        "Y | steps | seconds | million steps per second | times the plain loop | times the twin",
        rows,
    )


def grouping_part(effort: Effort) -> str:
    rows = []
    context = multiprocessing.get_context("spawn")
    for size, steps in effort.grouping:
        with ProcessPoolExecutor(1, mp_context=context) as pool:  # its own peak of memory
            arguments = (size, steps, effort.grouping_states, 4, 0)
            fit = pool.submit(grouping_scale.measure, *arguments).result()
        tell(f"      Y = {size:,}, {steps:,} steps: {fit.fit_seconds:.1f} s")
        rows.append(
            (
                f"{size:,}",
                f"{steps:,}",
                f"{fit.distinct:,}",
                f"{fit.counting_seconds:.1f}",
                f"{fit.fit_seconds:.1f}",
                f"{fit.gigabytes:.2f}",
                fit.groups,
                fit.wrong,
            )
        )
    return markdown(
        "Grouping by likelihood",
        f"X = {effort.grouping_states} (unknown to it), A = 4, a uniform walk, seed 0; each line "
        "in a process of its own, on one core. `python benchmarks/grouping_scale.py` goes further.",
        "Y | steps | distinct | counting, s | grouping, s | peak GiB | groups | misplaced",
        rows,
    )


def starting_part(effort: Effort) -> str:
    commands = {
        "`python -c pass`": ["-c", "pass"],
        "`import romdp`": ["-c", "import romdp"],
        "`romdp --help`": ["-m", "romdp", "--help"],
    }
    rows = []
    for what, arguments in commands.items():
        times = []
        for _ in range(2 * effort.repeats + 1):
            begin = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
        rows.append((what, f"{statistics.median(times):.2f}"))
    return markdown(
        "Starting", "Whole processes, the interpreter included; the median.", "what | seconds", rows
    )


PARTS: dict[str, Callable[[Effort], str]] = {
    "simulator": simulator_part,
    "environment": environment_part,
    "planner": planner_part,
    "learning loop": learning_part,
    "grouping": grouping_part,
    "starting": starting_part,
}


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, rough")
    parser.add_argument("--out", type=Path, help="where to write; docs/results/bench.md")
    options = parser.parse_args()
    if options.quick and options.out is None:
        parser.error("--quick is too rough for docs/results/bench.md: name a file with --out")
    effort = QUICK if options.quick else FULL
    out = options.out or DEFAULT
    begin = time.perf_counter()
    command = "python benchmarks/table.py --quick --out FILE" if options.quick else "make bench"
    page = [
        "# Benchmarks\n",
        "**Question.** How fast is it beside plain code? "
        f"**Command and seeds.** Written by `{command}`; the seeds are those of the headings, from "
        "0 on, and ratios are taken within one run, so that they mean something on a busy machine "
        "as well.\n",
        machine.about(),
    ]
    for number, (title, part) in enumerate(PARTS.items(), 1):
        tell(f"[{number}/{len(PARTS)}] {time.perf_counter() - begin:4.0f} s  {title}")
        page.append(part(effort))
    page.append(f"Made in {time.perf_counter() - begin:.0f} s.\n")
    out.write_text("\n".join(page), encoding="utf-8")
    tell(f"wrote {out}")


if __name__ == "__main__":
    main()

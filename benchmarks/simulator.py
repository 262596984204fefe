"""Steps per second of the compiled simulator, counting included, next to a loop in plain Python.

``python benchmarks/simulator.py`` takes about half a minute on one core; ``--quick`` a few
seconds; ``--long`` makes one run of 10^9 steps and prints the memory it took.
"""

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

import romdp
from romdp.data.recorder import Recorder
from romdp.exact.romdp import ROMDP
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import Simulator

N_STATES, N_ACTIONS = 5, 4
Run = Callable[[int], object]


class Speed(NamedTuple):
    """Steps per second, and those of the plain loop in the same run."""

    n_observations: int
    counted: str
    speed: float
    plain: float

    @property
    def ratio(self) -> float:
        """How many times faster."""
        return self.speed / self.plain


def processor() -> str:
    """Name the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> str:
    """Name the processor and the versions, so that figures can be compared."""
    versions = f"romdp {romdp.__version__}, NumPy {np.__version__}, numba {numba.__version__}"
    system = f"Python {platform.python_version()} on {platform.system()}"
    return f"{processor()}, {os.cpu_count()} cores; one is used\n{versions}, {system}"


def table_of(world: ROMDP) -> np.ndarray:
    """Draw a fixed policy."""
    return np.random.default_rng(0).integers(world.n_actions, size=world.n_observations)


def compiled(world: ROMDP, triples: bool = False) -> Run:
    """Step and count in the compiled loop."""
    table = table_of(world)
    simulator, recorder = Simulator(world, 0), Recorder(world.n_observations, world.n_actions)
    if triples:
        recorder.watch_triples(np.arange(world.n_observations), table)
    return lambda steps: simulator.run(table, recorder, steps)


def plain(world: ROMDP) -> Run:
    """Step as most public code does: one ``rng.choice`` a step, counting in NumPy arrays."""
    rng = np.random.default_rng(0)
    table, labels = table_of(world), world.labels
    laws = world.transition[:, :, labels] * world.observation_chance
    visits = np.zeros((world.n_observations, world.n_actions, world.n_observations), np.int64)
    sums = np.zeros((world.n_observations, world.n_actions))

    def run(steps: int) -> None:
        y = 0
        for _ in range(steps):
            x, a = labels[y], table[y]
            after = rng.choice(world.n_observations, p=laws[x, a])
            sums[y, a] += rng.random() < world.reward[x, a]
            visits[y, a, after] += 1
            y = after

    return run


def rate(run: Run, steps: int, repeats: int) -> float:
    """Measure steps per second, the best of several; the first call, which may compile, is left."""
    run(steps // 10)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(steps)
        seconds.append(time.perf_counter() - start)
    return steps / min(seconds)


def speeds(
    sizes: Iterable[int], triples: Iterable[int], steps: int, repeats: int
) -> Iterator[Speed]:
    """Measure each number of observations, with pairs counted and where asked triples too."""
    for size in sizes:
        world = random_romdp(N_STATES, N_ACTIONS, size, seed=0)
        base = rate(plain(world), 10_000, repeats)
        yield Speed(size, "pairs", rate(compiled(world), steps, repeats), base)
        if size in triples:
            both = rate(compiled(world, triples=True), steps, repeats)
            yield Speed(size, "pairs and triples", both, base)


def compare(sizes: list[int], triples: list[int], steps: int, repeats: int) -> None:
    """Print one line for each number of observations."""
    print(f"{'Y':>7}  {'counted':<17} {'steps/s':>12} {'rng.choice loop':>16} {'ratio':>8}")
    for size, counted, speed, base in speeds(sizes, triples, steps, repeats):
        print(f"{size:>7}  {counted:<17} {speed:>12,.0f} {base:>16,.0f} {speed / base:>8,.0f}")
        sys.stdout.flush()


def long_run(steps: int) -> None:
    """Show that memory does not grow with the steps."""
    world = random_romdp(N_STATES, N_ACTIONS, 30, seed=0)
    run = compiled(world)
    run(1_000)
    before = peak_memory()
    start = time.perf_counter()
    run(steps)
    seconds = time.perf_counter() - start
    print(f"{steps:,} steps at Y=30 in {seconds:.1f} s ({steps / seconds:,.0f} steps/s)")
    print(f"peak memory {peak_memory():.0f} MB, {before:.0f} MB of it before the first step")


def peak_memory() -> float:
    """Return the largest resident set of this process so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="Y=30 only, a few seconds")
    parser.add_argument("--long", action="store_true", help="10^9 steps at Y=30, with peak memory")
    options = parser.parse_args()
    print(machine())
    print(f"X={N_STATES}, A={N_ACTIONS}, one core, counting included, best of several\n")
    if options.long:
        long_run(10**9)
    elif options.quick:
        compare([30], [], steps=10_000_000, repeats=3)
    else:
        compare([30, 300, 1_000, 3_000], [30, 300], steps=10_000_000, repeats=3)


if __name__ == "__main__":
    main()

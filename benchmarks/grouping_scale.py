"""Time and memory of grouping by likelihood against the number of observations and of steps.

Every line is one fit of ``random_romdp(n_states, n_actions, Y)`` under the uniform policy, the
number of states unknown. Wrong placings are counted among all observations and among those
that were visited at least 20 times.

    python benchmarks/grouping_scale.py                        # up to Y = 10,000, 10^7 steps
    python benchmarks/grouping_scale.py --observations 100000 --steps 1e8
    python benchmarks/grouping_scale.py --share    # grouping within runs of 10^6 steps at Y = 300
"""

import argparse
import resource
import time
from typing import NamedTuple

import numpy as np

import romdp
from romdp.clustering.likelihood import Likelihood
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.exact.romdp import ROMDP
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import Simulator

CHUNK = 10_000_000


def count(world: ROMDP, steps: int, seed: int) -> Counts:
    """Count a long walk chunk by chunk, so that it never lies in memory as a whole."""
    simulator = Simulator(world, seed)
    total: Counts | None = None
    for start in range(0, steps, CHUNK):
        part = simulator.trajectory("uniform", min(CHUNK, steps - start))
        counts = Counts.from_trajectory(part)
        total = counts if total is None else total + counts
    assert total is not None
    return total


class Fit(NamedTuple):
    """One fit: what it found, and what it took."""

    n_observations: int
    steps: int
    distinct: int
    groups: int
    wrong: int
    wrong_frequent: int
    frequent: int
    counting_seconds: float
    fit_seconds: float
    gigabytes: float


def gigabytes() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(size: int, steps: int, states: int, actions: int, seed: int) -> Fit:
    """Count a walk and group what was counted; memory is that of the process so far."""
    world = random_romdp(states, actions, size, seed)
    began = time.perf_counter()
    counts = count(world, steps, seed)
    counted = time.perf_counter()
    fit = Likelihood().fit(counts, np.random.default_rng(seed))
    done = time.perf_counter()
    often = counts.visits.sum(axis=1) >= 20
    truth = Partition(world.labels)
    return Fit(
        size,
        steps,
        counts.matrix().nnz,
        fit.n_groups,
        round(fit.partition.misclassification(truth) * size),
        round(fit.partition.misclassification(truth, often * 1.0) * often.sum()),
        int(often.sum()),
        counted - began,
        done - counted,
        gigabytes(),
    )


def share(observations: int = 300, seeds: int = 3) -> None:
    """Time every regrouping of LC-UCRL and LC-PSRL in runs of 10^6 steps."""
    spent: list[float] = []
    regroup = Likelihood.regroup

    def timed(*args: object) -> Partition:
        begin = time.perf_counter()
        found = regroup(*args)
        spent.append(time.perf_counter() - begin)
        return found

    Likelihood.regroup = timed
    romdp.play(romdp.LCPSRL(), random_romdp(5, 4, 30, seed=0), 2_000, seed=0)
    for make in (lambda: romdp.LCUCRL(romdp.Hoeffding(0.1)), romdp.LCPSRL):
        rows = []
        for seed in range(seeds):
            world = random_romdp(5, 4, observations, seed=seed)
            spent.clear()
            begin = time.perf_counter()
            run = romdp.play(make(), world, 1_000_000, seed=seed)
            rows.append((sum(spent), len(spent), time.perf_counter() - begin))
        grouping, times, total = np.mean(rows, axis=0)
        print(f"{run.agent}: {grouping:.2f} s in {times:.0f} regroupings, of {total:.2f} s in all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--observations", type=float, nargs="+", default=[1e3, 3e3, 1e4])
    parser.add_argument("--steps", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--states", type=int, default=50)
    parser.add_argument("--actions", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", action="store_true", help="within runs of 10^6 steps")
    options = parser.parse_args()
    if options.share:
        share()
        return
    print("| Y | steps | distinct | groups | wrong | wrong, 20+ visits | counting s | fit s | GB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for size in map(int, options.observations):
        for steps in map(int, options.steps):
            found = measure(size, steps, options.states, options.actions, options.seed)
            print(
                f"| {size:,} | {steps:.0e} | {found.distinct:,} | {found.groups} | {found.wrong} "
                f"| {found.wrong_frequent} of {found.frequent:,} | {found.counting_seconds:.1f} "
                f"| {found.fit_seconds:.1f} | {found.gigabytes:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

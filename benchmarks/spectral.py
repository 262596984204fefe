"""What one call of a clusterer finds, against the number of steps of one fixed policy.

The spectral step and its variants, the paper's settings with and without the preconditions of its
lemmas, and `Homogeneity` for comparison.

Worlds are ``random_romdp(5, 4, Y, seed)``. The policies are deterministic: random, or optimal but
for one observation in five. A policy shows the spectral step the groups of ``lem:partial.cluster``
at most: "found" is the share of the merges that would lead there. `Homogeneity` also compares what
came before, so it may find more than that. A run that merges two hidden states is false. Seconds
are the processor time of the slowest call, simulation left out.

    python benchmarks/spectral.py                         # up to 10^6 steps, a few minutes
    python benchmarks/spectral.py --steps 1e7 --seeds 5
    python benchmarks/spectral.py --ranks                 # how many states there are, told two ways
"""

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from sl_ucrl import STRESS, stress_world

import romdp
from romdp.clustering.clusterer import Clusterer, Evidence
from romdp.clustering.homogeneity import JointTest
from romdp.clustering.spectral.moments import certain_rank
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import Simulator

METHODS: dict[str, Clusterer] = {
    "Spectral": romdp.Spectral(),
    "power": romdp.Spectral(solver="power"),
    "matrix": romdp.Spectral(method="matrix"),
    "paper": romdp.Spectral.paper(),
    "paper, unchecked": romdp.Spectral.paper(preconditions=False),
    "Homogeneity": romdp.Homogeneity(),
}
CHUNK = 1_000_000


def policy_of(world: ROMDP, kind: str, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(world.n_actions, size=world.n_observations)
    if kind == "random":
        return drawn
    off = rng.random(world.n_observations) < 0.2
    return np.where(off, drawn, world.hidden.optimal_policy[world.labels])


def collect(world: ROMDP, policy: NDArray[np.int64], steps: int, seed: int) -> Evidence:
    simulator = Simulator(world, seed)
    counts = Counts.zeros(world.n_observations, world.n_actions)
    triples = Triples.zeros(world.n_observations, world.n_actions)
    for start in range(0, steps, CHUNK):
        part = simulator.trajectory(policy, min(CHUNK, steps - start))
        counts, triples = (
            counts + Counts.from_trajectory(part),
            triples + Triples.from_trajectory(part),
        )
    return Evidence(counts, triples, step=steps)


def count_states(counts: Counts, step: int, seed: int) -> tuple[int, int]:
    """Return how many states there are, by the test of groups and by singular values; 0: unsure."""
    test = JointTest.at_step(counts, step, 0.3, 0.05)
    least, most = test.count_states(np.arange(counts.n_observations))
    told = most if least == most and test.alike.any() else 0
    return told, certain_rank(counts.matrix(), np.random.default_rng(seed)).rank


def ranks() -> None:
    """Print of how many worlds the rank is right and wrong, by both certificates."""
    kinds = [("random", size) for size in (10, 20, 30)]
    kinds += [(kind, 15) for kind in STRESS if kind.startswith(("twins", "alike"))]
    for kind, size in kinds:
        for behaviour in ("uniform", "optimal") if kind == "random" else ("uniform",):
            for steps in (10_000, 30_000, 100_000):
                found = []
                for seed in range(800, 810 if kind == "random" else 805):
                    world = random_romdp(5, 4, size, seed)
                    if kind != "random":
                        world = stress_world(kind, size, seed)
                    uniform = behaviour == "uniform"
                    policy = "uniform" if uniform else policy_of(world, behaviour, seed)
                    seen = romdp.simulate(world, policy, steps, seed=seed)
                    found.append(count_states(Counts.from_trajectory(seen), steps, seed))
                cells = [(sum(n == 5), sum((n != 5) & (n > 0))) for n in np.transpose(found)]
                text = "; ".join(f"{right} right, {wrong} wrong" for right, wrong in cells)
                print(f"{kind}, Y = {size}, {behaviour}, {steps:,} steps: {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--observations", type=int, nargs="+", default=[10, 20, 30])
    parser.add_argument("--steps", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ranks", action="store_true", help="certificates of the rank alone")
    options = parser.parse_args()
    if options.ranks:
        ranks()
        return
    print(f"{'policy':>8} {'Y':>3} {'steps':>6}  " + "  ".join(f"{m:>20}" for m in METHODS))
    print(f"{'':>20}" + "  ".join(f"{'found  false seconds':>20}" for _ in METHODS))
    for kind in ("random", "optimal"):
        for size in options.observations:
            for steps in (int(n) for n in options.steps):
                results: dict[str, list[tuple[int, bool, float]]] = {m: [] for m in METHODS}
                possible = 0
                for seed in range(options.seeds):
                    world = random_romdp(5, 4, size, seed)
                    policy = policy_of(world, kind, seed)
                    evidence = collect(world, policy, steps, seed)
                    possible += size - Partition(world.labels * 4 + policy).n_clusters
                    for name, method in METHODS.items():
                        rng = np.random.default_rng(seed)
                        began = time.process_time()
                        found = method.regroup(evidence, Partition.singletons(size), rng)
                        taken = time.process_time() - began
                        wrong = not found.refines(Partition(world.labels))
                        results[name].append((size - found.n_clusters, wrong, taken))
                cells = []
                for runs in results.values():
                    merged = sum(run[0] for run in runs)
                    n_false = sum(run[1] for run in runs)
                    slowest = max(run[2] for run in runs)
                    cells.append(
                        f"{merged / possible:5.0%} {n_false:3d}/{len(runs):<2d} {slowest:7.2f}"
                    )
                print(f"{kind:>8} {size:>3} {steps:>6.0e}  " + "  ".join(f"{c:>20}" for c in cells))


if __name__ == "__main__":
    main()

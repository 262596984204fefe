"""Grouping errors in the symmetric block world, paired with the genie's on the same data.

The genie knows the model and all other labels and places one observation by its likelihood: no
method can beat it by more than chance. Prints, for each number of visits per observation, the
share of misplaced observations of both, their ratio with a 95% interval (bootstrap over repeats,
paired), and the same when the number of hidden states is unknown.

    python benchmarks/symmetric_block.py --repeats 1000
"""

import argparse
import time

import numpy as np
from genie import genie_labels
from numpy.typing import NDArray

from romdp.clustering.likelihood import Likelihood
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.worlds.named import symmetric_block
from romdp.worlds.simulator import simulate

SETTINGS = ((4.0, 5), (4.0, 10), (4.0, 15), (4.0, 20), (2.0, 20), (2.0, 30), (2.0, 45))


def errors(
    eta: float, visits: int, repeats: int, unknown: int, seed: int, n_observations: int
) -> NDArray[np.float64]:
    """Shares misplaced by the genie, with X given and with X unknown; one row per repeat.

    X is unknown in the first ``unknown`` repeats only; the columns are NaN in the others.
    """
    world = symmetric_block(n_observations, eta)
    truth = Partition(world.labels)
    rows = []
    for repeat in range(repeats):
        steps = visits * n_observations
        counts = Counts.from_trajectory(simulate(world, "uniform", steps, (seed, repeat)))
        row = [float(np.mean(genie_labels(world, counts) != world.labels)), *[np.nan] * 3]
        fit = Likelihood(n_states=2).fit(counts, np.random.default_rng([seed, repeat]))
        row[1] = fit.partition.misclassification(truth)
        if repeat < unknown:
            fit = Likelihood().fit(counts, np.random.default_rng([seed, repeat]))
            row[2:] = [fit.partition.misclassification(truth), fit.n_groups]
        rows.append(row)
    return np.array(rows)


def interval(
    mine: NDArray[np.float64], genie: NDArray[np.float64], draws: int = 2000
) -> tuple[float, float]:
    """Bootstrap the ratio of the means over repeats."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(mine), size=(draws, len(mine)))
    with np.errstate(divide="ignore", invalid="ignore"):  # few repeats: the genie may be perfect
        ratios = mine[chosen].mean(1) / genie[chosen].mean(1)
    low, high = np.nanquantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--unknown", type=int, default=200, help="repeats with X unknown as well")
    parser.add_argument("--eta", type=float, nargs="*", default=[4.0, 2.0])
    parser.add_argument("--visits", type=int, nargs="*", default=[v for _, v in SETTINGS])
    parser.add_argument("--observations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| eta | visits | genie | X given | ratio (95%) | X unknown | ratio | 2 groups | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for eta, visits in SETTINGS:
        if eta not in options.eta or visits not in options.visits:
            continue
        began = time.perf_counter()
        table = errors(
            eta, visits, options.repeats, options.unknown, options.seed, options.observations
        )
        spent = time.perf_counter() - began
        genie, given, unknown, found = table.T
        low, high = interval(given, genie)
        some = ~np.isnan(unknown)
        print(
            f"| {eta:g} | {visits} | {genie.mean():.4f} | {given.mean():.4f} "
            f"| {given.mean() / genie.mean():.2f} ({low:.2f}, {high:.2f}) "
            f"| {unknown[some].mean():.4f} | {unknown[some].mean() / genie[some].mean():.2f} "
            f"| {np.mean(found[some] == 2):.0%} | {spent:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""How much of a run of 10^6 steps goes into grouping by likelihood.

python benchmarks/clustering_share.py [--observations 300] [--seeds 3]
"""

import argparse
import time

import numpy as np

import romdp
from romdp.clustering.likelihood import Likelihood


def main() -> None:
    """Time every regrouping of LC-UCRL and LC-PSRL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--observations", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    spent: list[float] = []
    regroup = Likelihood.regroup

    def timed(*args: object) -> romdp.Partition:
        begin = time.perf_counter()
        found = regroup(*args)
        spent.append(time.perf_counter() - begin)
        return found

    Likelihood.regroup = timed
    romdp.play(romdp.LCPSRL(), romdp.worlds.random_romdp(5, 4, 30, seed=0), 2_000, seed=0)
    for make in (lambda: romdp.LCUCRL(romdp.Hoeffding(0.1)), romdp.LCPSRL):
        rows = []
        for seed in range(arguments.seeds):
            world = romdp.worlds.random_romdp(5, 4, arguments.observations, seed=seed)
            spent.clear()
            begin = time.perf_counter()
            run = romdp.play(make(), world, 1_000_000, seed=seed)
            rows.append((sum(spent), len(spent), time.perf_counter() - begin))
        clustering, times, total = np.mean(rows, axis=0)
        print(
            f"{run.agent}: {clustering:.2f} s in {times:.0f} regroupings, of {total:.2f} s in all"
        )


if __name__ == "__main__":
    main()

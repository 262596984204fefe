"""What a plan costs and what is kept, before and after grouping (the paper: O(Y^3) to O(X^3)).

python benchmarks/complexity.py [Y ...]

After 10^5 uniformly random steps in ``random_romdp(5, 4, Y, seed=0)``: the time of a plan inside
`TimeUniform` sets that goes on from the last one (processor time, the least of five), and the
size of the counts that it reads, on the observations and on the hidden states. UCRL3 always has
the first; SL-UCRL begins with it and ends with the second, which with ``counting="paper"`` is all
that it keeps.
"""

import sys
import time

import numpy as np

import romdp

SETS = romdp.TimeUniform()


def measure(n_observations: int, steps: int = 100_000) -> None:
    """Print a row: milliseconds per plan and kilobytes on observations and on hidden states."""
    world = romdp.worlds.random_romdp(5, 4, n_observations, seed=0)
    seen = romdp.simulate(world, "uniform", steps, seed=0)
    counts = romdp.Counts.from_trajectory(seen)
    row = []
    for grouped in (counts, counts.group(romdp.Partition(world.labels))):
        start = SETS.plan(grouped, steps, 0.05).values
        seconds = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(10):
                SETS.plan(grouped, steps, 0.05, start=start)
            seconds.append((time.process_time() - began) / 10)
        held = grouped.visits, grouped.reward_sums, grouped.reward_squares, grouped.transitions
        row += [1000 * min(seconds), sum(np.asarray(part).nbytes for part in held) / 1024]
    print(f"| {n_observations:,} | " + " | ".join(f"{number:,.3g}" for number in row) + " |")


if __name__ == "__main__":
    for size in [int(arg) for arg in sys.argv[1:]] or [10, 30, 100, 300, 1000]:
        measure(size)

"""Write a log in which hidden states are seen as pictures of handwritten digits.

Run ``python examples/digits_log.py [FILE]``, then

    romdp fit digits.parquet --observation picture --action action --reward reward --out digits

Each of the ten hidden states shows a picture of its own digit, drawn anew at every step. The log
says neither which digit it is nor that there are ten.
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

import romdp


def make_log(steps: int) -> dict[str, np.ndarray]:
    """Simulate the steps of a uniform policy."""
    pictures, digits = load_digits(return_X_y=True)
    world = romdp.worlds.random_romdp(n_states=10, n_actions=4, n_observations=10, seed=100)
    seen = romdp.simulate(world, "uniform", steps=steps, seed=100)
    hidden = np.asarray(world.labels)[seen.observations]
    rng = np.random.default_rng(0)
    pools = [np.flatnonzero(digits == digit) for digit in range(10)]
    shown = pictures[[rng.choice(pools[state]) for state in hidden]]
    return {"picture": shown, "action": seen.actions, "reward": seen.rewards}


def main(path: str, steps: int = 6_000) -> None:
    """Write a log as Parquet, the pictures as lists of 64 numbers."""
    log = make_log(steps)
    pq.write_table(pa.table({**log, "picture": log["picture"].tolist()}), path)
    print(f"wrote {path}: {steps:,} rows")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "digits.parquet")

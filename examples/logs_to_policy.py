r"""From a log of decisions to the hidden states behind it and a policy.

Run ``python examples/logs_to_policy.py [FOLDER]``. It writes FOLDER/log.parquet, the log of a shop
with 200 pages, behind which are six moods of its visitors, and offers made at random. It fits and
saves a model, and writes FOLDER/answers.parquet: today's pages with their mood, its margin and the
recommended offer. The same from a shell::

    romdp fit log.parquet --observation page --action offer --reward euros --episode visitor \
              --out model
    romdp apply model today.parquet --out answers.parquet
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

import romdp

OFFERS = np.array(["none", "voucher", "bundle", "shipping"])


def write_log(world: romdp.ROMDP, path: Path, visitors: int = 500, length: int = 200) -> None:
    """Write the log a shop would have: one row per page view, with names of pages and offers."""
    seen = romdp.simulate(world, "uniform", visitors * length, seed=1)
    columns = {
        "visitor": np.repeat(np.arange(visitors), length),
        "page": [f"page-{number:03d}" for number in seen.observations],
        "offer": OFFERS[seen.actions],
        "euros": 20.0 * seen.rewards,
    }
    parquet.write_table(pyarrow.table(columns), path)


def main(folder: Path) -> None:
    """Write a log, learn from it, and apply the model."""
    folder.mkdir(parents=True, exist_ok=True)
    world = romdp.worlds.random_romdp(n_states=6, n_actions=4, n_observations=200, seed=3)
    write_log(world, folder / "log.parquet")

    names = {"observation": "page", "action": "offer", "reward": "euros", "episode": "visitor"}
    model = romdp.fit(folder / "log.parquet", **names)
    print(model)  # the states, what each offer pays there, and reasons for doubt
    model.save(folder / "model")

    model = romdp.load_model(folder / "model")
    today = {"page": ["page-007", "page-123", "never-seen"]}
    romdp.apply_model(model, today, folder / "answers.parquet")
    for row in parquet.read_table(folder / "answers.parquet").to_pylist():
        print(row)

    # A simulated shop can be compared with the truth; yours has the off-policy value printed above.
    told = [model.act(f"page-{number:03d}") for number in range(world.n_observations)]
    policy = np.array([OFFERS.tolist().index(offer) for offer in told])
    worth = 20 * world.observable.policy_gain(policy)
    print(f"best possible {20 * world.hidden.gain:.2f} euros per page, the model's {worth:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "shop"))

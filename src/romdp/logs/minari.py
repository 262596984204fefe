"""Minari datasets as trajectories; minari itself is not needed."""

from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import Trajectory


def is_minari(data: Any) -> bool:
    """Tell whether something looks like a Minari dataset."""
    return hasattr(data, "iterate_episodes") and hasattr(data, "total_episodes")


def read_minari(dataset: Any) -> Trajectory:
    """Turn a dataset with discrete observations and actions into a trajectory.

    A terminated episode came to its end; a truncated one led to its last observation.
    """
    observations, actions, rewards, final, terminated = [], [], [], [], []
    for number, episode in enumerate(dataset.iterate_episodes()):
        seen, done = (
            _discrete(getattr(episode, name), name, number) for name in ("observations", "actions")
        )
        if not len(done):
            continue
        observations.append(seen[: len(done)])
        actions.append(done)
        rewards.append(np.asarray(episode.rewards, np.float64))
        final.append(int(seen[len(done)]) if len(seen) > len(done) else -1)
        terminated.append(bool(np.asarray(episode.terminations)[-1]))
    if not actions:
        raise InvalidInputError("the dataset holds no steps; there is nothing to learn from")
    return Trajectory(
        np.concatenate(observations),
        np.concatenate(actions),
        np.concatenate(rewards),
        [len(done) for done in actions],
        final,
        terminated=terminated,
    )


def _discrete(values: Any, name: str, episode: int) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInputError(
            f"{name} of episode {episode} are not whole numbers; only datasets with discrete "
            "observations and actions can be read"
        )
    return array

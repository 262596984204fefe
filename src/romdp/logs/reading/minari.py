"""Minari datasets as trajectories; minari itself is not needed for that."""

from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import Trajectory


def is_minari(data: Any) -> bool:
    """Tell whether something looks like a Minari dataset."""
    return hasattr(data, "iterate_episodes") and hasattr(data, "total_episodes")


def read_minari(dataset: Any) -> Trajectory:
    """Turn a dataset with discrete observations and actions into a trajectory.

    A terminated episode leads to the start of the next one, a truncated one to nothing known.
    """
    observations, actions, rewards, lengths, terminated = [], [], [], [], []
    for number, episode in enumerate(dataset.iterate_episodes()):
        seen, done = (
            _discrete(getattr(episode, name), name, number) for name in ("observations", "actions")
        )
        if len(done) == 0:
            continue
        observations.append(seen[: len(done)])
        actions.append(done)
        rewards.append(np.asarray(episode.rewards, np.float64))
        lengths.append(len(done))
        terminated.append(bool(np.asarray(episode.terminations)[-1]))
    if not lengths:
        raise InvalidInputError("the dataset holds no steps; there is nothing to learn from")
    starts = [int(seen[0]) for seen in observations]
    final = [
        following if ended else -1
        for following, ended in zip([*starts[1:], -1], terminated, strict=True)
    ]
    return Trajectory(
        np.concatenate(observations),
        np.concatenate(actions),
        np.concatenate(rewards),
        lengths,
        final,
    )


def _discrete(values: Any, name: str, episode: int) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInputError(
            f"{name} of episode {episode} are not whole numbers; only datasets with discrete "
            "observations and actions can be read"
        )
    return array

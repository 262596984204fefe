"""What this package asks of the steps between vectors, and of the codes of their rows.

Steps are a `Trajectory` of vectors: each row is an observation of its own, so what a step led to
is the number of a row.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.data.trajectory import END, Trajectory
from romdp.encoding.moments import Floats, Ints

_BLOCK_NUMBERS = 2**22  # entries of a block of vectors
_DISCOUNT, _AHEAD = 0.9, 40  # of what is earned later, and steps that are looked ahead


def vectors_of(steps: Trajectory) -> NDArray[Any]:
    """Return the vectors of steps that have them."""
    assert steps.vectors is not None
    return steps.vectors


def blocks(steps: Trajectory) -> Iterator[slice]:
    """Cut the rows into blocks of bounded memory."""
    size = max(256, _BLOCK_NUMBERS // max(1, vectors_of(steps).shape[1]))
    for start in range(0, steps.n_steps, size):
        yield slice(start, min(start + size, steps.n_steps))


def next_codes(steps: Trajectory, codes: Ints) -> Ints:
    """Return the code that each step led to, or `END` or `UNKNOWN`, given those of the rows."""
    rows = steps.next_observations
    after: Ints = np.where(rows >= 0, codes[rows], rows)
    return after


def both(codes: Ints, others: Ints) -> Ints:
    """Return a number for each pair that occurs."""
    numbers: Ints = np.unique(codes * (int(others.max()) + 1) + others, return_inverse=True)[1]
    return numbers


def by_age(steps: Trajectory) -> Trajectory:
    """Return steps whose actions are different ones at every step of the episode."""
    actions = steps.ages * steps.n_actions + steps.actions
    n_actions = (int(steps.ages.max()) + 1) * steps.n_actions
    return steps.changed(actions=actions, n_actions=n_actions)


def last_steps(steps: Trajectory, most: int) -> Trajectory:
    """Return the last steps alone."""
    return steps if steps.n_steps <= most else steps.part(steps.n_steps - most, steps.n_steps)


def earned(steps: Trajectory) -> Floats | None:
    """Return what matters at each step: the reward or, where episodes end, also what came after it.

    Later rewards count less, by a tenth per step. After a step of which it is not known where it
    led, things go on as they usually do.
    """
    rewards, rows = steps.rewards, steps.next_observations
    if rewards is None or not (rows == END).any():
        return rewards
    usual = float(rewards.mean()) / (1.0 - _DISCOUNT)
    otherwise = np.where(rows == END, 0.0, usual)
    total: Floats = rewards + otherwise
    for _ in range(_AHEAD):
        total = rewards + _DISCOUNT * np.where(rows >= 0, total[rows], otherwise)
    return total

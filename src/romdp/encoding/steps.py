"""Steps between vectors, as everything in this package reads them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.encoding.moments import Floats, Ints

ENDED, UNKNOWN = -1, -2
"""In place of the next row: the step ended its episode; it is not known where the step led."""

_BLOCK_NUMBERS = 2**22  # entries of a block of vectors


@dataclass(frozen=True, eq=False)
class Steps:
    """Vectors, what was done there, what that paid, and which row came next.

    Attributes
    ----------
    vectors
        One row per step, shape (n, d). Rows of an episode follow each other in time.
    actions
        Shape (n,).
    rewards
        Shape (n,), or None.
    following
        The row that each step led to, `ENDED` or `UNKNOWN`.
    n_actions
        Number of actions.
    """

    vectors: NDArray[Any]
    actions: Ints
    rewards: Floats | None
    following: Ints
    n_actions: int

    @property
    def n_steps(self) -> int:
        """Number of rows."""
        return len(self.vectors)

    def blocks(self) -> Iterator[slice]:
        """Cut the rows into blocks of bounded memory."""
        size = max(256, _BLOCK_NUMBERS // max(1, self.vectors.shape[1]))
        for start in range(0, self.n_steps, size):
            yield slice(start, min(start + size, self.n_steps))

    def next_codes(self, codes: Ints) -> Ints:
        """Return the code that each step led to, or `ENDED` or `UNKNOWN`."""
        after: Ints = np.where(self.following >= 0, codes[self.following], self.following)
        return after

    @property
    def pay_alike(self) -> bool:
        """Whether all rewards were the same, or there were none."""
        return self.rewards is None or bool(self.rewards.min() == self.rewards.max())

    def first(self, most: int) -> "Steps":
        """Return the first rows alone."""
        if self.n_steps <= most:
            return self
        rewards = None if self.rewards is None else self.rewards[:most]
        following = self.following[:most]
        following = np.where(following >= most, UNKNOWN, following)
        return Steps(self.vectors[:most], self.actions[:most], rewards, following, self.n_actions)

    def last(self, most: int) -> "Steps":
        """Return the last rows alone."""
        start = self.n_steps - most
        if start <= 0:
            return self
        rewards = None if self.rewards is None else self.rewards[start:]
        following = self.following[start:]
        following = np.where(
            following >= start, following - start, np.where(following >= 0, UNKNOWN, following)
        )
        return Steps(self.vectors[start:], self.actions[start:], rewards, following, self.n_actions)


def following_rows(lengths: Ints, terminated: NDArray[np.bool_] | None = None) -> Ints:
    """Return the next row of each step of episodes that lie one after the other.

    ``terminated`` says of each episode whether its last step ended it for good; by default it is
    not known where last steps led.
    """
    n_steps = int(lengths.sum())
    following = np.arange(1, n_steps + 1)
    ends = np.full(len(lengths), UNKNOWN)
    if terminated is not None:
        ends[terminated] = ENDED
    following[np.cumsum(lengths) - 1] = ends
    return following

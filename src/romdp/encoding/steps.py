"""Steps between vectors, as everything in this package reads them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.encoding.moments import Floats, Ints

ENDED, UNKNOWN = -1, -2
"""In place of the next row: the step ended its episode; it is not known where the step led."""

_BLOCK_NUMBERS = 2**22  # entries of a block of vectors
_DISCOUNT, _AHEAD = 0.9, 40  # of what is earned later, and steps that are looked ahead


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
    ages
        How many steps of the episode were over at each row, shape (n,); None where not known.
    motives
        Rows with the same number were about as likely to take each action, shape (n,); None where
        actions had nothing to do with what was seen. See `romdp.encoding.scoring`.
    """

    vectors: NDArray[Any]
    actions: Ints
    rewards: Floats | None
    following: Ints
    n_actions: int
    ages: Ints | None = None
    motives: Ints | None = None

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

    def with_ages(self, codes: Ints) -> Ints:
        """Return a number for each pair of a code and the step of the episode."""
        assert self.ages is not None
        return both(codes, self.ages)

    @property
    def by_age(self) -> "Steps":
        """The same with actions that are different ones at every step of the episode."""
        if self.ages is None:
            return self
        times = int(self.ages.max()) + 1
        actions = self.ages * self.n_actions + self.actions
        return replace(self, actions=actions, n_actions=times * self.n_actions)

    @property
    def pay_alike(self) -> bool:
        """Whether all rewards were the same, or there were none."""
        return self.rewards is None or bool(self.rewards.min() == self.rewards.max())

    @cached_property
    def earned(self) -> Floats | None:
        """What matters at each step: the reward or, where episodes end, also what came after it.

        Later rewards count less, by a tenth per step. After a step of which it is not known where
        it led, things go on as they usually do.
        """
        if self.rewards is None or not (self.following == ENDED).any():
            return self.rewards
        usual = float(self.rewards.mean()) / (1.0 - _DISCOUNT)
        otherwise = np.where(self.following == ENDED, 0.0, usual)
        earned = self.rewards + otherwise
        for _ in range(_AHEAD):
            after = np.where(self.following >= 0, earned[self.following], otherwise)
            earned = self.rewards + _DISCOUNT * after
        return earned

    def first(self, most: int) -> "Steps":
        """Return the first rows alone."""
        if self.n_steps <= most:
            return self
        following = self.following[:most]
        following = np.where(following >= most, UNKNOWN, following)
        return self._part(slice(most), following)

    def last(self, most: int) -> "Steps":
        """Return the last rows alone."""
        start = self.n_steps - most
        if start <= 0:
            return self
        following = self.following[start:]
        following = np.where(
            following >= start, following - start, np.where(following >= 0, UNKNOWN, following)
        )
        return self._part(slice(start, None), following)

    def _part(self, rows: slice, following: Ints) -> "Steps":
        return Steps(
            self.vectors[rows],
            self.actions[rows],
            None if self.rewards is None else self.rewards[rows],
            following,
            self.n_actions,
            None if self.ages is None else self.ages[rows],
            None if self.motives is None else self.motives[rows],
        )


def both(codes: Ints, others: Ints) -> Ints:
    """Return a number for each pair that occurs."""
    numbers: Ints = np.unique(codes * (int(others.max()) + 1) + others, return_inverse=True)[1]
    return numbers


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

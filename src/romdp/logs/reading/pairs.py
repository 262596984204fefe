"""Visits and rewards of pairs whose number is not known beforehand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.episodes import count_rewards
from romdp.logs.reading.names import Floats, Ints

_LIMIT = 2**28  # pairs: each of three arrays then takes 2 GiB


class Pairs:
    """Visits of every pair (observation, action), and what they paid.

    Rewards are added up as differences from ``shift``, a number near them, so that the squares
    of rewards far from zero keep their digits.

    Attributes
    ----------
    shift
        What is subtracted from every reward; the first reward.
    lowest, highest
        The smallest and the largest reward noted.
    """

    def __init__(self) -> None:
        self.shift = 0.0
        self.lowest, self.highest = np.inf, -np.inf
        self._visits = np.zeros((0, 0), np.int64)
        self._sums, self._squares = np.zeros((0, 0)), np.zeros((0, 0))

    def note(self, rewards: Floats) -> None:
        """Take notice of rewards that will be added, or held out."""
        if not self.lowest < np.inf:
            self.shift = float(rewards[0])
        self.lowest = min(self.lowest, float(rewards.min()))
        self.highest = max(self.highest, float(rewards.max()))

    def add(self, seen: Ints, done: Ints, paid: Floats) -> None:
        """Add rows; there must be room for them."""
        count_rewards(seen, done, paid, self.shift, self._visits, self._sums, self._squares)

    def make_room(self, n_observations: int, n_actions: int) -> None:
        """See to it that there is room for so many."""
        shape, old = (n_observations, n_actions), self._visits.shape
        if shape[0] <= old[0] and shape[1] <= old[1]:
            return
        if n_observations * n_actions > _LIMIT:
            raise InvalidInputError(
                f"{n_observations:,} observations with {n_actions:,} actions are more than "
                f"{_LIMIT:,} pairs; make the observations or the actions coarser"
            )
        size = [max(2 * o, s) if s > o else o for o, s in zip(old, shape, strict=True)]
        if size[0] * size[1] > _LIMIT:
            size = list(shape)
        self._visits = _enlarged(self._visits, size)
        self._sums = _enlarged(self._sums, size)
        self._squares = _enlarged(self._squares, size)

    def arrays(self, n_observations: int, n_actions: int) -> tuple[Ints, Floats, Floats]:
        """Return visits, and sums and squares of (reward - shift), of the first so many."""
        self.make_room(n_observations, n_actions)
        size = (slice(n_observations), slice(n_actions))
        return self._visits[size], self._sums[size], self._squares[size]

    def join(self, other: "Pairs", observations: Ints, actions: Ints) -> None:
        """Add other pairs; theirs are called by these numbers here."""
        if not self.lowest < np.inf:
            self.shift = other.shift
        visits, sums, squares = other.arrays(len(observations), len(actions))
        move = other.shift - self.shift  # what to add to a difference from the other's shift
        at = np.ix_(observations, actions)
        self._visits[at] += visits
        self._squares[at] += squares + 2.0 * move * sums + move * move * visits
        self._sums[at] += sums + move * visits
        self.lowest = min(self.lowest, other.lowest)
        self.highest = max(self.highest, other.highest)


def _enlarged(array: NDArray[Any], size: list[int]) -> NDArray[Any]:
    larger = np.zeros(size, array.dtype)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger

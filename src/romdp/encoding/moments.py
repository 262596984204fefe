"""Sums over steps between vectors: what whitening and the effects of actions are computed from.

The sums of two stretches of steps add up to those of both, so memory depends on the length of a
vector and on the number of actions, never on the number of steps.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EXTRA = 2  # targets beside the next vector: the reward, and whether the episode ended


class Moments:
    """First and second moments of vectors, actions, rewards and next vectors.

    Parameters
    ----------
    n_features, n_actions
        The length of a vector, and the number of actions.

    Notes
    -----
    Everything is counted twice: as it was, and with the pairs (action, reward) of a block dealt
    out to its steps at random. The second copy says how large effects look where there are none.

    A step that ended its episode leads to the mean vector. A step of which it is not known where
    it led counts towards the mean and the covariance alone.
    """

    def __init__(self, n_features: int, n_actions: int) -> None:
        d, copies = n_features, (2, n_actions)
        self.n_features, self.n_actions = n_features, n_actions
        self.origin = np.zeros(d)  # sums are taken around it; the mean of the first block
        self.count = 0
        self.total = np.zeros(d)
        self.square = np.zeros((d, d))
        self.steps = np.zeros(copies, np.int64)
        self.before = np.zeros((*copies, d))
        self.target = np.zeros((*copies, d + _EXTRA))
        self.before_square = np.zeros((*copies, d, d))
        self.cross = np.zeros((*copies, d, d + _EXTRA))
        self.target_square = np.zeros(_EXTRA)

    def add(
        self,
        before: Floats,
        actions: Ints,
        rewards: Floats | None,
        after: Floats,
        known: NDArray[np.bool_],
        ended: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> None:
        """Add a block of steps.

        Parameters
        ----------
        before, after
            What was seen before and after each step, shape (n, d). Rows of ``after`` count only
            where ``known`` is true.
        actions, rewards
            What was done, and what it paid; rewards may be None.
        known, ended
            Whether the next vector is known, and whether the step ended the episode.
        rng
            Deals out the actions of the second copy.
        """
        if not len(before):
            return
        if self.count == 0:
            self.origin = before.mean(axis=0)
        x = before - self.origin
        self.count += len(x)
        self.total += x.sum(axis=0)
        self.square += x.T @ x
        counts = known | ended
        x, taken = x if counts.all() else x[counts], actions[counts]
        y = np.zeros((len(x), self.n_features + _EXTRA))
        moved = known[counts]
        y[moved, :-_EXTRA] = after[known] - self.origin
        if rewards is not None:
            y[:, -2] = rewards[counts]
        y[:, -1] = ended[counts]
        self.target_square += (y[:, -_EXTRA:] ** 2).sum(axis=0)
        self._add(0, x, taken, y)
        order = rng.permutation(len(x))
        y[:, -_EXTRA:] = y[order, -_EXTRA:]
        self._add(1, x, taken[order], y)

    def _add(self, copy: int, x: Floats, actions: Ints, y: Floats) -> None:
        for action in np.unique(actions):
            rows = actions == action
            mine, theirs = x[rows], y[rows]
            self.steps[copy, action] += len(mine)
            self.before[copy, action] += mine.sum(axis=0)
            self.target[copy, action] += theirs.sum(axis=0)
            self.before_square[copy, action] += mine.T @ mine
            self.cross[copy, action] += mine.T @ theirs

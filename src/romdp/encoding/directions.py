"""Linear maps of vectors: whitened, and onto the few directions that actions and rewards move.

This is the paper's spectral step on features instead of one-hot vectors. For each action a
regression says how the surprise in the next vector (what a prediction that ignores the action
misses) and the reward depend on the vector before. The leading singular vectors of these maps
span what actions and rewards depend on; noise with dynamics of its own cancels. Regressions, not
plain covariances: once a policy looks at noisy codes, actions are correlated with noise.

`VectorMoments` are the sums over steps that whitening and the effects of actions are computed from.
Those of two stretches of steps add up to those of both, so memory depends on the length of a vector
and on the number of actions, never on the number of steps.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.arrays import Bools, Floats, Ints

_EXTRA = 2  # targets beside the next vector: the reward, and whether the episode ended


class VectorMoments:
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
        known: Bools,
        ended: Bools,
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


_NEGLIGIBLE = 1e-7  # variances below this share of the largest are dropped
_WHITENING_RIDGE = 50.0  # steps' worth of the mean variance
_POOLED_RIDGE, _ACTION_RIDGE = 1e-3, 0.1  # of whitened vectors, whose variance is 1
_PARTLY = 0.25  # power of the variances that is taken out for classifiers
_FLUCTUATION = 1.2  # of the largest singular value that chance gives, times size^(-2/3)
_FEWEST_STEPS = 20
_NEW = 0.5  # share of a direction that the others do not hold
_RARE, _ABOVE_OTHERS = 40, 1.1  # one in so many chance values may stand out from the others


@dataclass(frozen=True)
class LinearMap:
    """An affine map of vectors: ``(vectors - center) @ matrix``."""

    center: Floats
    matrix: Floats

    def __call__(self, vectors: NDArray[np.floating]) -> Floats:
        """Map rows."""
        apart: Floats = vectors - self.center
        if self._scales is not None:
            apart *= self._scales
            return apart
        mapped: Floats = apart @ self.matrix
        return mapped

    @cached_property
    def _scales(self) -> Floats | None:
        """The diagonal, if there is nothing else in the matrix: then a product is wasted work."""
        scales = np.diag(self.matrix)
        square = self.matrix.shape[0] == self.matrix.shape[1]
        alone = square and np.count_nonzero(self.matrix) == np.count_nonzero(scales)
        return scales if alone else None

    def then(self, matrix: Floats) -> "LinearMap":
        """Follow this map by a matrix."""
        return LinearMap(self.center, self.matrix @ matrix)


@dataclass(frozen=True)
class Directions:
    """What actions and rewards depend on.

    Attributes
    ----------
    white
        Whitens vectors.
    axes
        The directions of whitened vectors, the strongest first, orthonormal.
    strengths
        The singular values of all directions, the strongest first.
    noise
        The largest one where actions and rewards were dealt out at random, unless a few stand far
        out from all others; the rank is the number of strengths clearly above it.
    """

    white: LinearMap
    axes: Floats
    strengths: Floats
    noise: float

    @property
    def map(self) -> LinearMap:
        """From vectors to coordinates along the directions."""
        return self.white.then(self.axes)

    @property
    def rank(self) -> int:
        """How many directions stand out from noise."""
        return int(self.axes.shape[1])

    def joined(self, others: "Directions") -> "Directions":
        """Add those of other directions that are mostly new."""
        rest = others.axes - self.axes @ (self.axes.T @ others.axes)
        new, share, _ = np.linalg.svd(rest, full_matrices=False)
        return replace(self, axes=np.hstack([self.axes, new[:, share**2 > _NEW]]))


def mean_and_scale(moments: VectorMoments) -> tuple[Floats, Floats]:
    """Return the mean of every column and its standard deviation."""
    mean = moments.total / max(1, moments.count)
    variance = np.diag(moments.square) / max(1, moments.count) - mean**2
    return moments.origin + mean, np.sqrt(np.maximum(variance, 0.0))


def whitening(moments: VectorMoments) -> LinearMap:
    """Return the map to uncorrelated coordinates of variance one; tiny ones are dropped."""
    mean, axes, values = _principal(moments)
    ridge = _WHITENING_RIDGE / moments.count * (values.mean() if len(values) else 0.0)
    return LinearMap(mean, axes / np.sqrt(values + ridge))


def partly_whitening(moments: VectorMoments) -> LinearMap:
    """Return a map that raises small principal components a little.

    Classifiers with a ridge generalise best there: whitening would make much of directions in
    which vectors hardly differ.
    """
    mean, axes, values = _principal(moments)
    share = values / (values.mean() if len(values) else 1.0)
    return LinearMap(mean, axes / np.sqrt(values.mean() * share**_PARTLY if len(values) else 1.0))


def _principal(moments: VectorMoments) -> tuple[Floats, Floats, Floats]:
    """Return the mean, the principal axes of standardised columns, and their variances."""
    mean, scale = mean_and_scale(moments)
    usable = scale > 1e-9 * max(float(scale.max(initial=0.0)), np.finfo(float).tiny)
    inverse = np.where(usable, 1.0 / np.where(usable, scale, 1.0), 0.0)
    shift = moments.total / moments.count
    covariance = moments.square / moments.count - np.outer(shift, shift)
    covariance = inverse[:, None] * covariance * inverse
    values, vectors = np.linalg.eigh(covariance)
    keep = values > _NEGLIGIBLE * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    values, vectors = values[keep][::-1], vectors[:, keep][:, ::-1]
    return mean, inverse[:, None] * vectors, values


def action_directions(moments: VectorMoments, white: LinearMap) -> Directions:
    """Find the directions of whitened vectors that actions and rewards depend on."""
    return _standing_out(white, *(_effects(moments, white, copy) for copy in (0, 1)))


def _standing_out(white: LinearMap, effects: Floats, by_chance: Floats) -> Directions:
    """Return the directions of effects that are larger than chance would make them."""
    if not effects.size or not by_chance.size:
        return Directions(white, np.zeros((white.matrix.shape[1], 0)), np.zeros(0), np.inf)
    values, vectors = np.linalg.eigh(effects @ effects.T)
    strengths = np.sqrt(np.maximum(values[::-1], 0.0))
    chance = np.sqrt(np.maximum(np.linalg.eigvalsh(by_chance @ by_chance.T)[::-1], 0.0))
    others = chance[len(chance) // _RARE]  # what was met once or twice stands out by itself
    noise = float(min(chance[0], _ABOVE_OTHERS * others))
    above = 1 + _FLUCTUATION * len(strengths) ** (-2 / 3)
    rank = int((strengths > above * noise).sum())
    return Directions(white, vectors[:, ::-1][:, :rank], strengths, noise)


def later_directions(
    white: LinearMap,
    space: Floats,
    before: Ints,
    after: Ints,
    states: Ints,
    ways: Ints,
    rng: np.random.Generator,
) -> Directions:
    """Find the directions that tell the next state, or the last one, beyond the present state.

    Where states are Markov there are none. What an action moves only some steps later shows in
    what leads to the states that it moves at once.

    Parameters
    ----------
    white, space
        Whitens vectors, and those that it made.
    before, after
        The rows of steps, and the rows that they led to.
    states, ways
        The state of each row, and its state together with the action.
    rng
        Deals out vectors, to see how large effects look where there are none.
    """
    questions = (before, ways[before], states[after]), (after, states[after], states[before])

    def effects(shown: Floats) -> Floats:
        return np.hstack([_surplus(shown[rows], known, told) for rows, known, told in questions])

    return _standing_out(white, effects(space), effects(rng.permutation(space)))


def _surplus(x: Floats, known: Ints, told: Ints) -> Floats:
    """Return how indicators depend on vectors by regression, beyond what is known already."""
    n, size = x.shape
    centered = x - x.mean(axis=0)
    table = np.zeros((int(known.max()) + 1, int(told.max()) + 1))
    np.add.at(table, (known, told), 1.0)
    likely = table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)
    left = 1.0 - float((likely[known, told]).mean())  # variance that is to be explained
    if left <= 0.0:
        return np.zeros((size, table.shape[1]))
    both = sums_by(centered, told, table.shape[1]) - likely.T @ sums_by(centered, known, len(table))
    within = centered.T @ centered / n + _POOLED_RIDGE * np.eye(size)
    slopes: Floats = np.linalg.solve(within, both.T / n) / np.sqrt(left)
    return slopes


def sums_by(vectors: Floats, codes: Ints, n_codes: int) -> Floats:
    """Return the sum of the vectors of each code."""
    n = len(codes)
    which = scipy.sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), (n, n_codes))
    return np.asarray(which.T @ vectors)


def _effects(moments: VectorMoments, white: LinearMap, copy: int) -> Floats:
    """Return the effects of all actions on what follows side by side, in both directions of time.

    Each column says how one coordinate of the surprise (or the reward, or the end) under one
    action depends on the whitened vector before; transposed, how the vector after depends on it.
    """
    steps = moments.steps[copy]
    total = int(steps.sum())
    size = white.matrix.shape[1]
    if total == 0 or size == 0:
        return np.zeros((size, 0))
    shift = (white.center - moments.origin) @ white.matrix
    w, extra = white.matrix, moments.target.shape[-1] - moments.n_features
    spread = np.sqrt(np.maximum(_spread(moments), 1e-300))
    scale = np.where(_spread(moments) > 1e-12, 1.0 / spread, 0.0)

    def first(sums: Floats, n: float) -> Floats:
        return sums @ w - n * shift

    def second(sums: Floats, left: Floats, right: Floats, n: float) -> Floats:
        a, b = left @ w, right @ w
        mapped: Floats = w.T @ sums @ w - np.outer(shift, b) - np.outer(a, shift)
        return mapped + n * np.outer(shift, shift)

    def pieces(action: int) -> tuple[Floats, Floats, Floats, Floats]:
        n = float(steps[action])
        x, y = moments.before[copy, action], moments.target[copy, action]
        cross = moments.cross[copy, action]
        target = np.append(first(y[:-extra], n), y[-extra:] * scale)
        square = second(moments.before_square[copy, action], x, x, n)
        both = second(cross[:, :-extra], x, y[:-extra], n)
        rest = (w.T @ cross[:, -extra:] - np.outer(shift, y[-extra:])) * scale
        return first(x, n), target, square, np.hstack([both, rest])

    parts = [pieces(action) for action in range(moments.n_actions)]
    pooled_square = sum(part[2] for part in parts) / total
    pooled_cross = sum(part[3][:, :size] for part in parts) / total
    predict = np.linalg.solve(pooled_square + _POOLED_RIDGE * np.eye(size), pooled_cross)
    columns: list[Floats] = []
    for n, (x_sum, y_sum, square, cross) in zip(steps.tolist(), parts, strict=True):
        if n < max(_FEWEST_STEPS, size / 2):
            continue
        x, mean = x_sum / n, y_sum / n
        surprise = cross / n
        surprise[:, :size] -= square / n @ predict
        mean[:size] -= x @ predict
        surprise -= np.outer(x, mean)
        within = square / n - np.outer(x, x) + _ACTION_RIDGE * np.eye(size)
        effect = np.sqrt(n / total) * np.linalg.solve(within, surprise)
        columns += [effect, effect[:, :size].T, np.sqrt(n / total) * mean[:size, None]]
    return np.hstack(columns) if columns else np.zeros((size, 0))


def _spread(moments: VectorMoments) -> Floats:
    """Return the variance of the reward and of the end."""
    n = max(1, int(moments.steps[0].sum()))
    extra = len(moments.target_square)
    mean = moments.target[0].sum(axis=0)[-extra:] / n
    variance: Floats = moments.target_square / n - mean**2
    return variance

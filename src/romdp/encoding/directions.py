"""Linear maps of vectors: whitened, and onto the few directions that actions and rewards move.

This is the paper's spectral step on features instead of one-hot vectors. For each action a
regression says how the surprise in the next vector (what a prediction that ignores the action
misses) and the reward depend on the vector before. The leading singular vectors of these maps
span what actions and rewards depend on; noise with dynamics of its own cancels. Regressions, not
plain covariances: once a policy looks at noisy codes, actions are correlated with noise.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from romdp.encoding.moments import Floats, Moments

_NEGLIGIBLE = 1e-7  # variances below this share of the largest are dropped
_WHITENING_RIDGE = 50.0  # steps' worth of the mean variance
_POOLED_RIDGE, _ACTION_RIDGE = 1e-3, 0.1  # of whitened vectors, whose variance is 1
_PARTLY = 0.25  # power of the variances that is taken out for classifiers
_FLUCTUATION = 1.2  # of the largest singular value that chance gives, times size^(-2/3)
_FEWEST_STEPS = 20
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
    map
        From vectors to coordinates along the directions, the strongest first.
    strengths
        The singular values of all directions, the strongest first.
    noise
        The largest one where actions and rewards were dealt out at random, unless a few stand far
        out from all others; the rank is the number of strengths clearly above it.
    """

    map: LinearMap
    strengths: Floats
    noise: float

    @property
    def rank(self) -> int:
        """How many directions stand out from noise."""
        return int(self.map.matrix.shape[1])


def mean_and_scale(moments: Moments) -> tuple[Floats, Floats]:
    """Return the mean of every column and its standard deviation."""
    mean = moments.total / max(1, moments.count)
    variance = np.diag(moments.square) / max(1, moments.count) - mean**2
    return moments.origin + mean, np.sqrt(np.maximum(variance, 0.0))


def whitening(moments: Moments) -> LinearMap:
    """Return the map to uncorrelated coordinates of variance one; tiny ones are dropped."""
    mean, axes, values = _principal(moments)
    ridge = _WHITENING_RIDGE / moments.count * (values.mean() if len(values) else 0.0)
    return LinearMap(mean, axes / np.sqrt(values + ridge))


def partly_whitening(moments: Moments) -> LinearMap:
    """Return a map that raises small principal components a little.

    Classifiers with a ridge generalise best there: whitening would make much of directions in
    which vectors hardly differ.
    """
    mean, axes, values = _principal(moments)
    share = values / (values.mean() if len(values) else 1.0)
    return LinearMap(mean, axes / np.sqrt(values.mean() * share**_PARTLY if len(values) else 1.0))


def _principal(moments: Moments) -> tuple[Floats, Floats, Floats]:
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


def action_directions(moments: Moments, white: LinearMap) -> Directions:
    """Find the directions of whitened vectors that actions and rewards depend on."""
    effects = [_effects(moments, white, copy) for copy in (0, 1)]
    if not effects[0].size or not effects[1].size:
        return Directions(white.then(np.zeros((white.matrix.shape[1], 0))), np.zeros(0), np.inf)
    values, vectors = np.linalg.eigh(effects[0] @ effects[0].T)
    strengths = np.sqrt(np.maximum(values[::-1], 0.0))
    chance = np.sqrt(np.maximum(np.linalg.eigvalsh(effects[1] @ effects[1].T)[::-1], 0.0))
    others = chance[len(chance) // _RARE]  # what was met once or twice stands out by itself
    noise = float(min(chance[0], _ABOVE_OTHERS * others))
    above = 1 + _FLUCTUATION * len(strengths) ** (-2 / 3)
    rank = int((strengths > above * noise).sum())
    return Directions(white.then(vectors[:, ::-1][:, :rank]), strengths, noise)


def _effects(moments: Moments, white: LinearMap, copy: int) -> Floats:
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


def _spread(moments: Moments) -> Floats:
    """Return the variance of the reward and of the end."""
    n = max(1, int(moments.steps[0].sum()))
    extra = len(moments.target_square)
    mean = moments.target[0].sum(axis=0)[-extra:] / n
    variance: Floats = moments.target_square / n - mean**2
    return variance

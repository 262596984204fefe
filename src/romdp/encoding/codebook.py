"""Codebooks: the few points that stand for many vectors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.core.validation import freeze
from romdp.encoding.moments import Floats, Ints

_BLOCK = 4096  # rows that are compared with all codes together
_SAMPLE = 3000  # rows that a radius is learned from
_MOST_APART = 800  # codes that lie apart from each other
_ROUNDS = 1  # of k-means, each in the coordinates that the last one whitened
_STILL = 0.003  # smallest variance inside a code, where that of all vectors is 1
_STANDARD_DEVIATIONS = 5.5  # from its code within which a vector belongs to it
_AGREEMENT = 12  # rounds in which codes and the distances to them come to agree
_POLISH = 2  # rounds in which the space is found from the codes and the codes from it
_SLIGHT = 0.05  # of the cost may be lost by it: distances agree better with the codes
_LONELY = 0.03  # share of vectors with a code alone: more of them are outliers, and no codes
_WIDE = 1.2  # times as spread as usual: a code that may be two
_RADII = 40  # that are tried, each 1.3 times the last
_TILE, _STRETCH = 64, 16  # codes that are compared at once, and numbers between looks at the result
_SEVERAL = 4  # vectors that a code must have for its distances to count
_NORMAL = 1.4826  # the standard deviation of normal numbers over their median absolute deviation


@dataclass(frozen=True, eq=False)
class Codebook:
    """Points in space; the code of a vector is the number of the nearest one.

    Attributes
    ----------
    points
        Shape (n_codes, d).
    sizes
        How many vectors each point stands for.
    radius, slack
        A vector belongs to a code of n vectors if its squared distance is at most
        ``radius * (1 + 1/n) + slack``. Infinite where the nearest code is taken however far it is.
    """

    points: Floats
    sizes: Floats
    radius: float = np.inf
    slack: float = 0.0

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return len(self.points)

    @cached_property
    def _half_squares(self) -> Floats:
        half: Floats = 0.5 * (self.points**2).sum(axis=1)
        return half

    @property
    def grows(self) -> bool:
        """Whether a vector may lie too far from every code to have one."""
        return bool(np.isfinite(self.radius))

    def nearest(self, vectors: Floats) -> tuple[Ints, Floats]:
        """Return the nearest code of each vector and its squared distance."""
        if len(vectors) == 1:  # an agent asks at every step
            code, distance = self._nearest_of_one(vectors[0])
            return np.array([code]), np.array([distance])
        codes, distances = np.empty(len(vectors), np.int64), np.empty(len(vectors))
        half = self._half_squares
        for start in range(0, len(vectors), _BLOCK):
            rows = vectors[start : start + _BLOCK]
            near = half - rows @ self.points.T
            best = near.argmin(axis=1)
            codes[start : start + _BLOCK] = best
            least = 2 * near[np.arange(len(rows)), best] + (rows**2).sum(axis=1)
            distances[start : start + _BLOCK] = np.maximum(least, 0.0)
        return codes, distances

    def _nearest_of_one(self, vector: Floats) -> tuple[int, float]:
        near = self._half_squares - self.points @ vector
        code = int(near.argmin())
        return code, max(float(2 * near[code] + vector @ vector), 0.0)

    def place(self, vector: Floats) -> tuple[int, bool]:
        """Return the nearest code of one vector, and whether it belongs to it: see `covers`."""
        code, distance = self._nearest_of_one(vector)
        return code, bool(distance <= self._reach(self.sizes[code]))

    def covers(self, codes: Ints, distances: Floats) -> NDArray[np.bool_]:
        """Say which vectors belong to their nearest code."""
        inside: NDArray[np.bool_] = distances <= self._reach(self.sizes[codes])
        return inside

    def _reach(self, sizes: Any) -> Any:
        """Return how far the vectors of codes of such sizes may be, squared."""
        return self.radius * (1 + 1 / np.maximum(sizes, 1)) + self.slack

    def grown(self, vector: Floats) -> "Codebook":
        """Return a codebook with one code more, which no vector has joined yet."""
        points = np.vstack([self.points, vector])
        return replace(self, points=freeze(points), sizes=freeze(np.append(self.sizes, 0.0)))

    def joined(self, code: int, vector: Floats) -> "Codebook":
        """Return a codebook whose code is the mean of one vector more."""
        points, sizes = self.points.copy(), self.sizes.copy()
        sizes[code] += 1.0
        points[code] += (vector - points[code]) / sizes[code]
        return replace(self, points=freeze(points), sizes=freeze(sizes))

    def extended(self, vectors: Floats, most: int) -> "Codebook":
        """Return a codebook with codes for vectors that are far from all others."""
        more = most - self.n_codes
        if not len(vectors) or more <= 0:
            return self
        points, sizes, _, n = lead(np.ascontiguousarray(vectors), self.radius, self.slack, more)
        points, sizes = np.vstack([self.points, points[:n]]), np.append(self.sizes, sizes[:n])
        return replace(self, points=points, sizes=sizes).without_fragments()

    def without_fragments(self) -> "Codebook":
        """Leave out codes that lie where a larger one has its vectors: all but `settled`."""
        which = self.settled()
        if len(which) == self.n_codes:
            return self
        return replace(self, points=self.points[which], sizes=self.sizes[which])

    def settled(self) -> Ints:
        """List the codes that are no fragments of a larger one.

        The first vectors of a code are far from its mean, so that one of them may have begun a code
        of its own. Two means of n and m vectors of the same code are apart by at most
        ``(radius + slack) * (1/n + 1/m)``.
        """
        order = np.argsort(-self.sizes, kind="stable")
        each = 1 / np.maximum(self.sizes, 1)
        kept: list[int] = []
        for code in order.tolist():
            if kept:
                gaps = ((self.points[kept] - self.points[code]) ** 2).sum(axis=1)
                share = each[kept] + each[code]
                large = self.sizes[kept] >= _SEVERAL
                if (large & (gaps <= (self.radius + self.slack) * share)).any():
                    continue
            kept.append(code)
        return np.sort(np.array(kept, np.int64))


def k_means(vectors: Floats, n_codes: int, rng: np.random.Generator) -> Codebook:
    """Find so many codes by scikit-learn's mini-batch k-means; empty ones are left out."""
    from sklearn.cluster import MiniBatchKMeans

    n_codes = min(n_codes, len(vectors))
    found = MiniBatchKMeans(
        n_codes,
        n_init=1,
        batch_size=max(1024, 2 * n_codes),
        random_state=int(rng.integers(2**31)),
        reassignment_ratio=0.0,
        compute_labels=False,
    ).fit(vectors)
    points = np.asarray(found.cluster_centers_, np.float64)
    return _tidy(Codebook(points, np.ones(len(points))), vectors)[0]


def _tidy(codebook: Codebook, vectors: Floats) -> tuple[Codebook, Ints, Floats]:
    """Leave out codes without vectors and count the others.

    Also returns the code of each vector and its squared distance.
    """
    codes, distances = codebook.nearest(vectors)
    sizes = np.bincount(codes, minlength=codebook.n_codes)
    kept = sizes > 0
    points, counts = codebook.points[kept], sizes[kept].astype(np.float64)
    tidy = replace(codebook, points=freeze(points), sizes=freeze(counts))
    return tidy, (np.cumsum(kept) - 1)[codes], distances


@kernel
def lead(
    vectors: NDArray[np.float64], radius: float, slack: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], int]:
    """Walk through the vectors; one too far from every code so far begins a new one.

    Codes are the running means of their vectors. Returns points, sizes, the code of each vector
    and the number of codes. If there would be more than ``most``, it stops.

    Points are kept in tiles of `_TILE` codes, number by number, so that a processor compares a
    vector with several codes at once.
    """
    n, d = vectors.shape
    tiles, sizes = np.zeros((most // _TILE + 1, d, _TILE)), np.zeros(most)
    codes = np.zeros(n, np.int64)
    after = np.zeros(most, np.int64)  # what followed each code last, a good guess of what does now
    distances = np.zeros(_TILE)
    n_codes, last = 0, 0
    for t in range(n):
        best, least = -1, np.inf
        if n_codes > 0:
            best, least = after[last], 0.0
            for j in range(d):
                gap = vectors[t, j] - tiles[best // _TILE, j, best % _TILE]
                least += gap * gap
        for first in range(0, n_codes, _TILE):
            if _is_beyond(vectors[t], tiles[first // _TILE], least, distances):
                continue
            for i in range(min(_TILE, n_codes - first)):
                k = first + i
                if distances[i] < least or (distances[i] == least and k < best):
                    best, least = k, distances[i]
        if best < 0 or least > radius * (1 + 1 / sizes[best]) + slack:
            if n_codes == most:
                break
            best = n_codes
            n_codes += 1
        sizes[best] += 1.0
        point = tiles[best // _TILE, :, best % _TILE]
        for j in range(d):
            point[j] += (vectors[t, j] - point[j]) / sizes[best]
        codes[t] = after[last] = best
        last = best
    points = np.zeros((most, d))
    for k in range(n_codes):
        points[k] = tiles[k // _TILE, :, k % _TILE]
    return points, sizes, codes, n_codes


@kernel
def _is_beyond(vector: Floats, tile: Floats, least: float, distances: Floats) -> bool:
    """Write the squared distances to a tile of points; stops if all are larger than ``least``."""
    d = vector.size
    distances[:] = 0.0
    for begin in range(0, d, _STRETCH):
        end = min(begin + _STRETCH, d)
        for j in range(begin, end):
            number = vector[j]
            for i in range(_TILE):
                gap = number - tile[j, i]
                distances[i] += gap * gap
        if end < d and distances.min() > least:
            return True
    return False


def whiten_within(vectors: Floats, codes: Ints) -> Floats:
    """Return the matrix after which vectors have covariance one around the means of their codes."""
    return _whitening(_covariance_within(vectors, codes))


def _whitening(covariance: Floats) -> Floats:
    values, axes = np.linalg.eigh(covariance)
    matrix: Floats = axes / np.sqrt(np.maximum(values, _STILL))
    return matrix


def _covariance_within(vectors: Floats, codes: Ints) -> Floats:
    """Return the covariance of vectors around the means of their codes, without bias."""
    sizes = np.bincount(codes)
    rows = np.flatnonzero(sizes[codes] > 1)
    own = sizes[codes[rows]]
    means = _means(vectors, codes, sizes)
    residuals = _residuals(vectors, codes, means, rows, np.sqrt(own / (own - 1.0)))
    covariance: Floats = residuals.T @ residuals / max(1, len(residuals))
    return covariance


def _means(vectors: Floats, codes: Ints, sizes: Ints) -> Floats:
    """Return the mean of the vectors of each code; codes without any stay at the origin."""
    means: Floats = _sums(vectors, codes, len(sizes)) / np.maximum(sizes, 1)[:, None]
    return means


@kernel
def _sums(vectors: Floats, codes: Ints, n_codes: int) -> Floats:
    """Return the sum of the vectors of each code: ``np.add.at``, which is slow on rows."""
    sums = np.zeros((n_codes, vectors.shape[1]))
    for t in range(codes.size):
        total, vector = sums[codes[t]], vectors[t]
        for j in range(vector.size):
            total[j] += vector[j]
    return sums


@kernel
def _residuals(vectors: Floats, codes: Ints, means: Floats, rows: Ints, scales: Floats) -> Floats:
    """Return ``scales * (vectors - means[codes])`` of some rows."""
    residuals = np.empty((rows.size, vectors.shape[1]))
    for i in range(rows.size):
        vector, mean, residual = vectors[rows[i]], means[codes[rows[i]]], residuals[i]
        for j in range(vector.size):
            residual[j] = (vector[j] - mean[j]) * scales[i]
    return residuals


def codes_apart(
    vectors: Floats,
    rng: np.random.Generator,
    fragments: Sequence[Ints] = (),
    previous: Floats | None = None,
) -> tuple[Floats, Codebook] | None:
    """Find codes that lie clearly apart, however rare they are, and the space in which they do.

    The space is one in which vectors have covariance one around their codes. It is found from the
    codes, and the codes from it, so the result depends on the start: there are several, and the
    codes are taken that describe the vectors in the fewest words.

    Parameters
    ----------
    vectors
        Whitened vectors.
    rng
        Draws samples and starts.
    fragments
        Codes of the vectors in other spaces, such as those of k-means. Where a code mostly holds
        vectors of one kind, the covariance inside codes is close to the one that is sought.
    previous
        A matrix into a space in which codes were apart before.

    Returns
    -------
    The matrix into the space and the codes there; None if no start led to codes that are apart.
    """
    rows = np.sort(rng.choice(len(vectors), min(_SAMPLE, len(vectors)), replace=False))
    sample = vectors[rows]
    starts = [_from_fragments(sample, codes[rows], rng) for codes in fragments]
    if previous is not None:
        starts.append((previous, *_expected_reach(previous.shape[1])))
    elif (plateau := _from_plateau(sample, rng)) is not None:
        starts.append(plateau)
    tries = [_try_space(vectors, sample, *start, rng) for start in starts]
    found = [one for one in tries if one is not None]
    if not found:
        return None
    best = min(found, key=lambda one: one.cost)
    for _ in range(_POLISH):
        matrix = _whitening(best.within)
        again = _try_space(vectors, sample, matrix, *_expected_reach(matrix.shape[1]), rng)
        if again is None or again.cost > best.cost + _SLIGHT:
            break
        best = again
    return best.matrix, best.book


@dataclass(frozen=True, eq=False)
class _Apart:
    """Codes that lie apart: the space, the covariance around them, and their cost."""

    matrix: Floats
    book: Codebook
    within: Floats
    cost: float


def _try_space(
    vectors: Floats,
    sample: Floats,
    matrix: Floats,
    radius: float,
    slack: float,
    rng: np.random.Generator,
) -> _Apart | None:
    """Look for codes that lie apart in a space; the first guess of their reach is given."""
    reach = _learn_reach(np.ascontiguousarray(sample @ matrix), radius, slack)
    if reach is None or not reach.is_apart:
        return None
    space = np.ascontiguousarray(vectors @ matrix)
    points, sizes, _, n_codes = lead(space, reach.radius, reach.slack, _MOST_APART)
    if n_codes == _MOST_APART:
        return None
    book = Codebook(points[:n_codes], sizes[:n_codes], reach.radius, reach.slack)
    book, codes, distances = _tidy(book, space)
    parted = _split_wide(book, codes, distances, space, rng)
    if parted is book:
        book, codes = _drop_fragments(book, codes, space)
    else:
        book, codes, _ = _tidy(parted.without_fragments(), space)
    if np.count_nonzero(np.bincount(codes) == 1) > _LONELY * len(codes):
        return None
    within = _covariance_within(vectors, codes)
    return _Apart(matrix, book, within, _cost(within, codes))


def _drop_fragments(book: Codebook, codes: Ints, space: Floats) -> tuple[Codebook, Ints]:
    """Leave out fragments; only their vectors have another nearest code then."""
    kept = book.settled()
    if len(kept) == book.n_codes:
        return book, codes
    number = np.full(book.n_codes, -1)
    number[kept] = np.arange(len(kept))
    codes = number[codes]
    lost = np.flatnonzero(codes < 0)
    rest = replace(book, points=freeze(book.points[kept]))
    codes[lost] = rest.nearest(space[lost])[0]
    sizes = np.bincount(codes, minlength=len(kept)).astype(np.float64)
    return replace(rest, sizes=freeze(sizes)), codes


def _split_wide(
    book: Codebook, codes: Ints, distances: Floats, space: Floats, rng: np.random.Generator
) -> Codebook:
    """Split codes in two whose vectors spread more than those of others.

    Codes begin with a single vector, and where the first two were of different kinds, their mean
    lies between the kinds and keeps both.
    """
    for round_ in range(_POLISH):
        if round_:
            codes, distances = book.nearest(space)
        sizes = np.bincount(codes, minlength=book.n_codes)
        spread = np.bincount(codes, distances, book.n_codes) / np.maximum(sizes - 1, 1)
        wide = np.flatnonzero((sizes >= 2 * _SEVERAL) & (spread > _WIDE * book.radius))
        if not len(wide):
            break
        halves = [k_means(space[codes == code], 2, rng) for code in wide]
        kept = np.delete(np.arange(book.n_codes), wide)
        points = np.vstack([book.points[kept], *(half.points for half in halves)])
        counts = np.concatenate([sizes[kept], *(half.sizes for half in halves)])
        book = replace(book, points=points, sizes=counts.astype(np.float64))
    return book


def _cost(within: Floats, codes: Ints) -> float:
    """Return what it takes to describe vectors by codes with this covariance, relative to others.

    Twice the negative log likelihood of normal vectors with the same covariance around every code,
    and a penalty for every mean, per vector (AIC: a heavier one would join codes of few vectors,
    which are what an agent has just discovered). Codes of a single vector say nothing about the
    covariance and do not count.
    """
    sizes = np.bincount(codes)
    n, n_codes = sizes[sizes > 1].sum(), np.count_nonzero(sizes > 1)
    volume = np.log(np.maximum(np.linalg.eigvalsh(within), _STILL)).sum()
    return float(volume + 2 * n_codes * len(within) / max(n, 1))


def _expected_reach(size: int) -> tuple[float, float]:
    """Return radius and slack of normal vectors with covariance one."""
    return float(size), _STANDARD_DEVIATIONS * float(np.sqrt(2 * size))


def _from_fragments(
    sample: Floats, codes: Ints, rng: np.random.Generator
) -> tuple[Floats, float, float]:
    """Whiten within codes, and again within those of k-means there."""
    matrix = whiten_within(sample, codes)
    for _ in range(_ROUNDS):
        space = sample @ matrix
        found = k_means(space, min(100, len(space) // 15 + 1), rng)
        matrix = matrix @ whiten_within(space, found.nearest(space)[0])
    return (matrix, *_expected_reach(matrix.shape[1]))


def _from_plateau(sample: Floats, rng: np.random.Generator) -> tuple[Floats, float, float] | None:
    """Whiten within the codes of the radius that hardly matters: for few codes, clearly apart.

    Where vectors form clusters, many radii between the size of a cluster and the distance between
    two give the same codes.
    """
    some = sample[rng.choice(len(sample), min(400, len(sample)), replace=False)]
    nearest = np.sort(_squares(some, sample), axis=1)[:, 1]
    radius, sizes = max(0.5 * float(np.median(nearest)), 1e-12), list[int]()
    best: tuple[float, Ints] | None = None
    small = np.ascontiguousarray(some)
    for _ in range(_RADII):
        _, _, codes, n_codes = lead(small, radius, 0.0, _MOST_APART)
        sizes.append(n_codes)
        if n_codes == 1:
            break
        steady = sizes[-2] / n_codes if len(sizes) > 1 else np.inf
        if n_codes <= len(small) // _SEVERAL and (best is None or steady < best[0]):
            best = (float(steady), codes)
        radius *= 1.3
    if best is None:
        return None
    matrix = whiten_within(small, best[1])
    return (matrix, *_expected_reach(matrix.shape[1]))


def _squares(left: Floats, right: Floats) -> Floats:
    """Return the squared distances between all rows."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    distances: Floats = np.maximum(squares, 0.0)
    return distances


@dataclass(frozen=True, eq=False)
class _Reach:
    """How far vectors lie from their codes, and whether most are out of reach of a second code."""

    radius: float
    slack: float
    codes: Ints
    is_apart: bool


def _learn_reach(space: Floats, radius: float, slack: float) -> _Reach | None:
    """Learn how far vectors lie from their codes, until codes and distances agree."""
    sizes, typical = np.zeros(0, np.int64), np.zeros(1, np.bool_)
    for _ in range(_AGREEMENT):
        points, _, _, n_codes = lead(space, radius, slack, _MOST_APART)
        if n_codes == _MOST_APART:
            radius, slack = 1.7 * radius, 1.7 * slack
            continue
        codes, _ = Codebook(points[:n_codes], np.ones(n_codes)).nearest(space)
        sizes = np.bincount(codes, minlength=n_codes)
        typical = sizes[codes] >= _SEVERAL
        if typical.mean() < 0.2:
            radius, slack = 1.7 * radius, 1.7 * slack
            continue
        means = _means(space, codes, sizes)
        own = sizes[codes[typical]]
        distances = ((space - means[codes])[typical] ** 2).sum(axis=1) * own / (own - 1)
        middle = float(np.median(distances))
        spread = _STANDARD_DEVIATIONS * _NORMAL * float(np.median(np.abs(distances - middle)))
        settled = abs(middle - radius) < 0.01 * radius and abs(spread - slack) < 0.05 * slack
        radius, slack = middle, spread
        if settled:
            break
    if n_codes == _MOST_APART or typical.mean() < 0.2 or radius <= 0:
        return None
    large = np.flatnonzero(sizes >= _SEVERAL)
    mine = np.isin(codes, large)
    if len(large) < 2 or mine.mean() < 0.5:
        return _Reach(radius, slack, codes, is_apart=False)
    others = _squares(space[mine], means[large])
    others[np.arange(len(others)), np.searchsorted(large, codes[mine])] = np.inf
    between = (others.min(axis=1) < radius + slack).mean()
    return _Reach(radius, slack, codes, is_apart=bool(between < 0.4))

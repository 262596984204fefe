"""Codes that lie apart: as many as there are, in the space in which they are told best.

k-means must be told how many codes there are, and puts most of them where most vectors are. Where
states lie apart, though, each is a ball of its own, however rarely it was met. Such codes are grown
one by one in a space that whitens within codes, which is found from codes of any other view and
then from these codes themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from romdp.core.arrays import Floats, Ints
from romdp.core.validation import freeze
from romdp.encoding.codebook import SEVERAL, Codebook, k_means, lead, tidy
from romdp.encoding.directions import sums_by

_SAMPLE = 3000  # rows that a radius is learned from
_MOST_APART = 800  # codes that lie apart from each other
_ROUNDS = 1  # of k-means, each in the coordinates that the last one whitened
_STILL = 0.003  # smallest variance inside a code, where that of all vectors is 1
_STANDARD_DEVIATIONS = 5.5  # from its code within which a vector belongs to it
_AGREEMENT = 12  # rounds in which codes and the distances to them come to agree
_POLISH = 2  # rounds in which the space is found from the codes and the codes from it
_SLIGHT = 0.05  # of the cost may be lost by it: distances agree better with the codes
_LONELY = 0.03  # share of vectors with a code alone: more of them are outliers, and no codes
_LONELY_CODES = 1 / 3  # share of codes with one vector: of what is discovered, most is met again
_WIDE = 1.2  # times as spread as usual: a code that may be two
_RADII = 40  # that are tried, each 1.3 times the last
_NORMAL = 1 / float(ndtri(0.75))  # a standard deviation over the median absolute deviation


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
    residuals = (vectors[rows] - means[codes[rows]]) * np.sqrt(own / (own - 1.0))[:, None]
    covariance: Floats = residuals.T @ residuals / max(1, len(residuals))
    return covariance


def _means(vectors: Floats, codes: Ints, sizes: Ints) -> Floats:
    """Return the mean of the vectors of each code; codes without any stay at the origin."""
    means: Floats = sums_by(vectors, codes, len(sizes)) / np.maximum(sizes, 1)[:, None]
    return means


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
    book, codes, distances = tidy(book, space)
    parted = _split_wide(book, codes, distances, space, rng)
    if parted is book:
        book, codes = _drop_fragments(book, codes, space)
    else:
        book, codes, _ = tidy(parted.without_fragments(), space)
    alone = np.count_nonzero(np.bincount(codes) == 1)
    if alone > _LONELY * len(codes) or alone > _LONELY_CODES * book.n_codes:
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
        wide = np.flatnonzero((sizes >= 2 * SEVERAL) & (spread > _WIDE * book.radius))
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
        if n_codes <= len(small) // SEVERAL and (best is None or steady < best[0]):
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
        typical = sizes[codes] >= SEVERAL
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
    large = np.flatnonzero(sizes >= SEVERAL)
    mine = np.isin(codes, large)
    if len(large) < 2 or mine.mean() < 0.5:
        return _Reach(radius, slack, codes, is_apart=False)
    others = _squares(space[mine], means[large])
    others[np.arange(len(others)), np.searchsorted(large, codes[mine])] = np.inf
    between = (others.min(axis=1) < radius + slack).mean()
    return _Reach(radius, slack, codes, is_apart=bool(between < 0.4))

"""Codebooks: the few points that stand for many vectors."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.validation import freeze

_BLOCK = 4096  # rows that are compared with all codes together
_TILE, _STRETCH = 64, 16  # codes that are compared at once, and numbers between looks at the result

_ROUNDING = 1e-12  # of squared distances, relative to the squared lengths they are computed from

SEVERAL = 4
"""Vectors that a code must have for its distances to count."""


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

    def covers(self, codes: Ints, distances: Floats) -> Bools:
        """Say which vectors belong to their nearest code."""
        inside: Bools = distances <= self._reach(self.sizes[codes])
        return inside

    def _reach(self, sizes: Any) -> Any:
        """Return how far the vectors of codes of such sizes may be, squared.

        Distances are differences of products, so a vector that equals its code may seem to lie
        apart from it by as much as these are rounded.
        """
        reach = self.radius * (1 + 1 / np.maximum(sizes, 1)) + self.slack
        return reach + _ROUNDING * 4 * self._half_squares.max(initial=0.0)

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
                large = self.sizes[kept] >= SEVERAL
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
    return tidy(Codebook(points, np.ones(len(points))), vectors)[0]


def tidy(codebook: Codebook, vectors: Floats) -> tuple[Codebook, Ints, Floats]:
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
    vectors: Floats, radius: float, slack: float, most: int
) -> tuple[Floats, Floats, Ints, int]:
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

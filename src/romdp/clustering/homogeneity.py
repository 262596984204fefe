"""Do symbols that are to be grouped have the same laws? Ours; not in the paper.

Observations of one hidden state lead to the same law of what comes next under every action,
pay the same, and come from the same law of what was before (emission is drawn afresh at every
visit, whatever the policies were). The tests compare two laws by an unbiased estimate of their
squared distance,

    d = sum_y n_y (n_y - 1) / (n (n - 1)) + the same for m - 2 sum_y n_y m_y / (n m),

whose standard error is known. Two questions are asked:

- Equal enough? "I saw no difference" proves nothing where little was seen. So the burden is on
  the merge: that the laws of what comes next under the action in question differ by more than
  a fraction of what symbols typically differ by must be *rejected* at the level asked for. By
  the paper's full-rank assumption (``asm:expansive``) hidden states do differ there.
- Any contradiction? No law (next under any action, previous, rewards) may differ at a
  level that a true group fails only rarely.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from romdp.data.counts import Counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_HALF_SEEN = 50  # a symbol seen this often counts half when the typical difference is measured
_MOST_SCREENED = 300  # symbols
_DENSE = 2**20  # entries up to which counts are kept in an array: 8 MiB
_FLOOR = 0.02  # of the size of the laws: a typical difference below it is taken for this one


@dataclass(frozen=True, slots=True, eq=False)
class _Laws:
    """Rows of counts, one law per symbol."""

    rows: Any  # (n_symbols, n_outcomes) of floats, an array where small and else sparse
    totals: Floats
    squares: Floats  # unbiased estimates of the sum of squares of each law
    cubes: Floats  # and of the sum of cubes
    largest: Floats  # the largest share in each law

    @classmethod
    def of(cls, rows: Any) -> "_Laws":
        """Read sparse counts."""
        counts: Any = rows.astype(np.float64)
        second, third = counts.copy(), counts.copy()
        second.data = counts.data * (counts.data - 1)
        third.data = second.data * (counts.data - 2)
        totals, pairs, triples = (x.sum(axis=1) for x in (counts, second, third))
        largest = counts.max(axis=1).toarray().ravel()
        n_pairs = totals * (totals - 1)
        small = rows.shape[0] * rows.shape[1] <= _DENSE
        return cls(
            counts.toarray() if small else counts,
            totals,
            pairs / np.maximum(n_pairs, 1),
            triples / np.maximum(n_pairs * (totals - 2), 1),
            largest / np.maximum(totals, 1),
        )

    def compare(self, symbols: Ints, anchors: Ints) -> "_Comparison":
        """Compare the law of every symbol with that of every anchor."""
        n, m = self.totals[symbols][:, None], self.totals[anchors]
        its = (
            self.rows[anchors]
            if isinstance(self.rows, np.ndarray)
            else self.rows[anchors].toarray()
        )
        product = (self.rows[symbols] @ its.T) / np.maximum(n * m, 1)
        mine, their = self.squares[symbols][:, None], self.squares[anchors]
        total = np.maximum(n + m, 2)
        # If the laws are equal, these are the sums of squares and cubes of the one law.
        pooled = n * (n - 1) * mine + m * (m - 1) * their + 2 * n * m * product
        size = np.clip(pooled / (total * (total - 1)), 1e-12, 1.0)
        cube = (n * self.cubes[symbols][:, None] + m * self.cubes[anchors]) / total
        return _Comparison(
            distance=mine + their - 2 * product,
            rate=1 / np.maximum(n, 1) + 1 / np.maximum(m, 1),
            total=1 - size,
            scatter=size - 2 * np.minimum(cube, size**1.5) + size**2,
            largest=self.largest[anchors],
            seen=(n >= 2) & (m >= 2),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    """Estimated squared distances of some laws (rows) from others (columns)."""

    distance: Floats
    rate: Floats  # 1/n + 1/m
    total: Floats  # the trace of the covariance C of one outcome of the pooled law
    scatter: Floats  # the trace of C squared
    largest: Floats  # largest share in the law compared with
    seen: Bools  # both seen at least twice

    def p_values(self) -> Floats:
        """Return the chance of such a distance if the laws are equal.

        The squared difference is a weighted sum of chi-squares; it is read as one chi-square
        with the same mean and variance.
        """
        known = self.seen & (self.total > 1e-9)  # else both are certain of the same
        mean = self.rate * np.where(known, self.total, 1.0)
        variance = 2 * self.rate**2 * np.where(known, self.scatter, 1.0)
        degrees = 2 * mean**2 / variance
        chance = chi2.sf((self.distance + mean) * degrees / mean, degrees)
        return np.where(known, chance, 1.0)

    def within(self, tolerance: float, quantile: float) -> Bools:
        """Tell where a squared distance of the tolerance or more is rejected.

        At such a distance the estimate has variance at most ``2 rate^2 scatter + 4 tolerance
        rate p_max``, and its lower tail is lighter than a normal one.
        """
        spread = 2 * self.rate**2 * self.scatter + 4 * tolerance * self.rate * self.largest
        return self.seen & (self.distance + quantile * np.sqrt(spread) <= tolerance)


class Homogeneity:
    """Tests on the pair counts of symbols (observations, or groups of them).

    Parameters
    ----------
    counts : Counts
        Of the symbols, over all steps.
    resolution : float
        The fraction of the typical squared difference between symbols that counts as none.
    level : float
        The chance allowed that two symbols that differ pass as equal.
    doubt : float
        The chance allowed that a true group is contradicted.
    """

    def __init__(self, counts: Counts, resolution: float, level: float, doubt: float) -> None:
        self._counts = counts
        self._matrix = counts.matrix()
        self._resolution = resolution
        self._quantile = float(norm.isf(level))
        self._doubt = doubt
        self._laws: dict[int, _Laws] = {}
        self._tolerances: dict[int, float] = {}

    def _next(self, action: int) -> _Laws:
        """Return the laws of what comes after each symbol under an action."""
        if action not in self._laws:
            self._laws[action] = _Laws.of(self._matrix[action :: self._counts.n_actions])
        return self._laws[action]

    @cached_property
    def _previous(self) -> _Laws:
        """The laws of what came before each symbol."""
        entries = self._matrix.tocoo()
        pairs, following = entries.coords
        shape = (self._counts.n_observations, self._counts.n_observations)
        places = (following, pairs // self._counts.n_actions)
        return _Laws.of(scipy.sparse.coo_array((entries.data, places), shape).tocsr())

    def tolerance(self, action: int) -> float:
        """Return the squared difference of next laws that counts as none."""
        if action not in self._tolerances:
            self._tolerances[action] = self._resolution * self._typical(self._next(action))
        return self._tolerances[action]

    @staticmethod
    def _typical(laws: _Laws) -> float:
        """Return the mean squared difference between two symbols, or a floor for it."""
        seen = np.flatnonzero(laws.totals >= 2)
        if len(seen) < 2:
            return 0.0
        weight = laws.totals[seen] / (laws.totals[seen] + _HALF_SEEN)
        square = laws.squares[seen]
        share = weight / laws.totals[seen]
        mixture = share @ laws.rows[seen]
        own = square * (1 - 1 / laws.totals[seen]) + 1 / laws.totals[seen]  # raw squared lengths
        weights = weight.sum() ** 2 - (weight**2).sum()
        lengths = 2 * (weight.sum() * (weight @ square) - weight**2 @ square)
        products = mixture @ mixture - weight**2 @ own
        typical = (lengths - 2 * products) / weights
        size = 2 * float(weight @ square) / float(weight.sum())
        return max(float(typical), _FLOOR * size)

    def alike(self, action: int, symbols: Ints, anchor: int) -> Bools:
        """Tell which symbols are known to lead where the anchor leads under an action."""
        comparison = self._next(action).compare(symbols, np.array([anchor]))
        return comparison.within(self.tolerance(action), self._quantile)[:, 0]

    def contradicted(self, symbols: Ints, anchor: int) -> Bools:
        """Tell which symbols differ from the anchor in any law or in what they pay."""
        actions = range(self._counts.n_actions)
        views = [*(self._next(action) for action in actions), self._previous]
        chances = [laws.compare(symbols, np.array([anchor])).p_values()[:, 0] for laws in views]
        chances.extend(self._reward_chances(action, symbols, anchor) for action in actions)
        smallest: Floats = np.min(chances, axis=0)
        return smallest < self._doubt / (len(chances) * max(len(symbols), 1))

    def _reward_chances(self, action: int, symbols: Ints, anchor: int) -> Floats:
        """Return the chance of such a difference of mean rewards between equal symbols."""
        counts = self._counts
        n = counts.visits[symbols, action].astype(np.float64)
        m = float(counts.visits[anchor, action])
        total = np.maximum(n + m, 1)
        sums = counts.reward_sums[symbols, action] + counts.reward_sums[anchor, action]
        squares = counts.reward_squares[symbols, action] + counts.reward_squares[anchor, action]
        variance = np.maximum(squares / total - (sums / total) ** 2, 0)
        means = counts.reward_means
        gap = np.abs(means[symbols, action] - means[anchor, action])
        seen = (n >= 2) & (m >= 2) & (gap > 1e-9)
        error = np.sqrt(np.maximum(variance, 1e-300) * (1 / np.maximum(n, 1) + 1 / max(m, 1)))
        return np.where(seen, 2 * norm.sf(np.where(seen, gap / error, 0.0)), 1.0)

    def anchor(self, action: int, symbols: Ints) -> int:
        """Return the symbol of a group that was seen most often with an action."""
        return int(symbols[np.argmax(self._next(action).totals[symbols])])

    def any_alike(self, action: int, symbols: Ints) -> bool:
        """Tell whether any two of the symbols could pass: if not, nothing need be proposed."""
        if len(symbols) > _MOST_SCREENED:
            return True  # looking would cost more than it saves
        comparison = self._next(action).compare(symbols, symbols)
        alike = comparison.within(self.tolerance(action), self._quantile)
        np.fill_diagonal(alike, False)
        return bool(alike.any())

"""The evidence that observations are one state, or not: what followed them and what was done there.

The evidence is the logarithm of a Bayes factor, in nats: one law for both against a law for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import gammaln

from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.data.counts import Counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHAS = np.geomspace(1e-3, 1e4, 71)
"""Weights of Dirichlet laws that are compared."""

_STRIDE = 7  # every seventh first, then those beside the best
_MOST = 20.0  # nats that the rewards of one action may contribute
_CERTAIN = 1e-6  # variance of rewards (in [0, 1]) that are taken for certain


def concentration(ahead: Any, ended: Floats | None = None) -> float:
    """Fit the weight of what was not seen yet: where moves are certain it is small.

    Parameters
    ----------
    ahead
        Where each pair led: a sparse matrix with one row per pair.
    ended
        How often each pair ended an episode, if that counts as an outcome.
    """
    totals = np.asarray(ahead.sum(axis=1)).ravel()
    kinds = np.diff(ahead.indptr)
    if ended is not None:
        totals, kinds = totals + ended, kinds + (ended > 0)
    n, k = totals[totals > 1], kinds[totals > 1]
    if not len(n):
        return 1.0
    return highest(
        lambda a: k.sum() * np.log(a) + (gammaln(a) - gammaln(a + n)).sum(),
        ALPHAS,
    )


def highest(score: Callable[[float], float], grid: Floats) -> float:
    """Return the point of a grid where a score is highest, if it rises and then falls."""
    coarse = np.arange(0, len(grid), _STRIDE)
    near = coarse[int(np.argmax([score(grid[i]) for i in coarse]))]
    fine = grid[max(0, near - _STRIDE + 1) : near + _STRIDE]
    return float(fine[int(np.argmax([score(a) for a in fine]))])


@dataclass(frozen=True, eq=False)
class Profiles:
    """What followed certain observations, or sets of them; one row per each and action."""

    away: Any  # sparse (rows, groups + 1): which other group, or the end
    member: Any  # sparse (rows, observations): which observation
    visits: Any  # (profiles, actions)
    sums: Any  # of rewards
    stays: Any  # steps that stayed in the group

    def at(self, which: Ints) -> "Profiles":
        """Return some of them."""
        rows = _rows(which, self.visits.shape[1])
        return Profiles(
            self.away[rows],
            self.member[rows],
            self.visits[which],
            self.sums[which],
            self.stays[which],
        )

    def minus(self, part: "Profiles") -> "Profiles":
        """Take away what a part of each contributed."""
        return Profiles(
            _sparse(self.away - part.away),
            _sparse(self.member - part.member),
            self.visits - part.visits,
            self.sums - part.sums,
            self.stays - part.stays,
        )


class Laws:
    """All that followed every observation, under a grouping.

    Parameters
    ----------
    counts
        Counts of the observations.
    labels
        The group of every observation, -1 for none.
    other
        Laws of the same counts under another grouping, which know some of it already.
    """

    def __init__(self, counts: Counts, labels: Ints, other: "Laws | None" = None) -> None:
        self.labels = labels
        self.n_groups = int(labels.max()) + 1
        self.seen = counts.visits.sum(axis=1)
        n_actions = counts.n_actions
        moves, ended = counts.matrix(), counts.ends.astype(np.float64)
        table = moves.tocoo()
        known = (labels[table.row // n_actions] >= 0) & (labels[table.col] >= 0)
        row, target, n = table.row[known], table.col[known], table.data[known].astype(np.float64)
        leaves = labels[row // n_actions] != labels[target]
        last = np.flatnonzero(ended)
        away = scipy.sparse.csr_array(
            (
                np.append(n[leaves], ended.ravel()[last]),
                (
                    np.append(row[leaves], last),
                    np.append(labels[target][leaves], np.full(len(last), self.n_groups)),
                ),
            ),
            (moves.shape[0], self.n_groups + 1),
        )
        member = scipy.sparse.csr_array((n, (row, target)), moves.shape)
        stays = np.bincount(row[~leaves], n[~leaves], moves.shape[0]).reshape(counts.visits.shape)
        self.all = Profiles(_sparse(away), member, counts.visits, counts.reward_sums, stays)
        self.staying = (stays.sum() + 0.5) / (stays.sum() + away.sum() + 1.0)
        base = np.asarray(away.sum(axis=0)).ravel() + 0.5
        self.base = base / base.sum()
        self.alpha = concentration(self.all.away)
        placed = labels >= 0
        share = np.asarray(member.sum(axis=0)).ravel() + 0.5
        whole = np.bincount(labels[placed], share[placed], self.n_groups)
        self.share = share / whole[labels]
        self.groups = scipy.sparse.csr_array(
            (np.ones(placed.sum()), (np.flatnonzero(placed), labels[placed])),
            (len(labels), self.n_groups),
        )
        self.beta = self._dispersion()
        self.habits: tuple[float, float] = self._habits(other)
        self.rewards: _Rewards = _read_rewards(counts) if other is None else other.rewards

    def _dispersion(self) -> float:
        """Fit the weight of the observations of a group, given that the step went there."""
        table = self.all.member.tocoo()
        key = table.row.astype(np.int64) * self.n_groups + self.labels[table.col]
        _, place = np.unique(key, return_inverse=True)
        totals = np.bincount(place, table.data)
        some = self.share[table.col] < 1.0 - 1e-12
        if not some.any():
            return 1.0
        b, n = self.share[table.col][some], table.data[some]
        totals = totals[np.bincount(place, some) > 0]
        return highest(
            lambda a: (
                (gammaln(a * b + n) - gammaln(a * b)).sum()
                + (gammaln(a) - gammaln(a + totals)).sum()
            ),
            ALPHAS,
        )

    def _habits(self, other: "Laws | None") -> tuple[float, float]:
        """Fit how much alike observations of a state were treated, and those of all states.

        The second does not depend on the grouping, and may be known.
        """
        own = self.all.visits[self.labels >= 0].astype(np.float64)
        whole = (self.groups.T @ self.all.visits)[self.labels[self.labels >= 0]]
        usual = own.sum(axis=0) + 0.5
        usual /= usual.sum()
        theirs = (whole - own) + usual
        theirs /= theirs.sum(axis=1, keepdims=True)
        company = (whole - own).sum(axis=1) > 0
        apart = (
            _fit_weight(own, np.broadcast_to(usual, own.shape))
            if other is None
            else other.habits[1]
        )
        if not company.any():
            return 1.0, apart
        return _fit_weight(own[company], theirs[company]), apart

    def _treated_alike(self, n: Any, m: Any) -> Floats:
        """Return the log Bayes factor of one habit against two; what speaks for one is ignored."""
        alike, apart = self.habits
        usual = self.all.visits.sum(axis=0) + 0.5
        usual = usual / usual.sum()
        theirs = m + usual
        theirs = theirs / theirs.sum(axis=1, keepdims=True)
        both = log_chance(n, alike * theirs) - log_chance(n, apart * usual)
        return np.clip(both, -_MOST, 0.0)

    def _stays_alike(self, own: Profiles, core: Profiles) -> Floats:
        """Return the log Bayes factor of leaving equally often; what speaks for it is ignored.

        If these are two states, both may stay: each in its own.
        """
        shape = own.visits.shape
        weights = self.alpha * np.array([self.staying, 1.0 - self.staying])
        mine, theirs = (
            np.stack([x.stays, _sums(x.away).reshape(shape)], axis=-1) for x in (own, core)
        )
        both = log_chance(mine, weights + theirs) - log_chance(mine, weights)
        return np.asarray(np.clip(both, -_MOST, 0.0).sum(axis=1))

    def of(self, which: Ints) -> Profiles:
        """Return the profiles of some observations."""
        return self.all.at(which)

    def pooled(self, which: Ints) -> Profiles:
        """Return one profile for each group, of these of its observations."""
        n_actions = self.all.visits.shape[1]
        members, wide = (
            scipy.sparse.csr_array(
                (np.ones(len(which) * k), (_rows(self.labels[which], k), _rows(which, k))),
                (self.n_groups * k, len(self.labels) * k),
            )
            for k in (1, n_actions)
        )
        return Profiles(
            _sparse(wide @ self.all.away),
            _sparse(wide @ self.all.member),
            members @ self.all.visits,
            members @ self.all.sums,
            members @ self.all.stays,
        )

    def compare(self, own: Profiles, core: Profiles) -> tuple[Floats, Floats]:
        """Return the log Bayes factor of one state against two, and the tries that both share."""
        n, m = own.visits, core.visits
        evidence = self.alike(own, core) + self._treated_alike(n, m)
        return evidence, np.minimum(n, m).sum(axis=1)

    def alike(self, own: Profiles, core: Profiles) -> Floats:
        """Return the log Bayes factor of one law of what follows against two."""
        by_row = _cells(own.away, core.away, self.alpha * self.base)
        by_row += _totals(_sums(own.away), _sums(core.away), self.alpha)
        by_row += _cells(own.member, core.member, self.beta * self.share)
        row, _, mine, theirs = _common(own.member @ self.groups, core.member @ self.groups)
        by_row += np.bincount(row, _totals(mine, theirs, self.beta), len(by_row))
        evidence = by_row.reshape(own.visits.shape).sum(axis=1)
        evidence += self._stays_alike(own, core)
        n, m = own.visits, core.visits
        if not self.rewards.compared:
            return np.asarray(evidence)
        gap = own.sums / np.maximum(n, 1) - core.sums / np.maximum(m, 1)
        noise = self.rewards.noise * (1.0 / np.maximum(n, 1) + 1.0 / np.maximum(m, 1))
        wide = noise + 2.0 * self.rewards.spread
        paid = 0.5 * (np.log(wide / noise) - gap**2 * (1.0 / noise - 1.0 / wide))
        # Equal rewards are too common to speak for anything.
        paid = np.where((n > 0) & (m > 0), np.clip(paid, -_MOST, 0.0), 0.0)
        return np.asarray(evidence + paid.sum(axis=1))


def _fit_weight(n: Floats, shares: Floats) -> float:
    """Fit the weight of Dirichlet laws around these shares to choices; most cells are empty."""
    cell = np.nonzero(n)
    k, b, totals = n[cell], shares[cell], n.sum(axis=1)
    return highest(
        lambda a: float(
            (gammaln(a * b + k) - gammaln(a * b)).sum() + (gammaln(a) - gammaln(a + totals)).sum()
        ),
        ALPHAS,
    )


class _Rewards(NamedTuple):
    """Whether rewards are compared, and how they vary within pairs and between them."""

    compared: bool
    noise: float
    spread: float


def _read_rewards(counts: Counts) -> _Rewards:
    # Means of rewards of many values may differ by luck: such rewards are not compared.
    compared = read_reward_law(counts).name in ("bernoulli", "categorical")
    n_tries, means = counts.visits, counts.reward_means
    squares = np.maximum(0.0, counts.reward_squares - n_tries * means**2)
    repeated = (n_tries - 1).clip(0).sum()
    noise = max(_CERTAIN, float(squares.sum() / max(1, repeated)))
    return _Rewards(compared, noise, float(np.var(means[n_tries > 0])))


def _rows(which: Ints, n_actions: int) -> Ints:
    rows: Ints = (which[:, None] * n_actions + np.arange(n_actions)).ravel()
    return rows


def _sparse(matrix: Any) -> Any:
    result = scipy.sparse.csr_array(matrix)
    result.sum_duplicates()
    result.eliminate_zeros()
    return result


def _sums(matrix: Any) -> Floats:
    return np.asarray(matrix.sum(axis=1)).ravel()


def _common(own: Any, core: Any) -> tuple[Ints, Ints, Floats, Floats]:
    """Return row, column and both values of the cells that neither matrix leaves empty."""
    mine, theirs = _places(own), _places(core)
    at = np.searchsorted(theirs, mine)
    both = (
        np.flatnonzero(theirs[np.minimum(at, len(theirs) - 1)] == mine) if len(theirs) else at[:0]
    )
    row, column = np.divmod(mine[both], own.shape[1])
    return row, column, own.data[both], core.data[at[both]]


def _places(matrix: Any) -> Ints:
    """Return the numbers of the cells that are not empty, ascending."""
    matrix.sort_indices()
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    places: Ints = row * matrix.shape[1] + matrix.indices
    return places


def _cells(own: Any, core: Any, weights: Floats) -> Floats:
    """Add up what the cells contribute to the factor, row by row."""
    row, column, n, m = _common(own, core)
    b = weights[column]
    cells = gammaln(b + n + m) - gammaln(b + n) - gammaln(b + m) + gammaln(b)
    return np.bincount(row, cells, own.shape[0]).astype(np.float64)


def log_chance(n: Any, weights: Any) -> Floats:
    """Return the log probability of choices, row by row, under Dirichlets with these weights."""
    total = weights.sum(axis=-1)
    cells = (gammaln(n + weights) - gammaln(weights)).sum(axis=-1)
    return np.asarray(cells + gammaln(total) - gammaln(total + n.sum(axis=-1)))


def _totals(n: Floats, m: Floats, alpha: float) -> Floats:
    """Return what the numbers of steps contribute; nothing where one of them is zero."""
    both = gammaln(alpha + m) + gammaln(alpha + n) - gammaln(alpha + m + n) - gammaln(alpha)
    return np.where((n > 0) & (m > 0), both, 0.0)

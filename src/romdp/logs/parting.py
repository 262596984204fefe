"""Part hidden states whose observations the log gives no reason to take for one state.

Grouping by likelihood puts two observations together where that is the shorter explanation of the
log. If whoever wrote it did different things in the two, they may hardly have been compared: no
action was tried often enough in both. For a prediction such a guess is harmless. For a policy it is
not, since it carries what was learned in one observation over to the other.

`part` keeps observations together only if the steps out of them, under actions that were tried in
both, speak for it: the Bayes factor of "one law of what follows" against "two laws". What follows
is another state or the end of the episode, then an observation of that state, and a reward. That a
step stayed in the state speaks for nothing, only where in it the step went. Parting some states
tells others apart that lead to them, so it goes on until nothing changes.

What whoever wrote the log did is evidence, too, as far as it depends on the state: if observations
of one state were mostly treated alike, those that were treated otherwise may be another state. How
much alike is learned from the log, so that a policy that chose by the observation, or at random,
is evidence of nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import gammaln

from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.data.counts import Counts
from romdp.data.partition import Partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SURE = 3.0  # nats: the evidence that observations which were hardly compared need
_COMPARED = 10  # shared tries of the same actions, from which on only a contradiction parts
_FEWEST = 10  # visits of observations that can be a state of their own, unless moves
_SURPRISE = 0.2  # are so certain that one visit tells much: unseen ones weigh less than this
_STAGES = (30, 10, 5, 3, 1)  # visits of observations that are compared together
_MOST = 20.0  # nats that the rewards of one action may contribute
_CERTAIN = 1e-6  # variance of rewards (in [0, 1]) that are taken for certain
_MOST_ROUNDS = 1_000
_ALPHAS = np.geomspace(1e-3, 1e4, 71)  # weights of Dirichlets that are compared,
_STRIDE = 7  # every seventh first, then those beside the best


def part(counts: Counts, ends: Counts | None, partition: Partition) -> Partition:
    """Return the partition with states parted where nothing shows that they are one.

    Parameters
    ----------
    counts, ends
        Counts of the observations, and those of the steps that ended episodes; see `LogCounts`.
    partition
        Which observations were put together.

    Notes
    -----
    In every state the observation that was seen most is the core. Observations that match
    the core join it, and what the core knows grows by what they know, until nobody joins. The
    rest become a state of their own if they do not match the core together, either, and the same
    begins again there.
    """
    labels = partition.labels.copy()
    for _ in range(_MOST_ROUNDS):
        parted = _part_once(_Laws(counts, ends, labels))
        if parted is None:
            break
        labels = parted
    return Partition(labels)


def doubts(
    counts: Counts, ends: Counts | None, partition: Partition, certainty: Floats | None = None
) -> Floats:
    """Return the probability of each observation that it is not in its hidden state.

    Parameters
    ----------
    counts, ends, partition
        As for `part`.
    certainty
        The probability of the state as the clusterer sees it; the larger doubt counts.
    """
    labels = partition.labels
    laws = _Laws(counts, ends, labels)
    doubt = np.zeros(len(labels))
    placed = np.flatnonzero(labels >= 0)
    who = placed[partition.sizes[labels[placed]] > 1]
    if not len(who):
        return doubt
    own = laws.of(who)
    evidence, _ = laws.compare(own, laws.pooled(placed).at(labels[who]).minus(own))
    prior = np.log((len(placed) - partition.n_clusters + 0.5) / (partition.n_clusters + 0.5))
    doubt[who] = 1.0 / (1.0 + np.exp(np.clip(evidence + prior, -50.0, 50.0)))
    if certainty is not None:
        doubt[who] = np.maximum(doubt[who], 1.0 - np.nan_to_num(certainty[who], nan=1.0))
    return doubt


def _part_once(laws: "_Laws") -> Ints | None:
    """Split the rest from every core; None if no state has a rest."""
    labels, seen, n_groups = laws.labels, laws.seen, laws.n_groups
    order = np.lexsort((-seen, labels))
    first = order[np.searchsorted(labels[order], np.arange(n_groups))]
    joined = np.zeros(len(labels), np.bool_)
    joined[first] = True
    others = np.flatnonzero((labels >= 0) & ~joined & (seen >= _STAGES[-1]))
    waiting = others[:0]
    for fewest in _STAGES:  # those seen often first: they know best what they look like
        waiting = others[(seen[others] >= fewest) & ~joined[others]]
        while len(waiting):
            joins = _match(laws, laws.of(waiting), np.flatnonzero(joined), labels[waiting])
            if not joins.any():
                break
            joined[waiting[joins]] = True
            waiting = waiting[~joins]
    if not len(waiting):
        return None
    groups = np.unique(labels[waiting])
    together = _match(laws, laws.pooled(waiting).at(groups), np.flatnonzero(joined), groups)
    if laws.alpha >= _SURPRISE:  # a few visits tell too little for a state on either side
        for side in (waiting, np.flatnonzero(joined)):
            together |= np.bincount(labels[side], seen[side], n_groups)[groups] < _FEWEST
    groups = groups[~together]
    if not len(groups):
        return None
    new = np.full(n_groups, -1)
    new[groups] = n_groups + np.arange(len(groups))
    rest = waiting[new[labels[waiting]] >= 0]
    result = labels.copy()
    result[rest] = new[labels[rest]]
    return result


def _match(laws: "_Laws", own: "_Profiles", core: Ints, groups: Ints) -> NDArray[np.bool_]:
    """Say which profiles match the core of their group."""
    evidence, shared = laws.compare(own, laws.pooled(core).at(groups))
    against = _SURE + np.log(len(laws.labels))  # among so many, chance contradicts some
    return evidence > np.where(shared >= _COMPARED, -against, _SURE)


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
        _ALPHAS,
    )


def highest(score: Callable[[float], float], grid: Floats) -> float:
    """Return the point of a grid where a score is highest, if it rises and then falls."""
    coarse = np.arange(0, len(grid), _STRIDE)
    near = coarse[int(np.argmax([score(grid[i]) for i in coarse]))]
    fine = grid[max(0, near - _STRIDE + 1) : near + _STRIDE]
    return float(fine[int(np.argmax([score(a) for a in fine]))])


@dataclass(frozen=True, eq=False)
class _Profiles:
    """What followed certain observations, or sets of them; one row per each and action."""

    away: Any  # sparse (rows, groups + 1): which other group, or the end
    member: Any  # sparse (rows, observations): which observation
    visits: Any  # (profiles, actions)
    sums: Any  # of rewards

    def at(self, which: Ints) -> "_Profiles":
        """Return some of them."""
        rows = _rows(which, self.visits.shape[1])
        return _Profiles(self.away[rows], self.member[rows], self.visits[which], self.sums[which])

    def minus(self, part: "_Profiles") -> "_Profiles":
        """Take away what a part of each contributed."""
        return _Profiles(
            _sparse(self.away - part.away),
            _sparse(self.member - part.member),
            self.visits - part.visits,
            self.sums - part.sums,
        )


class _Laws:
    """All that followed every observation, under a grouping."""

    def __init__(self, counts: Counts, ends: Counts | None, labels: Ints) -> None:
        self.labels = labels
        self.n_groups = int(labels.max()) + 1
        self.seen = counts.visits.sum(axis=1)
        n_actions = counts.n_actions
        moves, ended = moves_and_ends(counts, ends)
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
        self.all = _Profiles(_sparse(away), member, counts.visits, counts.reward_sums)
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
        self.habits = self._habits()
        # Means of rewards of many values may differ by luck: such rewards are not compared.
        self.pays = read_reward_law(counts).name in ("bernoulli", "categorical")
        n_tries, means = counts.visits, counts.reward_means
        squares = np.maximum(0.0, counts.reward_squares - n_tries * means**2)
        repeated = (n_tries - 1).clip(0).sum()
        self.noise = max(_CERTAIN, float(squares.sum() / max(1, repeated)))
        self.spread = float(np.var(means[n_tries > 0]))

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
            _ALPHAS,
        )

    def _habits(self) -> tuple[float, float]:
        """Fit how much alike observations of a state were treated, and those of all states."""
        own = self.all.visits[self.labels >= 0].astype(np.float64)
        whole = (self.groups.T @ self.all.visits)[self.labels[self.labels >= 0]]
        usual = own.sum(axis=0) + 0.5
        usual /= usual.sum()
        theirs = (whole - own) + usual
        theirs /= theirs.sum(axis=1, keepdims=True)
        company = (whole - own).sum(axis=1) > 0
        if not company.any():
            return 1.0, 1.0
        mine = own[company]
        return (
            highest(lambda a: float(_chosen(mine, a * theirs[company]).sum()), _ALPHAS),
            highest(lambda a: float(_chosen(own, a * usual).sum()), _ALPHAS),
        )

    def _treated_alike(self, n: Any, m: Any) -> Floats:
        """Return the log Bayes factor of one habit against two; what speaks for one is ignored."""
        alike, apart = self.habits
        usual = self.all.visits.sum(axis=0) + 0.5
        usual = usual / usual.sum()
        theirs = m + usual
        theirs = theirs / theirs.sum(axis=1, keepdims=True)
        both = _chosen(n, alike * theirs) - _chosen(n, apart * usual)
        return np.clip(both, -_MOST, 0.0)

    def of(self, which: Ints) -> _Profiles:
        """Return the profiles of some observations."""
        return self.all.at(which)

    def pooled(self, which: Ints) -> _Profiles:
        """Return one profile for each group, of these of its observations."""
        n_actions = self.all.visits.shape[1]
        members = scipy.sparse.csr_array(
            (np.ones(len(which)), (self.labels[which], which)), (self.n_groups, len(self.labels))
        )
        wide = scipy.sparse.kron(members, scipy.sparse.eye_array(n_actions), format="csr")
        return _Profiles(
            _sparse(wide @ self.all.away),
            _sparse(wide @ self.all.member),
            members @ self.all.visits,
            members @ self.all.sums,
        )

    def compare(self, own: _Profiles, core: _Profiles) -> tuple[Floats, Floats]:
        """Return the log Bayes factor of one law against two, and the tries that both share."""
        by_row = _cells(own.away, core.away, self.alpha * self.base)
        by_row += _totals(_sums(own.away), _sums(core.away), self.alpha)
        by_row += _cells(own.member, core.member, self.beta * self.share)
        mine, theirs = _common(own.member @ self.groups, core.member @ self.groups)
        at = np.repeat(np.arange(len(by_row)), np.diff(mine.indptr))
        by_row += np.bincount(at, _totals(mine.data, theirs.data, self.beta), len(by_row))
        evidence = by_row.reshape(own.visits.shape).sum(axis=1)
        n, m = own.visits, core.visits
        shared = np.minimum(n, m).sum(axis=1)
        evidence += self._treated_alike(n, m)
        if not self.pays:
            return evidence, shared
        gap = own.sums / np.maximum(n, 1) - core.sums / np.maximum(m, 1)
        noise = self.noise * (1.0 / np.maximum(n, 1) + 1.0 / np.maximum(m, 1))
        wide = noise + 2.0 * self.spread
        paid = 0.5 * (np.log(wide / noise) - gap**2 * (1.0 / noise - 1.0 / wide))
        # Equal rewards are too common to speak for anything.
        paid = np.where((n > 0) & (m > 0), np.clip(paid, -_MOST, 0.0), 0.0)
        return evidence + paid.sum(axis=1), shared


def moves_and_ends(counts: Counts, ends: Counts | None) -> tuple[Any, Floats]:
    """Return the transitions without restarts as a sparse matrix, and the ends of every pair."""
    moves = counts.matrix()
    if ends is None:
        return moves, np.zeros(counts.visits.shape)
    return _sparse(moves - ends.matrix()), ends.visits.astype(np.float64)


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


def _common(own: Any, core: Any) -> tuple[Any, Any]:
    """Return both matrices, restricted to the cells that neither leaves empty."""
    mine = scipy.sparse.csr_array(own.multiply(core > 0))
    theirs = scipy.sparse.csr_array(core.multiply(own > 0))
    mine.sort_indices()
    theirs.sort_indices()
    return mine, theirs


def _cells(own: Any, core: Any, weights: Floats) -> Floats:
    """Add up what the cells contribute to the factor, row by row."""
    mine, theirs = _common(own, core)
    b = weights[mine.indices]
    n, m = mine.data, theirs.data
    cells = gammaln(b + n + m) - gammaln(b + n) - gammaln(b + m) + gammaln(b)
    rows = np.repeat(np.arange(own.shape[0]), np.diff(mine.indptr))
    return np.bincount(rows, cells, own.shape[0]).astype(np.float64)


def _chosen(n: Any, weights: Any) -> Floats:
    """Return the log probability of choices, row by row, under Dirichlets with these weights."""
    total = weights.sum(axis=-1)
    cells = (gammaln(n + weights) - gammaln(weights)).sum(axis=-1)
    return np.asarray(cells + gammaln(total) - gammaln(total + n.sum(axis=-1)))


def _totals(n: Floats, m: Floats, alpha: float) -> Floats:
    """Return what the numbers of steps contribute; nothing where one of them is zero."""
    both = gammaln(alpha + m) + gammaln(alpha + n) - gammaln(alpha + m + n) - gammaln(alpha)
    return np.where((n > 0) & (m > 0), both, 0.0)

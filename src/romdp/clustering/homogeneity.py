"""Group what is known to behave alike: a joint test on the pair counts. Ours; not in the paper.

Observations of one hidden state lead to the same law of what comes next under every action, pay the
same, and are reached from the same law of what was before (the emission is drawn afresh at every
visit, whatever the policies were). Each of these laws is a view. "I saw no difference" proves
nothing where little was seen, so the burden of proof lies on the merge: two groups are merged
only if a difference of the size that is typical between groups would have shown. Such a proof can
be wrong, so the observations of a group are compared anew whenever there are more data.

Observations of a ROMDP are themselves a Markov chain once actions are given. So the counts
N(y, a, y') that are read here are sufficient for the grouping, and the triples that spectral
learning reads hold no further information about it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import chdtrc, chndtr, ndtri

from romdp.clustering.clusterer import Evidence, group_counts
from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.validation import check_fields, how_many, level, real_number, takes
from romdp.data.counts import Counts
from romdp.data.partition import Partition

AnyInts = NDArray[np.integer]

_DOUBT = 1e-3  # the probability that a merge of a true pair has to wait at one look
_HALF_SEEN = 50  # a group seen this often counts half when the typical difference is measured
_MOST_COMPARED = 40  # groups that the typical difference is measured on: those seen most
_FLOOR = 0.02  # a typical difference below it is taken for this one
_SCREEN = 0.5  # share of the normal quantile below which a pair cannot pass


@dataclass(frozen=True)
class Homogeneity:
    """Group what is known to behave alike; needs no number of hidden states.

    What is merged comes apart again when the data speak against it.

    Parameters
    ----------
    resolution : float
        Differences are ruled out from this share of the typical one on. A smaller share is safer
        and needs more data.
    delta : float
        The probability, over all looks, that two groups which differ by that much are merged.
    n_states : int, optional
        The number of hidden states, if known: no grouping with fewer groups is believed.

    Notes
    -----
    The views of a group are, for each action, the law of what comes next and the mean reward, and
    the law of what came before. For two groups and each view v there is a two-sample chi-square t_v
    with d_v degrees of freedom; ``rate_v = 1/n + 1/m`` for the numbers of samples n and m; and
    typ_v, the mean of ``(t_v - d_v) rate_v`` over pairs of groups, estimates the typical squared
    difference. All views are added up: T, D, and ``lambda = resolution * sum_v typ_v / rate_v``.
    At every look three things happen.

    1. *Split.* In each group the observations are compared one by one. If some are told apart, the
       observation seen most keeps all that it is not told apart from, of the others the one seen
       most does so in turn, and the rest join whom they resemble most.
    2. *Merge.* Two groups are alike if they are not told apart and a noncentral chi-square with D
       degrees of freedom and noncentrality lambda lies below max(T, D) with a probability of less
       than ``delta / (S (1 + log2 t)^2)`` for S groups at step t. The group seen most takes in all
       that are like it, then the next; then the merged groups are tested, until nothing changes.
    3. *Place.* An observation that is alone and was met at most sqrt(t / Y) times joins the group
       that it resembles most, for the time being. All of these together have at most sqrt(Y t)
       steps, but an optimist would spend far more on chasing each. Told apart from all groups, it
       joins a single observation that was met more often, as if that were all of its state.

    Two groups are *told apart* where some view, or all together, would differ so much with a
    probability of at most the level above if the laws were equal; for a merge, once in a thousand
    looks. Pearson's chi-square is far too large by chance where one outcome is rare, the likelihood
    ratio where very many are, so only the smaller of the two tells apart. For rewards it is the
    smaller of two with the common variance and with each group's own.

    What ``delta`` does not cover: hidden states whose difference, added over all views, is below
    ``resolution`` times the typical one may be merged, and so may states that differ only under an
    action that was hardly tried there. They come apart once that action is tried: the theory page
    on SL-UCRL in the documentation says after how many tries, with a proof. Groups cannot be split
    where an agent counts groups only (``counting="paper"``); a merge is then final.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    >>> romdp.cluster(seen, method=Homogeneity()) == Partition(world.labels)
    True
    """

    resolution: float = 0.3
    delta: float = 0.05
    n_states: int | None = None

    needs = frozenset({"counts"})

    def __post_init__(self) -> None:
        real_number(self.resolution, "resolution", 0, 1, open_low=True)
        check_fields(self, delta=level, n_states=(None, how_many))

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Split what the data object to, merge what is known to be alike, place what is rare."""
        whole = evidence.counts
        if previous.n_clusters == 0:
            return previous
        rare = np.zeros(previous.n_observations, bool)
        if whole.n_observations == len(rare) and not previous.is_identity:
            visits = whole.visits.sum(axis=1)
            rare = visits <= math.sqrt(visits.mean())
            previous = self._take_back(evidence, previous, rare)
        fewest = self.n_states or 1
        counts = group_counts(evidence, previous)
        while previous.n_clusters > fewest:
            found = Partition(self._test(counts, evidence).classes(np.arange(previous.n_clusters)))
            if found.is_identity or found.n_clusters < fewest:
                break
            previous, counts = previous.compose(found), counts.group(found)
        for size in (2, 1):  # a single observation may be all there is of a state
            lone = previous.sizes == 1
            lone[previous.labels[(previous.labels >= 0) & ~rare]] = False
            homes = np.flatnonzero(~lone & (previous.sizes >= size))
            if previous.n_clusters > fewest and lone.any() and len(homes):
                test = self._test(counts, evidence)
                found = Partition(test.place(np.arange(previous.n_clusters), lone, homes))
                if found.n_clusters >= fewest:
                    previous, counts = previous.compose(found), counts.group(found)
        return previous

    def _test(self, counts: Counts, evidence: Evidence) -> "JointTest":
        return JointTest.at_step(counts, evidence.step, self.resolution, self.delta)

    def _take_back(self, evidence: Evidence, previous: Partition, rare: Bools) -> Partition:
        """Split the groups that the counts of single observations object to.

        What is rare leaves its group as well, since it was only placed there.
        """
        test = self._test(evidence.counts, evidence)
        labels = np.where(previous.labels < 0, -1, np.arange(len(rare)))
        kept = np.where(rare, -1, previous.labels)
        for group in np.flatnonzero(np.bincount(kept[kept >= 0]) > 1):
            members = np.flatnonzero(kept == group)
            labels[members] = test.split(members)
        return Partition(labels)


_Compare = Callable[[Ints, Ints], tuple[Floats, Floats, Floats]]


class _View(NamedTuple):
    """One law per group: of what comes next, of what came before, or of rewards."""

    totals: Floats  # samples of each group
    support: Floats  # outcomes of each group
    compare: _Compare  # pairs of groups: chi-square, degrees, and the smaller of its two forms
    typical: float


class _Comparison(NamedTuple):
    """All views of some pairs added up."""

    statistic: Floats  # T
    degrees: Floats  # D
    smaller: Floats  # the same of the smaller form
    objected: Bools


class JointTest:
    """The test behind `Homogeneity`, on the counts of groups.

    Parameters
    ----------
    counts : Counts
        Pair counts of the groups, over all steps.
    level : float
        The probability allowed that two groups that differ pass as alike; also that two groups that
        are alike pass as different.
    resolution : float
        The share of the typical difference that is to be ruled out.

    Attributes
    ----------
    alike : ndarray of bool, shape (n_groups, n_groups)
        Which pairs are known to be alike; symmetric, nothing is paired with itself.
    """

    def __init__(self, counts: Counts, level: float, resolution: float) -> None:
        self._counts, self._level, self._resolution = counts, level, resolution
        self._views = _views(counts)
        self._samples: Floats = counts.visits.sum(axis=1).astype(np.float64)

    @classmethod
    def at_step(cls, counts: Counts, step: int, resolution: float, delta: float) -> "JointTest":
        """Test at the level of one look: each group and each doubling of the data has a share."""
        n_looks = (1 + math.log2(max(step, 1))) ** 2
        return cls(counts, delta / (n_looks * max(counts.n_observations, 1)), resolution)

    def classes(self, groups: Ints) -> Ints:
        """Return for each of some groups the one of them that it was found to be like.

        The one seen most takes in all that are like it, then the next.
        """
        order = np.argsort(-self._samples[groups], kind="stable")
        leader = np.full(len(groups), -1, np.int64)
        for i in order:
            if leader[i] < 0:
                taken = self.alike[groups[i], groups] & (leader < 0)
                leader[taken] = groups[i]
                leader[i] = groups[i]
        return leader

    def count_states(self, groups: Ints) -> tuple[int, int]:
        """Bound the number of hidden states that some groups belong to.

        At least as many as there are groups that are all different from one another, and at most
        as many as there are classes of groups known to be alike.
        """
        leaders = np.unique(self.classes(groups))
        leaders = leaders[np.argsort(-self._samples[leaders], kind="stable")]
        first, second = np.triu_indices(len(leaders), 1)
        found = self._compare(leaders[first], leaders[second])
        differ = np.zeros((len(leaders), len(leaders)), bool)
        differ[first, second] = _tail(found.smaller, found.degrees) < self._level
        differ |= differ.T
        mutual: list[int] = []
        for i in range(len(leaders)):
            if differ[i, mutual].all():
                mutual.append(i)
        return len(mutual), len(leaders)

    @cached_property
    def alike(self) -> Bools:
        """Which pairs are known to be alike; symmetric, nothing is paired with itself."""
        n_groups = self._counts.n_observations
        alike = np.zeros((n_groups, n_groups), bool)
        if n_groups < 2:
            return alike
        excess = np.zeros((n_groups, n_groups))
        degrees = np.zeros((n_groups, n_groups))
        for view in self._views:
            seen = view.totals >= 1
            both = seen[:, None] & seen
            excess += np.where(both, view.typical * _harmonic(view.totals), 0.0)
            outcomes = np.maximum(view.support[:, None], view.support)
            degrees += np.where(both, outcomes - 1, 0.0)
        excess *= self._resolution
        least = _SCREEN * -float(ndtri(self._level))
        possible = excess > least * np.sqrt(2 * (degrees + 2 * excess))
        first, second = (side.astype(np.int64) for side in np.nonzero(np.triu(possible, 1)))
        found = self._compare(first, second)
        keep = ~found.objected & (found.degrees > 0)
        first, second = first[keep], second[keep]
        size, d = found.statistic[keep], found.degrees[keep]
        probability = chndtr(np.maximum(size, d), d, excess[first, second])
        passed = probability < self._level
        alike[first[passed], second[passed]] = True
        return alike | alike.T

    def _compare(self, first: Ints, second: Ints, doubt: float = _DOUBT) -> _Comparison:
        """Compare pairs of groups in every view."""
        statistic, degrees, smaller = np.zeros((3, len(first)))
        objected = np.zeros(len(first), bool)
        for view in self._views:
            t, d, least = view.compare(first, second)
            statistic, degrees, smaller = statistic + t, degrees + d, smaller + least
            objected |= _tail(least, d) <= doubt / len(self._views)
        objected |= _tail(smaller, degrees) <= doubt
        return _Comparison(statistic, degrees, smaller, objected)

    def split(self, members: Ints) -> Ints:
        """Return for each member of a group the one that it belongs to as far as is known.

        A single one unless the data object. The member seen most keeps all that it is not told
        apart from; of the others the one seen most does so in turn. Then each joins whom it
        resembles most.
        """
        rest = members[np.argsort(-self._samples[members], kind="stable")]
        leaders = rest[:1]
        while len(rest):
            apart = self._compare(np.full(len(rest), leaders[-1]), rest, self._level).objected
            rest = rest[apart]
            leaders = np.append(leaders, rest[:1])
        return self.place(members, ~np.isin(members, leaders), leaders)

    def place(self, groups: Ints, moved: Bools, homes: Ints) -> Ints:
        """Return for each group itself, or for those to be moved the home that is most like it.

        A group that all homes are told apart from stays where it is.
        """
        found, lone = groups.copy(), groups[moved]
        first, second = np.repeat(lone, len(homes)), np.tile(homes, len(lone))
        compared = self._compare(first, second, self._level)
        distance = np.where(compared.objected, np.inf, compared.smaller).reshape(-1, len(homes))
        near = np.isfinite(distance).any(axis=1)
        found[np.flatnonzero(moved)[near]] = homes[distance[near].argmin(axis=1)]
        return found


def _views(counts: Counts) -> list[_View]:
    """Return the laws of what comes next under each action, of what was before, and of rewards."""
    matrix, n_groups, n_actions = counts.matrix(), counts.n_observations, counts.n_actions
    entries = matrix.tocoo()
    pairs, following = entries.coords
    before = scipy.sparse.coo_array(
        (entries.data, (following, pairs // n_actions)), (n_groups, n_groups)
    ).tocsr()
    actions = range(n_actions)
    return [
        *(_law(matrix, n_actions, action) for action in actions),
        _law(before, 1, 0),
        *(_rewards(counts, action) for action in actions),
    ]


def _law(matrix: Any, stride: int, offset: int) -> _View:
    """Return the law in the rows ``stride * s + offset`` of a sparse matrix of counts."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    totals = np.asarray(matrix.sum(axis=1), np.float64)[offset::stride]
    support = np.diff(matrix.indptr)[offset::stride].astype(np.float64)
    stored = matrix.indptr, matrix.indices, matrix.data, stride, offset, totals

    def compare(first: Ints, second: Ints) -> tuple[Floats, Floats, Floats]:
        return _two_samples(first, second, *stored)

    return _View(totals, support, compare, _typical(totals, compare))


def _rewards(counts: Counts, action: int) -> _View:
    """Return the mean rewards of an action; they are compared in units of their variance."""
    n = counts.visits[:, action].astype(np.float64)
    sums, squares = counts.reward_sums[:, action], counts.reward_squares[:, action]
    means = sums / np.maximum(n, 1)
    errors = np.maximum(squares / np.maximum(n, 1) - means**2, 0) / np.maximum(n, 1)  # squared

    def compare(first: Ints, second: Ints) -> tuple[Floats, Floats, Floats]:
        both = np.minimum(n[first], n[second]) >= 1
        total = np.maximum(n[first] + n[second], 1)
        pooled = (sums[first] + sums[second]) / total
        variance = (squares[first] + squares[second]) / total - pooled**2
        gap = np.abs(means[first] - means[second])
        rate = 1 / np.maximum(n[first], 1) + 1 / np.maximum(n[second], 1)
        t = np.where(both & (gap > 1e-9), gap**2 / (np.maximum(variance, 1e-300) * rate), 0.0)
        # Few samples are compared with many that hardly vary: their own spread counts as well.
        least = np.minimum(t, gap**2 / np.maximum(errors[first] + errors[second], 1e-300))
        return t, both.astype(np.float64), least

    return _View(n, np.full(len(n), 2.0), compare, _typical(n, compare))


def _typical(totals: Floats, compare: _Compare) -> float:
    """Return the mean squared difference between two groups, or a floor for it."""
    most = np.argsort(-totals, kind="stable")[:_MOST_COMPARED]
    most = most[totals[most] >= 1]
    if len(most) < 2:
        return _FLOOR
    i, j = np.triu_indices(len(most), 1)
    first, second = most[i], most[j]
    t, d, _ = compare(first, second)
    n, m = totals[first], totals[second]
    weight = n / (n + _HALF_SEEN) * m / (m + _HALF_SEEN)
    difference = (t - d) * (1 / n + 1 / m)
    return max(float(weight @ difference / weight.sum()), _FLOOR)


def _tail(statistic: Floats, degrees: Floats) -> Floats:
    """Return the probability of so large a chi-square; 1 where there are no degrees of freedom."""
    probability: Floats = np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistic), 1.0)
    return probability


def _harmonic(totals: Floats) -> Floats:
    """Return n m / (n + m) for all pairs."""
    n, m = totals[:, None], totals
    product: Floats = n * m / np.maximum(n + m, 1)
    return product


@kernel
def _two_samples(
    first: Ints,
    second: Ints,
    starts: AnyInts,
    outcomes: AnyInts,
    counts: AnyInts,
    stride: int,
    offset: int,
    totals: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Compute for pairs of groups the chi-square of equal laws and its degrees of freedom.

    The third result is the smaller of Pearson's chi-square and the likelihood ratio's.
    All are 0 where one of the two was never seen. Rows are read as they are stored,
    so a pair costs as much as it has outcomes.
    """
    statistic = np.zeros(len(first))
    degrees = np.zeros(len(first))
    least = np.zeros(len(first))
    for k in range(len(first)):
        n = totals[first[k]]
        m = totals[second[k]]
        if n < 1 or m < 1:
            continue
        row = stride * first[k] + offset
        p, p_end = starts[row], starts[row + 1]
        row = stride * second[k] + offset
        q, q_end = starts[row], starts[row + 1]
        size = 0.0
        ratio = 0.0
        found = 0
        while p < p_end or q < q_end:
            take_p = q >= q_end or (p < p_end and outcomes[p] <= outcomes[q])
            take_q = p >= p_end or (q < q_end and outcomes[q] <= outcomes[p])
            mine = 0.0
            theirs = 0.0
            if take_p:
                mine = counts[p]
                p += 1
            if take_q:
                theirs = counts[q]
                q += 1
            if mine + theirs > 0:
                gap = mine / n - theirs / m
                size += gap * gap / (mine + theirs)
                pooled = (mine + theirs) / (n + m)
                if mine > 0:
                    ratio += mine * np.log(mine / (n * pooled))
                if theirs > 0:
                    ratio += theirs * np.log(theirs / (m * pooled))
                found += 1
        statistic[k] = size * n * m
        degrees[k] = found - 1
        least[k] = min(statistic[k], 2 * ratio)
    return statistic, degrees, least

"""Group what is known to behave alike: a joint test on the pair counts. Ours; not in the paper.

Observations of one hidden state lead to the same law of what comes next under every action, pay the
same, and are reached from the same law of what was before (the emission is drawn afresh at every
visit, whatever the policies were). Each of these laws is a view. "I saw no difference" proves
nothing where little was seen, so the burden of proof lies on the merge: two groups are merged
only if a difference of the size that is typical between groups would have shown.

Observations of a ROMDP are themselves a Markov chain once actions are given. So the counts
N(y, a, y') that are read here are sufficient for the grouping, and the triples that spectral
learning reads hold no further information about it.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import chdtrc, chndtr, ndtr, ndtri

from romdp.clustering.clusterer import Evidence, group_counts
from romdp.core.compiled import kernel
from romdp.core.validation import real_number, whole_number
from romdp.data.counts import Counts
from romdp.data.partition import Partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AnyInts = NDArray[np.integer]
Bools = NDArray[np.bool_]

_DOUBT = 1e-3  # the chance that a true pair is objected to at one look
_HALF_SEEN = 50  # a group seen this often counts half when the typical difference is measured
_MOST_COMPARED = 40  # groups that the typical difference is measured on: those seen most
_FLOOR = 0.02  # a typical difference below it is taken for this one
_SCREEN = 0.5  # share of the normal quantile below which a pair cannot pass


@dataclass(frozen=True)
class Homogeneity:
    """Merge the groups whose laws are known to be alike; needs no number of hidden states.

    Parameters
    ----------
    resolution : float
        Differences are ruled out from this share of the typical one on. A smaller share is safer
        and needs more data.
    delta : float
        The chance, over all looks, that two groups which differ by that much are merged.
    n_states : int, optional
        The number of hidden states, if known: no grouping with fewer groups is believed.

    Notes
    -----
    The views of a group are the law of what comes next under each action and the law of what came
    before. For two groups and each view v there is a two-sample chi-square t_v with d_v degrees of
    freedom; ``rate_v = 1/n + 1/m`` for the numbers of samples n and m; and typ_v, the mean of
    ``(t_v - d_v) rate_v`` over pairs of groups, estimates the typical squared difference. All
    views are added up: T, D, and ``lambda = resolution * sum_v typ_v / rate_v``. Two groups are
    alike if

    - a noncentral chi-square with D degrees of freedom and noncentrality lambda lies below
      max(T, D) with a chance of less than ``delta / (S (1 + log2 t)^2)`` for S groups at step t;
    - T is not too large for equal laws, and no single view and no mean reward objects (each at
      a level such that a true pair is objected to once in a thousand looks at most).

    The group seen most takes in all that are like it, then the next one, and so on; then the merged
    groups are tested in the same way, until nothing changes.

    What ``delta`` does not cover: hidden states whose difference, added over all views, is below
    ``resolution`` times the typical one may be merged; so may states that differ only under an
    action that was hardly tried there. The chi-square laws hold for many samples, and the level is
    shared among groups rather than among pairs: this is a calibrated test, not a theorem. It takes
    no confidence sets: two groups whose `TimeUniform` intervals exclude each other differ so much
    that a view objects long before.

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
        real_number(self.delta, "delta", 0, 1, open_low=True, open_high=True)
        if self.n_states is not None:
            whole_number(self.n_states, "n_states", 1)

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Merge what is known to be alike, until nothing more is: larger groups show more."""
        fewest = self.n_states or 1
        if previous.n_clusters <= fewest:
            return previous
        counts = group_counts(evidence, previous)
        while previous.n_clusters > fewest:
            test = JointTest.at_step(counts, evidence.step, self.resolution, self.delta)
            found = Partition(test.classes(np.arange(counts.n_observations)))
            if found.is_identity or found.n_clusters < fewest:
                break
            previous, counts = previous.compose(found), counts.group(found)
        return previous


class _View(NamedTuple):
    """Rows of counts, one law per group, as they lie in a sparse matrix."""

    starts: AnyInts
    outcomes: AnyInts
    counts: AnyInts
    stride: int  # the row of group s is stride * s + offset
    offset: int
    totals: Floats  # samples of each group
    support: Floats  # outcomes of each group
    typical: float


class _Comparison(NamedTuple):
    """All views of some pairs added up."""

    statistic: Floats  # T
    degrees: Floats  # D
    objected: Bools


class JointTest:
    """The test behind `Homogeneity`, on the counts of groups.

    Parameters
    ----------
    counts : Counts
        Pair counts of the groups, over all steps.
    level : float
        The chance allowed that two groups that differ pass as alike; also that two groups that
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
        self._samples: Floats = sum(view.totals for view in self._views)  # type: ignore[assignment]
        self.alike = self._find_alike()

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
        differ[first, second] = _tail(found.statistic, found.degrees) < self._level
        differ |= differ.T
        mutual: list[int] = []
        for i in range(len(leaders)):
            if differ[i, mutual].all():
                mutual.append(i)
        return len(mutual), len(leaders)

    def _find_alike(self) -> Bools:
        n_groups = self._counts.n_observations
        alike = np.zeros((n_groups, n_groups), bool)
        if n_groups < 2:
            return alike
        excess = np.zeros((n_groups, n_groups))
        degrees = np.zeros((n_groups, n_groups))
        for view in self._views:
            seen = view.totals >= 2
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
        chance = chndtr(np.maximum(size, d), d, excess[first, second])
        passed = (chance < self._level) & (_tail(size, d) > _DOUBT)
        alike[first[passed], second[passed]] = True
        return alike | alike.T

    def _compare(self, first: Ints, second: Ints) -> _Comparison:
        """Compare pairs of groups in every view."""
        statistic, degrees = np.zeros(len(first)), np.zeros(len(first))
        objected = np.zeros(len(first), bool)
        doubt = _DOUBT / (len(self._views) + self._counts.n_actions)
        for view in self._views:
            t, d = _two_samples(first, second, *view[:6])
            statistic += t
            degrees += d
            objected |= _tail(t, d) <= doubt
        for action in range(self._counts.n_actions):
            objected |= self._reward_chance(action, first, second) <= doubt
        return _Comparison(statistic, degrees, objected)

    def _reward_chance(self, action: int, first: Ints, second: Ints) -> Floats:
        """Return the chance of such a difference of mean rewards between equal groups."""
        counts = self._counts
        visits = counts.visits[:, action].astype(np.float64)
        n, m = visits[first], visits[second]
        total = np.maximum(n + m, 1)
        sums, squares = counts.reward_sums[:, action], counts.reward_squares[:, action]
        mean = (sums[first] + sums[second]) / total
        variance = np.maximum((squares[first] + squares[second]) / total - mean**2, 0)
        means = sums / np.maximum(visits, 1)
        gap = np.abs(means[first] - means[second])
        seen = (n >= 2) & (m >= 2) & (gap > 1e-9)
        rate = 1 / np.maximum(n, 1) + 1 / np.maximum(m, 1)
        error = np.sqrt(np.maximum(variance, 1e-300) * rate)
        return np.where(seen, 2 * ndtr(-np.where(seen, gap / error, 0.0)), 1.0)


def _views(counts: Counts) -> list[_View]:
    """Return the laws of what comes next under each action, and of what came before."""
    matrix, n_groups, n_actions = counts.matrix(), counts.n_observations, counts.n_actions
    entries = matrix.tocoo()
    pairs, following = entries.coords
    before = scipy.sparse.coo_array(
        (entries.data, (following, pairs // n_actions)), (n_groups, n_groups)
    ).tocsr()
    return [*(_view(matrix, n_actions, action) for action in range(n_actions)), _view(before, 1, 0)]


def _view(matrix: Any, stride: int, offset: int) -> _View:
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    totals = np.asarray(matrix.sum(axis=1), np.float64)[offset::stride]
    support = np.diff(matrix.indptr)[offset::stride].astype(np.float64)
    view = _View(
        matrix.indptr, matrix.indices, matrix.data, stride, offset, totals, support, _FLOOR
    )
    return view._replace(typical=_typical(view))


def _typical(view: _View) -> float:
    """Return the mean squared difference between two groups, or a floor for it."""
    most = np.argsort(-view.totals, kind="stable")[:_MOST_COMPARED]
    most = most[view.totals[most] >= 2]
    if len(most) < 2:
        return _FLOOR
    i, j = np.triu_indices(len(most), 1)
    first, second = most[i], most[j]
    t, d = _two_samples(first, second, *view[:6])
    n, m = view.totals[first], view.totals[second]
    weight = n / (n + _HALF_SEEN) * m / (m + _HALF_SEEN)
    difference = (t - d) * (1 / n + 1 / m)
    return max(float(weight @ difference / weight.sum()), _FLOOR)


def _tail(statistic: Floats, degrees: Floats) -> Floats:
    """Return the chance of so large a chi-square; 1 where there are no degrees of freedom."""
    chance: Floats = np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistic), 1.0)
    return chance


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
) -> tuple[Floats, Floats]:
    """Compute the chi-square of equal laws and its degrees of freedom for pairs of groups.

    Both are 0 where one of the two was seen less than twice. Rows are read as they are stored,
    so a pair costs as much as it has outcomes.
    """
    statistic = np.zeros(len(first))
    degrees = np.zeros(len(first))
    for k in range(len(first)):
        n = totals[first[k]]
        m = totals[second[k]]
        if n < 2 or m < 2:
            continue
        row = stride * first[k] + offset
        p, p_end = starts[row], starts[row + 1]
        row = stride * second[k] + offset
        q, q_end = starts[row], starts[row + 1]
        size = 0.0
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
                found += 1
        statistic[k] = size * n * m
        degrees[k] = found - 1
    return statistic, degrees

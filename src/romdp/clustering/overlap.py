"""Minimal clustering: merge what confidence intervals cannot tell apart.

This is the paper's ``app:further.clustering``. The graph starts with an edge between any two
groups. An edge is deleted where, for some action,

    |r(s, a) - r(s', a)| > d_r(s, a) + d_r(s', a)   or
    ||p(. | s, a) - p(. | s', a)||_1 > d_p(s, a) + d_p(s', a).

If the connected components are exactly as many as there are hidden states, they are the hidden
states; otherwise the graph is forgotten until more has been seen.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.clusterer import Evidence, group_counts
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import check_fields, how_many, level, real_number, shown, takes
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.planning.confidence import Hoeffding
from romdp.planning.timeuniform import TimeUniform

AnyInts = NDArray[np.integer]


@dataclass(frozen=True)
class Overlap:
    """The paper's minimal clustering; it needs the number of hidden states.

    Parameters
    ----------
    n_states : int
        The number X of hidden states.
    confidence : Hoeffding or TimeUniform
        Gives the widths d_r and d_p, or an interval for every mean reward and every probability:
        then two groups are apart if two such intervals are.
    factor : float
        Multiplies the widths here alone (intervals shrink towards their middles); 0.5 for MDPs
        without hidden states.
    delta : float
        The probability that the confidence intervals fail.

    Notes
    -----
    Observations of one hidden state keep their edges with high probability, so components only
    ever join hidden states that are not told apart yet: there are X at most. Without enough
    data there are fewer, and nothing happens. An action that was never tried at a group says
    nothing about it.

    Where others have left X groups, or fewer, the observations are compared one by one, if they are
    counted so. X components of these then replace the groups.

    Examples
    --------
    >>> transitions = np.zeros((3, 1, 3), int)
    >>> transitions[:, 0] = [[800, 0, 0], [800, 0, 0], [0, 500, 400]]
    >>> zeros = np.zeros((3, 1))
    >>> counts = Counts(transitions.sum(axis=2), transitions, zeros, zeros)
    >>> overlap = Overlap(n_states=2, confidence=Hoeffding(scale=0.1))
    >>> rng = np.random.default_rng(0)
    >>> overlap.regroup(Evidence(counts, step=2500), Partition.singletons(3), rng).labels
    array([0, 0, 1])
    """

    n_states: int
    confidence: Hoeffding | TimeUniform = field(default_factory=Hoeffding)
    factor: float = 1.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        check_fields(self, n_states=how_many, delta=level)
        real_number(self.factor, "factor", 0)
        if not isinstance(self.confidence, Hoeffding | TimeUniform):
            raise InvalidInputError(
                f"confidence is {shown(self.confidence)}; the overlap of intervals is "
                "defined by the widths of Hoeffding(...) or the intervals of TimeUniform()"
            )

    @property
    def needs(self) -> frozenset[str]:
        """The parts of `Evidence` that are read."""
        return frozenset({"counts"})

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return the hidden states if the data tell them apart, else what was before."""
        start = previous
        if previous.n_clusters <= self.n_states:
            unplaced = previous.labels < 0
            if evidence.counts.n_observations != len(unplaced) or unplaced.all():
                return previous
            start = Partition(np.where(unplaced, -1, np.arange(len(unplaced))))
        found = self._components(group_counts(evidence, start), evidence.step, start)
        return start.compose(found) if found.n_clusters == self.n_states else previous

    def _components(self, counts: Counts, step: int, groups: Partition) -> Partition:
        """Return the components of the graph of groups whose intervals overlap."""
        if isinstance(self.confidence, TimeUniform):
            ends = self.confidence.intervals(counts, step, self.delta)
            return Partition(_join_intervals(*ends, self.factor))
        widths = self.confidence.widths(
            counts, step, self.delta, n_observations=groups.n_observations
        )
        labels = overlapping(
            counts, self.factor * widths.rewards, self.factor * widths.transitions, self.n_states
        )
        return Partition(labels)


def overlapping(
    counts: Counts, reward_widths: Floats, transition_widths: Floats, at_least: int = 1
) -> Ints:
    """Return a label for each group's component of the graph of overlapping intervals.

    Once fewer than ``at_least`` components are left the search stops; the labels then describe
    what had been joined so far.
    """
    matrix = counts.matrix()
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    means = np.where(
        counts.visits > 0, counts.reward_means, np.nan
    )  # NaN is never far from anything
    return _components(
        means,
        matrix.indptr,
        matrix.indices,
        matrix.data,
        np.ascontiguousarray(reward_widths),
        np.ascontiguousarray(transition_widths),
        at_least,
    )


@kernel
def _apart(low: Floats, high: Floats, i: int, j: int, factor: float) -> bool:
    """Whether two groups have intervals, shrunk towards their middles, with nothing in common."""
    for a in range(low.shape[1]):
        for k in range(low.shape[2]):
            distance = abs(low[i, a, k] + high[i, a, k] - low[j, a, k] - high[j, a, k])
            both = high[i, a, k] - low[i, a, k] + high[j, a, k] - low[j, a, k]
            if distance > factor * both:
                return True
    return False


@kernel
def _join_intervals(
    low_rewards: Floats, high_rewards: Floats, lows: Floats, highs: Floats, factor: float
) -> Ints:
    """Label the components of the graph whose edges are groups that are not apart."""
    n_groups, n_actions, _ = lows.shape
    low_rewards = low_rewards.reshape(n_groups, n_actions, 1)
    high_rewards = high_rewards.reshape(n_groups, n_actions, 1)
    labels = np.arange(n_groups)
    for i in range(n_groups):
        for j in range(i):
            if labels[i] == labels[j] or _apart(low_rewards, high_rewards, i, j, factor):
                continue
            if not _apart(lows, highs, i, j, factor):
                keep, drop = min(labels[i], labels[j]), max(labels[i], labels[j])
                labels[labels == drop] = keep
    return labels


@kernel
def _separated(
    i: int,
    j: int,
    means: Floats,
    starts: AnyInts,
    outcomes: AnyInts,
    counts: AnyInts,
    totals: Floats,
    reward_widths: Floats,
    transition_widths: Floats,
) -> bool:
    """Tell whether some action tells two groups apart; stops at the first proof."""
    n_actions = means.shape[1]
    for a in range(n_actions):
        if abs(means[i, a] - means[j, a]) > reward_widths[i, a] + reward_widths[j, a]:
            return True
    for a in range(n_actions):
        width = transition_widths[i, a] + transition_widths[j, a]
        if width >= 2.0:  # no two laws are farther apart
            continue
        if totals[i, a] == 0.0 or totals[j, a] == 0.0:
            continue  # no law was seen
        row_i = i * n_actions + a
        row_j = j * n_actions + a
        p, p_end = starts[row_i], starts[row_i + 1]
        q, q_end = starts[row_j], starts[row_j + 1]
        distance = 0.0
        while p < p_end or q < q_end:
            take_p = q >= q_end or (p < p_end and outcomes[p] <= outcomes[q])
            take_q = p >= p_end or (q < q_end and outcomes[q] <= outcomes[p])
            gap = 0.0
            if take_p:
                gap += counts[p] / totals[i, a]
                p += 1
            if take_q:
                gap -= counts[q] / totals[j, a]
                q += 1
            distance += abs(gap)
            if distance > width:
                return True
    return False


@kernel
def _components(
    means: Floats,
    starts: AnyInts,
    outcomes: AnyInts,
    counts: AnyInts,
    reward_widths: Floats,
    transition_widths: Floats,
    at_least: int,
) -> Ints:
    """Join groups that are not separated (union-find).

    Only pairs not joined already are compared: pairs in one hidden state are joined after one
    full comparison each, and pairs of different states separate after a few outcomes.
    """
    n_groups, n_actions = means.shape
    totals = np.zeros((n_groups, n_actions))
    for i in range(n_groups):
        for a in range(n_actions):
            row = i * n_actions + a
            for p in range(starts[row], starts[row + 1]):
                totals[i, a] += counts[p]
    root = np.arange(n_groups)
    left = n_groups
    for i in range(n_groups):
        for j in range(i):
            mine = i
            while root[mine] != mine:
                root[mine] = root[root[mine]]
                mine = root[mine]
            theirs = j
            while root[theirs] != theirs:
                root[theirs] = root[root[theirs]]
                theirs = root[theirs]
            if mine == theirs or _separated(
                i, j, means, starts, outcomes, counts, totals, reward_widths, transition_widths
            ):
                continue
            root[max(mine, theirs)] = min(mine, theirs)
            left -= 1
            if left < at_least:
                break
        if left < at_least:
            break
    labels = np.empty(n_groups, np.int64)
    for i in range(n_groups):
        place = i
        while root[place] != place:
            place = root[place]
        labels[i] = place
    return labels

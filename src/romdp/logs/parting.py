"""Part hidden states whose observations the log gives no reason to take for one state.

Grouping by likelihood puts two observations together where that is the shorter explanation of the
log. If whoever wrote it did different things in the two, they may hardly have been compared: no
action was tried often enough in both. For a prediction such a guess is harmless. For a policy it is
not, since it carries what was learned in one observation over to the other.

`part` keeps observations together only if the steps out of them, under actions that were tried in
both, speak for it: the Bayes factor of "one law of what follows" against "two laws". What follows
is another state or the end of the episode, then an observation of that state, and a reward. That
steps stayed in the state does not speak for one state (two would each stay in their own); that one
stays where the other leaves speaks against it. Parting some states tells others apart that lead to
them, so it goes on until nothing changes.

What whoever wrote the log did is evidence, too, as far as it depends on the state: if observations
of one state were mostly treated alike, those that were treated otherwise may be another state. How
much alike is learned from the log, so that a policy that chose by the observation, or at random,
is evidence of nothing.
"""

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.clusterer import Clusterer
from romdp.clustering.grouping import Grouped, group
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.logs.comparing import ALPHAS, Laws, Profiles, log_chance

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SURE = 3.0  # nats: the evidence that observations which were hardly compared need
_COMPARED = 10  # shared tries of the same actions, from which on only a contradiction parts
_FEWEST = 10  # visits of observations that can be a state of their own, unless moves
_SURPRISE = 0.2  # are so certain that one visit tells much: unseen ones weigh less than this
_STAGES = (30, 10, 5, 3, 1)  # visits of observations that are compared together
_MOST_ROUNDS = 1_000
_KIND_ROUNDS = 3  # in which each observation of a state takes the kind that fits it better


def group_and_part(
    counts: Counts,
    rng: np.random.Generator,
    clusterer: Clusterer | None = None,
    *,
    may_part: bool = True,
) -> Grouped:
    """Group observations, and `part` what was put together without being compared.

    Nothing is parted, so that this is `group`, unless what was done depends on the observation:
    else rare visits are all that keeps observations from being compared. Where rewards of many
    values shaped the groups, parting could not judge those.
    """
    found = group(counts, rng, clusterer)
    partition = found.partition
    if not (may_part and partition.n_clusters and counts.n_actions > 1):
        return found
    if found.reward_law == "gaussian" or not _depends_on_observation(counts.visits):
        return found
    finer = part(counts, partition)
    same = finer.sizes[finer.labels] == partition.sizes[partition.labels]
    return found._replace(partition=finer, certainty=np.where(same, found.certainty, np.nan))


def _depends_on_observation(visits: Ints) -> bool:
    """Whether what was done is clearly more probable if each observation has a law of its own."""
    n = visits[:, visits.any(axis=0)].astype(np.float64)
    usual = n.sum(axis=0) / max(n.sum(), 1.0)
    everywhere = float((n @ np.log(usual)).sum())
    return any(log_chance(n, alpha * usual).sum() > everywhere + _SURE for alpha in ALPHAS)


def part(counts: Counts, partition: Partition) -> Partition:
    """Return the partition with states parted where nothing shows that they are one.

    Parameters
    ----------
    counts
        Counts of the observations.
    partition
        Which observations were put together.

    Notes
    -----
    In every state the observation that was seen most is the core. Observations that match
    the core join it, and what the core knows grows by what they know, until nobody joins. The
    rest become a state of their own if they do not match the core together, either, and the same
    begins again there. Where nobody is left, two kinds of observations may still share a state that
    differ in what was mostly done in them, each too little to tell alone; they are parted if that
    makes what was done so much more probable that it outweighs naming the kind of each.
    """
    labels, laws = partition.labels.copy(), None
    for _ in range(_MOST_ROUNDS):
        laws = Laws(counts, labels, laws)
        parted = _part_once(laws)
        if parted is None:
            parted = _part_by_habit(laws)
        if parted is None:
            break
        labels = parted
    return Partition(labels)


def doubts(counts: Counts, partition: Partition, certainty: Floats | None = None) -> Floats:
    """Return the probability of each observation that it is not in its hidden state.

    Parameters
    ----------
    counts, partition
        As for `part`.
    certainty
        The probability of the state as the clusterer sees it; the larger doubt counts.
    """
    labels = partition.labels
    laws = Laws(counts, labels)
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


def _part_once(laws: Laws) -> Ints | None:
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
        asking = waiting
        while len(asking):  # whoever did not match asks again if the core has grown
            core = np.flatnonzero(joined & np.isin(labels, labels[asking]))
            joins = asking[_match(laws, laws.of(asking), core, labels[asking])]
            joined[joins] = True
            waiting = waiting[~joined[waiting]]
            asking = waiting[np.isin(labels[waiting], labels[joins])]
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
    return _take_out(laws, groups, waiting)


def _part_by_habit(laws: Laws) -> Ints | None:
    """Split states whose observations are of two kinds by what was done; None if there is none."""
    labels, n_groups = laws.labels, laws.n_groups
    who = np.flatnonzero(labels >= 0)
    at, n = labels[who], laws.all.visits[who].astype(np.float64)
    usual = n.sum(axis=0) + 0.5
    usual /= usual.sum()

    def fits(kind: Ints) -> Floats:
        """Return the log probability of what was done at each, given the others of its kind."""
        total = np.zeros((2 * n_groups, n.shape[1])) + usual
        np.add.at(total, 2 * at + kind, n)
        shares = total / total.sum(axis=1, keepdims=True)
        weights = laws.habits[0] * shares.reshape(n_groups, 2, -1)[at]
        return np.stack([log_chance(n, weights[:, k]) for k in range(2)], axis=1)

    whole = np.zeros((n_groups, n.shape[1]))
    np.add.at(whole, at, n)
    alone = np.zeros(len(who), np.int64)
    one = np.bincount(at, fits(alone)[:, 0], n_groups)
    kind = (n.argmax(axis=1) != whole.argmax(axis=1)[at]).astype(np.int64)
    for _ in range(_KIND_ROUNDS):
        kind = fits(kind).argmax(axis=1)
    two = np.bincount(at, fits(kind)[np.arange(len(who)), kind], n_groups)
    both = np.minimum(*(np.bincount(at[kind == k], minlength=n_groups) for k in range(2))) > 0
    groups = np.flatnonzero(both)
    if not len(groups):
        return None
    habit = (one - two + np.bincount(at, minlength=n_groups) * np.log(2.0))[groups]
    first, second = (laws.pooled(who[kind == k]).at(groups) for k in range(2))
    clear = habit < -(_SURE + np.log(len(labels)))
    groups = groups[clear & (habit + laws.alike(first, second) < 0.0)]
    if not len(groups):
        return None
    return _take_out(laws, groups, who[kind == 1])


def _take_out(laws: Laws, groups: Ints, which: Ints) -> Ints:
    """Give those of the observations that are in these groups a group of their own."""
    new = np.full(laws.n_groups, -1)
    new[groups] = laws.n_groups + np.arange(len(groups))
    gone = which[new[laws.labels[which]] >= 0]
    labels = laws.labels.copy()
    labels[gone] = new[labels[gone]]
    return labels


def _match(laws: Laws, own: Profiles, core: Ints, groups: Ints) -> NDArray[np.bool_]:
    """Say which profiles match the core of their group."""
    evidence, shared = laws.compare(own, laws.pooled(core).at(groups))
    against = _SURE + np.log(len(laws.labels))  # among so many, chance contradicts some
    return evidence > np.where(shared >= _COMPARED, -against, _SURE)

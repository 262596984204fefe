"""Grouping by likelihood: the grouping under which what was seen is most probable.

An observation's hidden state decides where it leads, from where it is reached and what it pays.
How often a state shows it is the observation's own affair and tells nothing. The likelihood of all
transitions and rewards between groups, with its unknown probabilities integrated out
(see ``blockmodel`` beside this file), needs neither third moments nor the number of hidden
states: two groups become one if and only if the data are more probable that way.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import scipy.sparse

from romdp.clustering.clusterer import Evidence, Slices, finish
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import REWARD_LAWS, read_reward_law
from romdp.clustering.likelihood.search import MOST_GROUPS, ROUNDS, Grouping, Search
from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice, flag, freeze, takes, whole_number
from romdp.data.counts import Counts
from romdp.data.partition import Partition

_MANY, _FEW = 40, 10  # groups to start from when their number is unknown
_FEWEST = 8  # groups to start from at least
_FEW_SWEEPS = 3  # before the first merges
_WELL_SEEN = 15  # visits per observation from which on spectral starts are enough
_HARDLY_SEEN = 2  # visits per observation from which on the evidence decides, up to `_WELL_SEEN`
_LITTLE_SEEN = 6  # visits per observation up to which the evidence is worth more time
_RUNGS = (3, 5, 8, 13, 21)  # numbers of groups whose evidence is measured,
_FEW_OBSERVATIONS = 5_000  # up to this many observations
_SLOWNESS, _FEW_FOR_SLOWNESS = 4, 1_000  # how slowly `fit` cools, up to this many observations
_SETTLED = 0.01  # numbers of groups that two starts found are the same up to this share
_HELD_OUT = 0.2  # of the transitions, to see whether rewards mislead
_MOST_ALONE = 600  # observations up to which each may be a group of its own,
_CERTAIN = 4.0  # if the weight of all moves in the prior of a pair is below this
_FEW_ROUNDS = 2  # of splitting where a large grouping is improved; the next time goes on
_STARTS = 20  # annealed starts at most,
_CHEAP = 20_000  # as many as observations times groups go into this, if X is given,
_CHEAPER = 1_000  # or into this, where most searches end well without them


@dataclass(frozen=True, eq=False, repr=False)
class LikelihoodFit:
    """What grouping by likelihood found.

    Attributes
    ----------
    partition : Partition
        The grouping; observations that were never seen have no group.
    blocks : Counts
        The fitted block model: visits, transitions and rewards of the groups.
    log_odds : ndarray, shape (Y,)
        How sure each placing is, given all others: the log posterior odds of the best group
        against the second best one. NaN for observations without a group.
    certainty : ndarray, shape (Y,)
        The same as a probability, that of the best group.
    score : float
        Log probability of the data and the grouping, up to a constant.
    score_curve : mapping of int to float
        The best score seen with each number of groups.
    alpha : float
        The fitted Dirichlet parameter of moves: small where moves are nearly certain.
    reward_law : str
        How rewards were read: none, bernoulli, categorical, hurdle or gaussian.
    abstains : bool
        Whether all observations are one group because they were seen too rarely to tell them apart.
        Each placing is then as likely wrong as right: log odds of 0, certainty 1/2.
    """

    partition: Partition
    blocks: Counts
    log_odds: Floats
    certainty: Floats
    score: float
    score_curve: Mapping[int, float]
    alpha: float
    reward_law: str
    abstains: bool = False

    @property
    def n_groups(self) -> int:
        """Number of groups found."""
        return self.partition.n_clusters

    def __repr__(self) -> str:
        doubtful = int(np.count_nonzero(self.certainty < 0.95))
        few = "too few visits to tell observations apart, " if self.abstains else ""
        return (
            f"LikelihoodFit({self.partition}; score {self.score:.1f}, {few}"
            f"{doubtful} placed with less than 95% certainty, rewards {self.reward_law})"
        )


@dataclass(frozen=True)
class Likelihood:
    """Group observations by the likelihood of transitions and rewards between groups.

    Parameters
    ----------
    n_states
        The number of groups; None lets the score choose. There are never more groups than
        observations seen.
    reward_law
        "bernoulli", "categorical" (up to three values), "gaussian" or "none"; None reads it from
        the data.
    choose_by_evidence
        Where observations were seen less than 15 times each, let the evidence choose the
        number of groups (the score summed over all placings; see `Search.temper`). False uses the
        score of the best placing alone, which takes less time and finds groups later.

    Notes
    -----
    The search starts from too many spectral groups, moves one observation at a time where the
    score rises, merges the two groups whose union raises the score most (or lowers it least), and
    splits groups where that raises it, until nothing helps. The same generator state gives the
    same grouping. An observation seen rarely gets its most likely group and a low certainty; one
    never seen gets none.

    Examples
    --------
    >>> from romdp import simulate, worlds
    >>> world = worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> counts = Counts.from_trajectory(simulate(world, "uniform", 20_000, seed=0))
    >>> fit = Likelihood().fit(counts, np.random.default_rng(0))
    >>> fit.partition == Partition(world.labels)
    True
    """

    n_states: int | None = None
    reward_law: str | None = None
    choose_by_evidence: bool = True
    needs: ClassVar[frozenset[str]] = frozenset({"counts"})

    def __post_init__(self) -> None:
        if self.n_states is not None:
            whole_number(self.n_states, "n_states", 1, MOST_GROUPS)
        if self.reward_law is not None:
            choice(self.reward_law, "reward_law", REWARD_LAWS)
        flag(self.choose_by_evidence, "choose_by_evidence")

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Group the observations as `fit` does, starting from the grouping so far."""
        return finish(self.in_slices(evidence, previous, rng))

    def in_slices(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Slices[Partition]:
        """Do what `regroup` does a little at a time; only the first slice reads the evidence."""
        counts = evidence.counts
        if len(counts.met()) == 0:
            return Partition.unseen(counts.n_observations)
        found = yield from self._search(counts, rng, previous)
        return found.partition(counts.n_observations)

    def fit(
        self, counts: Counts, rng: np.random.Generator, start: Partition | None = None
    ) -> LikelihoodFit:
        """Group the observations and say how sure the result is.

        Parameters
        ----------
        counts
            What was seen.
        rng
            Draws the starts and the order in which observations move.
        start
            The grouping so far, of an agent that groups again and again: it is improved, and the
            search from the beginning is shorter; if it has more than 64 groups, it is all there is
            time for. One that puts no two observations together is the same as none.
        """
        if len(counts.met()) == 0:
            raise InvalidInputError(
                "the counts are empty: no observation was seen, so none can be grouped"
            )
        return finish(self._search(counts, rng, start)).report(counts)

    def _search(
        self, counts: Counts, rng: np.random.Generator, start: Partition | None
    ) -> "Slices[_Found]":
        """Search among the observations that were met, and the end of an episode if there is one.

        What was never met costs nothing. The end may be like some observations.
        """
        met = counts.met()
        known = np.full(counts.n_observations, -1) if start is None else start.labels
        if len(known) != counts.n_observations:
            raise InvalidInputError(
                f"the grouping to start from has {len(known)} observations, the counts "
                f"{counts.n_observations}; the two must agree"
            )
        known, has_end = known[met], counts.has_ends
        inner = counts if len(met) == counts.n_observations else counts.restrict(met)
        if has_end:
            inner, known = _with_end(inner), np.append(known, known.max(initial=-1) + 1)
        groups = known[known >= 0]
        search = Search(
            Links.of(inner),
            read_reward_law(inner, self.reward_law),
            rng,
            n_states=None if self.n_states is None else self.n_states + has_end,
            quick=len(np.unique(groups)) < len(groups),
        )
        if self.reward_law is None and search.law.name == "gaussian" and not search.quick:
            search = yield from self._without_luck(search)
        if search.quick:
            best = yield from self._improve(search, known)
        else:
            best = yield from self._begin(search, start is None)
        return _Found(search, best, met, has_end)

    def _without_luck(self, search: Search) -> Slices[Search]:
        """Leave rewards out if groups without them predict held-out transitions better.

        Rewards of many values are read as Gaussian. Where some are far larger than all others, that
        makes states of who was lucky.
        """
        kept, held = search.links.part(_HELD_OUT, search.rng)
        known = search.replace(kept, search.law)
        first = yield from self._begin(known)
        blind = search.replace(kept, search.law.left_out())
        second = yield from blind.warm(first.labels)
        second = yield from blind.polish((yield from blind.climb(second)))
        better = blind.predict(second, held) - known.predict(first, held)
        gain, n = held.out_count @ better, max(int(held.out_count.sum()), 1)
        error = math.sqrt(max(float(held.out_count @ better**2 - gain**2 / n), 0.0))
        return search.replace(search.links, blind.law) if gain > 2.0 * error else search

    def _begin(self, search: Search, for_good: bool = True) -> Slices[Grouping]:
        """Find groups where none are known; an agent that will ask again gets them sooner."""
        sizes = [_FEW, _MANY]
        if self.n_states is not None:
            sizes = [self.n_states, max(_FEWEST, 3 * self.n_states)]
        best = yield from self._spectral_starts(search, sizes)
        best = yield from self._or_alone(search, best)
        best = yield from self._annealed_starts(search, best)
        return (yield from self._choose_by_evidence(search, best, for_good=for_good))

    def _improve(self, search: Search, known: Ints) -> Slices[Grouping]:
        """Improve the grouping so far, and compare it with what a search from the beginning finds.

        Where groups are many there is only time for a few rounds from the grouping so far and from
        a group for each of up to 600 observations, unless one single group is better than what
        comes out.
        """
        kept = yield from search.climb((yield from search.warm(known)))
        rounds = _FEW_ROUNDS if search.is_short(kept) else ROUNDS
        best = yield from search.polish(kept, rounds)
        best = yield from self._or_alone(search, best, rounds)
        if not search.is_short(best):
            size = max(_FEWEST, 3 * best.n_groups)
            best = _better(best, (yield from self._spectral_starts(search, [size])))
        elif self.n_states is None and search.one_group().score > best.score:
            best = yield from self._spectral_starts(search, [_MANY])
        return (yield from self._choose_by_evidence(search, best, kept))

    def _spectral_starts(self, search: Search, sizes: list[int]) -> Slices[Grouping]:
        """Start from spectral groups; while most of them survive, from twice as many.

        Once two starts end with about the same number of groups, no larger ones are tried.
        One group is the answer to beat: where visits are few, chance groups can be so far below it
        that merging never gets there. Where observations are many, those seen most are grouped
        first, and the others join them.
        """
        core = search.core()
        if len(core) < len(search.seen):
            inner = search.restrict(core)
            labels = np.full(search.links.n_observations, -1)
            labels[core] = (yield from self._spectral_starts(inner, sizes)).labels
            joined = yield from search.climb((yield from search.warm(labels)))
            return (yield from search.polish(joined))
        largest = min(MOST_GROUPS, len(search.seen))
        best = search.one_group() if self.n_states is None else None
        waiting = [min(size, largest) for size in sizes]
        last = 0
        while waiting:
            n_groups = waiting.pop(0)
            found = yield from search.spectral(n_groups)
            found = yield from search.polish((yield from search.climb(found, _FEW_SWEEPS)))
            best = found if best is None else _better(best, found)
            many = 2 * found.n_groups >= n_groups and best.n_groups > 1
            settled = abs(found.n_groups - last) <= _SETTLED * last
            last = found.n_groups
            if many and not (waiting or settled) and n_groups < largest and self.n_states is None:
                waiting.append(min(2 * max(n_groups, found.n_groups), largest))
        assert best is not None
        return best

    def _or_alone(self, search: Search, best: Grouping, rounds: int = ROUNDS) -> Slices[Grouping]:
        """Merge from a group for each observation, too, if there are few enough.

        Groups that mix states can be a trap: seen from there, no single split is worth its price.
        Where there is time for more rounds this is tried only where moves are certain and it
        scores higher before anything is merged.
        """
        if self.n_states is not None or len(search.seen) > _MOST_ALONE:
            return best
        alone = yield from search.warm(np.arange(search.links.n_observations))
        certain = alone.rule.alpha * alone.n_groups < _CERTAIN
        if rounds == ROUNDS and not (certain and alone.score > best.score):
            return best
        return _better(best, (yield from search.polish(alone, rounds)))

    def _choose_by_evidence(
        self,
        search: Search,
        best: Grouping,
        kept: Grouping | None = None,
        *,
        for_good: bool = False,
    ) -> Slices[Grouping]:
        """Where visits are few, compare with slowly cooled starts, and with the last grouping.

        The spectrum of few counts is noise; cooling finds groups long before the spectrum shows
        them. The score of any one placing then understates several groups against one, so the
        evidence decides.
        """
        n_seen = len(search.seen)
        nothing = best.n_groups in (1, n_seen)  # was found, of which one is more often wrong
        most = _WELL_SEEN * (1 + nothing) * n_seen
        few = _HARDLY_SEEN * n_seen <= search.n_steps < most
        affordable = n_seen <= _FEW_OBSERVATIONS and (nothing or best.n_groups <= _RUNGS[-1])
        if not (self.choose_by_evidence and few and affordable):
            return best
        little = search.n_steps < _LITTLE_SEEN * n_seen
        borne_out = kept is not None and 1 < kept.n_groups <= best.n_groups
        if borne_out or self.n_states is not None:  # the number of groups is not in doubt
            if not little:
                return best
            cooled, _ = yield from search.temper(best.n_groups)
            return _better(best, (yield from search.polish(cooled)))
        slowness = _SLOWNESS if for_good and little and n_seen <= _FEW_FOR_SLOWNESS else 1
        found = [search.one_group() if nothing else best, best, *([kept] if kept else [])]
        return (yield from self._best_number(search, found, slowness, exactly=for_good))

    def _best_number(
        self, search: Search, found: list[Grouping], slowness: int = 1, *, exactly: bool
    ) -> Slices[Grouping]:
        """Choose the number of groups by its evidence, then the best placing in that many groups.

        Numbers are tried upwards in wide steps until the evidence falls; ``exactly`` also tries
        the numbers beside the best one. Each evidence has noise of about 5, less with more
        slowness.
        """
        least: dict[int, float] = {}  # lower bounds: the sum over placings is above any of them
        for grouping in found:
            size = grouping.n_groups
            least[size] = max(least.get(size, -math.inf), grouping.score)
        measured = set[int]()

        def evidence(size: int) -> Slices[float]:
            if size not in measured:
                grouping, value = yield from search.temper(size, slowness)
                found.append(grouping)
                measured.add(size)
                least[size] = max(least.get(size, -math.inf), value, grouping.score)
            return least[size]

        most = min(len(search.seen), MOST_GROUPS)
        fewest = min(
            found[0].n_groups / 2, _RUNGS[-2]
        )  # placings show too few groups, not too many
        rungs = sorted({min(size, most) for size in _RUNGS if size >= fewest})
        for lower, upper in pairwise(rungs):
            if (yield from evidence(upper)) < (yield from evidence(lower)):
                break
        size = max(least, key=lambda n_groups: least[n_groups])
        for step in (-1, 1) if exactly else ():
            while 1 < size + step <= most:
                if (yield from evidence(size + step)) <= (yield from evidence(size)):
                    break
                size += step
        return max((g for g in found if g.n_groups == size), key=lambda g: g.score)

    def _annealed_starts(self, search: Search, best: Grouping) -> Slices[Grouping]:
        """Try annealed starts, in turn from the best and at random: climbs may end too low.

        The fewer observations and groups there are, the more starts are worth their time.
        """
        found, known = best, self.n_states is not None
        effort = (_CHEAP if known else _CHEAPER) // (len(search.seen) * best.n_groups)
        for number in range(min(_STARTS, effort)):
            size = best.n_groups
            if not known:  # that may be one too many or too few
                size = min(max(2, size + number % 3 - 1), len(search.seen))
            start = best if number % 2 == 0 and size == best.n_groups else search.random(size)
            found = _better(found, (yield from search.anneal(start)))
        return found if found is best else _better(found, (yield from search.polish(found)))


@dataclass(frozen=True)
class _Found:
    """What a search found among the observations that were met."""

    search: Search
    best: Grouping
    met: Ints
    has_end: bool  # the last of those searched stands for the end of an episode

    def partition(self, n_observations: int) -> Partition:
        """Return the grouping of all observations."""
        return Partition(self.best.labels[: len(self.met)]).among(self.met, n_observations)

    def report(self, counts: Counts) -> LikelihoodFit:
        """Say what was found, and how sure it is."""
        partition = self.partition(counts.n_observations)
        margins = np.full((2, counts.n_observations), np.nan)
        margins[:, self.met] = self.search.margins(self.best, self.has_end)[: len(self.met)].T
        alone = self.search.n_states is None and partition.n_clusters == 1 < len(self.met)
        abstains = alone and self.search.n_steps < _WELL_SEEN * len(self.met)
        if abstains:
            margins[:, self.met] = [[0.0], [0.5]]
        return LikelihoodFit(
            partition=partition,
            blocks=counts.group(partition),
            log_odds=freeze(margins[0].copy()),
            certainty=freeze(margins[1].copy()),
            score=self.best.score,
            score_curve=MappingProxyType(dict(sorted(self.search.curve.items()))),
            alpha=self.best.rule.alpha,
            reward_law=self.search.law.name,
            abstains=abstains,
        )


def _better(first: Grouping, second: Grouping) -> Grouping:
    return second if second.score > first.score else first


def _with_end(counts: Counts) -> Counts:
    """Make the end of an episode one more observation, the last, which leads nowhere.

    Where the next episode begins says nothing about the state that the last one ended in.
    """
    n_actions = counts.n_actions
    outcomes = scipy.sparse.csr_array(counts.sparse().outcomes())
    nowhere = np.full(n_actions, outcomes.indptr[-1], outcomes.indptr.dtype)
    parts = outcomes.data, outcomes.indices, np.concatenate((outcomes.indptr, nowhere))
    shape = (outcomes.shape[0] + n_actions, outcomes.shape[1])
    last = ((0, 1), (0, 0))
    return Counts.from_parts(
        np.pad(counts.visits, last),
        scipy.sparse.csr_array(parts, shape=shape),
        np.pad(counts.reward_sums, last),
        np.pad(counts.reward_squares, last),
        np.zeros((counts.n_observations + 1, n_actions), np.int64),
        np.append(counts.starts, 0),
    )

"""What a clusterer is, those that need no learning, and ways to combine clusterers."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.errors import InvalidInputError
from romdp.core.validation import (
    check,
    check_fields,
    flag,
    how_many,
    real_number,
    takes,
    whole_number,
)
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples
from romdp.planning.priors import MovePrior

_BLIND_VISITS, _BLIND_SHARE = 50, 0.25  # visits without a group: at least, for each with one
_LITTLE_SEEN = 6  # steps for each observation: before, a clusterer may be asked more often
_MOST = 0.5  # of the pairs must be certain before observations are taken for states
_AT_LEAST = 512  # observations up to which `Singletons` does not ask how many were met


_T = TypeVar("_T")
Slices: TypeAlias = Generator[None, None, _T]
"""Work that is done slice by slice, each at most some ten milliseconds, and then returns."""


def finish(work: Slices[_T]) -> _T:
    """Do all that is left of some work, and return its result.

    Examples
    --------
    >>> def add(numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         yield
    ...         total += number
    ...     return total
    >>> finish(add([1, 2, 3]))
    6
    """
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Evidence:
    """What has been seen when observations are to be grouped.

    Attributes
    ----------
    counts
        Pair counts over all steps so far.
    triples
        Triple counts of the last epoch alone (one fixed policy), in the groups of
        ``previous``; None unless the clusterer's `needs` asks for them.
    step
        The number t of the present step; the first is 1.
    last_step
        The step at which the last epoch began; 0 at the very first.
    n_met
        No observation from this one on was met; None if that is not known.
    """

    counts: Counts
    triples: Triples | None = None
    step: int = 1
    last_step: int = 0
    n_met: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, counts=Counts, triples=(Triples, None), step=how_many)
        check_fields(self, last_step=whole_number, n_met=(None, whole_number))


class Clusterer(Protocol):
    """What every clusterer looks like: it says which observations belong together.

    ``needs`` names what is read: ``"counts"``, ``"triples"``; nobody pays for triples that
    nobody wants.
    """

    @property
    def needs(self) -> frozenset[str]:
        """The parts of `Evidence` that are read."""
        ...

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Group the observations, given what was seen and the grouping so far."""
        ...


def group_counts(evidence: Evidence, grouping: Partition) -> Counts:
    """Return the pair counts of the groups, whether observations or groups were counted."""
    counts = evidence.counts
    if counts.n_observations == grouping.n_clusters:
        return counts
    _check_size("counts", counts.n_observations, grouping)
    return counts.group(grouping)


def group_triples(evidence: Evidence, grouping: Partition) -> Triples:
    """Return the triples of the groups, whether observations or groups were counted."""
    triples = evidence.triples
    if triples is None:
        raise InvalidInputError(
            "the evidence holds no triples, which spectral learning reads; count them, as an "
            'agent does for a clusterer whose needs name "triples"'
        )
    if triples.n_observations == grouping.n_clusters:
        return triples
    _check_size("triples", triples.n_observations, grouping)
    return triples.relabel(grouping)


def _check_size(what: str, size: int, grouping: Partition) -> None:
    if size != grouping.n_observations:
        raise InvalidInputError(
            f"the {what} have {size} observations, but the grouping so far has "
            f"{grouping.n_observations} observations in {grouping.n_clusters} groups; "
            "count either the observations or the groups"
        )


@dataclass(frozen=True)
class Singletons:
    """Every observation is a group of its own: UCRL2 and PSRL.

    Where there may be many more observations than were met so far, those whose numbers are far
    beyond have no group yet: thinking takes time in proportion to what was met.

    Parameters
    ----------
    met_only
        Whether observations have a group only from when they are met: where nobody knows how many
        there are, those to come are no states that a plan could count on.
    """

    met_only: bool = False
    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        flag(self.met_only, "met_only")

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return the identity, or as much of it as is needed now."""
        n_observations = size = previous.n_observations
        if evidence.n_met is not None:
            ahead = max(_AT_LEAST, 1 << (2 * evidence.n_met - 1).bit_length())
            size = min(n_observations, evidence.n_met if self.met_only else ahead)
        if previous.n_clusters == size and (previous.labels[:size] == np.arange(size)).all():
            return previous
        labels = np.arange(n_observations)
        labels[size:] = -1
        return Partition(labels)


@dataclass(frozen=True, init=False)
class Known:
    """The grouping is given: the oracle.

    Parameters
    ----------
    labels
        The group of every observation, such as ``world.labels``. An agent plans on all of them,
        whether they are ever met or not, and an optimist expects the best of those it has not met.
        Give -1 to numbers that never occur, such as the free places of a vocabulary.
    """

    partition: Partition
    needs = frozenset[str]()

    def __init__(self, labels: ArrayLike | Partition) -> None:
        given = labels if isinstance(labels, Partition) else Partition(labels)
        object.__setattr__(self, "partition", given)

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return what is known."""
        if self.partition.n_observations != previous.n_observations:
            raise InvalidInputError(
                f"the known grouping has {self.partition.n_observations} observations, the "
                f"world has {previous.n_observations}; pass the labels of this world"
            )
        return self.partition


@dataclass(frozen=True, init=False)
class Chain:
    """Several clusterers one after the other; each starts from the grouping before it.

    ``Chain(Spectral(), Overlap(5))`` is the paper's answer to the first question.
    """

    clusterers: tuple[Clusterer, ...]

    def __init__(self, *clusterers: Clusterer) -> None:
        if not clusterers:
            raise InvalidInputError("Chain() is empty; pass at least one clusterer")
        for number, clusterer in enumerate(clusterers):
            check(clusterer, f"clusterers[{number}]", "regroup")
        object.__setattr__(self, "clusterers", clusterers)

    @property
    def needs(self) -> frozenset[str]:
        """What any of them reads."""
        return frozenset().union(*(clusterer.needs for clusterer in self.clusterers))

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Apply them in order; triples follow the grouping that each step leaves.

        Triples of groups that come apart are lost, and what reads them is left out this time.
        """
        came_apart = False
        for clusterer in self.clusterers:
            if came_apart and "triples" in clusterer.needs:
                continue
            grouping = clusterer.regroup(evidence, previous, rng)
            if grouping != previous:
                came_apart |= not previous.refines(grouping)
                evidence = _in_groups(evidence, previous, grouping)
            previous = grouping
        return previous


@dataclass(frozen=True)
class Spaced:
    """A clusterer that is asked only when the steps have grown by a factor since it last was.

    It is also asked when observations without a group have been met often since: 50 times, and as
    often as a quarter of the number that have one. An agent that leaves the part of the world it
    knew would else act blindly for as long as it had stayed there.

    Parameters
    ----------
    clusterer
        Who is asked.
    growth
        It is asked at the first epoch after each power of ``growth``; larger than 1.
    early_growth
        The same until there are six steps for each observation, when every few visits more
        change the answer; None: ``growth`` at all times.
    or_states
        Whether every observation is a group of its own, from when it is met, as long as most
        observations and actions that were tried again were followed by what they were followed by
        before. Where a state has several observations, one follows now and another then. Where it
        has one, grouping finds nothing, and a state that was met a few times would join one that it
        resembles so far, and hide what was not tried yet.
    """

    clusterer: Clusterer
    growth: float = 1.25
    early_growth: float | None = None
    or_states: bool = False

    def __post_init__(self) -> None:
        check_fields(self, clusterer="regroup", or_states=flag)
        real_number(self.growth, "growth", 1, open_low=True)
        if self.early_growth is not None:
            real_number(self.early_growth, "early_growth", 1, open_low=True)

    @property
    def needs(self) -> frozenset[str]:
        """What the clusterer reads."""
        return self.clusterer.needs

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Ask the clusterer if it is due."""
        return finish(self.in_slices(evidence, previous, rng))

    def in_slices(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Slices[Partition]:
        """Do the same in slices if the clusterer can; only the first one reads the evidence."""
        due = self.is_due(evidence)
        if self.or_states and evidence.n_met is not None:
            are_states = previous.n_clusters > 0 and has_states_alone(previous)
            if due:
                moves = evidence.counts.transitions  # an end says nothing of what is shown
                are_states = MovePrior.learn(moves).certain > _MOST
            if are_states:
                return Singletons(met_only=True).regroup(evidence, previous, rng)
        if not (due or _is_blind(evidence, previous)):
            return previous
        in_slices = getattr(self.clusterer, "in_slices", None)
        if in_slices is None:
            return self.clusterer.regroup(evidence, previous, rng)
        found: Partition = yield from in_slices(evidence, previous, rng)
        return found

    def is_due(self, evidence: Evidence) -> bool:
        """Whether a power of ``growth`` lies between the start of the last epoch and now."""
        met = evidence.counts.n_observations if evidence.n_met is None else evidence.n_met
        early = evidence.step < _LITTLE_SEEN * met
        growth = self.early_growth if early and self.early_growth is not None else self.growth
        return _power(evidence.step, growth) != _power(evidence.last_step, growth)


def has_states_alone(grouping: Partition) -> bool:
    """Whether each of the first observations is a group of its own, and no other has one."""
    n = grouping.n_clusters
    return bool((grouping.labels[:n] == np.arange(n)).all() and (grouping.labels[n:] < 0).all())


def _is_blind(evidence: Evidence, grouping: Partition) -> bool:
    """Whether observations without a group have been met often."""
    counts = evidence.counts
    if counts.n_observations != grouping.n_observations:
        return False  # an agent that counts groups alone
    missing = grouping.labels[: evidence.n_met] < 0
    met = int(counts.visits[: evidence.n_met][missing].sum()) if missing.any() else 0
    return met >= max(_BLIND_VISITS, _BLIND_SHARE * np.count_nonzero(~missing))


def _power(step: int, growth: float) -> int:
    return math.floor(math.log(step) / math.log(growth)) if step > 0 else -1


def _in_groups(evidence: Evidence, previous: Partition, grouping: Partition) -> Evidence:
    """Rewrite what is in the groups of ``previous`` to those of a coarser grouping.

    That is the triples, and the counts of an agent that counts its groups alone.
    """
    if not previous.refines(grouping):
        return replace(evidence, triples=None)
    placed = previous.labels >= 0
    target = np.empty(previous.n_clusters, np.int64)  # the new group of every old one
    target[previous.labels[placed]] = grouping.labels[placed]
    counts, triples = evidence.counts, evidence.triples
    if counts.n_observations == previous.n_clusters < previous.n_observations:
        counts = counts.group(Partition(target))
    if triples is not None:
        triples = Triples(
            target[triples.previous],
            target[triples.middle],
            triples.action,
            target[triples.next],
            triples.count,
            n_observations=grouping.n_clusters,
            n_actions=triples.n_actions,
        )
    return replace(evidence, counts=counts, triples=triples)

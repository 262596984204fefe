"""What a clusterer is shown, and what every clusterer looks like."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples


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
    """

    counts: Counts
    triples: Triples | None = None
    step: int = 1
    last_step: int = 0


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

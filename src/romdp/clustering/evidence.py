"""What a clusterer is shown, and what every clusterer looks like."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

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

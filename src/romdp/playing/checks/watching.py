"""A clusterer and a planner that note how many counted steps they were given."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from romdp.agents.planners import Planner
from romdp.clustering.clusterer import Clusterer, Evidence
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.planning.backup import Plan


@dataclass
class Notes:
    """How many steps the clusterer was shown and the planner planned on."""

    shown: int = 0
    placed: int = 0
    planned: int = 0
    t: int = 0


@dataclass(frozen=True)
class WatchedClusterer:
    """A clusterer whose evidence is looked at."""

    clusterer: Clusterer
    notes: Notes = field(repr=False)

    @property
    def needs(self) -> frozenset[str]:
        """What the clusterer reads."""
        return self.clusterer.needs

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Note what is shown, and ask the clusterer."""
        visits = evidence.counts.visits.sum(axis=1)
        partition = self.clusterer.regroup(evidence, previous, rng)
        self.notes.shown = int(visits.sum())
        self.notes.placed = int(visits[partition.labels >= 0].sum())
        self.notes.planned, self.notes.t = 0, evidence.step  # without a group nobody plans
        return partition


@dataclass(frozen=True)
class WatchedPlanner:
    """A planner whose counts are looked at."""

    planner: Planner
    notes: Notes = field(repr=False)

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: NDArray[np.float64] | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Note what is planned on, and ask the planner."""
        self.notes.planned, self.notes.t = int(counts.visits.sum()), t
        return self.planner.plan(counts, t, rng, start, n_observations)

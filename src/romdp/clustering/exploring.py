"""Explore first, group when sure: the first phase of the two-phase agents."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from romdp.clustering.evidence import Evidence
from romdp.clustering.likelihood.clusterer import Likelihood, LikelihoodFit
from romdp.clustering.simple import Spaced
from romdp.core.validation import real_number
from romdp.data.counts import Counts
from romdp.data.partition import Partition


@dataclass(frozen=True)
class UntilSure:
    """No groups at all until the data leave no doubt about them; then those of a likelihood.

    An agent acts at random where observations have no group, so this explores first. It is
    sure when all three hold:

    - the expected number of misplaced observations is at most ``delta``;
    - every other number of groups that was tried scores worse by at least ``log(1 / delta)``;
    - the chance that the next observation is a new one is at most ``delta`` (Good and Turing:
      the share of observations that were met exactly once).

    Once sure, it groups again whenever the steps have grown, as `Spaced` does.

    Parameters
    ----------
    clusterer
        The likelihood that groups.
    delta
        The doubt that is allowed.
    growth
        How often it is asked; see `Spaced`.
    """

    clusterer: Likelihood = field(default_factory=Likelihood)
    delta: float = 0.05
    growth: float = 1.25
    needs = frozenset({"counts"})

    def __post_init__(self) -> None:
        real_number(self.delta, "delta", 0, 1, open_low=True, open_high=True)

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return no groups, or once sure the likelihood's."""
        nothing = Partition.unseen(previous.n_observations)
        if evidence.step <= 1:
            return nothing
        spaced = Spaced(self.clusterer, self.growth)
        if previous.n_clusters > 0:
            return spaced.regroup(evidence, previous, rng)
        if not spaced.is_due(evidence):
            return previous
        # What only the evidence bears out is never sure: do not spend time on it.
        fit = replace(self.clusterer, choose_by_evidence=False).fit(evidence.counts, rng)
        return fit.partition if self.is_sure(fit, evidence.counts) else nothing

    def is_sure(self, fit: LikelihoodFit, counts: Counts) -> bool:
        """Whether the data leave no doubt about a grouping."""
        found = fit.n_groups
        others = [score for size, score in fit.score_curve.items() if size != found]
        gap = fit.score_curve[found] - max(others, default=-math.inf)
        met_once = np.count_nonzero(counts.visits.sum(axis=1) == 1)
        return bool(
            np.nansum(1.0 - fit.certainty) <= self.delta
            and (gap >= math.log(1.0 / self.delta) or self.clusterer.n_states is not None)
            and met_once <= self.delta * counts.n_steps
        )

"""Explore first, group when sure: the first phase of the two-phase agents."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from romdp.clustering.clusterer import Clusterer, Evidence, Spaced
from romdp.clustering.homogeneity import JointTest
from romdp.clustering.likelihood.method import Likelihood, LikelihoodFit
from romdp.clustering.spectral import Spectral
from romdp.core.validation import check_fields, how_many, level, real_number, takes
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples


@dataclass(frozen=True)
class UntilSure:
    """No groups at all until the data leave no doubt about them; then those of a likelihood.

    An agent acts at random where observations have no group, so this explores first. It is
    sure when all three hold:

    - the expected number of misplaced observations is at most ``delta``;
    - every other number of groups that was tried scores worse by at least ``log(1 / delta)``;
    - the probability that the next observation is a new one is at most ``delta`` (Good and Turing:
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
        check_fields(self, clusterer=Likelihood, delta=level)
        real_number(self.growth, "growth", 1, open_low=True)

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
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
        return bool(
            np.nansum(1.0 - fit.certainty) <= self.delta
            and (gap >= math.log(1.0 / self.delta) or self.clusterer.n_states is not None)
            and _share_met_once(counts) <= self.delta
        )


@dataclass(frozen=True)
class UntilFound:
    """No groups at all until a clusterer finds all hidden states; then these, for good.

    The first phase of the paper's conjecture (``Aux:deter``) with the paper's own means: an agent
    acts at random where observations have no group, so this explores uniformly, and by default
    `Spectral` groups. Exploration is one policy, so all of its steps count. As observations are a
    Markov chain given the actions, triples are drawn from the pair counts: what came before an
    observation is independent of what comes after it.

    Each previous action has its triples, and what they show is put together. The law of what came
    before a hidden state mixes the transition matrices of all actions. Each may have full rank, as
    the paper assumes (``asm:expansive``), and their mixture not: then V_1 has too low a rank, and
    no number of triples shows the states. Given the previous action there is one matrix.

    Parameters
    ----------
    clusterer
        The clusterer that groups.
    n_states
        The number of hidden states, if known: a grouping with that many groups is taken. Without
        it a grouping is taken once all its groups are known to be different.
    delta
        The probability allowed for groups that pass as different although they are alike; and that
        the next observation is a new one, as for `UntilSure`.
    growth
        How often it is tried; see `Spaced`.
    """

    clusterer: Clusterer = field(default_factory=Spectral)
    n_states: int | None = None
    delta: float = 0.05
    growth: float = 1.25
    needs = frozenset({"counts"})

    def __post_init__(self) -> None:
        check_fields(self, clusterer="regroup", delta=level, n_states=(None, how_many))
        real_number(self.growth, "growth", 1, open_low=True)

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return no groups, or the hidden states once they are found."""
        nothing = Partition.unseen(previous.n_observations)
        if evidence.step <= 1:
            return nothing
        if previous.n_clusters > 0 or not Spaced(self.clusterer, self.growth).is_due(evidence):
            return previous
        counts = evidence.counts
        met = counts.visits.sum(axis=1) > 0
        found = Partition(np.where(met, np.arange(len(met)), -1))
        for before in range(counts.n_actions):
            seen = replace(evidence, triples=triples_of_pairs(counts, before, rng))
            found = self.clusterer.regroup(seen, found, rng)
        return found if self._is_complete(found, evidence) else nothing

    def _is_complete(self, found: Partition, evidence: Evidence) -> bool:
        if _share_met_once(evidence.counts) > self.delta:
            return False
        if self.n_states is not None:
            return found.n_clusters == self.n_states
        counts = evidence.counts.group(found)
        test = JointTest.at_step(counts, evidence.step, 1.0, self.delta)
        return test.count_states(np.arange(found.n_clusters))[0] == found.n_clusters


def _share_met_once(counts: Counts) -> float:
    """Return the probability that the next observation is a new one, by Good and Turing.

    One is counted for what is still to come, or two visits to one observation would be enough.
    """
    met_once = 1 + np.count_nonzero(counts.visits.sum(axis=1) == 1)
    return float(met_once / max(counts.n_steps, 1))


def triples_of_pairs(counts: Counts, before: int, rng: np.random.Generator) -> Triples:
    """Draw triples whose pairs are those that were counted.

    Each step from y keeps where it led, and is given one of those that led to y by the action
    ``before``.
    """
    entries = counts.matrix().tocoo()
    pairs, following = (np.repeat(side, entries.data) for side in entries.coords)
    middle, action = np.divmod(pairs, counts.n_actions)
    previous = np.full(len(middle), -1, np.int64)
    leads = action == before
    for y in range(counts.n_observations):
        own = middle[leads & (following == y)]
        if len(own):
            here = middle == y
            previous[here] = rng.choice(own, int(here.sum()))
    known = previous >= 0
    return Triples(
        previous[known],
        middle[known],
        action[known],
        following[known],
        np.ones(int(known.sum()), np.int64),
        n_observations=counts.n_observations,
        n_actions=counts.n_actions,
    )

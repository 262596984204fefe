"""What to do, given the counts on the groups? Optimism, or a draw from the posterior."""

from dataclasses import dataclass, field, replace
from math import log
from typing import Literal, Protocol

import numpy as np
import scipy.sparse

from romdp.core.arrays import Floats, Ints
from romdp.core.validation import (
    LARGEST_WEIGHT,
    SMALLEST,
    check_fields,
    choice,
    how_many,
    level,
    real_number,
    takes,
)
from romdp.data.counts import Counts
from romdp.exact.objectives import AVERAGE, Objective, ObjectiveLike, parse_optional
from romdp.planning import MAX_SWEEPS, Plan, value_iteration
from romdp.planning.belief import Belief
from romdp.planning.confidence import ConfidenceSet, Hoeffding
from romdp.planning.iteration import outcomes, precision_at
from romdp.planning.priors import MovePrior, RewardPrior
from romdp.planning.promises import promising_plan
from romdp.planning.rows import SparseRows, discounted_iteration
from romdp.planning.sampling import counted_share

_FINE = 0.1  # rewards of many sizes: the small ones, such as the cost of a step, matter too
_SWEEPS = 100  # of a plan in a world drawn from a learned prior; else and one for each group
_LARGE = 2**15  # entries of transitions from which their density is looked at
THIN = 0.1  # share of them below which sparse rows are faster


class Planner(Protocol):
    """What every planner looks like."""

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: Floats | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Plan on the groups at step ``t`` (the first is 1).

        ``start`` holds the values of the last plan, ``n_observations`` the number of
        observations behind the groups.
        """
        ...


@dataclass(frozen=True)
class Optimism:
    """Act as if the world were the best one that the counts allow.

    Parameters
    ----------
    confidence
        The set of worlds that the counts allow: `Hoeffding`, `Bernstein` or `TimeUniform`.
    delta
        The probability that the truth lies outside.
    objective
        What is good: ``"average"``, ``"episodic"``, ``"episodic:H"`` or a discount; see
        `Objective`. None leaves it to the place where the agent plays.
    """

    confidence: ConfidenceSet = field(default_factory=Hoeffding)
    delta: float = 0.05
    objective: ObjectiveLike | None = None

    def __post_init__(self) -> None:
        check_fields(self, confidence="plan", delta=level)
        object.__setattr__(self, "objective", parse_optional(self.objective))

    @takes(counts=Counts, t=how_many, rng=np.random.Generator)
    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: Floats | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Return the optimistic plan; nothing is drawn."""
        goal = goal_of(self)
        if goal.is_average:  # sets of one's own need to know nothing else
            return self.confidence.plan(
                counts, t, self.delta, start=start, n_observations=n_observations
            )
        return self.confidence.plan(
            counts, t, self.delta, start=start, n_observations=n_observations, objective=goal
        )


@dataclass(frozen=True)
class Posterior:
    """Draw one world from the posterior and solve it (Thompson sampling, PSRL).

    A pair's transition law has a Dirichlet prior of total weight ``prior``, shared evenly by
    the groups. By default it is learned which share of the pairs is certain, which weight the
    others have, and what pairs pay, which may then be any numbers (`romdp.planning.priors`).

    The fixed priors are for rewards in [0, 1]: with ``rewards="beta"`` a mean reward has the prior
    Beta(1, 1), which counts a reward r as r of a success; with ``rewards="normal"`` it has the
    prior N(1/2, 1/4) and samples of variance 1/4, the largest that rewards in [0, 1] can have.

    Parameters
    ----------
    prior
        Total weight of the Dirichlet prior of each pair; None: learned.
    rewards
        ``"beta"`` or ``"normal"``; None: learned.
    objective
        What is good; see `Optimism`.
    floor
        A pair that was tried n times, less than ``m = floor * log(t)`` by step t, counts with
        ``n^2 / m`` tries instead of n. 0: every pair counts in full.

    Notes
    -----
    The floor is for the tail. Without it about one run in a hundred loses ten times the median: the
    best action of a state fails in its first few tries, the posterior is then as good as certain
    that it is bad, and it is drawn again only after very many epochs. With the floor this is
    corrected after a few more tries. Where the prior weighs less than one try, because transitions
    or rewards are seen to be certain, m is lower by that factor: nothing is tried again in vain.

    The sampled world is solved to the precision ``min(0.01, 1 / sqrt(t))``. A draw takes time
    linear in the number of transitions seen: a Dirichlet law of prior plus counts is a mixture
    of one on the transitions seen and one of the prior alone, and the latter is drawn stick by
    stick until less than 1e-6 of the mass is left.

    With learned priors, and where rewards add up without a horizon, as in episodes, a pair that was
    never tried is not drawn. It promises nearly as much as the best that is known, and more than
    that while nothing that is known is worth looking for (`romdp.planning.promises`). This opens
    combination locks and crosses deep seas, where a drawn transition to anywhere promises more than
    anybody has ever earned, or nothing at all.
    """

    prior: float | None = None
    rewards: Literal["beta", "normal"] | None = None
    objective: ObjectiveLike | None = None
    floor: float = 1.0

    def __post_init__(self) -> None:
        if self.prior is not None:
            real_number(self.prior, "prior", SMALLEST, LARGEST_WEIGHT)
        real_number(self.floor, "floor", 0, LARGEST_WEIGHT)
        if self.rewards is not None:
            choice(self.rewards, "rewards", ("beta", "normal"))
        object.__setattr__(self, "objective", parse_optional(self.objective))

    @takes(counts=Counts, t=how_many, rng=np.random.Generator)
    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: Floats | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Draw a world and return its best plan."""
        goal = goal_of(self)
        precision = min(0.01, precision_at(t, goal))
        prior = RewardPrior.learn(counts, goal.zero_reward) if self.rewards is None else None
        unit = 1.0 if prior is None else counts.reward_unit
        if unit != 1.0:
            zero = goal.zero_reward / unit
            scaled = replace(self, objective=replace(goal, zero_reward=zero))
            begin = None if start is None else start / unit
            plan = scaled.plan(counts.in_units(unit), t, rng, begin, n_observations)
            more = {name: unit * getattr(plan, name) for name in ("gain", "span", "values", "gap")}
            return replace(plan, **more)
        promises = not goal.is_average and goal.horizon is None
        promises = promises and self.prior is None and prior is not None and counts.n_steps > 0
        belief = self._believe(counts.sparse() if promises else counts, prior)
        moves, laws = belief.outcomes, belief.draw_laws(rng, self.floor * log(t))
        rewards = self.draw_rewards(counts, rng, t, prior)
        if prior is not None:
            precision *= prior.scale if prior.binary else _FINE * prior.scale
            if promises:
                means = prior.means(counts)
                return promising_plan(
                    counts, moves, laws, rewards, means, precision, goal, start, rng
                )
        # Worlds that hardly surprise are drawn with parts that cannot reach each other. They have
        # no single gain, and what is left to find the next plan goes on with.
        most = _SWEEPS + counts.n_observations if self.prior is None else MAX_SWEEPS
        quick = self.prior is None or not goal.is_average
        if isinstance(laws, SparseRows) and quick and goal.horizon is None:
            return discounted_iteration(
                laws, rewards, precision, goal, start=start, max_sweeps=_SWEEPS
            )
        return value_iteration(
            laws.to_scipy(moves.shape[-1]) if isinstance(laws, SparseRows) else laws,
            rewards,
            precision,
            start=start,
            max_sweeps=most,
            objective=goal,
        )

    @property
    def takes_any_reward(self) -> bool:
        """Whether rewards need not lie in [0, 1]."""
        return self.rewards is None

    def mean_rewards(self, counts: Counts) -> Floats:
        """Return the expected mean reward of every pair."""
        if self.rewards:
            return counts.reward_means
        unit = counts.reward_unit
        return unit * self._believe(counts.in_units(unit)).mean_rewards()

    def prior_weights(self, counts: Counts) -> Floats:
        """Return the weight of the prior of the transitions of every pair, one after the other."""
        return self._believe(counts).mean_weights()

    def draw_transitions(
        self, counts: Counts, rng: np.random.Generator, t: int = 1
    ) -> "Floats | scipy.sparse.csr_array[np.float64, tuple[int, int]]":
        """Draw a transition law for every pair: an array, or sparse where few were seen."""
        belief = self._believe(counts)
        laws = belief.draw_laws(rng, self.floor * log(t))
        return laws.to_scipy(belief.outcomes.shape[-1]) if isinstance(laws, SparseRows) else laws

    def _believe(self, counts: Counts, rewards: RewardPrior | None = None) -> Belief:
        """Return what is believed; outcomes are sparse rows where that is faster."""
        transitions, goal = counts.transitions, goal_of(self)
        dense = isinstance(transitions, np.ndarray) and not _is_thin(transitions)
        return Belief.of(
            counts,
            outcomes(counts if dense else counts.sparse(), goal),
            zero_reward=goal.zero_reward,
            moves=None if self.prior is None else MovePrior(0.0, self.prior),
            rewards=rewards,
        )

    def draw_rewards(
        self, counts: Counts, rng: np.random.Generator, t: int = 1, prior: RewardPrior | None = None
    ) -> Floats:
        """Draw a mean reward for every pair, from a prior that is learned if none is given."""
        if prior is None and self.rewards is None:
            prior = RewardPrior.learn(counts, goal_of(self).zero_reward)
        floor = self.floor * log(t)
        if prior is not None:
            drawn = prior.draw(counts, rng, floor=floor)
            # While nothing is at stake, what was tried less is better.
            idle = prior.constant and not counts.has_ends
            return drawn + idle * prior.scale / (1.0 + counts.visits)
        share = counted_share(counts.visits, floor)
        visits = share * counts.visits
        sums = share * np.clip(counts.reward_sums, 0.0, counts.visits)
        if self.rewards == "beta":
            return rng.beta(1.0 + sums, 1.0 + visits - sums)
        return rng.normal((0.5 + sums) / (1.0 + visits), 0.5 / np.sqrt(1.0 + visits))


def goal_of(planner: object) -> Objective:
    """Return the objective of a planner: the average if it has none."""
    goal: Objective | None = getattr(planner, "objective", None)
    return AVERAGE if goal is None else goal


def _is_thin(transitions: Ints) -> bool:
    """Whether so few transitions of a large array were seen that sparse rows are faster."""
    size = transitions.size
    return size > _LARGE and int(np.count_nonzero(transitions)) < THIN * size

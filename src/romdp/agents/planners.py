"""What to do, given the counts on the groups? Optimism, or a draw from the posterior."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.validation import choice, real_number
from romdp.data.counts import Counts
from romdp.exact.objectives import AVERAGE, Objective, ObjectiveLike, parse_optional
from romdp.planning import Plan, value_iteration
from romdp.planning.confidence import ConfidenceSet, Hoeffding
from romdp.planning.iteration import outcomes, precision_at
from romdp.planning.sampling import draw_dense, draw_sparse

_LARGE = 2**15  # entries of transitions from which their density is looked at
_THIN = 0.1  # share of them below which sparse rows are faster


class Planner(Protocol):
    """What every planner looks like."""

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: NDArray[np.float64] | None = None,
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
        The chance that the truth may lie outside.
    objective
        What is good: ``"average"``, ``"episodic"``, ``"episodic:H"`` or a discount; see
        `Objective`. None leaves it to the place where the agent plays.
    """

    confidence: ConfidenceSet = field(default_factory=Hoeffding)
    delta: float = 0.05
    objective: ObjectiveLike | None = None

    def __post_init__(self) -> None:
        real_number(self.delta, "delta", 0, 1, open_low=True, open_high=True)
        object.__setattr__(self, "objective", parse_optional(self.objective))

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: NDArray[np.float64] | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Return the optimistic plan; no chance is involved."""
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
    the groups. Its mean reward has the prior Beta(1, 1), which counts a reward r in [0, 1] as r
    of a success; or, with ``rewards="normal"``, the prior N(1/2, 1/4) and samples of variance
    1/4, the largest that rewards in [0, 1] can have.

    Parameters
    ----------
    prior
        Total weight of the Dirichlet prior of each pair.
    rewards
        ``"beta"`` or ``"normal"``.
    objective
        What is good; see `Optimism`.

    Notes
    -----
    The sampled world is solved to the precision ``min(0.01, 1 / sqrt(t))``. A draw takes time
    linear in the number of transitions seen: a Dirichlet law of prior plus counts is a mixture
    of one on the transitions seen and one of the prior alone, and the latter is drawn stick by
    stick until less than 1e-6 of the mass is left.
    """

    prior: float = 1.0
    rewards: Literal["beta", "normal"] = "beta"
    objective: ObjectiveLike | None = None

    def __post_init__(self) -> None:
        real_number(self.prior, "prior", 0, open_low=True)
        choice(self.rewards, "rewards", ("beta", "normal"))
        object.__setattr__(self, "objective", parse_optional(self.objective))

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: NDArray[np.float64] | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Draw a world and return its best plan."""
        goal = goal_of(self)
        return value_iteration(
            self.draw_transitions(counts, rng),
            self.draw_rewards(counts, rng),
            min(0.01, precision_at(t, goal)),
            start=start,
            objective=goal,
        )

    def draw_transitions(
        self, counts: Counts, rng: np.random.Generator
    ) -> "NDArray[np.float64] | scipy.sparse.csr_array[np.float64, tuple[int, int]]":
        """Draw a transition law for every pair: an array, or sparse where few were seen."""
        transitions = counts.transitions
        if isinstance(transitions, np.ndarray) and not _is_thin(transitions):
            return draw_dense(outcomes(counts, goal_of(self)), self.prior, rng)
        return draw_sparse(outcomes(counts.sparse(), goal_of(self)), self.prior, rng)

    def draw_rewards(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a mean reward for every pair."""
        visits, sums = counts.visits, np.clip(counts.reward_sums, 0.0, counts.visits)
        if self.rewards == "beta":
            return rng.beta(1.0 + sums, 1.0 + visits - sums)
        return rng.normal((0.5 + sums) / (1.0 + visits), 0.5 / np.sqrt(1.0 + visits))


def goal_of(planner: object) -> Objective:
    """Return the objective of a planner: the average if it has none."""
    goal: Objective | None = getattr(planner, "objective", None)
    return AVERAGE if goal is None else goal


def _is_thin(transitions: NDArray[np.int64]) -> bool:
    """Whether so few transitions of a large array were seen that sparse rows are faster."""
    size = transitions.size
    return size > _LARGE and int(np.count_nonzero(transitions)) < _THIN * size

"""What a run leaves behind: the plan that follows from what was learned, and the model itself."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from romdp.core.errors import MisuseError
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.encoding.observations import Numbering, Numbers, ObservationEncoder
from romdp.exact.objectives import Objective
from romdp.playing.policy import Ints, Policy

if TYPE_CHECKING:
    from romdp.logs.model.latent import LatentModel


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned up to a step; what the agent does later changes nothing of it.

    Attributes
    ----------
    policy
        The plan.
    counts
        Counts of the hidden states, rewards scaled to [0, 1]; None for baselines, which count
        nothing.
    visits
        How often each code was acted on.
    reward_range
        The rewards that stand for 0 and 1.
    goal
        What the plan is best for.
    n_steps
        Steps so far.
    """

    policy: Policy
    counts: Counts | None
    visits: Ints
    reward_range: tuple[float, float]
    goal: Objective
    n_steps: int

    @cached_property
    def model(self) -> "LatentModel":
        """The model, as `romdp.fit` would return it."""
        from romdp.logs.model.latent import LatentModel

        policy = self.policy
        if not policy.n_states:
            raise MisuseError("nothing was learned yet, so there is no model: play on")
        if self.counts is None:
            raise MisuseError(
                f"{policy.agent} counts nothing, so that it leaves a policy and no model"
            )
        size = int(np.flatnonzero((policy.labels >= 0) | (self.visits > 0))[-1]) + 1
        unknown = freeze(np.full(size, np.nan))
        objective: str | float = self.goal.kind
        if self.goal.discount is not None:
            objective = self.goal.discount
        return LatentModel(
            partition=Partition(policy.labels[:size]),
            observation_names=tuple(map(policy.observations.plain_name, range(size))),
            action_names=tuple(map(policy.actions.plain_name, range(policy.actions.size))),
            counts=self.counts,
            visits=freeze(self.visits[:size]),
            reward_range=self.reward_range,
            log_odds=unknown,
            certainty=unknown,
            method=policy.agent,
            n_rows=self.n_steps,
            n_episodes=int(self.counts.starts.sum()),
            objective=objective,
            encoder=policy.observations,
            plan=policy.plan[0],
        )


def learned_by(
    state: Any,
    observations: ObservationEncoder,
    actions: Numbering | Numbers,
    agent: str,
    reward_range: tuple[float, float] | None = (0.0, 1.0),
    seen: tuple[float, float] = (0.0, 1.0),
) -> Learned:
    """Take away what an agent's state has learned.

    Parameters
    ----------
    state
        The life of the agent.
    observations, actions
        What stands for the codes and numbers that it knows.
    agent
        What it is called.
    reward_range
        The rewards that its counts hold as 0 and 1; None if they hold them as they are.
    seen
        The smallest and the largest reward so far; needed where there is no range.
    """
    plan, counts, labels = state.best_plan(), state.group_counts(), state.partition.labels
    known = np.ones(len(plan.values), np.bool_)
    weights = np.bincount(labels[labels >= 0], minlength=known.size)
    if counts is not None and known.size:
        weights = counts.visits.sum(axis=1)
        known = weights > 0  # a state where nothing was done is not known
    numbers = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
    labels, rows = numbers[labels], np.atleast_2d(plan.policy)[:, known]
    low, high = reward_range or (0.0, 1.0)
    default = int(np.bincount(rows[0], weights[known]).argmax()) if known.any() else 0
    policy = Policy(
        plan=freeze(rows),
        state_values=freeze(plan.values[known] * (high - low)),
        labels=freeze(labels),
        default=default,
        agent=agent,
        objective=str(state.goal),
        observations=observations.snapshot(),
        actions=actions,
    )
    visits = np.zeros(labels.size, np.int64)
    if counts is not None:
        if known.any():
            counts = counts.group(Partition(numbers[:-1])).copy()
        if reward_range is None:
            counts = _scaled(counts, *seen)
        if state.recorder.n_visited is not None:
            visits = state.recorder.visits.reshape(labels.size, -1).sum(axis=1)
    return Learned(policy, counts, visits, reward_range or seen, state.goal, state.step)


def _scaled(counts: Counts, low: float, high: float) -> Counts:
    """Rescale rewards from [low, high] to [0, 1]."""
    span = high - low if high > low else 1.0
    visits, sums = counts.visits, counts.reward_sums
    squares = counts.reward_squares - 2 * low * sums + low**2 * visits
    return Counts.from_parts(
        visits,
        counts.transitions,
        np.clip((sums - low * visits) / span, 0.0, visits),
        np.clip(squares / span**2, 0.0, visits),
        counts.ends,
        counts.starts,
    )

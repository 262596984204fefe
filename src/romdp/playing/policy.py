"""A policy to take away: what to do by the mean of what was learned, without exploring."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import AgentState
from romdp.core.formats import Stored
from romdp.core.storage import read_arrays, reading, write_arrays
from romdp.core.text import html_table
from romdp.core.validation import freeze, whole_number
from romdp.playing.encoders import Numbering, Numbers, ObservationEncoder, encoder_from

_KIND, _VERSION = "policy", 1
_MOST_ACTIONS = 20  # in a notebook


@dataclass(frozen=True, eq=False)
class Policy:
    """What to do at every observation; it learns nothing any more.

    `Run.policy` and `Online.policy` make one, and `romdp.load_policy` reads one. It takes the
    environment's own observations and returns its actions. It answers for every observation of
    the environment, and always alike: where an observation was never met, with the action that is
    best most often. Under an episodic objective with a horizon, and where vectors do not show the
    step of the episode although it matters, what is best depends on that step as well:
    ``policy.act(observation, step)``. `depends_on_step` says whether it does.

    Attributes
    ----------
    table
        The number of the action at every observation that has a code; shape (n_observations,).
    values
        What is expected from each of them on, under the objective: relative to the worst one for
        the average reward, else the (discounted) sum of rewards. NaN where an observation was
        never met.
    default
        The number of the action where an observation was never met.
    agent, objective
        Who learned it, and what it is the best plan for: the average reward as long as no episode
        has terminated.
    stages
        Under an episodic objective with a horizon: the number of the action at each step of the
        episode (rows) in each group of observations (columns). ``table`` and ``values`` are then
        those of its first step. Else empty.
    groups
        The group of each observation, -1 for none; empty if ``stages`` is.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    >>> policy = romdp.play(romdp.LCPSRL(), world, steps=10_000, seed=0).policy
    >>> best = world.hidden.optimal_policy[world.labels]
    >>> [policy.act(y) for y in range(9)] == best.tolist()
    True
    >>> policy.probabilities(0).tolist()
    [0.0, 1.0]
    """

    table: NDArray[np.int64] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    default: int
    agent: str
    objective: str
    _observations: ObservationEncoder = field(repr=False)
    _actions: Numbering | Numbers = field(repr=False)
    stages: NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, 0), np.int64), repr=False
    )
    groups: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)

    def act(self, observation: Any, step: int = 0) -> Any:
        """Return the action for an observation, both as the environment has them.

        Parameters
        ----------
        observation
            What is seen.
        step
            How many steps of the episode are over, where it matters: under a horizon (beyond the
            last step, the action of the last one is returned), or where codes depend on it.
        """
        return self._actions.decode(self._number(observation, step))

    @property
    def depends_on_step(self) -> bool:
        """Whether what is best depends on the step of the episode, so that `act` needs it."""
        return self.stages.size > 0 or self._observations.depends_on_step

    @property
    def reads_vectors(self) -> bool:
        """Whether observations are vectors or pictures, so that codes stand for many of them."""
        return self._observations.learns

    def probabilities(self, observation: Any, step: int = 0) -> NDArray[np.float64]:
        """Return the probability of each action, by its number: one of them has it all."""
        chances = np.zeros(self._actions.size)
        chances[self._number(observation, step)] = 1.0
        return chances

    def _repr_html_(self) -> str:
        met = np.isfinite(self.values)
        chosen, times = np.unique(self.table[met], return_counts=True)
        order = np.argsort(-times, kind="stable")[:_MOST_ACTIONS]
        rows = [(self._actions.decode(int(chosen[i])), f"{times[i]:,}") for i in order]
        more = chosen.size - order.size
        return html_table(
            f"Policy of {self.agent} (objective: {self.objective})",
            rows,
            ("action", "observations met where it is best"),
            [
                *([f"... and {more} more actions"] if more > 0 else []),
                f"at any other observation: {self._actions.decode(self.default)}",
            ],
        )

    def action_of(self, code: int) -> Any:
        """Return the action for the code of an observation."""
        return self._actions.decode(int(self.table[code]))

    def name_of(self, code: int) -> str:
        """Return the observation that has a code, as text."""
        return self._observations.name(code)

    def example_of(self, code: int) -> NDArray[Any] | None:
        """Return a typical vector of a code; None for codes whose name says what they are."""
        return self._observations.example(code)

    def _number(self, observation: Any, step: int = 0) -> int:
        step = whole_number(step, "step", 0)
        code = self._observations.find(observation, step)
        if code < 0:
            return self.default
        if self.stages.size and self.groups[code] >= 0:
            return int(self.stages[min(step, len(self.stages) - 1), self.groups[code]])
        return int(self.table[code])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to exactly this file, completely or not at all."""
        facts = {
            "agent": self.agent,
            "objective": self.objective,
            "observations": self._observations.to_dict(),
            "actions": self._actions.to_dict(),
        }
        arrays = {
            "table": self.table,
            "values": self.values,
            "default": np.array(self.default, np.int64),
            **{f"codes_{name}": array for name, array in self._observations.arrays().items()},
        }
        if self.stages.size:
            arrays |= {"stages": self.stages, "groups": self.groups}
        write_arrays(path, _KIND, _VERSION, arrays, facts)


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy that `Policy.save` wrote; a damaged or foreign file is a `StorageError`."""
    arrays, facts = read_arrays(path, _KIND, _VERSION)
    stored = Stored(arrays, "the policy")
    with reading(path):
        observations = encoder_from(facts["observations"], "observation")
        observations.restore(stored.part("codes_"))
        actions = encoder_from(facts["actions"], "action")
        most = actions.size - 1
        table = stored.whole("table", (observations.size,), 0, most)
        values = stored.take("values", (observations.size,), np.float64)
        default = stored.number("default", 0, most)
        staged = {}
        if "stages" in arrays:
            stages = stored.whole("stages", (None, None), 0, most)
            groups = stored.whole("groups", (observations.size,), -1, stages.shape[1] - 1)
            staged = {"stages": freeze(stages), "groups": freeze(groups)}
        stored.finish()
        return Policy(
            freeze(table),
            freeze(values),
            default,
            facts["agent"],
            facts["objective"],
            observations,
            actions,  # names are observations only
            **staged,
        )


def policy_of(
    state: AgentState,
    observations: ObservationEncoder,
    actions: Numbering | Numbers,
    agent: str,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """Make the policy of an agent's state: the plan on its groups, spelled out.

    Values are scaled back from [0, 1] to the rewards of the environment.
    """
    recorder, labels = state.recorder, state.partition.labels
    visits = recorder.visits.reshape(-1, recorder.n_actions).sum(axis=1)
    met = labels >= 0
    if visits.size == labels.size:  # an agent may count its groups alone
        met &= visits > 0
    table, values, default = np.zeros(labels.size, np.int64), np.full(labels.size, np.nan), 0
    staged = {}
    if met.any():
        plan = state.best_plan()
        if plan.policy.ndim == 2:
            staged = {"stages": plan.policy, "groups": freeze(np.where(met, labels, -1))}
        policy = plan.policy if plan.policy.ndim == 1 else plan.policy[0]
        chosen = policy[labels[met]]
        weights = visits[met] if visits.size == labels.size else None
        default = int(np.bincount(chosen, weights).argmax())
        low, high = reward_range
        table[met], values[met] = chosen, plan.values[labels[met]] * (high - low)
    table[~met] = default
    objective, observations = str(state.goal), observations.snapshot()
    return Policy(
        freeze(table), freeze(values), default, agent, objective, observations, actions, **staged
    )

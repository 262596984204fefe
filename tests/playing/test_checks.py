"""check_agent passes what romdp ships and catches agents that break a rule."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import romdp
from romdp.agents.agent import Agent, AgentState
from romdp.core.errors import InvalidInputError, ROMDPError
from romdp.planning import Plan
from romdp.playing.checks import CheckError, check_agent
from romdp.worlds import random_romdp

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=5)


@pytest.mark.parametrize(
    ("agent", "world"),
    [
        (romdp.UCRL2(), None),
        (romdp.UCRL2(romdp.Bernstein(scale=0.1)), WORLD),
        (romdp.PSRL(), None),
        (romdp.PSRL(rewards="normal"), WORLD),
        (romdp.Oracle(WORLD.labels), WORLD),
        (romdp.Oracle(WORLD.labels, planner="posterior"), WORLD),
    ],
    ids=["ucrl2", "bernstein", "psrl", "normal", "oracle", "oracle-psrl"],
)
def test_what_romdp_ships_passes(agent, world):
    check_agent(agent, world, steps=120)


@dataclass(frozen=True)
class Coarsens:
    """Nine groups, later three; in other worlds every observation stays its own group."""

    needs = frozenset()

    def regroup(self, evidence, previous, rng):
        return romdp.Partition(WORLD.labels) if evidence.step > 30 else previous


@pytest.mark.parametrize("counting", ["pooled", "paper"])
def test_agents_that_regroup_and_forget_pass(counting):
    agent = Agent(Coarsens(), romdp.Posterior(), romdp.Doubling(grow=1), counting)
    check_agent(agent, WORLD, steps=60)


@dataclass(frozen=True)
class Unsure:
    """Leaves most observations without a group, at first all."""

    needs = frozenset()

    def regroup(self, evidence, previous, rng):
        labels = np.full(previous.n_observations, -1)
        labels[: evidence.step // 20] = 0
        return romdp.Partition(labels)


def test_observations_without_a_group_are_no_obstacle():
    check_agent(Agent(Unsure(), romdp.Posterior(), romdp.Doubling(grow=1)), WORLD, steps=60)


def test_an_mdp_is_a_world():
    check_agent(romdp.PSRL(), romdp.worlds.random_mdp(n_states=4, n_actions=2, seed=0), steps=30)


@dataclass(frozen=True)
class FixedPlan:
    """Choose the same action everywhere."""

    action: int = 0

    def plan(self, counts, t, rng, start=None, n_observations=None):
        size = counts.n_observations
        return Plan(np.full(size, self.action), 0.5, 0.0, 1, np.zeros(size), True, 0.0)


@dataclass(frozen=True)
class GlobalDice(FixedPlan):
    def plan(self, counts, t, rng, start=None, n_observations=None):
        chosen = np.random.randint(counts.n_actions)  # noqa: NPY002 - that is the mistake
        return FixedPlan(chosen).plan(counts, t, rng)


@dataclass(frozen=True)
class ReseededDice(FixedPlan):
    """The runs are equal, but every other user of the global generator suffers."""

    def plan(self, counts, t, rng, start=None, n_observations=None):
        np.random.seed(t)  # noqa: NPY002 - that is the mistake
        return super().plan(counts, t, rng)


@dataclass(frozen=True)
class Remembers(FixedPlan):
    """Keeps something between plays that its fields do not tell."""

    seen: list = field(default_factory=list, repr=False, compare=False)

    def plan(self, counts, t, rng, start=None, n_observations=None):
        self.seen.append(t)
        return FixedPlan(len(self.seen) % counts.n_actions).plan(counts, t, rng)


class Fails(FixedPlan):
    def plan(self, counts, t, rng, start=None, n_observations=None):
        raise ZeroDivisionError("no plan")


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (GlobalDice(), "global generator|same seed|disagree"),
        (ReseededDice(), "global generator"),
        (Remembers(), "disagree|same seed|touch each other|changed the agent"),
        (FixedPlan(7), r"plan\(\) of FixedPlan returned .* a Plan of 9 groups and 2 actions"),
        (Fails(), "it raised ZeroDivisionError: no plan"),
    ],
    ids=["global", "reseeds", "remembers", "out-of-range", "fails"],
)
def test_a_broken_planner_is_caught(planner, message):
    state = np.random.get_state()  # noqa: NPY002 - to put it back
    try:
        with pytest.raises(CheckError, match=message):
            check_agent(Agent(planner=planner, name="broken"), steps=60)
    finally:
        np.random.set_state(state)  # noqa: NPY002


@dataclass(frozen=True)
class WithState(Agent):
    """An agent whose lives are of another kind."""

    kind: type = AgentState

    def start(self, n_observations, n_actions, seed=0):
        return self.kind(self, n_observations, n_actions, seed)


class SharedCounts(AgentState):
    shared = {}  # noqa: RUF012 - that is the mistake

    def __init__(self, agent, n_observations, n_actions, seed):
        super().__init__(agent, n_observations, n_actions, seed)
        self.recorder = self.shared.setdefault((n_observations, n_actions), self.recorder)


class LaggingCounts(AgentState):
    """Plans on what was known when the last epoch began."""

    known = None

    def think(self):
        now = self.recorder
        cls = type(now)
        copy = cls.from_arrays(now.n_observations, now.n_actions, now.arrays())
        self.recorder = self.known or cls(now.n_observations, now.n_actions)
        super().think()
        self.known, self.recorder = copy, now


class ForgetsBudget(AgentState):
    @classmethod
    def from_arrays(cls, agent, n_observations, n_actions, seed, arrays):
        state = super().from_arrays(agent, n_observations, n_actions, seed, arrays)
        state.budget.visits += 1
        return state


class ForgetsLastStart(AgentState):
    """Loses what its arrays never held: the length of the epochs so far steers its actions."""

    thoughts = 0

    def think(self):
        super().think()
        self.thoughts += 1
        self.table[:] = self.thoughts % self.recorder.n_actions
        self.budget.cells = self.partition.labels * self.recorder.n_actions + self.table


class SkipsALearntStep(AgentState):
    """Counts differently in the loop of one's own and in the compiled one."""

    def learn(self, observation, action, reward, next_observation):
        super().learn(observation, action, 0.0, next_observation)


class IgnoresTheSeed(AgentState):
    """Allowed: not every agent needs chance."""

    def __init__(self, agent, n_observations, n_actions, seed):
        super().__init__(agent, n_observations, n_actions, 0)


class Miscounts(AgentState):
    def think(self):
        super().think()
        self.recorder.visits[0] += 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SharedCounts, "disagree"),
        (LaggingCounts, "grouped on .* counted steps"),
        (ForgetsBudget, "does not give back .*budget"),
        (ForgetsLastStart, "table differ|table, .* differ|cut"),
        (SkipsALearntStep, "disagree: .*reward_sums"),
        (Miscounts, "visits"),
    ],
)
def test_a_broken_state_is_caught(kind, message):
    SharedCounts.shared.clear()
    agent = WithState(planner=romdp.Posterior(), name="broken", kind=kind)
    with pytest.raises(CheckError, match=message):
        check_agent(agent, WORLD, steps=60)


@pytest.mark.parametrize("kind", [AgentState, IgnoresTheSeed])
def test_states_of_another_kind_are_welcome(kind):
    check_agent(WithState(name="own", kind=kind), WORLD, steps=40)


class Wrapped:
    """An agent that is no dataclass: only `start` and `name` are asked for."""

    def __init__(self, agent):
        self.agent, self.name = agent, "wrapped"

    def start(self, n_observations, n_actions, seed=0):
        return self.agent.start(n_observations, n_actions, seed)

    def __repr__(self):
        return f"Wrapped({self.agent})"


def test_an_agent_of_any_kind_is_welcome():
    check_agent(Wrapped(romdp.PSRL()), WORLD, steps=40)


def test_the_message_says_where_and_how_to_pass_a_world():
    with pytest.raises(
        CheckError, match=r"'oracle' in a random world \(25 steps, seed 3\).*world="
    ):
        check_agent(romdp.Oracle([0, 1]), steps=25, seed=3)
    assert issubclass(CheckError, ROMDPError)
    assert issubclass(CheckError, AssertionError)


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(InvalidInputError, match=r"did you mean romdp\.UCRL2"):
        check_agent("ucrl2")
    with pytest.raises(InvalidInputError, match="steps"):
        check_agent(romdp.UCRL2(), steps=5)
    with pytest.raises(InvalidInputError, match="seed"):
        check_agent(romdp.UCRL2(), seed=-1)


def test_replacing_parts_keeps_the_kind_of_agent():
    agent = WithState(kind=LaggingCounts)
    assert isinstance(replace(agent, planner=romdp.Posterior()).start(2, 2), LaggingCounts)

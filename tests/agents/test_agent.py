"""The agent's life: what it plans on, what it follows, and what a checkpoint must hold."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import romdp
from romdp.agents.agent import Agent, AgentState
from romdp.agents.planners import Posterior
from romdp.agents.stopping import Doubling
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.trajectory import END
from romdp.planning import Plan
from romdp.worlds import random_romdp
from romdp.worlds.simulator import Simulator

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)


@dataclass(frozen=True)
class SeenOnly:
    """A group for each observation that was seen, none for the others; 0 always has one."""

    needs: frozenset = frozenset({"counts"})
    shown: list = field(default_factory=list, compare=False)

    def regroup(self, evidence, previous, rng):
        self.shown.append(evidence)
        visits = evidence.counts.visits.sum(axis=1)
        labels = np.where(visits > 0, np.arange(len(visits)), -1)
        labels[0] = 0
        return Partition(labels)


@dataclass(frozen=True)
class SpyPlanner:
    """Posterior sampling that notes what it is asked."""

    asked: list = field(default_factory=list, compare=False)
    n_actions: int = 2

    def plan(self, counts, t, rng, start=None, n_observations=None):
        self.asked.append((counts.copy(), t, None if start is None else start.copy()))
        size = counts.n_observations
        values = np.roll(np.arange(size, dtype=float), 1) + t  # the largest comes first
        return Plan(rng.integers(self.n_actions, size=size), 0.5, 0.0, 1, values, True, 0.0)


def drive(state, steps, rng, n_observations=9):
    """Feed a random stream by hand; returns what was seen."""
    seen = int(rng.integers(n_observations))
    for _ in range(steps):
        if state.must_think(seen):
            state.think()
        following = int(rng.integers(n_observations))
        state.learn(seen, int(state.table[seen]), float(rng.random()), following)
        seen = following
    return seen


def test_counts_are_up_to_date_when_the_agent_plans():
    planner, clusterer = SpyPlanner(), SeenOnly()
    playing = romdp.epochs(Agent(clusterer, planner), WORLD, 500, seed=0)
    for epoch in playing:
        counts, t, _ = planner.asked[-1]
        shown = clusterer.shown[-1]
        assert t == shown.step == epoch.start + 1
        placed = epoch.partition.labels >= 0
        assert shown.step - 1 == epoch.start
        assert counts.n_observations == epoch.n_clusters
        # What was seen once has a group by now: only 0 steps can be missing.
        assert counts.visits.sum() == epoch.start
        assert placed.sum() == epoch.n_clusters
    assert len(planner.asked) > 10
    starts = playing.run.epochs.start
    np.testing.assert_array_equal([e.step for e in clusterer.shown], starts + 1)
    np.testing.assert_array_equal([e.last_step for e in clusterer.shown], [0, *(starts[:-1] + 1)])


@dataclass(frozen=True)
class Half:
    """Observations 0 to 3 in two groups, the others in none, for ever."""

    needs: frozenset = frozenset()

    def regroup(self, evidence, previous, rng):
        return Partition([0, 0, 1, 1, -1, -1, -1, -1, -1])


def test_observations_without_a_group_share_an_action_and_a_budget_outside_the_model():
    planner = SpyPlanner()
    state = Agent(Half(), planner).start(9, 2, seed=0)
    rng = np.random.default_rng(0)
    actions = set()
    for _ in range(200):
        drive(state, 5, rng)
        unseen = slice(4, 9)
        assert len(set(state.table[unseen])) == 1
        assert (state.budget.cells[unseen] == 2 * 2).all()
        assert (state.budget.cells[:4] == state.partition.labels[:4] * 2 + state.table[:4]).all()
        assert state.budget.visits.size == 2 * 2 + 1
        actions.add(int(state.table[4]))
        counts = planner.asked[-1][0]
        assert counts.visits.shape == (2, 2)
        assert (state.values[unseen] == state.values.max()).all()
    assert actions == {0, 1}  # drawn anew at each epoch; 2^-200 if it were right and unlucky
    counts = planner.asked[-1][0]
    assert 0 < counts.visits.sum() < state.step  # steps from observations without a group
    assert counts.n_transitions < counts.visits.sum()  # and steps that led there, are left out
    assert state.recorder.visits.sum() == state.step


@pytest.mark.parametrize("episodes", [False, True])
def test_observations_without_a_group_do_as_a_group_that_is_often_met(episodes):
    """Group 0 was met 498 times of 500, and its action is 0; P(more than 10 of 200) < 1e-6.

    Where episodes may end, either action is as likely: P(at most 60 of 200) < 1e-7.
    """

    @dataclass(frozen=True)
    class Fixed:
        objective: romdp.Objective | None = None

        def plan(self, counts, t, rng, start=None, n_observations=None):
            policy, values = np.array([0, 1]), np.zeros(2)
            return Plan(policy, 0.0, 0.0, 0, values, converged=True, gap=0.0)

    state = Agent(Half(), Fixed()).start(9, 2, seed=0)
    if episodes:
        state.expect_episodes()
    for _ in range(498):
        state.learn(0, 0, 0.0, 1)
    others = 0
    for _ in range(200):
        state.think()
        others += int(state.table[8] == 1)
    assert others > 60 if episodes else others <= 10


def test_the_budget_outside_the_model_ends_epochs_too():
    state = Agent(Half(), SpyPlanner(), Doubling()).start(9, 2, seed=0)
    lengths, start = [], 0
    for t in range(300):
        if state.must_think(7):
            lengths.append(t - start)
            start = t
            state.think()
        state.learn(7, int(state.table[7]), 0.0, 7)
    assert lengths[:8] == [0, 1, 1, 2, 4, 8, 16, 32]


def test_the_last_values_are_carried_over_to_new_groups():
    """The start of a plan is the mean of the members' last values."""
    labels = [np.arange(9), np.array([0, 0, 0, 1, 1, 2, 2, 3, -1]), np.arange(9)]

    @dataclass(frozen=True)
    class Script:
        needs: frozenset = frozenset()
        turn: list = field(default_factory=list)

        def regroup(self, evidence, previous, rng):
            self.turn.append(0)
            return Partition(labels[len(self.turn) - 1])

    planner = SpyPlanner()
    state = Agent(Script(), planner).start(9, 2, seed=0)
    state.think()
    np.testing.assert_array_equal(planner.asked[0][2], np.zeros(9))
    first = np.array([9.0, 1, 2, 3, 4, 5, 6, 7, 8])
    np.testing.assert_array_equal(state.values, first)
    state.think()
    np.testing.assert_array_equal(
        planner.asked[1][2], [first[:3].mean(), first[3:5].mean(), first[5:7].mean(), first[7]]
    )
    second = np.array([4.0, 1, 2, 3])[[0, 0, 0, 1, 1, 2, 2, 3, 0]]  # no group: the largest
    np.testing.assert_array_equal(state.values, second)
    state.think()
    np.testing.assert_array_equal(planner.asked[2][2], second)


class Nothing:
    """No observation has a group."""

    needs = frozenset()

    def regroup(self, evidence, previous, rng):
        return Partition.unseen(previous.n_observations)


def test_a_new_action_at_each_step_without_a_group_on_request():
    """``unseen=1``: uniform exploration, one draw a step (fewer than 60 of 200: chance 1e-8)."""
    agent = Agent(Nothing(), SpyPlanner(), Doubling(unseen=1))
    playing = romdp.epochs(agent, WORLD, 200, seed=0)
    assert [epoch.length for epoch in playing] == [1] * 200
    by_action = playing.state.recorder.visits.reshape(-1, 2).sum(axis=0)
    assert by_action.min() > 60


def test_counting_as_the_paper_does_refuses_to_split():
    class Splits:
        needs = frozenset()

        def regroup(self, evidence, previous, rng):
            return Partition.trivial(9) if evidence.step < 5 else Partition.singletons(9)

    with pytest.raises(InvalidInputError, match="pooled"):
        romdp.play(Agent(Splits(), counting="paper"), WORLD, 20)


def test_without_any_group_one_action_is_taken_everywhere():
    planner = SpyPlanner()
    playing = romdp.epochs(Agent(Nothing(), planner), WORLD, 200, seed=0)
    actions = set()
    for epoch in playing:
        assert epoch.n_clusters == 0
        assert np.isnan(epoch.gain)
        assert len(set(playing.state.table)) == 1
        actions.add(int(playing.state.table[0]))
    assert planner.asked == []  # there is nothing to plan on
    assert actions == {0, 1}
    assert playing.state.recorder.visits.sum() == 200


@dataclass(frozen=True)
class Watches:
    """A clusterer that reads triples."""

    shown: list = field(default_factory=list, compare=False)
    needs: frozenset = frozenset({"counts", "triples"})

    def regroup(self, evidence, previous, rng):
        self.shown.append(evidence.triples)
        return Partition([0, 0, 1, 1, 2, 3, 4, 5, 6])


def test_triples_are_those_of_the_last_epoch():
    clusterer = Watches()
    agent = Agent(clusterer, SpyPlanner(), Doubling(grow=1))
    playing = romdp.epochs(agent, WORLD, 400, seed=0)
    lengths = [epoch.length for epoch in playing]
    assert clusterer.shown[0].count.sum() == 0  # there was none
    for length, triples in zip(lengths, clusterer.shown[1:], strict=False):
        assert triples.count.sum() == max(0, length - 1)  # the first step has nothing before it
        assert triples.n_observations == 7
    assert max(lengths) > 5


@dataclass(frozen=True)
class Coarsens:
    """Nine groups, then five, then three."""

    needs: frozenset = frozenset()

    def regroup(self, evidence, previous, rng):
        width = 1 + (evidence.step > 15) + (evidence.step > 40)
        return Partition(np.arange(9) // width if width < 3 else np.arange(9) // 4)


AGENTS = [
    Agent(Coarsens(), Posterior(), Doubling(grow=1), counting="paper"),
    romdp.UCRL2(),
    romdp.PSRL(),
    romdp.Oracle(WORLD.labels),
    romdp.Oracle(WORLD.labels, "posterior"),
    Agent(SeenOnly(), Posterior(), Doubling(grow=1)),
    Agent(Watches(), Posterior(), Doubling(grow=1)),
]


@settings(max_examples=30)
@given(
    agent=st.sampled_from(AGENTS),
    before=st.integers(0, 60),
    after=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_a_state_rebuilt_from_its_arrays_goes_on_alike(agent, before, after, seed):
    state = agent.start(9, 2, seed)
    drive(state, before, np.random.default_rng(seed))
    saved = {name: array.copy() for name, array in state.arrays().items()}
    copy = AgentState.from_arrays(agent, 9, 2, seed, saved)
    for one in (state, copy):
        drive(one, after, np.random.default_rng(seed + 1))
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(copy.arrays()[name], array, err_msg=name)
    assert state.step == copy.step == before + after


def test_what_was_taken_from_a_state_does_not_change_with_it():
    state = romdp.PSRL().start(9, 2, 0)
    drive(state, 30, np.random.default_rng(0))
    taken = state.arrays()
    kept = {name: array.copy() for name, array in taken.items()}
    drive(state, 30, np.random.default_rng(1))
    for name, array in kept.items():
        np.testing.assert_array_equal(taken[name], array, err_msg=name)


def test_streams_of_the_seed_do_not_shift_each_other():
    """A clusterer that draws a lot leaves the planner's draws as they were."""

    @dataclass(frozen=True)
    class Gambles:
        needs: frozenset = frozenset()

        def regroup(self, evidence, previous, rng):
            rng.random(100)
            return previous

    runs = [
        romdp.play(Agent(clusterer, Posterior(), Doubling(grow=1)), WORLD, 500, seed=0)
        for clusterer in (romdp.Singletons(), Gambles())
    ]
    np.testing.assert_array_equal(runs[0].reward, runs[1].reward)
    np.testing.assert_array_equal(runs[0].epochs, runs[1].epochs)


def test_another_action_than_the_table_says_is_counted_where_it_was_taken():
    state = romdp.UCRL2().start(3, 2, 0)
    state.think()
    before = state.budget.visits.copy()
    other = 1 - int(state.table[1])
    state.learn(1, other, 1.0, -1)
    spent = before - state.budget.visits
    assert spent[1 * 2 + other] == 1
    assert spent.sum() == 1
    assert state.recorder.visits[1 * 2 + other] == 1
    assert state.recorder.pairs.counts.sum() == 0  # -1: nothing is known of where it led


@pytest.mark.parametrize("sizes", [(0, 2), (3, 0), (2.5, 2), ("3", 2)])
def test_sizes_that_make_no_sense_are_refused(sizes):
    with pytest.raises(InvalidInputError, match=r"n_observations|n_actions"):
        romdp.UCRL2().start(*sizes)


def test_an_agent_is_frozen():
    with pytest.raises(AttributeError):
        romdp.UCRL2().name = "other"


def cycle(state, steps, reward):
    """Walk round three observations, each step paying the same."""
    for t in range(steps):
        if state.must_think(t % 3):
            state.think()
        state.learn(t % 3, state.action(t % 3), reward, (t + 1) % 3)


@pytest.mark.parametrize(
    ("objective", "reward", "ends", "says"),
    [
        ("average", 1.0, False, 1),
        ("episodic", 1.0, False, 1),
        ("episodic", 1.0, True, 0),  # an end is worth avoiding
        ("episodic", 0.0, False, 0),  # a reward may still come
        (0.9, 1.0, False, 1),
    ],
)
def test_an_agent_says_once_that_no_policy_can_matter(objective, reward, ends, says, caplog):
    state = romdp.PSRL(objective=objective).start(3, 2, seed=0)
    state.expect_episodes()
    if ends:
        state.learn(0, 0, reward, END)
    cycle(state, 9000, reward)
    assert sum("every policy is as good" in line for line in caplog.messages) == says


def test_an_agent_whose_rewards_differ_says_nothing(caplog):
    state = romdp.PSRL(objective="average").start(3, 2, seed=0)
    state.learn(0, 0, 0.5, 1)
    cycle(state, 5000, 1.0)
    assert not caplog.messages


def test_objectives_are_resolved_where_the_agent_plays():
    state = romdp.PSRL().start(3, 2, seed=0)
    assert str(state.objective) == "average"
    state.expect_episodes(200, 0.25)
    assert str(state.objective) == "episodic, discount 0.995"
    assert state.objective.zero_reward == 0.25
    assert state.goal.is_average
    state.learn(0, 1, 1.0, END)
    assert not state.goal.is_average
    told = romdp.PSRL(objective="average").start(3, 2, seed=0)
    told.expect_episodes(200)
    assert told.objective.is_average
    strange = Agent(planner=SpyPlanner()).start(3, 2, seed=0)  # knows no objectives
    strange.expect_episodes(200)
    assert strange.objective.is_average


def test_under_a_horizon_the_action_depends_on_the_step_of_the_episode():
    """Waiting pays 1 per step and ending pays 3: wait until the last step."""
    state = romdp.UCRL2(romdp.Hoeffding(0.0), objective="episodic:4").start(1, 2, seed=0)
    state.expect_episodes()
    for t in range(40):
        state.learn(0, t % 2, float(1 + 2 * (t % 2)) / 3, END if t % 2 else 0)
    state.think()
    assert [state.action(0, age) for age in range(6)] == [0, 0, 0, 1, 1, 1]
    assert state.action(0) == 0
    again = AgentState.from_arrays(state.agent, 1, 2, 0, state.arrays())
    assert [again.action(0, age) for age in range(4)] == [0, 0, 0, 1]


def test_optimists_get_sparse_counts_while_little_was_seen():
    sparse = []

    class Noting(romdp.Optimism):
        def plan(self, counts, *rest, **options):
            sparse.append(counts.is_sparse)
            return super().plan(counts, *rest, **options)

    for n_observations in (20, 100):  # an array of 40,000 transitions is thin below 4,000 steps
        world = romdp.worlds.random_romdp(3, 4, n_observations, seed=0)
        agent = Agent(planner=Noting(romdp.TimeUniform()), stopping=Doubling(eager=False))
        starts = romdp.play(agent, world, 30_000, seed=0).epochs["start"]
        few = starts < 4000 if n_observations == 100 else np.zeros(len(starts), bool)
        assert sparse == few.tolist()
        sparse.clear()


def live(monkeypatch, seconds, interrupted=False):
    """Group by likelihood with slices of so many seconds; returns the arrays, and the searches."""
    monkeypatch.setattr("romdp.agents.agent._MANY", 40)
    monkeypatch.setattr("romdp.agents.agent._SLICE", seconds)
    world, agent = random_romdp(3, 2, 60, seed=1), romdp.LCPSRL()
    simulator = Simulator(world, 5)
    state, under_way = agent.start(60, 2, seed=3), 0
    for _ in range(1_000):
        seen = simulator.observation
        if state.must_think(seen):
            state.think()
        action = state.action(seen)
        once = Recorder(60, 2)
        simulator.run(np.full(60, action), once, 1)
        state.learn(seen, action, once.reward_sums[seen * 2 + action], simulator.observation)
        if state._search is not None:
            under_way += 1
            if interrupted:
                state = AgentState.from_arrays(agent, 60, 2, 3, state.arrays())
                assert state._search is None
                assert state.found is not None
    return state.arrays(), under_way


def test_where_observations_are_many_groups_come_later_however_fast_the_machine(monkeypatch):
    """The search goes on between steps, or when its result is due, or before a checkpoint."""
    (at_last, waited), (in_slices, some), (read, interruptions) = (
        live(monkeypatch, 0.0),
        live(monkeypatch, 1e-9),
        live(monkeypatch, 0.0, interrupted=True),
    )
    assert waited > 100
    assert interruptions > 5
    assert some > 0
    assert np.unique(at_last["labels"]).size == 3
    for name, array in at_last.items():
        assert array.tobytes() == in_slices[name].tobytes() == read[name].tobytes(), name


@dataclass(frozen=True)
class Lumped:
    """A clusterer that takes all observations for one state, and may take each for its own."""

    or_states: bool
    needs: frozenset = frozenset()

    def regroup(self, evidence, previous, rng):
        return Partition(np.zeros(previous.n_observations, int))


@pytest.mark.parametrize("or_states", [True, False])
def test_groups_that_hide_what_was_not_tried_come_apart_while_nothing_is_worth_looking_for(
    or_states,
):
    agent = romdp.Agent(Lumped(or_states), romdp.Posterior(objective=0.9), romdp.Doubling())
    state = agent.start(2, 2)
    for observation, action in ((0, 0), (0, 1), (1, 0)):
        state.learn(observation, action, -0.1 * action, 1 - observation)
    state.think()
    assert state.partition.n_clusters == (2 if or_states else 1)
    if or_states:
        assert state.table[1] == 1  # what was not tried there
    state.learn(1, 1, 1.0, 0)  # more than anything before: grouped again
    state.think()
    assert state.partition.n_clusters == 1

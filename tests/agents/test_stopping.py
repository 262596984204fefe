"""The stopping rules, to the letter, against plain loops over the same stream of the world."""

import math

import numpy as np
import pytest

import romdp
from romdp.agents.stopping import FOREVER, Doubling
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import stream
from romdp.data.counts import Counts
from romdp.data.recorder import Recorder
from romdp.worlds import random_romdp
from romdp.worlds.simulator import Simulator

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=6, seed=3)
SEED = 4


class Stream:
    """The world that `romdp.play` shows for a seed, one step at a time."""

    def __init__(self, world, seed):
        self.world, self.simulator = world, Simulator(world, stream(seed, 0))

    @property
    def observation(self):
        return self.simulator.observation

    def step(self, action):
        cell = self.observation * self.world.n_actions + action
        once = Recorder(self.world.n_observations, self.world.n_actions)
        self.simulator.run(np.full(self.world.n_observations, action), once, 1)
        return once.reward_sums[cell]


def plain_evi(counts, rewards, widths, precision, values):
    """Extended value iteration of UCRL2 (figure 2), plainly; values are kept centred."""
    n_states, n_actions = rewards.shape
    totals = counts.sum(axis=2)
    while True:
        order = sorted(range(n_states), key=lambda s: (-values[s], s))
        backed_up = np.empty((n_states, n_actions))
        for s in range(n_states):
            for a in range(n_actions):
                law = np.zeros(n_states)
                if totals[s, a] > 0 and widths[s, a] < 2:
                    law = counts[s, a] / totals[s, a]
                    best = order[0]
                    law[best] = min(1.0, law[best] + widths[s, a] / 2)
                    for worst in reversed(order):
                        if law.sum() > 1 and worst != best:
                            law[worst] = max(0.0, 1 - law.sum() + law[worst])
                else:
                    law[order[0]] = 1.0
                backed_up[s, a] = rewards[s, a] + law @ values
        new = backed_up.max(axis=1)
        change = new - values
        values = new - new.min()
        if np.ptp(change) < precision:
            policy = np.argmax(backed_up >= new[:, None] - 1e-10, axis=1)
            return policy, values


def plain_ucrl2(world, seed, steps, delta, scale):
    """UCRL2 as in figure 1 of Jaksch, Ortner and Auer (2010): returns tables and epochs."""
    n_states, n_actions = world.n_observations, world.n_actions
    place = Stream(world, seed)
    visits = np.zeros((n_states, n_actions))  # N_k
    reward_sums = np.zeros((n_states, n_actions))
    moves = np.zeros((n_states, n_actions, n_states))
    values = np.zeros(n_states)
    t, starts, tables = 1, [], []
    while t <= steps:
        starts.append(t - 1)
        once = np.maximum(1, visits)
        for_rewards = scale * np.sqrt(
            7 * math.log(2 * n_states * n_actions * t / delta) / (2 * once)
        )
        for_laws = scale * np.sqrt(14 * n_states * math.log(2 * n_actions * t / delta) / once)
        rewards = np.minimum(1.0, reward_sums / once + for_rewards)
        policy, values = plain_evi(moves, rewards, for_laws, 1 / math.sqrt(t), values)
        tables.append(policy)
        inside = np.zeros((n_states, n_actions))  # v_k
        seen = place.observation
        while inside[seen, policy[seen]] < max(1, visits[seen, policy[seen]]) and t <= steps:
            action = policy[seen]
            reward = place.step(action)
            inside[seen, action] += 1
            reward_sums[seen, action] += reward
            moves[seen, action, place.observation] += 1
            seen = place.observation
            t += 1
        visits += inside
    return np.array(starts), np.array(tables), visits


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_ucrl2_is_that_of_jaksch(scale):
    steps = 3000
    agent = romdp.UCRL2(romdp.Hoeffding(scale, constants="jaksch"), delta=0.05)
    playing = romdp.epochs(agent, WORLD, steps, SEED)
    tables = [playing.state.table.copy() for _ in playing]
    starts, plain_tables, visits = plain_ucrl2(WORLD, SEED, steps, 0.05, scale)
    assert len(starts) > 30
    np.testing.assert_array_equal(playing.run.epochs.start, starts)
    np.testing.assert_array_equal(np.diff([*starts, steps]), playing.run.epochs.length)
    np.testing.assert_array_equal(np.array(tables), plain_tables)
    np.testing.assert_array_equal(playing.state.recorder.visits.reshape(visits.shape), visits)


def test_ucrl2_alone_uses_the_constants_of_jaksch():
    assert romdp.UCRL2().planner.confidence == romdp.Hoeffding(1.0, constants="jaksch")
    assert romdp.UCRL2().stopping == Doubling(grow=None, eager=False)


@pytest.mark.parametrize(
    ("agent", "labels", "power"),
    [
        (romdp.PSRL(), np.arange(6), 1.0),
        (romdp.Oracle(WORLD.labels, "posterior"), WORLD.labels, 0.5),
    ],
    ids=["psrl", "oracle-psrl"],
)
def test_posterior_epochs_end_as_those_of_tsde(agent, labels, power):
    """``t <= t_k + T_(k-1)`` and ``N_t(s, a) <= 2 N_k(s, a)`` for all pairs, else a new epoch.

    The second rule is stricter for ours: ``N_t(s, a) <= N_k(s, a) + sqrt(N_k(s, a))``.
    """
    steps = 3000
    playing = romdp.epochs(agent, WORLD, steps, SEED)
    tables = [playing.state.table.copy() for _ in playing]

    labels = romdp.Partition(labels).labels
    place = Stream(WORLD, SEED)
    counts = np.zeros((labels.max() + 1, WORLD.n_actions), int)  # N_t
    t, begun = 1, 0  # t_0 = 0, so T_0 = 1
    starts = []
    while t <= steps:
        last_length, begun = t - begun, t
        most, table = counts + counts**power, tables[len(starts)]
        starts.append(t - 1)
        while t <= begun + last_length and (counts <= most).all() and t <= steps:
            action = table[place.observation]
            counts[labels[place.observation], action] += 1
            place.step(action)
            t += 1
    epochs = playing.run.epochs
    np.testing.assert_array_equal(epochs.start, starts)
    np.testing.assert_array_equal(epochs.length, np.diff([*starts, steps]))
    grows = np.diff(epochs.length[:-1]) == 1  # both rules must have spoken
    assert 5 < grows.sum() < len(starts) - 5


def test_the_paper_ends_an_epoch_as_soon_as_a_count_doubles():
    steps = 2000
    agent = romdp.Oracle(WORLD.labels, confidence=romdp.Hoeffding())
    playing = romdp.epochs(agent, WORLD, steps, SEED)
    tables = [playing.state.table.copy() for _ in playing]
    place = Stream(WORLD, SEED)
    counts = np.zeros((WORLD.n_states, WORLD.n_actions), int)
    labels = romdp.Partition(WORLD.labels).labels
    t, starts = 0, []
    while t < steps:
        inside, table = np.zeros_like(counts), tables[len(starts)]
        starts.append(t)
        while (inside < np.maximum(1, counts)).all() and t < steps:
            inside[labels[place.observation], table[place.observation]] += 1
            place.step(table[place.observation])
            t += 1
        counts += inside
    np.testing.assert_array_equal(playing.run.epochs.start, starts)
    assert len(starts) > 10


def test_budgets_and_longest_epochs():
    visits = np.array([[0, 1], [2, 7]])
    assert Doubling().budget(visits).tolist() == [[1, 1], [2, 7]]
    assert Doubling(grow=1).budget(visits).tolist() == [[1, 2], [3, 8]]
    assert Doubling.frequent().budget(visits).tolist() == [[1, 2], [2, 3]]
    assert Doubling(power=0.5).budget(np.array([[0, 1, 24, 25]])).tolist() == [[1, 1, 4, 5]]
    assert Doubling().longest(10) == FOREVER
    assert [Doubling(grow=grow).longest(10) for grow in (0, 1, 5)] == [10, 11, 15]


def test_an_epoch_goes_on_for_a_few_visits_where_very_many_pairs_were_tried():
    surprising = np.ones((16, 4, 16), int)  # every try led to somewhere new
    certain = np.zeros((16, 4, 16), int)
    certain[..., 0] = 16
    visits, nothing = np.full((16, 4), 16), np.zeros((16, 4))
    for moves, expected in ((surprising, [0, 0, 32, 64]), (certain, [0, 0, 0, 0])):
        counts = Counts(visits, moves, nothing, nothing)
        for kept in (counts, counts.sparse()):
            spare = [Doubling(slack=slack).spare(kept) for slack in (0.0, 0.01, 0.5, 1.0)]
            assert spare == expected
            assert Doubling.frequent().spare(kept) == 0
    with pytest.raises(InvalidInputError, match="slack"):
        Doubling(slack=2.0)


def test_the_budget_of_observations_without_a_group():
    assert [Doubling().unseen_budget(visits) for visits in (0, 1, 6)] == [1, 1, 6]
    assert [Doubling(grow=1).unseen_budget(visits) for visits in (0, 1, 6)] == [1, 2, 7]
    assert [Doubling(unseen=1).unseen_budget(visits) for visits in (0, 1, 6)] == [1, 1, 1]
    assert Doubling(unseen=0).unseen_budget(6) == 0  # none can be met without thinking again
    with pytest.raises(InvalidInputError, match="unseen"):
        Doubling(unseen=-1)


@pytest.mark.parametrize("grow", [-1, 0.5, "1", True])
def test_a_rule_that_makes_no_sense_is_refused(grow):
    with pytest.raises(InvalidInputError, match="grow"):
        Doubling(grow=grow)


@pytest.mark.parametrize("power", [0.0, -1.0, 1.5, np.nan, "1"])
def test_a_power_that_makes_no_sense_is_refused(power):
    with pytest.raises(InvalidInputError, match="power"):
        Doubling(power=power)

import time
import tracemalloc
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, chisquare, kstest

from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.core.randomness import alias_tables, xoshiro_state
from romdp.data import tally
from romdp.data.budget import Budget
from romdp.data.counts import Counts
from romdp.data.recorder import Recorder
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples
from romdp.exact.mdp import MDP, REWARD_LAWS
from romdp.exact.romdp import ROMDP
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import Simulator, simulate

WORD = 2**64


def world_of(reward_law="bernoulli", seed=0, n_observations=12):
    return random_romdp(3, 2, n_observations, seed, reward_law=reward_law)


def table_of(world, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(world.n_actions, size=world.n_observations)


class PlainSimulator:
    """The compiled loops again, in plain Python with whole numbers of any size.

    It starts where a `Simulator` stands and shares nothing else with it.
    """

    def __init__(self, simulator):
        arrays = simulator.arrays()
        self.world = simulator.world
        self.state = [int(word) for word in arrays["state"]]
        self.x, self.y = (int(place) for place in arrays["place"])
        labels = self.world.labels
        self.expected = 0.0
        self.members = [np.flatnonzero(labels == x) for x in range(self.world.n_states)]
        self.moves = alias_tables(self.world.transition)
        self.views = [alias_tables(self.world.observation_chance[m]) for m in self.members]

    def word(self):
        def rotated(word, k):
            return ((word << k) | (word >> (64 - k))) % WORD

        s0, s1, s2, s3 = self.state
        word = (rotated((s0 + s3) % WORD, 23) + s0) % WORD
        s2, s3 = s2 ^ s0, s3 ^ s1
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17) % WORD, rotated(s3, 45)]
        return word

    def uniform(self):
        return (self.word() >> 11) / 2**53

    def pick(self, keep, alias):
        column, rest = divmod(self.word() * len(keep), WORD)
        return column if rest < int(keep[column]) else int(alias[column])

    def reward(self, mean):
        law = self.world.reward_law
        if law == "bernoulli":
            return 1.0 if self.uniform() < mean else 0.0
        if law == "uniform":
            return mean + min(mean, 1.0 - mean) * (2.0 * self.uniform() - 1.0)
        if law == "beta" and 0.0 < mean < 1.0:
            while True:
                first = self.uniform() ** (0.5 / mean)
                second = self.uniform() ** (0.5 / (1.0 - mean))
                if 0.0 < first + second <= 1.0:
                    return first / (first + second)
        return mean

    def step(self, action):
        """Take an action; returns the reward and what is seen next."""
        mean = float(self.world.reward[self.x, action])
        self.expected += mean
        reward = self.reward(mean)
        keep, alias = self.moves
        self.x = self.pick(keep[self.x, action], alias[self.x, action])
        self.y = int(self.members[self.x][self.pick(*self.views[self.x])])
        return reward, self.y

    def walk(self, policy, steps):
        keep, alias = alias_tables(policy)
        seen = []
        for _ in range(steps):
            y, action = self.y, self.pick(keep[self.y], alias[self.y])
            seen.append((y, action, self.step(action)[0]))
        return seen

    def run(self, table, steps, cells, visits, eager, spare=0):
        """Follow a table; returns the steps, and whether a budget ended it."""
        seen = []
        while len(seen) < steps:
            y = self.y
            if visits[cells[y]] <= 0 and spare == 0:
                return seen, True
            reward, after = self.step(table[y])
            seen.append((y, int(table[y]), reward, after))
            visits[cells[y]] -= 1
            if visits[cells[y]] <= (0 if eager else -1):
                if spare == 0:
                    return seen, True
                spare -= 1
        return seen, False


def tallied(recorder, seen):
    """Check a recorder against the steps that it should have counted."""
    observations, actions, rewards, following = map(np.array, zip(*seen, strict=True))
    expected = Counts.from_trajectory(
        Trajectory(
            observations,
            actions,
            rewards,
            final_observations=following[-1:],
            n_observations=recorder.n_observations,
            n_actions=recorder.n_actions,
        )
    )
    counts = recorder.counts
    assert np.array_equal(counts.visits, expected.visits)
    assert np.array_equal(counts.dense().transitions, expected.dense().transitions)
    assert np.array_equal(counts.reward_sums, expected.reward_sums)
    assert np.array_equal(counts.reward_squares, expected.reward_squares)


@pytest.mark.parametrize("reward_law", REWARD_LAWS)
def test_a_walk_is_that_of_the_plain_twin(reward_law):
    world = world_of(reward_law)
    policy = np.random.default_rng(1).dirichlet(np.ones(2), world.n_observations)
    simulator = Simulator(world, 5)
    plain = PlainSimulator(simulator)
    found = simulator.trajectory(policy, 1_000)
    seen = plain.walk(policy, 1_000)
    observations, actions, rewards = map(np.array, zip(*seen, strict=True))
    assert np.array_equal(found.observations, observations)
    assert np.array_equal(found.actions, actions)
    if reward_law == "beta":  # powers may differ in the last bit between two libraries
        assert found.rewards == pytest.approx(rewards, rel=1e-12, abs=1e-300)
    else:
        assert np.array_equal(found.rewards, rewards)
    assert found.final_observations.tolist() == [plain.y]
    assert (simulator.hidden_state, simulator.observation) == (plain.x, plain.y)
    assert simulator.arrays()["state"].tolist() == plain.state


@pytest.mark.parametrize("reward_law", ["bernoulli", "uniform", "deterministic"])
@pytest.mark.parametrize("eager", [True, False])
@given(data=st.data())
def test_a_run_is_that_of_the_plain_twin(reward_law, eager, data):
    """Also the budgets: the same steps are done, the same are left, the same reason is given."""
    seed = data.draw(st.integers(0, 10**6))
    world = world_of(reward_law, seed)
    table = table_of(world, seed)
    labels = np.random.default_rng(seed).integers(-1, 2, size=world.n_observations)
    labels[0] = 1  # so that there are two groups
    visits = np.array(data.draw(st.lists(st.integers(0, 30), min_size=5, max_size=5)), np.int64)
    limit = data.draw(st.integers(0, 60))
    spare = data.draw(st.integers(0, 3))
    budget = Budget(labels, table, visits, limit, eager, spare=spare)
    steps = data.draw(st.integers(0, 60))
    simulator, recorder = Simulator(world, seed), Recorder(world.n_observations, 2)
    plain, plain_visits = PlainSimulator(simulator), visits.tolist()
    done, stopped = simulator.run(table, recorder, steps, budget)
    cells = [4 if labels[y] < 0 else labels[y] * 2 + table[y] for y in range(labels.size)]
    seen, expected = plain.run(table, min(steps, limit), cells, plain_visits, eager, spare)
    assert (done, stopped) == (len(seen), expected or done == limit)
    assert budget.visits.tolist() == plain_visits
    assert budget.steps == (0 if stopped else limit - done)
    assert simulator.arrays()["state"].tolist() == plain.state
    assert (simulator.hidden_state, simulator.observation) == (plain.x, plain.y)
    # One by one: sum() of floats is compensated from Python 3.12 on.
    assert simulator.reward == reduce(add, (step[2] for step in seen), 0.0)
    assert simulator.expected_reward == pytest.approx(plain.expected)
    if seen:
        tallied(recorder, seen)


def test_eager_stops_when_a_budget_is_used_up_and_lazy_when_it_is_missed():
    """One state, one observation, so that every step spends the same budget."""
    world = ROMDP([[[1.0]]], [[0.5]], [[1.0]])
    table = np.zeros(1, np.int64)
    for eager in (True, False):
        budget = Budget(table, table, np.array([3, 1]), eager=eager)
        simulator, recorder = Simulator(world, 0), Recorder(1, 1)
        assert simulator.run(table, recorder, 3, budget) == (3, eager)
        assert simulator.run(table, recorder, 3, budget) == (0, True)
        assert budget.visits.tolist() == [0, 1]
    assert simulator.run(table, recorder, 7) == (7, False)  # no budget: only the steps count
    assert simulator.run(table, recorder, 0) == (0, False)


@pytest.mark.parametrize("reward_law", REWARD_LAWS)
@pytest.mark.parametrize("limit", [0, 2**24], ids=["sparse", "dense"])
def test_a_run_in_pieces_is_the_run_in_one_go(monkeypatch, reward_law, limit):
    monkeypatch.setattr(tally, "DENSE_LIMIT", limit)
    world = world_of(reward_law)
    table, steps = table_of(world), 5_000
    symbols = np.arange(world.n_observations)
    whole, recorder = Simulator(world, 9), Recorder(world.n_observations, 2)
    recorder.watch_triples(symbols, table)
    assert whole.run(table, recorder, steps) == (steps, False)
    cuts = np.sort(np.random.default_rng(0).integers(0, steps, 20))
    pieces, parts = Simulator(world, 9), Recorder(world.n_observations, 2)
    parts.watch_triples(symbols, table)
    for i, length in enumerate(np.diff(cuts, prepend=0, append=steps).tolist()):
        assert pieces.run(table, parts, length) == (length, False)
        if i % 2:  # every other time through a checkpoint, into new objects
            saved, counted = pieces.arrays(), parts.arrays()
            pieces, parts = Simulator(world, 1_000 + i), Recorder(1, 1)
            pieces.restore(saved)
            parts = Recorder.from_arrays(world.n_observations, 2, counted)
    for name, array in whole.arrays().items():
        assert np.array_equal(pieces.arrays()[name], array), name
    for name, array in recorder.arrays().items():
        assert np.array_equal(parts.arrays()[name], array), name


def test_restore_goes_back_to_where_arrays_was_taken():
    simulator = Simulator(world_of(), 1)
    simulator.trajectory("uniform", 50)
    place = simulator.arrays()
    first = simulator.trajectory("uniform", 100)
    simulator.restore(place)
    second = simulator.trajectory("uniform", 100)
    assert first == second
    third = simulator.trajectory("uniform", 100)
    assert not np.array_equal(first.observations, third.observations)


def test_sparse_counting_agrees_with_dense(monkeypatch):
    world = random_romdp(3, 2, 120, 0)
    table = table_of(world)
    arrays = []
    for limit in (2**24, 0):
        monkeypatch.setattr(tally, "DENSE_LIMIT", limit)
        simulator, recorder = Simulator(world, 3), Recorder(world.n_observations, 2)
        recorder.watch_triples(np.arange(world.n_observations), table)
        assert recorder.pairs.is_dense == recorder.triples_tally.is_dense == (limit > 0)
        simulator.run(table, recorder, 100_000)
        arrays.append({**simulator.arrays(), **recorder.arrays()})
    assert arrays[0]["triple_keys"].size > 2**13  # the sparse table had to grow
    for name, array in arrays[0].items():
        assert np.array_equal(arrays[1][name], array), name


@pytest.mark.parametrize("limit", [0, 2**24], ids=["sparse", "dense"])
def test_triples_and_counts_are_those_of_the_trajectory(monkeypatch, limit):
    """A run and a walk draw alike but for the action, so they are compared through the twin."""
    monkeypatch.setattr(tally, "DENSE_LIMIT", limit)
    world = world_of()
    table = table_of(world)
    simulator, recorder = Simulator(world, 2), Recorder(world.n_observations, 2)
    recorder.watch_triples(np.arange(world.n_observations), table)
    plain = PlainSimulator(simulator)
    simulator.run(table, recorder, 3_000)
    seen, _ = plain.run(table, 3_000, [0] * world.n_observations, [10**9], True)
    tallied(recorder, seen)
    observations, actions, rewards, following = zip(*seen, strict=True)
    trajectory = Trajectory(
        observations,
        actions,
        rewards,
        final_observations=following[-1:],
        n_observations=world.n_observations,
        n_actions=2,
    )
    assert recorder.triples == Triples.from_trajectory(trajectory)


def test_triples_of_groups_know_their_action():
    world = world_of()
    group = np.arange(world.n_observations) % 4
    table = np.array([0, 1, 1, 0])[group]
    simulator, recorder = Simulator(world, 2), Recorder(world.n_observations, 2)
    recorder.watch_triples(group, np.array([0, 1, 1, 0]))
    simulator.run(table, recorder, 1_000)
    triples = recorder.triples
    assert (triples.n_observations, triples.n_samples) == (4, 999)
    assert np.array_equal(triples.action, np.array([0, 1, 1, 0])[triples.middle])


def test_moves_and_observations_follow_the_world():
    """Chi-square over all cells at a fixed seed; chance of a false alarm 1e-3 each."""
    world = world_of(seed=4)
    counts = Counts.from_trajectory(simulate(world, "uniform", 400_000, seed=6))
    visits = counts.visits
    next_state = np.zeros((3, 2, 3))
    for y, a, z in np.ndindex(counts.transitions.shape):
        next_state[world.labels[y], a, world.labels[z]] += counts.transitions[y, a, z]
    expected = next_state.sum(axis=-1, keepdims=True) * world.transition
    assert chisquare(next_state.ravel(), expected.ravel(), ddof=5).pvalue > 1e-3
    seen = counts.transitions.sum(axis=(0, 1))
    expected = np.bincount(world.labels, seen)[world.labels] * world.observation_chance
    assert chisquare(seen, expected, ddof=2).pvalue > 1e-3
    # What is seen next depends on the hidden state alone, not on its view.
    laws = world.transition[world.labels][:, :, world.labels] * world.observation_chance
    expected = visits[..., None] * laws
    ddof = visits.size - 1
    assert chisquare(counts.transitions.ravel(), expected.ravel(), ddof=ddof).pvalue > 1e-3
    halves = visits.sum(axis=1)[:, None] / 2
    assert chisquare(visits.ravel(), np.repeat(halves, 2), ddof=11).pvalue > 1e-3


def test_the_policy_is_followed():
    """Rows of probabilities: chi-square, chance of a false alarm 1e-3; actions exactly."""
    world = world_of()
    rows = np.random.default_rng(0).dirichlet(np.ones(2), world.n_observations)
    rows[0] = 0.0, 1.0
    visits = Counts.from_trajectory(simulate(world, rows, 100_000, 1)).visits
    assert visits[0, 0] == 0
    expected = visits[1:].sum(axis=1, keepdims=True) * rows[1:]
    assert chisquare(visits[1:].ravel(), expected.ravel(), ddof=10).pvalue > 1e-3
    table = table_of(world)
    seen = simulate(world, table, 1_000, 1)
    assert np.array_equal(seen.actions, table[seen.observations])


VARIANCES = {
    "bernoulli": lambda mean: mean * (1 - mean),
    "uniform": lambda mean: np.minimum(mean, 1 - mean) ** 2 / 3,
    "beta": lambda mean: mean * (1 - mean) / 3,
    "deterministic": lambda mean: 0 * mean,
}


@pytest.mark.parametrize("reward_law", REWARD_LAWS)
def test_rewards_have_the_right_mean_and_variance(reward_law):
    """Within 4.5 standard errors for 12 figures: chance of a false alarm below 1e-4."""
    world = world_of(reward_law, seed=1)
    seen = simulate(world, "uniform", 200_000, seed=0)
    assert seen.rewards.min() >= 0
    assert seen.rewards.max() <= 1
    states = world.labels[seen.observations]
    for x, a in np.ndindex(world.reward.shape):
        rewards = seen.rewards[(states == x) & (seen.actions == a)]
        mean = world.reward[x, a]
        variance = VARIANCES[reward_law](mean)
        root = np.sqrt(rewards.size)
        assert rewards.mean() == pytest.approx(mean, abs=4.5 * np.sqrt(variance) / root + 1e-12)
        squares = (rewards - mean) ** 2
        error = 4.5 * squares.std() / root + 1e-12
        assert squares.mean() == pytest.approx(variance, abs=error)


@pytest.mark.parametrize("mean", [0.02, 0.1, 0.3, 0.5, 0.9])
def test_beta_rewards_are_beta(mean):
    """Kolmogorov-Smirnov: chance of a false alarm 1e-3 each."""
    world = ROMDP([[[1.0]]], [[mean]], [[1.0]], "beta")
    rewards = simulate(world, [0], 20_000, seed=3).rewards
    assert kstest(rewards, beta(2 * mean, 2 * (1 - mean)).cdf).pvalue > 1e-3


@pytest.mark.parametrize("mean", [5e-324, 1e-300, 1e-9, 1 - 1e-9, 1 - 2**-53])
def test_beta_rewards_of_extreme_means(mean):
    world = ROMDP([[[1.0]]], [[mean]], [[1.0]], "beta")
    rewards = simulate(world, [0], 1_000, seed=3).rewards
    assert rewards == pytest.approx(round(mean), abs=1e-3)
    assert ((rewards >= 0) & (rewards <= 1)).all()


@pytest.mark.parametrize("mean", [0.2, 0.5, 0.75])
def test_uniform_rewards_fill_the_widest_interval(mean):
    """Kolmogorov-Smirnov: chance of a false alarm 1e-3 each."""
    rewards = simulate(ROMDP([[[1.0]]], [[mean]], [[1.0]], "uniform"), [0], 20_000, 0).rewards
    half = min(mean, 1 - mean)
    assert kstest(rewards, "uniform", (mean - half, 2 * half)).pvalue > 1e-3


@pytest.mark.parametrize("reward_law", REWARD_LAWS)
def test_certain_rewards_are_certain(reward_law):
    for mean in (0.0, 1.0):
        world = ROMDP([[[1.0]]], [[mean]], [[1.0]], reward_law)
        assert (simulate(world, [0], 1_000, 0).rewards == mean).all()


def test_the_start_follows_the_initial_law():
    """Chi-square over 3,000 seeds: chance of a false alarm 1e-3."""
    base = world_of()
    initial = [0.6, 0.0, 0.4]
    world = ROMDP(base.transition, base.reward, base.emission, initial=initial)
    seen = np.array([Simulator(world, seed).observation for seed in range(3_000)])
    assert (world.labels[seen] != 1).all()
    law = np.array(initial)[world.labels] * world.observation_chance
    possible = law > 0
    counts = np.bincount(seen, minlength=world.n_observations)
    assert chisquare(counts[possible], 3_000 * law[possible]).pvalue > 1e-3


def test_seeds():
    world = world_of()
    one, same, other = (simulate(world, "uniform", 200, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert simulate(world, "uniform", 200) == simulate(world, "uniform", 200, seed=0)
    assert Simulator(world, 1).arrays()["state"].tolist() == xoshiro_state(1).tolist()
    for seed in (-1, 1.5, None, "a"):
        with pytest.raises(InvalidInputError, match="seed is"):
            simulate(world, "uniform", 10, seed=seed)


def test_an_mdp_is_a_world_whose_observations_are_its_states():
    mdp = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[0.0], [1.0]], "deterministic")
    seen = simulate(mdp, [0, 0], 6, seed=0)
    assert (np.diff(seen.observations) != 0).all()
    assert np.array_equal(seen.rewards, seen.observations)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world": "grid"}, "world is 'grid'; pass a romdp.ROMDP or romdp.MDP"),
        ({"policy": "unifrom"}, "unknown policy 'unifrom': did you mean 'uniform'"),
        ({"policy": [0, 1]}, r"policy has shape \(2,\); it must be \(12,\)"),
        ({"policy": [2] * 12}, r"policy\[0\] is 2; entries must lie from 0 to 1"),
        ({"policy": [0.5] * 12}, "policy holds float64 entries; pass whole numbers"),
        ({"policy": np.ones((12, 2))}, r"policy\[0, :\] sums to 2"),
        ({"policy": np.ones((2, 12)) / 12}, r"policy has shape \(2, 12\); it must be \(12, 2\)"),
        ({"policy": np.ones((1, 12, 2))}, r"policy has shape \(1, 12, 2\)"),
        ({"policy": None}, "policy"),
        ({"policy": [[0], [1, 0]]}, "policy is not an array"),
        ({"steps": 0}, "steps is 0; pass a whole number >= 1"),
        ({"steps": 1.5}, "steps is 1.5"),
        ({"steps": "10"}, "steps is '10'"),
    ],
)
def test_bad_arguments(arguments, message):
    good = {"world": world_of(), "policy": "uniform", "steps": 10}
    with pytest.raises(InvalidInputError, match=message):
        simulate(**{**good, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": [0] * 11}, r"table has shape \(11,\); it must be \(12,\)"),
        ({"table": [2] * 12}, r"table\[0\] is 2"),
        ({"table": [-1] * 12}, r"table\[0\] is -1"),
        ({"steps": -1}, "steps is -1"),
        ({"steps": 0.5}, "steps is 0.5"),
        (
            {"recorder": Recorder(12, 3)},
            "recorder counts 12 observations and 3 actions; .* 12 and 2",
        ),
        ({"recorder": Recorder(5, 2)}, "recorder counts 5 observations"),
        (
            {"budget": Budget(np.zeros(12, int), np.full(12, 9), np.ones(3, int))},
            r"budget.cells\[0\] is 9",
        ),
        (
            {"budget": Budget(np.zeros(11, int), np.zeros(11, int), np.ones(3, int))},
            r"budget.cells has shape \(11,\)",
        ),
    ],
)
def test_bad_runs_are_refused_before_a_kernel_sees_them(arguments, message):
    good = {"table": [0] * 12, "recorder": Recorder(12, 2), "steps": 10}
    with pytest.raises(InvalidInputError, match=message):
        Simulator(world_of(), 0).run(**{**good, **arguments})


def test_memory_does_not_grow_with_the_steps():
    world = world_of()
    simulator, recorder = Simulator(world, 0), Recorder(world.n_observations, 2)
    table = table_of(world)
    recorder.watch_triples(np.arange(world.n_observations), table)
    simulator.run(table, recorder, 1_000)
    tracemalloc.start()
    simulator.run(table, recorder, 3_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recorder.counts.n_steps == 3_001_000
    assert peak < 100_000


def test_a_large_world_is_simulated_without_square_arrays():
    """Y = 100,000, X = 50: some megabytes and a second or two, where Y x Y would take 80 GB."""
    start = time.perf_counter()
    tracemalloc.start()
    world = random_romdp(50, 4, 100_000, 0)
    simulator, recorder = Simulator(world, 0), Recorder(world.n_observations, 4)
    table = table_of(world)
    simulator.run(table, recorder, 200_000)
    seen = simulator.trajectory(table, 1_000)
    with pytest.raises(TooLargeError, match="100000 observations"):
        _ = world.observable
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recorder.counts.is_sparse
    assert recorder.counts.n_steps == recorder.counts.n_transitions == 200_000
    assert seen.n_observations == 100_000
    assert peak < 200e6
    assert time.perf_counter() - start < 60  # a plain loop or a square array takes far longer

"""Policies to take away: what they do, their files, and what they earn."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from romdp.baselines import QLearning

import romdp
from romdp.core.errors import InvalidInputError, MisuseError, StorageError
from romdp.core.storage import read_arrays, write_arrays
from romdp.encoding.observations import encoder_for
from romdp.worlds import random_romdp
from romdp.worlds.wrappers import VocabularyWrapper

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)


class Doors(gymnasium.Env):
    """The door that is named leads on; actions are pairs, observations dictionaries."""

    observation_space = spaces.Dict(
        {"door": spaces.Text(10), "sign": spaces.Box(0, 9, (2,), np.int64)}
    )
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.look(), {}

    def step(self, action):
        right = tuple(action) == ((1, 0) if self.name == "red" else (0, 1))
        self.left -= 1
        return self.look(), float(right), self.left == 0, False, {}

    def look(self):
        self.name = ("red", "blue")[self.np_random.integers(2)]
        return {"door": self.name, "sign": np.array([3, 4])}


@pytest.fixture(scope="module")
def doors():
    return romdp.play(romdp.LCPSRL(), Doors(), 300, seed=0)


def seen(name):
    return {"door": name, "sign": np.array([3, 4])}


def test_the_policy_does_what_is_best_by_what_was_learned():
    policy = romdp.play(romdp.LCPSRL(), WORLD, 10_000, seed=0).policy
    best = WORLD.hidden.optimal_policy[WORLD.labels]
    assert [policy.act(y) for y in range(9)] == best.tolist()
    for y in range(9):
        np.testing.assert_array_equal(policy.probabilities(y), np.eye(2)[best[y]])
    assert np.isfinite(policy.values).all()


class Deadline(gymnasium.Env):
    """To stay pays a little; to leave pays more and ends the episode, which has four steps."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return 0, {}

    def step(self, action):
        self.age += 1
        return 0, 1.0 if action == 1 else 0.4, action == 1, self.age == 4, {}


def test_under_a_horizon_it_depends_on_the_step(tmp_path):
    run = romdp.play(romdp.LCPSRL(objective="episodic:4"), Deadline(), 600, seed=0)
    run.policy.save(tmp_path / "policy.npz")
    for policy in (run.policy, romdp.load_policy(tmp_path / "policy.npz")):
        assert [policy.act(0, step) for step in range(6)] == [0, 0, 0, 1, 1, 1]
        assert policy.act(0) == 0  # the first step's
        np.testing.assert_array_equal(policy.probabilities(0, 3), [0.0, 1.0])
        assert policy.values[0] == pytest.approx(3 * 0.4 + 1.0, abs=0.05)
        assert policy.act(1, 2) == policy.default  # never met
        with pytest.raises(InvalidInputError, match="step is -1"):
            policy.act(0, -1)


def test_it_takes_the_environments_own_observations_and_returns_its_actions(doors):
    assert doors.policy.act(seen("red")).tolist() == [1, 0]
    assert doors.policy.act(seen("blue")).tolist() == [0, 1]
    assert Doors.action_space.contains(doors.policy.act(seen("red")))


def test_it_answers_for_what_was_never_met_and_always_alike(doors):
    strange = {"door": "green", "sign": np.array([0, 9])}
    answers = {tuple(doors.policy.act(strange)) for _ in range(5)}
    assert len(answers) == 1
    assert Doors.action_space.contains(doors.policy.act(strange))
    assert doors.policy.act(seen("red")).tolist() == [1, 0]  # asking has taught it nothing


def test_an_observation_outside_the_space_is_refused():
    policy = romdp.play(romdp.PSRL(), WORLD, 100, seed=0).policy
    with pytest.raises(InvalidInputError, match="observation is 9"):
        policy.act(9)


def test_a_policy_before_the_first_step_answers():
    policy = romdp.epochs(romdp.LCPSRL(), WORLD, 10).run.policy
    assert policy.act(3) == policy.act(8) == 0
    assert np.isnan(policy.values).all()


@pytest.mark.parametrize("counting", ["pooled", "paper"])
def test_every_way_of_counting_gives_a_policy(counting):
    agent = romdp.SLUCRL(3, romdp.Hoeffding(0.1), counting=counting)
    policy = romdp.play(agent, WORLD, 5_000, seed=0).policy
    assert policy.table.shape == (9,)


def test_saving_writes_one_file_that_answers_the_same(doors, tmp_path):
    lake = romdp.play(romdp.PSRL(), gymnasium.make("FrozenLake-v1"), 500, seed=0).policy
    cards = VocabularyWrapper(gymnasium.make("Blackjack-v1"), capacity=800)
    hands = romdp.play(romdp.PSRL(), cards, 500, seed=0, reward_range=(-1, 1)).policy
    for name, policy, observations in [
        ("doors", doors.policy, [seen("red"), seen("blue"), seen("green")]),
        ("lake", lake, range(16)),
        ("hands", hands, range(800)),
    ]:
        policy.save(tmp_path / name)
        again = romdp.load_policy(tmp_path / name)
        for observation in observations:
            np.testing.assert_array_equal(again.act(observation), policy.act(observation))
        np.testing.assert_array_equal(again.values, policy.values)
        assert (again.agent, again.objective) == (policy.agent, policy.objective)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["doors", "hands", "lake"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.array([0] * 8 + [9])}, r"labels holds 9; it must lie in \[-1, 8\]"),
        ({"labels": np.zeros(8, np.int64)}, "its parts are of different sizes"),
        ({"plan": np.full((1, 9), 2)}, "there are only 2 actions"),
        ({"plan": np.zeros((1, 8), np.int64)}, r"plan has shape \(1, 8\)"),
        ({"plan": np.zeros((0, 9), np.int64)}, "its parts are of different sizes"),
        ({"default": np.array(-1)}, "default holds -1"),
        ({"other": np.zeros(1)}, "other does not belong there"),
        ({"actions": {"numbers": 0}}, "n_actions is 0"),
        ({"actions": {"names": {"capacity": 2, "names": []}}}, "no encoder of an action"),
        ({"observations": {"numbers": 9.5}}, "no encoder of an observation"),
        ({"observations": {"space": {"discrete": -9, "start": 0}}}, "no space"),
        ({"observations": {"space": {"grid": [[3], [1, 2]], "start": [0]}}}, "no space"),
        ({"observations": {"names": {"capacity": 9, "names": ["a", "a"]}, "axes": 0}}, "twice"),
        ({"observations": []}, "policy.* (is damaged|no codes)"),
    ],
)
def test_crafted_files_are_refused(change, message, tmp_path):
    path = tmp_path / "policy"
    romdp.play(romdp.PSRL(), WORLD, 100, seed=0).policy.save(path)
    arrays, facts = read_arrays(path, "policy", 2)
    for name, value in change.items():
        (arrays if isinstance(value, np.ndarray) else facts)[name] = value
    write_arrays(path, "policy", 2, arrays, facts)
    with pytest.raises(StorageError, match=message):
        romdp.load_policy(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("go left")
    WORLD.save(tmp_path / "world.npz")
    with pytest.raises(StorageError, match="not a file of romdp"):
        romdp.load_policy(tmp_path / "text")
    with pytest.raises(StorageError, match="policy"):
        romdp.load_policy(tmp_path / "world.npz")


SIGHTS = {
    "numbers": (WORLD, np.arange(9)),
    "cells": (gymnasium.make("FrozenLake-v1"), np.arange(16)),
    "hands": (gymnasium.make("Blackjack-v1"), [(12, 3, 0), (20, 10, 1), (4, 1, 0)]),
    "doors": (Doors(), [seen("red"), seen("blue"), seen("green")]),
    "poles": (gymnasium.make("CartPole-v1"), np.random.default_rng(0).normal(0, 0.05, (40, 4))),
}


@pytest.fixture(scope="module", params=SIGHTS)
def left(request):
    """A run with some observations of its environment."""
    place, batch = SIGHTS[request.param]
    return romdp.play(romdp.LCPSRL(), place, 1_200, seed=0), batch


def test_a_batch_is_answered_as_its_observations_are_one_by_one(left):
    run, batch = left
    actions, states = run.policy.act(batch), run.policy.state(batch)
    assert len(actions) == len(states) == len(batch)
    for i, observation in enumerate(batch):
        np.testing.assert_array_equal(actions[i], run.policy.act(observation))
        assert states[i] == run.policy.state(observation) == run.model.predict(observation)
    np.testing.assert_array_equal(run.policy.predict(batch)[0], actions)
    assert run.policy.predict(batch)[1] is None
    np.testing.assert_array_equal(
        run.policy.probabilities(batch).argmax(axis=1),
        [run.policy.probabilities(observation).argmax() for observation in batch],
    )


def test_a_run_leaves_a_model_as_fit_would_return_it(left, tmp_path):
    run, batch = left
    model = run.model
    assert isinstance(model, romdp.LatentModel)
    known = model.predict(batch) >= 0
    assert known.any()
    shares = model.predict_proba(batch)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares[known].argmax(axis=1), model.predict(batch)[known])
    assert model.q_values.shape == (model.n_states, model.n_actions)
    assert np.isfinite(model.q_values).all()
    assert model.counts.n_steps <= model.n_rows == 1_200
    assert model.value_basis == "none"
    assert "keep a log of it" in str(model)
    assert "greedy" not in str(model)  # nobody wrote a log from which it could depart
    model.save(tmp_path / "model")
    run.policy.save(tmp_path / "policy")
    again = romdp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(batch), model.predict(batch))
    np.testing.assert_array_equal(again.policy, model.policy)
    np.testing.assert_array_equal(again.q_values, model.q_values)
    assert again.observation_names == model.observation_names
    stored = romdp.load_policy(tmp_path / "policy")
    np.testing.assert_array_equal(stored.state(batch), model.predict(batch))
    page = romdp.reports.write_model_page(run, tmp_path / "page.html").read_text()
    assert "How it learned" in page


def test_a_run_and_what_it_leaves_can_be_pickled(left):
    run, batch = left
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.policy.act(batch), run.policy.act(batch))
    np.testing.assert_array_equal(again.model.predict(batch), run.model.predict(batch))


def test_a_dictionary_of_arrays_is_a_batch_too():
    """As vector environments hand observations out."""
    space = spaces.Dict({"a": spaces.Discrete(3, start=1), "b": spaces.MultiBinary(2)})
    batch = {"a": np.array([1, 3, 2]), "b": np.array([[0, 1], [1, 1], [0, 0]])}
    codes, single = encoder_for(space).find_all(batch)
    each = [{"a": a, "b": b} for a, b in zip(batch["a"], batch["b"], strict=True)]
    assert codes.tolist() == [encoder_for(space).encode(one) for one in each]
    assert not single
    vectors = spaces.Dict({"a": spaces.Discrete(3, start=1), "b": spaces.Box(0, 1, (2, 2))})
    batch["b"] = np.random.default_rng(0).random((3, 2, 2)).astype(np.float32)
    each = [{"a": a, "b": b} for a, b in zip(batch["a"], batch["b"], strict=True)]
    encoder = encoder_for(vectors)
    for i, one in enumerate(each):
        np.testing.assert_array_equal(encoder.read(one), spaces.flatten(vectors, one))
        encoder.encode(one)
        assert encoder.find_all(batch)[0].tolist() == [*range(i + 1), *[-1] * (2 - i)]


def test_a_model_of_vectors_is_scored_on_vectors():
    """Pictures of the lake's cells, which repeat: far better than a guess among sixteen."""
    lake = gymnasium.make("FrozenLake-v1")
    env = romdp.worlds.VectorObservation(lake, [np.eye(16)[[i]] for i in range(16)], seed=0)
    run = romdp.play(romdp.LCPSRL(), env, 2_000, seed=0)
    rows, lengths = [], []
    for episode in range(30):
        shown, over, steps = env.reset(seed=episode)[0], False, 0
        while not over:
            action = (episode + steps) % 4
            following, reward, ended, cut, _ = env.step(action)
            rows.append((shown, action, reward))
            shown, over, steps = following, ended or cut, steps + 1
        lengths.append(steps)
    shown, actions, rewards = (list(column) for column in zip(*rows, strict=True))
    ends = np.ones(len(lengths), bool)
    seen = romdp.Trajectory(np.array(shown), actions, rewards, lengths, terminated=ends)
    assert np.log(1 / 16) + 1 < run.model.score(seen) < 0


def test_states_and_rewards_of_the_model_are_those_of_the_world():
    run = romdp.play(romdp.LCPSRL(), WORLD, 20_000, seed=0)
    model = run.model
    assert model.n_states == 3
    truth = WORLD.labels[[model.typical(state)[0] for state in range(3)]]
    tried = model.counts.visits > 500
    np.testing.assert_allclose(model.rewards[tried], WORLD.reward[truth][tried], atol=0.08)
    np.testing.assert_array_equal(model.policy, WORLD.hidden.optimal_policy[truth])
    assert model.score(romdp.simulate(WORLD, "uniform", 2_000, seed=1)) > np.log(1 / 9)


def test_rewards_of_any_size_are_in_their_own_units():
    env = gymnasium.wrappers.TransformReward(gymnasium.make("CliffWalking-v1"), lambda r: 10 * r)
    model = romdp.play(romdp.LCPSRL(), env, 2_000, seed=0).model
    assert model.reward_range == (-1000.0, -10.0)
    known = model.counts.visits > 0
    assert np.isin(model.rewards[known].round(6), (-10.0, -1000.0)).mean() > 0.9


def test_it_is_asked_as_stable_baselines3_asks(tmp_path):
    policy = romdp.play(romdp.LCPSRL(objective="episodic:4"), Deadline(), 600, seed=0).policy
    shown, steps = np.zeros(2, np.int64), None
    chosen = []
    for begins in ([True, True], [False, False], [False, True], [False, False], [False, False]):
        actions, steps = policy.predict(shown, state=steps, episode_start=np.array(begins))
        chosen.append(actions.tolist())
    assert chosen == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 0]]
    action, steps = policy.predict(0, state=None, episode_start=np.ones(1, bool))
    assert (action, steps.tolist()) == (0, [1])


def test_what_leaves_no_model_says_so():
    with pytest.raises(MisuseError, match="nothing was learned yet"):
        _ = romdp.epochs(romdp.LCPSRL(), WORLD, 10).run.model
    run = romdp.play(QLearning(), WORLD, 200, seed=0)
    assert run.policy.act(range(9)).shape == (9,)
    with pytest.raises(MisuseError, match="counts nothing"):
        _ = run.model


def test_an_observation_of_a_batch_that_is_outside_is_refused(left):
    run, _ = left
    for strange in ([99] * 3, np.full((3, 4), np.nan), "no such thing", [[1, 2], [3]]):
        try:
            states = run.policy.state(strange)
        except InvalidInputError:
            continue
        assert (np.asarray(states) == -1).all()
    with pytest.raises(InvalidInputError, match="step"):
        run.policy.act(0, step=[1, -2])


def test_an_agent_goes_on_from_the_model_of_a_run():
    model = romdp.play(romdp.LCPSRL(), WORLD, 5_000, seed=0).model
    again = romdp.play(model.to_agent(), WORLD, 2_000, seed=1)
    assert again.pseudo_regret[-1] < 40
    model = romdp.play(romdp.LCPSRL(), gymnasium.make("CartPole-v1"), 1_000, seed=0).model
    with pytest.raises(MisuseError, match="codes of vectors"):
        model.to_agent()


LAKE = gymnasium.make("FrozenLake-v1", is_slippery=False)


class Fair(gymnasium.Env):
    """One step that pays 0 or 2, and 10 more for the second action."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, 2.0 * self.np_random.integers(2) + 10.0 * int(action), True, False, {}


def test_the_mean_and_its_standard_error():
    """Returns are 0 or 2: mean 1, deviation 1. At five standard errors one false alarm in 10^6."""
    found = romdp.evaluate_policy(lambda shown: 0, Fair(), episodes=400, seed=1)
    assert found.error == pytest.approx(1 / 20, rel=0.02)
    assert abs(found.mean - 1.0) < 5 * found.error
    assert romdp.evaluate_policy(lambda shown: 0, Fair(), episodes=400, seed=1) == found
    assert romdp.evaluate_policy(lambda shown: 1, Fair(), 400, seed=1).mean == found.mean + 10
    assert np.isnan(romdp.evaluate_policy(lambda shown: 0, Fair(), episodes=1).error)


def test_the_first_reset_is_that_of_play():
    seeds = []

    class Watched(Fair):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed)

    romdp.evaluate_policy(lambda shown: 0, Watched(), episodes=3, seed=5)
    assert seeds == [romdp.first_seed(5), None, None]


def test_actions_as_arrays_without_axes():
    """So stable-baselines3's agents say them; the lake looks them up in a dictionary."""

    class Right:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            return np.array(2), None

    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    assert romdp.evaluate_policy(Right(), lake, episodes=2).mean == 0.0


class Countdown(gymnasium.Env):
    """Three steps; action 1 pays in the last one and ends the episode before."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 3
        return 0, {}

    def step(self, action):
        self.left -= 1
        return 0, float(action == 1 and not self.left), action == 1 or not self.left, False, {}


def test_a_policy_that_depends_on_the_step_is_told_it():
    run = romdp.play(romdp.LCPSRL(objective="episodic:3"), Countdown(), 400, seed=0)
    assert romdp.evaluate_policy(run.policy, Countdown(), episodes=5) == (1.0, 0.0)


def test_what_has_predict_is_asked_as_stable_baselines3_is():
    class Learner:
        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            assert (state is None) == episode_start[0]
            return np.int64(1), (1,)

    assert romdp.evaluate_policy(Learner(), Fair(), episodes=2).mean >= 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("left", LAKE, 2), "policy is 'left'"),
        ((lambda shown: 0, "FrozenLake-v1", 2), "env is 'FrozenLake-v1'"),
        ((lambda shown: 0, LAKE, 0), "episodes is 0"),
        ((lambda shown: 0, LAKE, 2, "x"), "seed"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        romdp.evaluate_policy(*arguments)


def test_a_model_is_no_policy():
    model = romdp.play(romdp.LCPSRL(), LAKE, 300, seed=0).model
    with pytest.raises(InvalidInputError, match=r"pass run\.policy"):
        romdp.evaluate_policy(model, LAKE, 2)


def test_an_episode_that_does_not_end_is_noticed(monkeypatch):
    monkeypatch.setattr("romdp.playing.evaluating._MOST_STEPS", 50)
    env = romdp.worlds.ROMDPEnv(romdp.worlds.random_romdp(2, 2, 4, seed=0))
    with pytest.raises(MisuseError, match="has not ended after 50 steps"):
        romdp.evaluate_policy(lambda shown: 0, env, 1)

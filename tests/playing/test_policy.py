"""Policies: what is taken away from a run, asked, stored and read again."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import romdp
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.storage import read_arrays, write_arrays
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
        ({"table": np.array([0] * 8 + [2])}, r"table holds 2; it must lie in \[0, 1\]"),
        ({"table": np.zeros(8, np.int64)}, r"table has shape \(8,\)"),
        ({"default": np.array(-1)}, "default holds -1"),
        ({"other": np.zeros(1)}, "other does not belong there"),
        ({"actions": {"numbers": 0}}, "n_actions is 0"),
        ({"actions": {"names": {"capacity": 2, "names": []}}}, "no encoder of an action"),
        ({"observations": {"numbers": 9.5}}, "no encoder of an observation"),
        ({"observations": {"space": {"discrete": -9, "start": 0}}}, "no space"),
        ({"observations": {"space": {"grid": [[3], [1, 2]], "start": [0]}}}, "no space"),
        ({"observations": {"names": {"capacity": 9, "names": ["a", "a"]}}}, "occurs twice"),
        ({"observations": []}, "policy.* (is damaged|no codes)"),
    ],
)
def test_crafted_files_are_refused(change, message, tmp_path):
    path = tmp_path / "policy"
    romdp.play(romdp.PSRL(), WORLD, 100, seed=0).policy.save(path)
    arrays, facts = read_arrays(path, "policy", 1)
    for name, value in change.items():
        (arrays if isinstance(value, np.ndarray) else facts)[name] = value
    write_arrays(path, "policy", 1, arrays, facts)
    with pytest.raises(StorageError, match=message):
        romdp.load_policy(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("go left")
    WORLD.save(tmp_path / "world.npz")
    with pytest.raises(StorageError, match="not a file of romdp"):
        romdp.load_policy(tmp_path / "text")
    with pytest.raises(StorageError, match="policy"):
        romdp.load_policy(tmp_path / "world.npz")

"""Baselines by name: tabular Q-learning, its episodes, and what is refused."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from romdp.baselines import BASELINES, QLearning, baseline, play_baseline

import romdp
from romdp.agents.recipes import UCRL2
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.randomness import as_uniform, next_word, split_word, stream, xoshiro_state
from romdp.exact.mdp import REWARD_LAWS
from romdp.exact.romdp import ROMDP
from romdp.playing import play
from romdp.worlds.named import random_mdp, random_romdp
from romdp.worlds.simulator import Simulator

WORLD = romdp.worlds.random_romdp(3, 2, 7, seed=4)


def test_the_catalogue_knows_each_by_its_own_name():
    assert sorted(BASELINES) == ["dqn", "q-learning"]
    assert all(kind.name == name for name, kind in BASELINES.items())


def test_settings_reach_the_baseline():
    assert baseline("q-learning", memory=50) == QLearning(memory=50)
    run = play_baseline("q-learning", WORLD, 500, seed=3, optimism=2.0)
    expected = play(QLearning(optimism=2.0), WORLD, 500, 3)
    assert run.reward.tolist() == expected.reward.tolist()
    assert run.agent == "q-learning"


def test_the_callback_is_called():
    heard = []
    run = play_baseline("q-learning", WORLD, 500, callback=heard.append)
    assert [epoch.length for epoch in heard] == run.steps.tolist()


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'q-learning'"):
        play_baseline("qlearning", WORLD, 10)
    with pytest.raises(UnknownNameError, match=r"setting of q-learning 'optimsm'.*'optimism'"):
        play_baseline("q-learning", WORLD, 10, optimsm=1.0)


def test_what_is_no_world_is_refused():
    with pytest.raises(InvalidInputError, match="world is a str"):
        play_baseline("q-learning", "river-swim", 10)


def test_the_catalogue_is_light():
    code = "import romdp.baselines as b, sys; b.BASELINES; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_q_learning_finds_its_way():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    run = play_baseline("q-learning", env, 5_000, seed=0, floor=0.0)
    assert run.agent == "q-learning"
    assert run.returns["step"][-1] <= 5_000
    assert run.mean_return > 0.9  # greedy from 30% of the steps on, in a world without chance
    assert np.isnan(run.regret).all()
    again = play_baseline("q-learning", env, 5_000, seed=0, floor=0.0)
    np.testing.assert_array_equal(again.returns, run.returns)


def test_q_learning_plays_what_must_be_named():
    run = play_baseline("q-learning", gymnasium.make("Blackjack-v1"), 500, seed=0)
    assert len(run.returns) > 200


def test_dqn_plays_episodes():
    run = play_baseline("dqn", gymnasium.make("FrozenLake-v1"), 1_000, seed=0)
    assert len(run.returns) > 50
    assert run.returns["length"].sum() <= 1_000


class PlainLearner:
    """Differential Q-learning again, written for reading, on the public simulator."""

    def __init__(self, settings, world, seed):
        self.settings, self.world = settings, world
        self.simulator = Simulator(world, stream(seed, 0))
        self.chance = tuple(xoshiro_state(seed, 1))
        self.values = np.zeros((world.n_observations, world.n_actions))
        self.visits = np.zeros(self.values.shape, int)
        self.gain = settings.optimism

    def word(self):
        word, *self.chance = (np.uint64(number) for number in next_word(*self.chance))
        return word

    def action(self, y):
        exploration = self.settings.exploration
        drawn = as_uniform(self.word()) < exploration / (exploration + self.visits[y].sum() + 1)
        if drawn:
            return split_word(self.word(), np.uint64(self.world.n_actions))[0]
        return int(self.values[y].argmax())

    def step(self):
        y = self.simulator.observation
        action = self.action(y)
        reward = self.simulator.step(int(action))
        self.visits[y, action] += 1
        size = (self.settings.memory + 1) / (self.settings.memory + self.visits[y, action])
        target = reward - self.gain + self.values[self.simulator.observation].max()
        error = target - self.values[y, action]
        self.values[y, action] += size * error
        self.gain += self.settings.gain_rate / self.values.size * size * error


@pytest.mark.parametrize("reward_law", REWARD_LAWS)
@pytest.mark.parametrize("settings", [QLearning(), QLearning(20, 1.5, 2.0, 0)])
def test_it_is_the_plain_learner(reward_law, settings):
    world = random_romdp(3, 3, 8, seed=2, reward_law=reward_law)
    run = play(settings, world, 400, seed=7)
    plain = PlainLearner(settings, world, 7)
    reward, expected, noted = [], [], set(run.steps.tolist())
    for t in range(400):
        plain.step()
        if t + 1 in noted:
            reward.append(plain.simulator.reward)
            expected.append(plain.simulator.expected_reward)
    # not to the bit: a compiler may fuse a product and a sum
    assert np.allclose(run.reward, reward, rtol=0, atol=1e-9)
    best = run.steps * world.hidden.gain
    assert np.allclose(run.pseudo_regret, best - np.array(expected), rtol=0, atol=1e-9)
    assert np.isclose(run.epochs.gain[0], plain.gain, rtol=0, atol=1e-9)


def test_a_seed_decides_everything():
    world = random_romdp(3, 3, 8, seed=2)
    first, again, other = (play(QLearning(), world, 2000, seed) for seed in (3, 3, 4))
    assert first.reward.tolist() == again.reward.tolist()
    assert first.pseudo_regret.tolist() == again.pseudo_regret.tolist()
    assert first.pseudo_regret.tolist() != other.pseudo_regret.tolist()


def test_a_longer_run_begins_like_a_shorter_one():
    world = random_romdp(3, 3, 8, seed=2)
    short, long = (play(QLearning(), world, steps, seed=1) for steps in (1000, 5000))
    assert long.pseudo_regret[: short.steps.size].tolist() == short.pseudo_regret.tolist()


def test_the_world_is_the_one_that_agents_meet():
    """With one action nothing is decided, so all that differs is what the world draws."""
    world = random_romdp(4, 1, 9, seed=3)
    mine, theirs = play(QLearning(), world, 3000, seed=5), play(UCRL2(), world, 3000, seed=5)
    assert mine.reward.tolist() == theirs.reward.tolist()
    assert mine.pseudo_regret.tolist() == theirs.pseudo_regret.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_it_learns(seed):
    """Fixed seeds: no false alarm. The first forty worlds end between 0.009 and 0.06."""
    world = random_romdp(5, 4, 10, seed=seed)
    run = play(QLearning(), world, 200_000, seed)
    uniform = world.reward.mean(axis=1) @ stationary_of_uniform(world)
    assert run.pseudo_regret[-1] < 0.1 * 200_000 * (world.hidden.gain - uniform)


def stationary_of_uniform(world):
    chain = world.transition.mean(axis=1)
    return np.linalg.matrix_power(chain, 10_000)[0]


def test_it_plays_an_mdp_and_finds_its_gain():
    mdp = random_mdp(4, 2, seed=1)
    run = play(QLearning(), mdp, 300_000)
    assert run.partition.n_clusters == 4
    assert abs(run.epochs.gain[0] - mdp.gain) < 0.02


@pytest.mark.parametrize(("optimism", "tries_all"), [(1.0, True), (0.0, False)])
def test_an_optimistic_start_explores_without_chance(optimism, tries_all):
    """One state, certain rewards: only hope leads away from the first action."""
    reward = [[0.3, 0.2, 0.6]]
    world = ROMDP(np.ones((1, 3, 1)), reward, [[1.0]], reward_law="deterministic")
    run = play(QLearning(optimism=optimism, exploration=0), world, 2000)
    late = (run.reward[-1] - run.reward[-20]) / (run.steps[-1] - run.steps[-20])
    assert late == pytest.approx(0.6 if tries_all else 0.3, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": -1}, "memory is -1"),
        ({"gain_rate": 0}, "gain_rate is 0"),
        ({"optimism": float("nan")}, "optimism is nan"),
        ({"exploration": "much"}, "exploration is 'much'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        QLearning(**settings)


@pytest.mark.parametrize("steps", [0, -5, 2.5])
def test_bad_steps_are_refused(steps):
    with pytest.raises(InvalidInputError, match="steps is"):
        play(QLearning(), random_romdp(2, 2, 4), steps)

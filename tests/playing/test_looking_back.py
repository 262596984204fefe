"""Agents whose states look back: ``LCPSRL(memory=)``."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import romdp
from romdp.core.errors import InvalidInputError

LENGTH = 3


class Corridor(gym.Env):
    """A cue, then a corridor without any sign; at its end the action that the cue named pays."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.t = int(self.np_random.integers(2)), 0
        return self.cue, {}

    def step(self, action):
        self.t += 1
        over = self.t == LENGTH + 2
        return 2, float(over and action == self.cue), over, False, {}


def earned(policy, n_episodes=40):
    env, total = Corridor(), 0.0
    for seed in range(n_episodes):
        shown, _ = env.reset(seed=seed)
        policy.reset()
        over = False
        while not over:
            shown, reward, over, _, _ = env.step(policy.act(shown))
            total += reward
    return total / n_episodes


@pytest.fixture(scope="module")
def run():
    return romdp.play(romdp.LCPSRL(memory="auto"), Corridor(), steps=3000, seed=0)


def test_a_cue_is_remembered_to_the_end_of_a_corridor(run):
    """Without memory an episode earns 0.5."""
    assert run.policy.looks_back
    assert earned(run.policy) == 1.0
    assert run.returns["return"].mean() > 0.7


def test_what_is_passed_on_is_what_act_remembers(run, tmp_path):
    run.policy.save(tmp_path / "policy.npz")
    policy = romdp.load_policy(tmp_path / "policy.npz")
    both = np.array([[0, 1], [2, 2], [2, 2], [2, 2], [2, 2]])
    state, begins = None, np.ones(2, np.bool_)
    answers = []
    for shown in both:
        actions, state = policy.predict(shown, state, begins)
        answers.append(actions)
        begins = np.zeros(2, np.bool_)
    for column, shown in zip(np.array(answers).T, both.T, strict=True):
        run.policy.reset()
        assert [run.policy.act(int(o)) for o in shown] == column.tolist()
        policy.reset()
        assert policy.act(shown).tolist() == column.tolist()
    assert answers[-1].tolist() == [0, 1]


def test_a_model_of_a_run_looks_back(run, tmp_path):
    left, right = (run.model.predict([cue, 2, 2, 2, 2]) for cue in (0, 1))
    assert left[-1] != right[-1]
    run.model.save(tmp_path / "model")
    assert romdp.load_model(tmp_path / "model").predict([0, 2, 2, 2, 2]).tolist() == left.tolist()


def test_streams_remember_each_for_itself_and_come_back_from_files(tmp_path):
    """The same loop, saved and read in the middle of episodes, goes on alike."""
    chosen = []
    for number in range(2):
        online = romdp.Online(romdp.LCPSRL(memory=4), 3, 2, seed=0)
        envs = [Corridor() for _ in range(2)]
        shown = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
        actions = []
        for t in range(450):
            if number and t == 402:
                online.save(tmp_path / "online.npz")
                online = romdp.Online.load(tmp_path / "online.npz")
            for i, env in enumerate(envs):
                actions.append(online.act(shown[i], stream=i))
                shown[i], reward, over, _, _ = env.step(actions[-1])
                online.observe(reward, None if over else shown[i], terminated=over, stream=i)
                if over:
                    shown[i] = env.reset()[0]
        chosen.append(actions)
        assert online.policy.looks_back
    assert chosen[0] == chosen[1]


def test_nothing_is_remembered_where_observations_tell_all():
    """Runs are those of an agent without memory."""
    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    actions = []
    for memory in (0, "auto"):
        online = romdp.Online(romdp.LCPSRL(memory=memory), 9, 2, seed=0)
        rng, state, chosen = np.random.default_rng(0), 0, []
        for _ in range(1200):
            shown = int(rng.choice(np.flatnonzero(world.labels == state)))
            chosen.append(online.act(shown))
            reward = float(rng.random() < world.reward[state, chosen[-1]])
            state = int(rng.choice(3, p=world.transition[state, chosen[-1]]))
            online.observe(reward, int(rng.choice(np.flatnonzero(world.labels == state))))
        assert not online.policy.looks_back
        actions.append(chosen)
    assert actions[0] == actions[1]


@pytest.mark.parametrize("memory", [-1, "all", 0.5])
def test_a_memory_that_cannot_be_is_refused(memory):
    with pytest.raises(InvalidInputError, match="memory"):
        romdp.LCPSRL(memory=memory)

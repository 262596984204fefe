"""What a policy earns in whole episodes."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import romdp
from romdp.core.errors import InvalidInputError, MisuseError

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
        ((lambda shown: 0, "FrozenLake-v1", 2), "env is a str"),
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

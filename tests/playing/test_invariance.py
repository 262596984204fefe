"""What cannot matter does not: the unit of rewards, a constant, the names of actions and places."""

import gymnasium
import numpy as np
import pytest

import romdp


class DeepSea(gymnasium.Env):
    """A prize behind small costs; every episode takes as many steps as the sea is deep."""

    def __init__(self, size=6, unit=1.0, more=0.0, actions=(0, 1), names=None):
        self._size, self._unit, self._more, self._actions = size, unit, more, actions
        self._names = np.arange(size * size) if names is None else names
        self.observation_space = gymnasium.spaces.Discrete(size * size)
        self.action_space = gymnasium.spaces.Discrete(2)

    def _seen(self):
        place = min(self._row, self._size - 1) * self._size + self._column
        return int(self._names[place])

    def reset(self, *, seed=None, options=None):
        self._row = self._column = 0
        return self._seen(), {}

    def step(self, action):
        right = self._actions[action] == (self._row + self._column) % 2
        prize = right and self._row == self._column == self._size - 1
        reward = float(prize) - right / 128
        self._column = min(max(self._column + (1 if right else -1), 0), self._size - 1)
        self._row += 1
        over = self._row == self._size
        return self._seen(), self._unit * (reward + self._more), over, False, {}


def play(steps=2_400, **changed):
    return romdp.play(romdp.LCPSRL(), DeepSea(**changed), steps, seed=3).returns["return"]


@pytest.fixture(scope="module")
def plain():
    returns = play()
    assert returns[-100:].mean() > 0.9
    return returns


@pytest.mark.parametrize("power", [-300, -30, 10, 300])
def test_the_unit_of_rewards_changes_no_choice(plain, power):
    np.testing.assert_array_equal(play(unit=2.0**power) / 2.0**power, plain)


@pytest.mark.parametrize("more", [-64.0, -0.5, 1.0, 64.0])
def test_a_constant_is_worth_nothing_where_episodes_have_a_fixed_length(plain, more):
    """Rewards of 0 and 1 are drawn otherwise than those of any size, so choices may differ."""
    returns = play(more=more) - 6 * more
    assert returns[-100:].mean() == pytest.approx(plain[-100:].mean(), abs=0.1)
    assert abs(np.argmax(returns > 0.9) - np.argmax(plain > 0.9)) <= 10  # found as soon


def test_permuted_actions_and_renamed_places_earn_as_much(plain):
    names = np.random.default_rng(0).permutation(36)
    for returns in (play(actions=(1, 0)), play(names=names)):
        assert returns[-100:].mean() == pytest.approx(plain[-100:].mean(), abs=0.1)


class Leaving(gymnasium.Env):
    """Customers who leave after 20 steps whatever is done; where they are is seen, when is not."""

    observation_space = gymnasium.spaces.Discrete(9)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, more):
        self._more = more

    def reset(self, *, seed=None, options=None):
        self._place = self._age = 0
        return 0, {}

    def step(self, action):
        forward = action == self._place % 2
        self._place = min(self._place + 1, 8) if forward else max(self._place - 1, 0)
        self._age += 1
        return self._place, float(self._place == 8) + self._more, self._age == 20, False, {}


@pytest.mark.parametrize("more", [0.0, 1.0, -1.0])
def test_an_end_that_comes_after_a_fixed_time_is_neither_sought_nor_shunned(more):
    """Paid 1 for every step, an agent would look for ways round on which nobody has left yet."""
    returns = romdp.play(romdp.LCPSRL(), Leaving(more), 6_000, seed=5).returns["return"]
    assert returns[-60:].mean() - 20 * more > 9.0  # 13 at most

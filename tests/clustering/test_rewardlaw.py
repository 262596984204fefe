import numpy as np
import pytest
from plain_blocks import walk

from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, NO_REWARD, read_reward_law
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory


def counts_of(rewards, n_observations=4, seed=0):
    rng = np.random.default_rng(seed)
    size = len(rewards)
    observations, actions = rng.integers(n_observations, size=size), rng.integers(2, size=size)
    seen = Trajectory(observations, actions, rewards, n_observations=n_observations, n_actions=2)
    return Counts.from_trajectory(seen), observations, actions


@pytest.mark.parametrize("levels", [(0.0, 1.0), (-10.0, -1.0, 20.0), (-100.0, -1.0), (0.1, 0.7)])
def test_levels_are_counted_exactly(levels):
    rewards = np.random.default_rng(1).choice(levels, size=40)
    counts, observations, actions = counts_of(rewards, n_observations=12)
    law = read_reward_law(counts)
    assert law.code == CATEGORICAL
    np.testing.assert_allclose(law.levels, levels)
    expected = np.zeros((12, 2, len(levels)))
    np.add.at(expected, (observations, actions, np.searchsorted(levels, rewards)), 1)
    np.testing.assert_array_equal(law.parts, expected)


def test_bernoulli_is_found_when_no_pair_is_pure():
    counts, _, _ = counts_of(np.tile([0.0, 1.0, 1.0], 400))
    assert (counts.reward_sums < counts.visits).all()
    assert (counts.reward_sums > 0).all()
    assert read_reward_law(counts).name == "bernoulli"


def test_equal_rewards_carry_no_information():
    assert read_reward_law(counts_of(np.full(50, 0.3))[0]).code == NO_REWARD
    assert read_reward_law(counts_of(np.full(50, 0.3))[0], "gaussian").code == NO_REWARD
    assert read_reward_law(walk(0), "none").code == NO_REWARD


def test_other_rewards_are_gaussian_with_standardised_parts():
    rewards = 5.0 + 3.0 * np.random.default_rng(2).standard_normal(300)
    law = read_reward_law(counts_of(rewards)[0])
    assert law.code == GAUSSIAN
    visits, sums, squares = law.parts.sum(axis=(0, 1))
    assert visits == 300
    assert sums == pytest.approx(0.0, abs=1e-9)
    assert squares == pytest.approx(300)


def test_a_law_that_does_not_fit_is_refused():
    counts, _, _ = counts_of(np.random.default_rng(0).random(60))
    with pytest.raises(InvalidInputError, match="not bernoulli"):
        read_reward_law(counts, "bernoulli")
    with pytest.raises(InvalidInputError, match="not categorical"):
        read_reward_law(counts, "categorical")
    with pytest.raises(InvalidInputError, match="did you mean 'gaussian'"):
        read_reward_law(counts, "gausian")

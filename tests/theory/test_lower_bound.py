"""The constant of Burnetas and Katehakis against brute force."""

import math

import numpy as np
import pytest

import romdp
from romdp.theory.lower_bound import bernoulli_divergence, cost_of_deviation


def brute_force(law, reward, values, aim, resolution=300):
    """Least divergence over a grid of laws on three states; the reward is then the least enough."""
    first, second = np.meshgrid(*[np.arange(1, resolution)] * 2, indexing="ij")
    third = resolution - first - second
    inside = third > 0
    laws = np.stack([first[inside], second[inside], third[inside]], axis=1) / resolution
    means = np.maximum(reward, aim - laws @ values)
    laws, means = laws[means < 1], means[means < 1]
    divergence = (law * np.log(law / laws)).sum(axis=1)
    coins = reward * np.log(reward / means) + (1 - reward) * np.log((1 - reward) / (1 - means))
    return (divergence + coins).min()


@pytest.mark.parametrize("seed", range(10))
def test_the_cost_is_the_least_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(3)) * 0.9 + 0.1 / 3
    values, reward = 2 * rng.random(3), rng.uniform(0.1, 0.8)
    worth = reward + law @ values
    most = 1 + values.max()
    aim = worth + rng.uniform(0.1, 0.6) * (most - worth)
    found, plain = (
        cost_of_deviation(law, reward, values, aim),
        brute_force(law, reward, values, aim),
    )
    assert found <= plain + 1e-9
    assert found == pytest.approx(plain, rel=0.03)  # the grid is coarse


def test_an_aim_beyond_everything_costs_infinitely_much():
    law, values = np.array([0.5, 0.5]), np.array([0.0, 1.0])
    assert cost_of_deviation(law, 0.5, values, 2.1) == math.inf
    assert cost_of_deviation(law, 0.5, values, 1.9) < math.inf


def test_a_bandit_has_the_bound_of_lai_and_robbins():
    """One state: rewards alone can deviate, and C is the sum of gap / kl(r, best)."""
    world = romdp.MDP(np.ones((1, 3, 1)), [[0.2, 0.5, 0.45]])
    expected = 0.3 / bernoulli_divergence(0.2, 0.5) + 0.05 / bernoulli_divergence(0.45, 0.5)
    assert romdp.theory.lower_bound(world) == pytest.approx(expected, rel=1e-6)


def test_unseen_states_are_possible():
    """A pair that never moves to the best state may still do so in another world.

    With chance q for the best state (worth 1) and mean reward u, the cost is -log((1 - q) (1 - u))
    under q + u = 1/2.
    """
    found = cost_of_deviation(np.array([1.0, 0.0]), 0.0, np.array([0.0, 1.0]), 0.5)
    shares = np.linspace(0, 0.5, 10_001)
    assert found == pytest.approx(np.min(-np.log((1 - shares) * (0.5 + shares))), abs=1e-6)


def test_observations_do_not_matter():
    one, other = (romdp.worlds.random_romdp(5, 4, y, seed=2) for y in (5, 50))
    assert romdp.theory.lower_bound(one) == pytest.approx(romdp.theory.lower_bound(other))
    assert romdp.theory.lower_bound(one) == pytest.approx(49.1, abs=0.1)


def test_a_world_without_choice_costs_nothing():
    assert romdp.theory.lower_bound(romdp.MDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[0.2], [0.9]])) == 0

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from mdp_cases import MDPS, PROPERTY, all_policies, river, sparse_mdp
from scipy.optimize import linprog

from romdp.exact import solvers
from romdp.exact.chains import gain_and_bias


@given(MDPS)
@PROPERTY
def test_gain_is_the_best_of_all_policies(mdp):
    transition, reward = mdp
    states = np.arange(len(reward))
    best = np.full(len(reward), -np.inf)
    for actions, matrix in all_policies(transition):
        best = np.maximum(best, gain_and_bias(matrix, reward[states, actions])[0])
    found = solvers.policy_iteration(transition, reward)
    assert found.gain == pytest.approx(best, abs=1e-9)
    own_gain, own_bias = gain_and_bias(
        transition[states, found.policy], reward[states, found.policy]
    )
    assert found.gain == pytest.approx(own_gain, abs=1e-12)
    assert found.bias == pytest.approx(own_bias, abs=1e-9)
    assert found.residual < 1e-9


@given(MDPS)
@PROPERTY
def test_solution_solves_the_optimality_equations(mdp):
    transition, reward = mdp
    found = solvers.policy_iteration(transition, reward)
    gains = transition @ found.gain
    assert gains.max(axis=1) == pytest.approx(found.gain, abs=1e-10)
    totals = np.where(gains > found.gain[:, None] - 1e-10, reward + transition @ found.bias, -1e9)
    assert totals.max(axis=1) == pytest.approx(found.gain + found.bias, abs=1e-9)


@given(st.integers(0, 10**6))
@PROPERTY
def test_gain_agrees_with_relative_value_iteration(seed):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(6, 0.3), size=(6, 3))
    reward = rng.random((6, 3))
    # Staying put half the time changes no gain and takes the periods away.
    lazy = (transition + np.eye(6)[:, None]) / 2
    values = np.zeros(6)
    for _ in range(5000):
        change = (reward + lazy @ values).max(axis=1) - values
        values = values + change - change[0]
        if np.ptp(change) < 1e-11:
            break
    assert np.ptp(change) < 1e-11
    assert solvers.policy_iteration(transition, reward).gain == pytest.approx(change, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_gain_agrees_with_the_linear_programme(seed):
    # Multichain dual (Puterman 1994, section 9.3): least sum of g with g >= P g, g + h >= r + P h.
    transition, reward = sparse_mdp(np.random.default_rng(seed), 6, 2, 0.1, False)
    flow = np.repeat(np.eye(6), 2, axis=0) - transition.reshape(12, 6)
    stay = np.repeat(np.eye(6), 2, axis=0)
    upper = -np.block([[flow, np.zeros((12, 6))], [stay, flow]])
    limits = -np.concatenate([np.zeros(12), reward.ravel()])
    cost = np.concatenate([np.ones(6), np.zeros(6)])
    programme = linprog(cost, upper, limits, bounds=(None, None), method="highs")
    assert programme.success
    assert solvers.policy_iteration(transition, reward).gain == pytest.approx(
        programme.x[:6], abs=1e-7
    )


@pytest.mark.parametrize("sure_left", [False, True])
def test_the_long_river_is_swum_to_its_end(sure_left):
    transition, reward = river(200, sure_left=sure_left)
    found = solvers.policy_iteration(transition, reward)
    assert found.policy.tolist() == [1] * 200
    # Under "right" the stationary law falls by 1/7 per state from the last one.
    assert found.gain == pytest.approx(np.full(200, 6 / 7), abs=1e-12)
    assert found.residual < 1e-9


@pytest.mark.parametrize("rarity", [1e-3, 1e-6, 1e-9, 1e-12])
def test_rare_ways_between_two_halves(rarity):
    transition = np.zeros((4, 2, 4))
    for x, a in itertools.product(range(4), range(2)):
        half = 2 * (x // 2)
        transition[x, a, half : half + 2] = [0.25, 0.75] if a else [0.5, 0.5]
    transition[1, 1] = [0.5, 0.5 - rarity, rarity, 0.0]
    reward = np.array([[0.1, 0.1], [0.2, 0.1], [0.5, 0.6], [0.9, 0.3]])
    found = solvers.policy_iteration(transition, reward)
    assert found.policy[1] == 1  # it costs now, and pays for ever
    assert np.ptp(found.gain) < 1e-9


def test_a_gain_that_depends_on_the_start():
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1, :, 1] = transition[2, :, 2] = 1.0
    reward = np.array([[1.0, 0.0], [0.2, 0.1], [0.6, 0.7]])
    found = solvers.policy_iteration(transition, reward)
    assert found.gain.tolist() == [0.7, 0.2, 0.7]
    assert found.policy.tolist() == [1, 0, 1]


def test_ties_go_to_the_lowest_action():
    rng = np.random.default_rng(0)
    transition = np.repeat(rng.dirichlet(np.ones(5), size=(5, 1)), 4, axis=1)
    reward = np.tile([0.1, 0.5, 0.5, 0.2], (5, 1))
    assert solvers.policy_iteration(transition, reward).policy.tolist() == [1] * 5
    # Two ways of equal worth, found from a start that prefers the second.
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1, :, 0] = transition[2, :, 0] = 1.0
    reward = np.array([[0.0, 0.5], [0.5, 0.5], [0.0, 0.0]])
    assert solvers.policy_iteration(transition, reward).policy.tolist() == [0, 0, 0]


def test_one_state():
    found = solvers.policy_iteration(np.ones((1, 2, 1)), np.array([[0.25, 0.75]]))
    assert (found.gain.tolist(), found.bias.tolist(), found.policy.tolist()) == ([0.75], [0], [1])

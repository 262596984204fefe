"""Objectives, exact values under them, and the solvers that find them."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from cases import MDPS, PROPERTY, all_policies, river, sparse_mdp
from hypothesis import given
from scipy.optimize import linprog

import romdp
from romdp.core.errors import InvalidInputError
from romdp.exact import solvers
from romdp.exact.chains import gain_and_bias
from romdp.exact.objectives import AVERAGE, Objective, parse_optional


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


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("average", AVERAGE),
        ("episodic", Objective("episodic")),
        ("episodic:25", Objective("episodic", horizon=25)),
        (0.99, Objective("discounted", 0.99)),
        ("0.99", Objective("discounted", 0.99)),
        (Objective("episodic", 0.9), Objective("episodic", 0.9)),
    ],
)
def test_what_people_write(written, meant):
    assert Objective.parse(written) == meant
    assert parse_optional(written) == meant
    assert parse_optional(None) is None


@pytest.mark.parametrize(
    "wrong", ["episode", "episodic:x", "average:3", 1.0, 0, -0.5, 2, float("nan"), [], True, "1.5"]
)
def test_anything_else_is_refused_with_what_to_pass(wrong):
    with pytest.raises(InvalidInputError, match=r"objective is .*such as 0\.99"):
        Objective.parse(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("discounted",), "needs a discount"),
        (("average", 0.9), "no discount"),
        (("average", None, 5), "only an episodic"),
        (("episodic", 0.9, 5), "one of the two"),
        (("episodic", None, 0), "horizon is 0"),
    ],
)
def test_fields_must_fit_together(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Objective(*arguments)


def test_sums_are_kept_finite_by_the_step_limit():
    assert Objective("episodic").rate == 0.999
    assert Objective("episodic").within(200).rate == 0.995
    assert Objective("episodic", 0.9).within(200).rate == 0.9
    assert Objective("episodic", horizon=7).within(200).rate == 1.0
    assert Objective("discounted", 0.9).within(200, 0.5) == Objective("discounted", 0.9, None, 0.5)
    assert AVERAGE.within(200, 0.5) is AVERAGE
    assert str(Objective("episodic").within(200)) == "episodic, discount 0.995"


def small_mdp(seed):
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(3), (3, 2))
    return romdp.MDP(moves, rng.random((3, 2))), rng.random((3, 2)) * 0.5


def simulated_sum(mdp, ending, policy, discount, horizon):
    """Expected sum of rewards by pushing the law of the state forward; policy is (T, S)."""
    values = np.empty(3)
    for start in range(3):
        law, total = np.eye(3)[start], 0.0
        for t in range(horizon):
            actions = policy[min(t, len(policy) - 1)]
            states = np.arange(3)
            total += discount**t * law @ mdp.reward[states, actions]
            stays = law * (1 - ending[states, actions])
            law = stays @ mdp.transition[states, actions]
        values[start] = total
    return values


@pytest.mark.parametrize("seed", range(4))
def test_discounted_values_are_the_best_over_all_policies(seed):
    mdp, ending = small_mdp(seed)
    policies = [np.array([p]) for p in itertools.product(range(2), repeat=3)]
    best = np.max([simulated_sum(mdp, ending, p, 0.8, 300) for p in policies], axis=0)
    assert mdp.values(0.8, ending=ending) == pytest.approx(best)
    found = mdp.best_policy(0.8, ending=ending)
    assert simulated_sum(mdp, ending, found[None], 0.8, 300) == pytest.approx(best)
    assert mdp.values(0.8, found, ending=ending) == pytest.approx(best)


def test_values_under_a_horizon_depend_on_the_step():
    mdp, ending = small_mdp(5)
    rows = list(itertools.product(range(2), repeat=3))
    plans = [np.array(p) for p in itertools.product(rows, repeat=3)]
    best = np.max([simulated_sum(mdp, ending, p, 1.0, 3) for p in plans], axis=0)
    found = mdp.best_policy("episodic:3", ending=ending)
    assert found.shape == (3, 3)
    assert mdp.values("episodic:3", ending=ending)[0] == pytest.approx(best)
    assert mdp.values("episodic:3", found, ending=ending)[0] == pytest.approx(best)
    # A fixed policy is followed at every step.
    fixed = mdp.values("episodic:3", [0, 1, 0], ending=ending)[0]
    assert fixed == pytest.approx(simulated_sum(mdp, ending, np.array([[0, 1, 0]]), 1.0, 3))


def test_the_end_pays_nothing_in_the_rewards_own_units():
    # A step costs 1, written as 0.5 of [-2, 0] rescaled to [0, 1]; ending at once is best.
    mdp = romdp.MDP(np.ones((1, 2, 1)), [[0.5, 0.4]])
    ending = [[0.0, 1.0]]
    assert mdp.best_policy(0.9, ending=ending)[0] == 0
    scaled = Objective("discounted", 0.9, zero_reward=1.0)
    assert mdp.best_policy(scaled, ending=ending)[0] == 1
    assert mdp.values(scaled, ending=ending) == pytest.approx([-0.6])


def test_the_average_is_the_gain():
    mdp, _ = small_mdp(0)
    assert mdp.values("average") == pytest.approx(mdp.gain)
    assert (mdp.best_policy("average") == mdp.optimal_policy).all()
    assert mdp.values("average", [0, 1, 0]) == pytest.approx(mdp.policy_gain([0, 1, 0]))


def test_chances_of_ending_are_checked():
    mdp, _ = small_mdp(0)
    with pytest.raises(InvalidInputError, match=r"ending\[0, 0\] is 2"):
        mdp.values(0.9, ending=np.full((3, 2), 2.0))
    with pytest.raises(InvalidInputError, match="policy"):
        mdp.values(0.9, [0, 1])

"""Objectives, and exact values under them."""

import itertools

import numpy as np
import pytest

import romdp
from romdp.core.errors import InvalidInputError
from romdp.exact.objectives import AVERAGE, Objective, parse_optional


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

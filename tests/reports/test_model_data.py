"""How sure the best action is: against simulation, and where nothing can be said."""

import dataclasses

import numpy as np
import pytest

import romdp
from romdp.data.counts import Counts
from romdp.logs import fit
from romdp.logs.model.latent import build
from romdp.reports.model_data import compare_actions

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=3, seed=1)


def model_of(counts, reward_range=(0.0, 1.0)):
    n = counts.n_observations
    return build(
        romdp.Partition(np.arange(n)),
        counts,
        np.full(n, 5.0),
        np.ones(n),
        observation_names=tuple(range(n)),
        action_names=tuple(range(counts.n_actions)),
        reward_range=reward_range,
    )


def counted(seed, steps=3000):
    seen = romdp.simulate(WORLD, "uniform", steps, seed=seed)
    return model_of(Counts.from_trajectory(seen))


def test_losses_are_those_of_the_exact_model():
    model = counted(0)
    mdp, found = model.mdp, compare_actions(model)
    worth = mdp.reward + mdp.transition @ mdp.bias
    expected = worth.max(axis=1, keepdims=True) - worth
    np.testing.assert_allclose(found.losses, expected, atol=1e-9)
    np.testing.assert_allclose(found.future, mdp.stationary(model.policy), atol=1e-12)
    wide = dataclasses.replace(model, reward_range=(-5.0, 15.0))
    np.testing.assert_allclose(compare_actions(wide).losses, 20 * expected, atol=1e-8)


def test_a_chance_near_one_half_where_two_actions_are_the_same():
    rng = np.random.default_rng(0)
    sures = []
    for _ in range(200):
        wins = rng.binomial(400, 0.3, 2).astype(float)
        counts = Counts([[400, 400]], np.full((1, 2, 1), 400), [wins], [wins])
        sures.append(compare_actions(model_of(counts)).sure[0])
    # The best of two equals: its chance is uniform on [1/2, 1], with mean 3/4 and error 0.01.
    assert np.mean(sures) == pytest.approx(0.75, abs=0.05)  # false alarms: below 1e-6
    assert min(sures) >= 0.5


def test_more_of_the_same_makes_surer():
    few = counted(0, 300).counts
    many = Counts(9 * few.visits, 9 * few.transitions, 9 * few.reward_sums, 9 * few.reward_squares)
    before, after = compare_actions(model_of(few)).sure, compare_actions(model_of(many)).sure
    assert (after > before).all()
    assert (before > 0.5).all()


def test_a_few_equal_rewards_are_no_certainty():
    counts = Counts([[2, 500]], [[[2], [500]]], [[2.0, 400.0]], [[2.0, 400.0]])
    assert compare_actions(model_of(counts)).sure[0] < 0.9


def test_where_nothing_can_be_said():
    alone = Counts([[5, 0]], [[[5], [0]]], [[2.0, 0.0]], [[2.0, 0.0]])
    found = compare_actions(model_of(alone))
    assert np.isnan(found.sure[0])
    assert np.isnan(found.losses[0, 1])
    apart = Counts([[9], [9]], [[[9, 0]], [[0, 9]]], [[1.0], [5.0]], [[1.0], [5.0]])
    assert all(np.isnan(values).all() for values in compare_actions(model_of(apart)))
    seen = romdp.simulate(WORLD, "uniform", 500, seed=0)
    unpaid = fit({"y": seen.observations, "a": seen.actions}, "y", "a")
    assert np.isnan(compare_actions(unpaid).sure).all()

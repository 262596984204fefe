"""What states and actions are worth, and how well a model foresees a log."""

import numpy as np
import pytest

import romdp
from romdp.data.trajectory import Trajectory
from romdp.exact.mdp import MDP

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 20_000, seed=0)
LOG = {"o": SEEN.observations, "a": SEEN.actions, "r": 10.0 * SEEN.rewards - 3.0}


def exact_values(world, discount):
    """Discounted optimal values of the hidden states by value iteration, in the log's units."""
    values = np.zeros(world.n_states)
    for _ in range(2_000):
        q_values = 10.0 * world.reward - 3.0 + discount * world.transition @ values
        values = q_values.max(axis=1)
    return q_values


def states_of(model):
    """The state of the model that stands for each hidden state."""
    return np.array([model.predict(int(np.argmax(WORLD.labels == x))) for x in range(3)])


def test_discounted_values_are_within_their_errors():
    model = romdp.fit(LOG, "o", "a", "r", objective=0.9)
    at, truth = states_of(model), exact_values(WORLD, 0.9)
    gap = model.q_values[at] - truth
    assert np.abs(gap).max() < 4 * model.q_errors.max()
    assert 0 < model.q_errors.max() < 0.05 * np.abs(truth).max()
    np.testing.assert_allclose(model.values, model.q_values.max(axis=1))
    assert model.value_errors.shape == (3,)


def test_average_values_are_the_bias_of_the_best_policy():
    """Five standard errors are exceeded by chance once in a million times."""
    model = romdp.fit(LOG, "o", "a", "r")
    at = states_of(model)
    bias = 10.0 * MDP(WORLD.transition, WORLD.reward).bias
    truth = bias - model.share[at] @ bias
    assert (np.abs(model.values[at] - truth) < 5 * model.value_errors[at]).all()
    assert model.value_errors.max() < 0.05 * np.ptp(truth)
    assert model.share @ model.values == pytest.approx(0.0, abs=1e-4)


def test_mean_rewards_are_within_their_errors():
    """Twelve normal means: four standard errors are exceeded once in a thousand times."""
    model = romdp.fit(LOG, "o", "a", "r")
    at = states_of(model)
    truth = 10.0 * WORLD.reward - 3.0
    assert (np.abs(model.rewards[at] - truth) < 4 * model.reward_errors[at]).all()
    assert model.reward_errors.max() < 0.5
    assert np.isnan(romdp.fit(LOG, "o", "a").reward_errors).all()


def test_errors_shrink_with_the_log_and_there_are_no_values_without_rewards(tmp_path):
    part = {name: column[:2_000] for name, column in LOG.items()}
    few, many = (romdp.fit(log, "o", "a", "r", objective=0.9) for log in (part, LOG))
    assert few.value_errors.mean() > 1.5 * many.value_errors.mean()
    assert np.isnan(romdp.fit(LOG, "o", "a").q_values).all()
    many.save(tmp_path / "m")
    np.testing.assert_array_equal(romdp.load_model(tmp_path / "m").q_errors, many.q_errors)


def test_the_score_is_the_mean_log_probability_and_ends_count_where_they_are_known():
    model = romdp.fit(LOG, "o", "a", "r")
    other = romdp.simulate(WORLD, "uniform", 20_000, seed=1)
    law = WORLD.transition[WORLD.labels[other.observations], other.actions] @ WORLD.emission
    truth = np.log(law[np.arange(19_999), other.observations[1:20_000]]).mean()
    table = {"o": other.observations, "a": other.actions}
    assert model.score(table) == pytest.approx(truth, abs=0.01)
    assert model.score(table) < truth  # no model foresees better than the world itself
    assert model.score(Trajectory(other.observations, other.actions)) == model.score(table)
    renamed = {"page": table["o"], "offer": table["a"]}
    assert model.score(renamed, observation="page", action="offer") == model.score(table)
    with pytest.raises(romdp.ROMDPError, match="no argument 'pages'"):
        model.score(table, pages="o")


def test_the_end_of_an_episode_is_foreseen():
    """A coin decides after each step whether the episode ends: log 2 for each step, no more."""
    rng = np.random.default_rng(0)
    lengths = rng.geometric(0.5, 4_000)
    n = int(lengths.sum())
    seen, age = np.zeros((2, n), np.int64)
    visit = np.repeat(np.arange(4_000), lengths)
    age = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    seen = age % 2
    log = {"o": seen, "a": rng.integers(2, size=n), "r": rng.random(n), "e": visit}
    model = romdp.fit(log, "o", "a", "r", "e", ends="terminated")
    assert model.score(log) == pytest.approx(-np.log(2.0), abs=0.01)
    cut = romdp.fit(log, "o", "a", "r", "e")
    assert cut.score(log) == pytest.approx(0.0, abs=0.01)  # what follows is certain, if anything

"""Optimism hands over to its confidence set; the posterior draws what it says."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse

import romdp
from romdp.agents.planners import Optimism, Posterior
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.data.counts import Counts
from romdp.planning import Plan, value_iteration
from romdp.planning.means import mean_plan

Z = 5.5  # standard errors: chance of a false alarm below 4e-8 a comparison, 1e-5 in all
VISITS = np.array([[4, 0], [9, 2]])
COUNTS = Counts(VISITS, [[[3, 1], [0, 0]], [[0, 9], [1, 1]]], [[1, 0], [8, 1.5]], [[1, 0], [8, 1]])


def draws(planner, n=20_000):
    """Many draws of the mean rewards, made at once: the counts are repeated along the states."""
    tiled = Counts(
        np.tile(VISITS, (n, 1)),
        scipy.sparse.csr_array((4 * n, 2 * n), dtype=np.int64),
        np.tile(COUNTS.reward_sums, (n, 1)),
        np.tile(COUNTS.reward_squares, (n, 1)),
    )
    return planner.draw_rewards(tiled, np.random.default_rng(0)).reshape(n, 2, 2)


def check_mean(samples, expected):
    error = samples.std(axis=0) / np.sqrt(len(samples))
    np.testing.assert_array_less(np.abs(samples.mean(axis=0) - expected), Z * error)


def test_beta_rewards_have_the_posterior_mean_and_variance():
    rewards = draws(Posterior(1.0, "beta"))
    a, b = 1 + COUNTS.reward_sums, 1 + VISITS - COUNTS.reward_sums
    mean = a / (a + b)
    check_mean(rewards, mean)
    check_mean((rewards - mean) ** 2, a * b / ((a + b) ** 2 * (a + b + 1)))
    assert mean[0, 1] == 0.5  # never visited: the prior, Beta(1, 1)


def test_normal_rewards_have_the_posterior_mean_and_variance():
    """Prior N(1/2, 1/4), samples of variance 1/4: precision 4 (1 + n)."""
    rewards = draws(Posterior(rewards="normal"))
    mean = (4 * 0.5 + 4 * COUNTS.reward_sums) / (4 + 4 * VISITS)
    check_mean(rewards, mean)
    check_mean((rewards - mean) ** 2, 1 / (4 + 4 * VISITS))
    assert mean[0, 1] == 0.5


def test_pairs_below_the_floor_count_with_a_part_of_their_tries():
    """Of n tries below m = floor log(t), n^2 / m count; the counts are 4, 0, 9 and 2."""
    level = np.log(1000)
    counted = VISITS * np.minimum(1, VISITS / level)
    assert counted[1, 0] == 9
    assert counted[0, 0] < 4
    sums = COUNTS.reward_sums * np.minimum(1, VISITS / level)
    tiled = Counts(
        np.tile(VISITS, (20_000, 1)),
        scipy.sparse.csr_array((80_000, 40_000), dtype=np.int64),
        np.tile(COUNTS.reward_sums, (20_000, 1)),
        np.tile(COUNTS.reward_squares, (20_000, 1)),
    )
    planner, rng = Posterior(1.0, "beta"), np.random.default_rng(0)
    rewards = planner.draw_rewards(tiled, rng, 1000).reshape(-1, 2, 2)
    check_mean(rewards, (1 + sums) / (2 + counted))
    laws = np.array([planner.draw_transitions(COUNTS, rng, 1000) for _ in range(5000)])
    moves = COUNTS.transitions * np.minimum(1, VISITS / level)[..., None]
    check_mean(laws, (moves + 0.5) / (moves.sum(-1, keepdims=True) + 1))
    # Moves that are seen to be certain are not doubted again.
    certain = Counts(np.full((30, 1), 5), 5 * np.eye(30, dtype=int)[:, None], *np.zeros((2, 30, 1)))
    drawn = Posterior().draw_transitions(certain, rng, 1000)
    assert drawn[np.arange(30), 0, np.arange(30)].mean() > 0.99


def test_reward_sums_that_rounding_pushed_out_are_clipped():
    counts = Counts([[3]], [[[3]]], [[3.0]], [[3.0]])
    counts.reward_sums.setflags(write=True)
    counts.reward_sums[0, 0] = np.nextafter(3.0, 4.0)
    drawn = Posterior(1.0, "beta").draw_rewards(counts, np.random.default_rng(0))
    assert 0 < drawn[0, 0] <= 1


def test_a_plan_is_the_best_one_for_the_world_that_was_drawn():
    planner = Posterior(1.0, "beta")
    plan = planner.plan(COUNTS, 400, np.random.default_rng(7))
    rng = np.random.default_rng(7)
    laws = planner.draw_transitions(COUNTS, rng, 400)
    rewards = planner.draw_rewards(COUNTS, rng, 400)
    mdp = romdp.MDP(laws, rewards)
    assert plan.converged
    assert abs(plan.gain - mdp.gain) <= 0.01 / 2 + 1e-12  # the precision is min(0.01, 1/sqrt(t))
    assert mdp.policy_gain(plan.policy) >= mdp.gain - 0.01


@pytest.mark.parametrize(("t", "precision"), [(1, 0.01), (400, 0.01), (10**6, 1e-3)])
def test_the_precision_of_the_posterior_plan(t, precision):
    plan = Posterior(1.0, "beta").plan(COUNTS, t, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    laws, rewards = (
        Posterior(1.0, "beta").draw_transitions(COUNTS, rng, t),
        Posterior(1.0, "beta").draw_rewards(COUNTS, rng, t),
    )
    twin = value_iteration(laws, rewards, precision)
    assert (plan.gain, plan.sweeps) == (twin.gain, twin.sweeps)
    assert plan.gap < precision


def test_values_of_the_last_plan_shorten_the_next():
    cold = Posterior(1.0, "beta").plan(COUNTS, 10**8, np.random.default_rng(1))
    warm = Posterior(1.0, "beta").plan(COUNTS, 10**8, np.random.default_rng(1), cold.values)
    assert warm.sweeps < cold.sweeps
    np.testing.assert_array_equal(warm.policy, cold.policy)


def test_pairs_never_visited_are_drawn_from_the_prior():
    """Their law varies from draw to draw, the well-known ones hardly."""
    counts = Counts(
        [[0, 10**6], [10**6, 10**6]],
        [[[0, 0], [10**6, 0]], [[5 * 10**5, 5 * 10**5], [0, 10**6]]],
        [[0, 10**6], [0, 5 * 10**5]],
        [[0, 10**6], [0, 5 * 10**5]],
    )
    rng = np.random.default_rng(0)
    laws = np.array([Posterior(1.0, "beta").draw_transitions(counts, rng) for _ in range(200)])
    spread = laws.std(axis=0)
    assert spread[0, 0].min() > 0.2  # Beta(1/2, 1/2) has 0.35
    assert np.delete(spread.reshape(4, 2), 0, axis=0).max() < 0.01


def test_large_models_of_which_little_was_seen_are_drawn_as_sparse_rows():
    n_states = 400
    sparse = Counts.zeros(n_states, 2, sparse=True)
    for counts in (sparse, sparse.dense()):
        laws = Posterior(1.0, "beta").draw_transitions(counts, np.random.default_rng(0))
        assert scipy.sparse.issparse(laws)
        assert laws.shape == (2 * n_states, n_states)
    moves = np.ones((n_states, 2, n_states), np.int64)
    paid = np.zeros((n_states, 2))
    seen = Counts(moves.sum(axis=2), moves, paid, paid)
    assert isinstance(
        Posterior(1.0, "beta").draw_transitions(seen, np.random.default_rng(0)), np.ndarray
    )
    plan = Posterior(1.0, "beta").plan(sparse, 1, np.random.default_rng(0))
    assert plan.policy.shape == (n_states,)


@dataclass(frozen=True)
class SpySet:
    asked: list

    def plan(self, counts, t, delta, *, start=None, n_observations=None):
        self.asked.append((counts, t, delta, start, n_observations))
        return Plan(np.zeros(2, np.int64), 0.25, 0.0, 1, np.zeros(2), True, 0.0)


def test_optimism_asks_its_confidence_set():
    asked, start = [], np.array([0.0, 1.0])
    plan = Optimism(SpySet(asked), delta=0.2).plan(COUNTS, 17, np.random.default_rng(0), start, 8)
    assert plan.gain == 0.25
    assert asked == [(COUNTS, 17, 0.2, start, 8)]


@pytest.mark.parametrize("confidence", [romdp.Hoeffding(0.3), romdp.Bernstein(0.3)])
def test_optimism_is_optimistic_and_draws_nothing(confidence):
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    plan = Optimism(confidence).plan(COUNTS, 16, rng)
    assert rng.bit_generator.state == before
    best_mean = np.max(COUNTS.reward_sums / np.maximum(1, VISITS))
    assert plan.gain >= best_mean - 0.25
    assert plan.gain <= 1 + 1e-9


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, np.nan, "0.1"])
def test_a_delta_outside_zero_and_one_is_refused(delta):
    with pytest.raises(InvalidInputError, match="delta"):
        Optimism(delta=delta)


def test_priors_that_make_no_sense_are_refused():
    with pytest.raises(InvalidInputError, match="prior"):
        Posterior(prior=0)
    with pytest.raises(UnknownNameError, match="did you mean 'beta'"):
        Posterior(rewards="bet")


@pytest.mark.parametrize("power", [-332, -40, 7, 332])
def test_the_unit_of_rewards_changes_no_choice(power):
    """Powers of two, from about 10^-100 to 10^100, are exact: all that is planned is the same."""
    rng, unit = np.random.default_rng(0), 2.0**power
    moves = rng.poisson(0.4, (30, 3, 31))
    visits, means = moves.sum(axis=2), rng.choice([-1.0, 0.0, 20.0], (30, 3))
    noise = rng.choice([0.0, 0.5], (30, 3)) * (visits > 0)

    def plan(unit, objective):
        squares = visits * means**2 + noise
        counts = Counts(
            *(visits, moves[..., :-1], unit * visits * means, unit * unit * squares),
            ends=moves[..., -1],
        )
        planner = Posterior(objective=objective)
        rewards, weights = planner.mean_rewards(counts), planner.prior_weights(counts)
        known = mean_plan(counts, planner.objective, rewards=rewards, weights=weights)
        return planner.plan(counts, 500, np.random.default_rng(1)), known

    for objective in ("episodic", 0.9):
        for mine, other in zip(plan(unit, objective), plan(1.0, objective), strict=True):
            np.testing.assert_array_equal(mine.policy, other.policy)
        drawn, other = plan(unit, objective)[0], plan(1.0, objective)[0]
        np.testing.assert_array_equal(drawn.values, unit * other.values)

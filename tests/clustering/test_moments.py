"""Moments of triples, from samples and from the whole population, and bounds on their errors."""

import math

import numpy as np
import pytest
import scipy.sparse

from romdp.clustering.spectral.bounds import (
    align,
    bootstrap,
    constant_bound,
    estimated_view,
    theory_bound,
    true_view,
)
from romdp.clustering.spectral.factors import matrix_factors, tensor_factors
from romdp.clustering.spectral.moments import Moments, threshold_rank, truncated_svd
from romdp.clustering.spectral.population import exact_views
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.worlds import random_romdp, simulate


def _trajectory(seed=0, n_steps=300, n_observations=7, n_actions=3):
    rng = np.random.default_rng(seed)
    policy = rng.integers(n_actions, size=n_observations)
    observations = rng.integers(n_observations, size=n_steps)
    return Trajectory(
        observations,
        policy[observations],
        lengths=[100, n_steps - 100],
        n_observations=n_observations,
        n_actions=n_actions,
    )


@pytest.mark.parametrize("action", [0, 1, 2])
def test_second_moments_are_shares_of_the_pairs_that_were_seen(action):
    seen = _trajectory()
    moments = Moments.from_triples(Triples.from_trajectory(seen), action)
    size = seen.n_observations
    expected = {pair: np.zeros((size, size)) for pair in ((2, 3), (1, 3), (2, 1), (3, 1))}
    n_samples = 0
    for start, stop in ((0, 100), (100, 300)):  # no triple crosses the end of an episode
        for t in range(start + 1, stop - 1):
            if seen.actions[t] == action:
                view = dict(zip((1, 2, 3), seen.observations[t - 1 : t + 2], strict=True))
                n_samples += 1
                for (p, q), counts in expected.items():
                    counts[view[p], view[q]] += 1
    assert moments.n_samples == n_samples
    for (p, q), counts in expected.items():
        full = np.zeros((size, size))
        full[np.ix_(moments.groups[p - 1], moments.groups[q - 1])] = moments.second(p, q)
        np.testing.assert_allclose(full, counts / n_samples, atol=1e-15)


def test_the_middle_view_holds_only_groups_where_the_action_was_taken():
    seen = _trajectory()
    moments = Moments.from_triples(Triples.from_trajectory(seen), 1)
    taken = np.unique(seen.observations[seen.actions == 1])
    np.testing.assert_array_equal(moments.groups[1], taken)
    assert len(moments.groups[0]) == seen.n_observations


def test_an_action_that_was_never_taken_has_no_moments():
    triples = Triples.from_trajectory(Trajectory([0, 1, 0], [0, 0, 0], n_actions=2))
    with pytest.raises(InvalidInputError, match="action 1"):
        Moments.from_triples(triples, 1)


def test_large_matrices_are_sparse_and_equal(monkeypatch):
    moments = Moments.from_triples(Triples.from_trajectory(_trajectory()), 0)
    dense = moments.second(2, 3)
    monkeypatch.setattr("romdp.clustering.spectral.moments._DENSE", 1)
    sparse = moments.second(2, 3)
    assert scipy.sparse.issparse(sparse)
    np.testing.assert_allclose(sparse.toarray(), dense)
    # The rank must not depend on the form, but for the draws of the noise.
    assert threshold_rank(moments, np.random.default_rng(0)).rank == 1


def test_partial_decomposition_agrees_with_the_full_one():
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((450, 500), density=0.02, rng=rng).tocsr()
    left, values, right = truncated_svd(matrix, 4, rng)
    expected = np.linalg.svd(matrix.toarray(), compute_uv=False)[:4]
    np.testing.assert_allclose(values, expected, rtol=1e-8)
    np.testing.assert_allclose(matrix @ right, left * values, atol=1e-6)
    assert left.shape == (450, 4)
    assert right.shape == (500, 4)


@pytest.mark.parametrize("seed", range(5))
def test_rank_of_exact_moments_is_the_number_of_hidden_states(seed):
    world = random_romdp(4, 3, 15, seed=seed)
    policy = np.eye(3)[np.random.default_rng(seed).integers(3, size=15)]
    for action in range(3):
        views = exact_views(world, policy, action)
        found = threshold_rank(views.moments(), np.random.default_rng(0))
        assert found.rank == len(views.states)


def test_rank_is_found_once_the_noise_is_small_and_never_above_the_truth():
    # Smallest singular value 0.0098, noise 0.9 / sqrt(nu): 5 standard deviations at the end.
    world = random_romdp(4, 1, 12, seed=0)
    smallest = threshold_rank(
        exact_views(world, np.ones((12, 1)), 0).moments(), np.random.default_rng(0)
    ).singular_values[3]
    ranks = []
    for steps in (100, 1000, 300_000):
        triples = Triples.from_trajectory(simulate(world, "uniform", steps, seed=1))
        found = threshold_rank(Moments.from_triples(triples, 0), np.random.default_rng(0))
        ranks.append(found.rank)
    assert found.threshold < smallest
    assert ranks == sorted(ranks)
    assert ranks[-1] == 4
    assert ranks[0] < 4


def test_noise_is_that_of_the_sampling():
    world = random_romdp(3, 1, 9, seed=2)
    exact = exact_views(world, np.ones((9, 1)), 0).moments().second(2, 3)
    errors, estimates = [], []
    for seed in range(10):
        triples = Triples.from_trajectory(simulate(world, "uniform", 20_000, seed=seed))
        moments = Moments.from_triples(triples, 0)
        errors.append(np.linalg.norm(moments.second(2, 3) - exact, 2))
        found = threshold_rank(moments, np.random.default_rng(seed), epsilon=0.0)
        estimates.append(found.threshold)
    # The estimate is the largest of eight draws. Over 10 seeds the ratio of the means lies in
    # [1, 1.9] for independent samples; a chain that mixes slower adds to the error.
    assert 0.6 < np.mean(estimates) / np.mean(errors) < 2.5


def test_a_given_g_makes_the_threshold_of_the_paper_and_there_may_be_no_rank():
    moments = Moments.from_triples(Triples.from_trajectory(_trajectory()), 0)
    nu = moments.n_samples
    found = threshold_rank(moments, np.random.default_rng(0), g=0.3, epsilon=0.25)
    assert found.threshold == pytest.approx(0.3 / nu**0.25)
    assert found.rank == np.count_nonzero(
        np.linalg.svd(moments.second(2, 3), compute_uv=False) > found.threshold
    )
    assert threshold_rank(moments, np.random.default_rng(0), g=100.0).rank == 0


def test_no_more_singular_values_are_computed_than_the_rank_needs():
    """Sixteen at first, then twice as many until one lies below the threshold."""
    world = random_romdp(3, 1, 30, seed=0)
    triples = Triples.from_trajectory(simulate(world, "uniform", 5000, seed=0))
    moments = Moments.from_triples(triples, 0)
    exact = np.linalg.svd(moments.second(2, 3), compute_uv=False)
    few = threshold_rank(moments, np.random.default_rng(0), g=0.3)
    np.testing.assert_allclose(few.singular_values, exact[:16], rtol=1e-9)
    all_of_them = threshold_rank(moments, np.random.default_rng(0), g=1e-9)
    np.testing.assert_allclose(all_of_them.singular_values, exact, rtol=1e-9)
    assert all_of_them.rank == 30


def test_resampling_keeps_the_groups_and_the_mean():
    moments = Moments.from_triples(Triples.from_trajectory(_trajectory()), 0)
    rng = np.random.default_rng(3)
    draws = [moments.resample(rng) for _ in range(400)]
    assert all(draw.groups is moments.groups for draw in draws)
    assert all(draw.weights.sum() == pytest.approx(1) for draw in draws)
    single = Moments.from_triples(Triples.from_trajectory(Trajectory([0, 1, 0], [0, 0, 0])), 0)
    assert {single.resample(rng).weights.sum() for _ in range(50)} == {0.0, 1.0}
    mean = np.mean([draw.second(2, 3) for draw in draws], axis=0)
    # Standard error of each entry is below 0.002; 0.012 is six of them.
    np.testing.assert_allclose(mean, moments.second(2, 3), atol=0.012)


def _setting(seed=0):
    world = random_romdp(3, 2, 8, seed=seed)
    return world, np.random.default_rng(seed).integers(2, size=8)


def test_views_are_laws_and_the_second_lies_on_the_observations_of_the_state():
    world, policy = _setting()
    for action in range(2):
        views = exact_views(world, np.eye(2)[policy], action)
        for view in (views.first, views.second, views.third):
            np.testing.assert_allclose(view.sum(axis=0), 1)
        assert views.chance.sum() == pytest.approx(1)
        for i, state in enumerate(views.states):
            support = np.flatnonzero(views.second[:, i] > 0)
            assert set(support) == set(np.flatnonzero((world.labels == state) & (policy == action)))


def test_exact_moments_are_what_a_long_run_shows():
    world, policy = _setting()
    triples = Triples.from_trajectory(simulate(world, policy, 400_000, seed=1))
    for action in range(2):
        exact = exact_views(world, np.eye(2)[policy], action).moments()
        sampled = Moments.from_triples(triples, action)
        for p, q in ((2, 3), (1, 3), (2, 1)):
            full = np.zeros((8, 8))
            full[np.ix_(sampled.groups[p - 1], sampled.groups[q - 1])] = sampled.second(p, q)
            full = full[np.ix_(exact.groups[p - 1], exact.groups[q - 1])]
            # Entries below 0.2 from some 1e5 samples: six standard errors are 0.008.
            np.testing.assert_allclose(full, exact.second(p, q), atol=0.008)


def test_grouped_views_add_up_observations():
    world, policy = _setting()
    views = exact_views(world, np.eye(2)[policy], 0)
    partition = Partition([0, 0, 1, 2, 2, 2, -1, 3])
    grouped = views.grouped(partition)
    np.testing.assert_allclose(grouped.third[2], views.third[3:6].sum(axis=0))
    assert grouped.first.shape == (4, len(views.states))


@pytest.fixture(scope="module")
def world():
    """Three states whose moments are well conditioned, so that errors are small."""
    transition = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])[:, None]
    labels = [0, 0, 1, 1, 1, 1, 2, 2, 2]
    chance = [0.7, 0.3, 0.4, 0.3, 0.2, 0.1, 0.5, 0.3, 0.2]
    return ROMDP.from_labels(transition, np.zeros((3, 1)), labels, chance)


def _moments(world, steps, seed):
    triples = Triples.from_trajectory(simulate(world, "uniform", steps, seed=seed))
    return Moments.from_triples(triples, 0)


def test_constant_bound_is_the_formula():
    expected = 2.5 * math.sqrt(math.log(2 * 20**1.5 / 1e-3) / 500)
    assert constant_bound(2.5, 20, 500, 1e-3) == pytest.approx(expected)
    assert math.isfinite(constant_bound(1.0, 20, 500, 1e-300))


def test_theory_bound_falls_like_one_over_the_root(world):
    view = true_view(exact_views(world, np.ones((9, 1)), 0))
    bound = theory_bound(view, 9, 100_000, 0.05)
    assert theory_bound(view, 9, 400_000, 0.05) == pytest.approx(bound / 2)
    assert theory_bound(view, 9, 100_000, 0.01) > bound


def test_theory_bound_by_hand():
    # One state, one action: mixing at once, weight one, V_2 the emission.
    world = random_romdp(1, 1, 4, seed=0)
    views = exact_views(world, np.ones((4, 1)), 0)
    sigma = np.linalg.norm(world.observation_chance)
    speed = views.mixing.geometric_ergodicity / (1 - views.mixing.contraction)
    third = math.sqrt(math.log(2 * 4**1.5 / 0.1) / 50)
    size = speed * (2 * math.sqrt(2) + 1) * third
    tilde = 2 * math.sqrt(2) * size / sigma**3 + 64 * size / sigma**2
    first = speed * (4 * math.sqrt(2) + 2) * math.sqrt(math.log(4 * 4 / 0.1) / 50)
    assert theory_bound(true_view(views), 4, 50, 0.1) == pytest.approx(first + 8 * tilde)


def test_the_constants_of_a_decomposition_are_those_of_the_world(world):
    views = exact_views(world, np.ones((9, 1)), 0)
    true = true_view(views)
    exact = views.moments()
    found = estimated_view(exact, tensor_factors(exact, 3, np.random.default_rng(0)))
    for name in ("omega", "sigma_first", "sigma_second", "sigma_third", "sigma_pairs"):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=1e-6)
    moments = _moments(world, 300_000, 0)
    sampled = estimated_view(moments, tensor_factors(moments, 3, np.random.default_rng(0)))
    assert sampled.omega == pytest.approx(true.omega, rel=0.1)
    assert sampled.sigma_first == pytest.approx(true.sigma_first, rel=0.1)


@pytest.mark.parametrize("method", ["tensor", "matrix"])
def test_bootstrap_errors_are_those_between_independent_runs(world, method):
    """Overlapping triples and the memory of the chain must not make the errors too small."""
    steps, n_runs = 100_000, 24
    exact = exact_views(world, np.ones((9, 1)), 0).second
    estimates, errors = [], []
    for seed in range(n_runs):
        moments = _moments(world, steps, seed)
        rng = np.random.default_rng(seed)
        if method == "tensor":
            found = tensor_factors(moments, 3, rng)
        else:
            found = matrix_factors(moments, 3, rng)
        order = align(found.columns, exact)
        estimates.append(found.columns[:, order])
        if seed < 6:
            replicas = bootstrap(moments, found, rng, method=method)
            assert replicas.failed == 0
            errors.append(replicas.standard_errors[:, order])
    between = np.sqrt(np.mean((np.array(estimates) - exact) ** 2, axis=0))
    ratio = np.median(errors, axis=0) / between
    # 24 runs give each standard deviation to 15 %, the median of six bootstraps to 8 %.
    assert 0.75 < np.median(ratio) < 1.35
    assert (ratio > 0.4).all()


def test_a_rank_beyond_the_data_gives_large_errors(world):
    """With one column too many the replicates disagree, or do not reach the rank."""
    moments = _moments(world, 3000, 0)
    rng = np.random.default_rng(0)
    right = bootstrap(moments, tensor_factors(moments, 2, rng), rng)
    wrong = bootstrap(moments, tensor_factors(moments, 4, rng), rng)
    assert wrong.failed > 0.1 or (
        np.median(wrong.standard_errors) > 2 * np.median(right.standard_errors)
    )


def test_columns_are_matched_whatever_their_order():
    rng = np.random.default_rng(0)
    reference = rng.dirichlet(np.ones(6), size=4).T
    shuffled = rng.permutation(4)
    columns = reference[:, shuffled] + 1e-3
    np.testing.assert_array_equal(columns[:, align(columns, reference)], reference + 1e-3)

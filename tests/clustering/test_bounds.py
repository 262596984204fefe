import math

import numpy as np
import pytest

from romdp.clustering.spectral.bounds import (
    align,
    bootstrap,
    constant_bound,
    estimated_view,
    theory_bound,
    true_view,
)
from romdp.clustering.spectral.factors import matrix_factors, tensor_factors
from romdp.clustering.spectral.moments import Moments
from romdp.clustering.spectral.population import exact_views
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.worlds import random_romdp, simulate


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

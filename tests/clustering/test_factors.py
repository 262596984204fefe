import numpy as np
import pytest

from romdp.clustering.spectral import factors as module
from romdp.clustering.spectral.bounds import align
from romdp.clustering.spectral.decomposition import SOLVERS
from romdp.clustering.spectral.factors import matrix_factors, separated, tensor_factors
from romdp.clustering.spectral.moments import Moments
from romdp.clustering.spectral.population import exact_views
from romdp.core.errors import StructureError
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.worlds import random_romdp, simulate


def _views(seed, n_states=5, n_actions=4, n_observations=20):
    world = random_romdp(n_states, n_actions, n_observations, seed=seed)
    policy = np.random.default_rng(seed).integers(n_actions, size=n_observations)
    for action in range(n_actions):
        yield exact_views(world, np.eye(n_actions)[policy], action)


def _error(columns, views, moments):
    exact = views.second[moments.groups[1]]
    return np.abs(columns[:, align(columns, exact)] - exact).max()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(5))
def test_exact_moments_give_v2_up_to_conditioning(solver, seed):
    for views in _views(seed):
        moments = views.moments()
        found = tensor_factors(moments, len(views.states), np.random.default_rng(0), solver=solver)
        assert _error(found.columns, views, moments) < 1e-8 * found.condition
        order = np.sort(views.chance)
        np.testing.assert_allclose(np.sort(found.chance), order, atol=1e-8 * found.condition)
        assert found.residual < 1e-8 * found.condition


def _symmetric_world():
    """Two states that mirror each other: all eigenvalues of M_2 coincide."""
    transition = np.array([[[0.8, 0.2]], [[0.2, 0.8]]])
    emission = [[0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0, 0.5, 0.3, 0.2]]
    return ROMDP(transition, [[0.1], [0.9]], emission)


@pytest.mark.parametrize("solver", SOLVERS)
def test_repeated_eigenvalues_do_not_disturb_the_tensor(solver):
    views = exact_views(_symmetric_world(), np.ones((6, 1)), 0)
    moments = views.moments()
    found = tensor_factors(moments, 2, np.random.default_rng(0), solver=solver)
    assert _error(found.columns, views, moments) < 1e-10


def test_the_matrix_variant_recovers_v2_where_eigenvalues_differ():
    for views in _views(3):
        moments = views.moments()
        found = matrix_factors(moments, len(views.states), np.random.default_rng(0))
        assert separated(found.chance, 0.0).all()
        assert _error(found.columns, views, moments) < 1e-8 * found.condition


def test_the_matrix_variant_notices_repeated_eigenvalues():
    views = exact_views(_symmetric_world(), np.ones((6, 1)), 0)
    found = matrix_factors(views.moments(), 2, np.random.default_rng(0))
    assert not separated(found.chance, 0.0).any()
    # Indeed its columns would be wrong.
    assert _error(found.columns, views, views.moments()) > 0.1


def test_separation_looks_at_both_neighbours_and_at_zero():
    assert separated(np.array([0.9, 0.5, 0.49, 0.1]), 0.01).tolist() == [True, False, False, True]
    assert separated(np.array([0.9, 0.5, 0.01]), 0.02).tolist() == [True, True, False]


def test_the_third_moment_agrees_with_plain_numpy():
    rng = np.random.default_rng(0)
    n_triples, size = 200, 3
    second, first, third = rng.integers(6, size=(3, n_triples))
    order = np.lexsort((first, second))
    first, second, third = first[order], second[order], third[order]
    weights = rng.random(n_triples)
    views = [rng.standard_normal((6, size)) for _ in range(3)]
    expected = np.einsum(
        "t,ta,tc,tb->acb", weights, views[0][first], views[2][third], views[1][second]
    )
    # Uncompiled as well: only there does reading beyond the last triple raise an error.
    for kernel in (module._whitened_tensor, module._whitened_tensor.py_func):
        found = kernel(first, second, third, weights, *views)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_sampled_factors_converge_like_one_over_the_root():
    transition = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])[:, None]
    world = ROMDP.from_labels(transition, np.zeros((3, 1)), [0, 0, 0, 1, 1, 1, 2, 2, 2])
    views = exact_views(world, np.ones((9, 1)), 0)
    errors = []
    for steps in (20_000, 320_000):
        squares = []
        for seed in range(8):
            triples = Triples.from_trajectory(simulate(world, "uniform", steps, seed=seed))
            moments = Moments.from_triples(triples, 0)
            found = tensor_factors(moments, 3, np.random.default_rng(0))
            squares.append(_error(found.columns, views, moments) ** 2)
        errors.append(np.sqrt(np.mean(squares)))
    # 16 times the samples: 4 times smaller. Each root mean square of 8 is good to about 20 %,
    # so a ratio outside [2, 8] is more than two standard errors of its logarithm away.
    assert 2 < errors[0] / errors[1] < 8
    assert errors[1] < 0.05


def test_too_high_a_rank_for_the_other_views_is_an_error():
    # What comes before says nothing of the middle state: every state is entered alike.
    transition = np.array([[[0.7, 0.3], [0.5, 0.5]], [[0.7, 0.3], [0.1, 0.9]]])
    world = ROMDP.from_labels(transition, [[0.5, 0.5]] * 2, [0, 0, 1, 1])
    policy = np.eye(2)[[0, 0, 0, 0]]
    with pytest.raises(StructureError, match="K_13 has rank 1, below the 2"):
        tensor_factors(exact_views(world, policy, 0).moments(), 2, np.random.default_rng(0))


def test_rank_one_gives_the_shares_of_the_symbols():
    views = next(_views(0, n_states=1, n_actions=1, n_observations=4))
    moments = views.moments()
    found = tensor_factors(moments, 1, np.random.default_rng(0))
    np.testing.assert_allclose(found.columns[:, 0], views.second[:, 0], atol=1e-12)

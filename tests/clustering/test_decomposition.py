"""Decomposition of the moments: tensor and matrix factors."""

import numpy as np
import pytest

from romdp.clustering.spectral import decomposition
from romdp.clustering.spectral import factors as module
from romdp.clustering.spectral.bounds import align
from romdp.clustering.spectral.decomposition import SOLVERS, decompose, polar, symmetrise
from romdp.clustering.spectral.factors import matrix_factors, separated, tensor_factors
from romdp.clustering.spectral.moments import Moments
from romdp.clustering.spectral.population import exact_views
from romdp.core.errors import InvalidInputError, StructureError, UnknownNameError
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.worlds import random_romdp, simulate


def _frame(size, seed=0):
    return polar(np.random.default_rng(seed).standard_normal((size, size)))


def _tensor(frame, values):
    return np.einsum("ai,bi,ci,i->abc", frame, frame, frame, values)


def _distance(found, frame):
    """Worst distance of a vector from the nearest one found."""
    return max(np.linalg.norm(found - q[:, None], axis=0).min() for q in frame.T)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1, 2, 5, 9])
@pytest.mark.parametrize("repeated", [False, True])
def test_exact_tensors_are_recovered_also_with_repeated_values(solver, size, repeated):
    frame = _frame(size)
    values = np.full(size, 2.0) if repeated else np.linspace(1, 3, size)
    found = decompose(_tensor(frame, values), solver, np.random.default_rng(1))
    assert _distance(found.vectors, frame) < 1e-8
    np.testing.assert_allclose(found.values, np.sort(values)[::-1], rtol=1e-8)
    assert found.residual < 1e-8
    assert found.solver == solver


@pytest.mark.parametrize("solver", SOLVERS)
def test_error_is_of_the_order_of_the_noise(solver):
    frame = _frame(5)
    rng = np.random.default_rng(0)
    noise = symmetrise(rng.standard_normal((5, 5, 5)))
    noise /= np.linalg.norm(noise)
    exact = _tensor(frame, np.array([3.0, 2.5, 2.2, 2.0, 1.8]))
    errors = [
        _distance(decompose(exact + size * noise, solver, rng).vectors, frame)
        for size in (1e-1, 1e-2, 1e-3)
    ]
    for size, error in zip((1e-1, 1e-2, 1e-3), errors, strict=True):
        assert 0.01 * size < error < 2 * size
    residual = decompose(exact + 0.1 * noise, solver, rng).residual
    assert 0 < residual < 0.1 / np.linalg.norm(exact) * 1.5


def test_joint_frames_are_closer_than_deflation_on_average():
    # Over 30 tensors the mean ratio of worst errors is about 0.7 (standard error 0.04).
    ratios = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        frame = _frame(8, seed)
        noisy = _tensor(frame, rng.uniform(1.5, 4, 8)) + 0.05 * rng.standard_normal((8, 8, 8))
        joint, power = (_distance(decompose(noisy, s, rng).vectors, frame) for s in SOLVERS)
        ratios.append(joint / power)
    assert np.mean(ratios) < 0.95


def test_asymmetric_input_is_made_symmetric():
    noise = np.random.default_rng(0).standard_normal((3, 3, 3))
    tensor = _tensor(_frame(3), np.array([3.0, 2.0, 1.5])) + 0.1 * noise
    a = decompose(tensor, rng=np.random.default_rng(0))
    b = decompose(tensor.transpose(2, 0, 1), rng=np.random.default_rng(0))
    np.testing.assert_allclose(a.values, b.values)


def test_the_same_seed_gives_the_same_answer():
    tensor = np.random.default_rng(0).standard_normal((4, 4, 4))
    for solver in SOLVERS:
        a, b = (decompose(tensor, solver, np.random.default_rng(7)) for _ in range(2))
        np.testing.assert_array_equal(a.vectors, b.vectors)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_starts_are_drawn_from_the_given_generator(solver):
    rng = np.random.default_rng(4)
    before = rng.bit_generator.state
    decompose(_tensor(_frame(4), np.arange(1.0, 5.0)), solver, rng)
    assert rng.bit_generator.state != before


def test_the_compiled_iteration_agrees_with_plain_numpy():
    rng = np.random.default_rng(0)
    tensor = symmetrise(rng.standard_normal((4, 4, 4)))
    start = _frame(4)
    plain = start
    for _ in range(7):
        plain = polar(np.einsum("abc,bi,ci->ai", tensor, plain, plain))
    compiled, iterations = decomposition._climb(tensor, start.copy(), 7, 0.0)
    np.testing.assert_allclose(compiled, plain, atol=1e-10)
    assert iterations == 7


def test_a_start_alone_will_do():
    frame = _frame(4)
    tensor = _tensor(frame, np.array([2.0, 1.5, 1.2, 1.0]))
    found = decompose(tensor, start=frame + 0.05, n_starts=0)
    assert _distance(found.vectors, frame) < 1e-8


def test_zeros_have_no_residual():
    for solver in SOLVERS:
        assert decompose(np.zeros((2, 2, 2)), solver).residual == 0


def test_bad_input_is_refused():
    with pytest.raises(UnknownNameError, match="joint"):
        decompose(np.zeros((2, 2, 2)), "joints")
    with pytest.raises(InvalidInputError, match="tensor"):
        decompose(np.zeros((2, 2, 3)))
    with pytest.raises(InvalidInputError, match="finite"):
        decompose(np.full((2, 2, 2), np.nan))


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

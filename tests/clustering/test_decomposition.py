import numpy as np
import pytest

from romdp.clustering.spectral import decomposition
from romdp.clustering.spectral.decomposition import SOLVERS, decompose, polar, symmetrise
from romdp.core.errors import InvalidInputError, UnknownNameError


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

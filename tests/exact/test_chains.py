import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from romdp.core.errors import StructureError
from romdp.exact import chains


def sparse_chain(rng, n, density):
    """Draw a chain with random supports, so that several classes and periods occur."""
    weights = rng.random((n, n)) * (rng.random((n, n)) < density)
    weights[np.arange(n), rng.integers(n, size=n)] += 0.5
    return weights / weights.sum(axis=1, keepdims=True)


PROPERTY = settings(max_examples=60, deadline=None)  # compiling takes a while the first time
CHAINS = st.builds(
    lambda seed, n, density: sparse_chain(np.random.default_rng(seed), n, density),
    st.integers(0, 10**6),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.15, 0.4, 1.0]),
)


def long_run(matrix):
    """Cesaro limit of the powers of a chain: the lazy chain has the same one, without periods."""
    power = (matrix + np.eye(len(matrix))) / 2
    for _ in range(60):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return power


@given(CHAINS)
@PROPERTY
def test_classes_are_what_the_long_run_shows(matrix):
    limit = long_run(matrix)
    found = chains.classes(matrix)
    assert found.transient.tolist() == np.flatnonzero(np.diag(limit) < 1e-9).tolist()
    recurrent = np.concatenate(found.recurrent)
    assert sorted([*recurrent, *found.transient]) == list(range(len(matrix)))
    for members in found.recurrent:
        # A class is closed, and each of its states is met from each other one.
        assert matrix[np.ix_(members, members)].sum(axis=1) == pytest.approx(1.0)
        assert (limit[np.ix_(members, members)] > 0).all()
    firsts = [int(members[0]) for members in found.recurrent]
    assert firsts == sorted(firsts)


@given(CHAINS)
@PROPERTY
def test_gain_is_the_long_run_mean_and_the_bias_solves_its_equation(matrix):
    reward = np.random.default_rng(len(matrix)).random(len(matrix))
    gain, bias = chains.gain_and_bias(matrix, reward)
    limit = long_run(matrix)
    assert gain == pytest.approx(limit @ reward, abs=1e-9)
    scale = 1 + np.abs(bias).max()
    assert gain + bias == pytest.approx(reward + matrix @ bias, abs=1e-12 * scale)
    assert limit @ bias == pytest.approx(0.0, abs=1e-7 * scale)


@given(CHAINS)
@PROPERTY
def test_bias_is_the_deviation_matrix_applied(matrix):
    reward = np.random.default_rng(7).random(len(matrix))
    limit = long_run(matrix)
    other = np.linalg.solve(np.eye(len(matrix)) - matrix + limit, reward - limit @ reward)
    assert chains.gain_and_bias(matrix, reward)[1] == pytest.approx(other, rel=1e-6, abs=1e-6)


def test_gain_and_bias_of_a_periodic_chain():
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    gain, bias = chains.gain_and_bias(swap, np.array([1.0, 0.0]))
    assert gain.tolist() == [0.5, 0.5]
    assert bias.tolist() == [0.25, -0.25]


def test_gain_of_a_transient_state_mixes_the_classes():
    matrix = np.array([[0.0, 0.25, 0.75], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    gain, bias = chains.gain_and_bias(matrix, np.array([0.5, 1.0, 0.0]))
    assert gain == pytest.approx([0.25, 1.0, 0.0])
    assert bias == pytest.approx([0.25, 0.0, 0.0])


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([0.05, 1.0]))
@PROPERTY
def test_state_reduction_agrees_with_a_linear_solve(seed, n, density):
    rng = np.random.default_rng(seed)
    rows = rng.random((n, n + 1)) * (rng.random((n, n + 1)) < density)
    rows[:, n] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    inside, leaving, earned = rows[:, :n].copy(), rows[:, n].copy(), rng.normal(size=n)
    expected = np.linalg.solve(np.eye(n) - inside, earned)
    given_arrays = inside.copy(), leaving.copy(), earned.copy()
    assert chains.expected_total(inside, leaving, earned) == pytest.approx(expected)
    for before, after in zip(given_arrays, (inside, leaving, earned), strict=True):
        assert np.array_equal(before, after)  # nothing of the caller's is overwritten


def test_the_total_over_no_states_is_empty():
    assert chains.expected_total(np.zeros((0, 0)), np.zeros(0), np.zeros(0)).shape == (0,)


def plain_reduce(inside, leaving):
    """The kernel's twin: one state after another, a whole matrix update at a time."""
    inside, leaving = inside.copy(), leaving.copy()
    pivots = np.zeros(len(leaving))
    for k in range(len(leaving) - 1, -1, -1):
        pivots[k] = leaving[k] + inside[k, :k].sum()
        if k:
            share = inside[:k, k] / pivots[k]
            inside[:k, :k] += np.outer(share, inside[k, :k])
            leaving[:k] += share * leaving[k]
    return inside, pivots


@pytest.mark.parametrize("density", [0.1, 1.0])
def test_reduction_kernel_equals_its_twin(density):
    rng = np.random.default_rng(3)
    matrix = sparse_chain(rng, 40, density) * 0.9
    leaving = 1 - matrix.sum(axis=1)
    expected, expected_pivots = plain_reduce(matrix, leaving)
    reduced = matrix.copy()
    pivots = chains._reduce(reduced, leaving.copy())
    assert pivots == pytest.approx(expected_pivots, rel=1e-13)
    assert reduced == pytest.approx(expected, rel=1e-12)


def test_a_banded_chain_in_a_shuffled_order_is_solved_the_same():
    n = 150
    rng = np.random.default_rng(0)
    walk = np.zeros((n, n))
    for x in range(n):
        walk[x, max(x - 1, 0)] += 0.3
        walk[x, min(x + 1, n - 1)] += 0.7
    reward = rng.random(n)
    order = rng.permutation(n)
    gain, bias = chains.gain_and_bias(walk, reward)
    shuffled = chains.gain_and_bias(walk[np.ix_(order, order)], reward[order])
    assert shuffled[0] == pytest.approx(gain[order], rel=1e-12)
    assert shuffled[1] == pytest.approx(bias[order], abs=1e-9)


def test_stationary_law_is_right_to_many_digits_where_it_is_tiny():
    n, up, down = 120, 0.01, 0.9
    walk = np.zeros((n, n))
    for x in range(n):
        walk[x, min(x + 1, n - 1)] += up
        walk[x, max(x - 1, 0)] += down
        walk[x, x] += 1 - up - down
    law = chains.stationary_law(walk)
    expected = (up / down) ** np.arange(n)
    assert law == pytest.approx(expected / expected.sum(), rel=1e-11)
    assert law[-1] < 1e-200
    reverse = chains.stationary_law(walk[::-1, ::-1].copy())
    assert reverse[::-1] == pytest.approx(law, rel=1e-11)


def test_bias_is_sound_where_most_states_are_almost_never_seen():
    n = 200
    walk = np.zeros((n, n))
    for x in range(n):
        walk[x, min(x + 1, n - 1)] += 0.05
        walk[x, max(x - 1, 0)] += 0.95
    reward = np.zeros(n)
    reward[-1] = 1.0
    gain, bias = chains.gain_and_bias(walk, reward)
    assert np.abs(gain + bias - reward - walk @ bias).max() < 1e-12
    assert np.ptp(bias) < 2  # the bonus at the end is soon lost


def test_stationary_law_with_transient_states():
    matrix = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.5, 0.5]])
    assert chains.stationary_law(matrix) == pytest.approx([0.0, 1 / 3, 2 / 3])


def test_several_classes_are_named():
    matrix = np.eye(12)
    matrix[8:, 8:] = 0.25
    for question in (chains.stationary_law, chains.mixing):
        with pytest.raises(StructureError, match=r"9 recurrent classes.*\{0\} and \{1\}"):
            question(matrix)
    big = np.kron(np.eye(2), np.full((16, 16), 0.0625))
    with pytest.raises(StructureError, match=r"\{0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\}"):
        chains.stationary_law(big)


def plain_period(matrix):
    """Gcd of the lengths of all closed walks from state 0, short ones being enough."""
    reach, period = np.eye(len(matrix), dtype=bool), 0
    for length in range(1, 3 * len(matrix) ** 2):
        reach = (reach.astype(int) @ (matrix > 0)) > 0
        if reach[0, 0]:
            period = math.gcd(period, length)
    return period


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3))
@PROPERTY
def test_period_of_blocks_in_a_ring(seed, n_blocks, size):
    rng = np.random.default_rng(seed)
    matrix = np.zeros((n_blocks * size, n_blocks * size))
    for block in range(n_blocks):
        here = slice(block * size, (block + 1) * size)
        there = (block + 1) % n_blocks
        matrix[here, there * size : (there + 1) * size] = rng.dirichlet(np.ones(size), size)
    order = rng.permutation(len(matrix))
    matrix = matrix[np.ix_(order, order)]
    assert chains.period(matrix, np.arange(len(matrix))) == n_blocks == plain_period(matrix)
    matrix = np.vstack([matrix, matrix[0]])  # a transient state in front changes nothing
    matrix = np.roll(np.hstack([matrix, np.zeros((len(matrix), 1))]), 1, axis=(0, 1))
    assert chains.period(matrix, np.arange(1, len(matrix))) == n_blocks


@given(CHAINS)
@PROPERTY
def test_mixing_bound_holds_at_every_time(matrix):
    try:
        found = chains.mixing(matrix)
    except StructureError:
        recurrent = chains.classes(matrix).recurrent
        assert len(recurrent) > 1 or chains.period(matrix, recurrent[0]) > 1
        return
    law = chains.stationary_law(matrix)
    power = np.eye(len(matrix))
    for t in range(1, 60):
        distance = np.abs(power - law).sum(axis=1).max() / 2
        bound = found.geometric_ergodicity * found.contraction ** (t - 1)
        assert distance <= bound * (1 + 1e-9) + 1e-12
        power = power @ matrix
    assert found.geometric_ergodicity >= 1
    assert found.second_eigenvalue - 1e-6 <= found.contraction < 1


def test_mixing_chooses_the_best_number_of_steps():
    matrix = np.zeros((6, 6))
    for x in range(6):
        matrix[x, (x + 1) % 6], matrix[x, (x + 2) % 6] = 0.6, 0.4
    found = chains.mixing(matrix)
    costs = []
    for m in range(1, 200):
        delta = chains.dobrushin(np.linalg.matrix_power(matrix, m))
        for theta in {delta ** (1 / m), max(delta ** (1 / m), 1 - 1 / m)}:
            if theta < 1:
                costs.append(theta ** -(m - 1) / (1 - theta))
    assert chains.dobrushin(matrix) == 1.0  # one step is not enough here
    cost = found.geometric_ergodicity / (1 - found.contraction)
    assert cost == pytest.approx(min(costs))


def test_mixing_at_once():
    assert chains.mixing(np.full((3, 3), 1 / 3)) == chains.Mixing(1.0, 0.0, pytest.approx(0.0))
    assert chains.mixing(np.ones((1, 1))) == chains.Mixing(1.0, 0.0, 0.0)


def test_mixing_that_is_complete_after_two_steps_only():
    # Remember the last two coin flips: nothing is forgotten in one step, everything in two.
    matrix = np.zeros((4, 4))
    for x in range(4):
        matrix[x, (2 * x) % 4] = matrix[x, (2 * x + 1) % 4] = 0.5
    found = chains.mixing(matrix)
    assert (found.geometric_ergodicity, found.contraction) == (2.0, 0.5)


def test_mixing_of_a_slow_chain():
    slow = np.array([[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]])
    found = chains.mixing(slow)
    assert found.contraction == pytest.approx(1 - 2e-6, abs=1e-9)
    with pytest.raises(StructureError, match="too slowly"):
        chains.mixing(np.array([[1.0, 1e-18], [1e-18, 1.0]]))


def test_mixing_of_a_periodic_chain_says_so():
    with pytest.raises(StructureError, match=r"periodic.*multiples of 3"):
        chains.mixing(np.roll(np.eye(3), 1, axis=1))


def test_dobrushin_equals_its_plain_form():
    matrix = np.random.default_rng(2).dirichlet(np.ones(7), 7)
    plain = max(np.abs(a - b).sum() / 2 for a in matrix for b in matrix)
    assert chains.dobrushin(matrix) == pytest.approx(plain)

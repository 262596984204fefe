"""Dirichlet draws: dense and sparse have one law.

Statistical tests compare means of N draws with what the law says, at z standard errors. With
fewer than 200 comparisons a file and z = 5.5, the chance of any false alarm is below 1e-5.
"""

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from romdp.planning import sampling
from romdp.planning.sampling import draw_dense, draw_sparse

Z = 5.5
N = 20_000
COUNTS = np.array([[3, 0, 1, 0, 0], [0, 0, 0, 0, 0], [40, 2, 0, 0, 8]])


def many_draws(kind, prior):
    """N draws of the three laws, (N, 3, 5): rows are independent, so they are drawn at once."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        return draw_dense(np.broadcast_to(COUNTS, (N, *COUNTS.shape)), prior, rng)
    stacked = scipy.sparse.csr_array(np.tile(COUNTS, (N, 1)))
    return draw_sparse(stacked, prior, rng).toarray().reshape(N, *COUNTS.shape)


def check_mean(samples, expected):
    error = samples.std(axis=0) / np.sqrt(len(samples)) + 1e-6  # 1e-6 of a law may be undrawn
    np.testing.assert_array_less(np.abs(samples.mean(axis=0) - expected), Z * error)


@pytest.mark.parametrize("prior", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_moments_are_those_of_the_dirichlet_law(kind, prior):
    laws = many_draws(kind, prior)
    weight = COUNTS + prior / COUNTS.shape[1]
    total = weight.sum(axis=1, keepdims=True)
    mean = weight / total
    check_mean(laws, mean)  # unseen columns and the row without any count among them
    check_mean((laws - mean) ** 2, mean * (1 - mean) / (total + 1))
    # Two columns together: a sum of entries has a Beta law; one seen and one unseen.
    pair, of_pair = laws[:, :, [0, 1]].sum(axis=2), mean[:, [0, 1]].sum(axis=1)
    check_mean((pair - of_pair) ** 2, of_pair * (1 - of_pair) / (total[:, 0] + 1))
    # Two unseen columns: negative covariance.
    product = (laws[:, :, 3] - mean[:, 3]) * (laws[:, :, 1] - mean[:, 1])
    check_mean(product, -mean[:, 3] * mean[:, 1] / (total[:, 0] + 1))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_entry_has_a_beta_law(kind):
    laws = many_draws(kind, 1.0)
    weight = COUNTS + 1.0 / COUNTS.shape[1]
    for row, column in [(0, 0), (0, 1), (1, 2), (2, 1)]:
        rest = weight[row].sum() - weight[row, column]
        # Stops at 1e-6 of the mass, so look above that: where an entry is not all but zero.
        entries = laws[:, row, column]
        law = stats.beta(weight[row, column], rest)
        for quantile in (1e-4, 1e-2, 0.1, 0.5):
            expected = law.cdf(quantile)
            error = np.sqrt(expected * (1 - expected) / N) + 1e-4
            assert abs((entries <= quantile).mean() - expected) < Z * error


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_row_is_a_law(kind):
    laws = many_draws(kind, 1.0)
    assert (laws >= 0).all()
    # A prior that is due less than 1e-6 of the mass is left out; the planner divides by the total.
    np.testing.assert_allclose(laws.sum(axis=2), 1.0, atol=1e-6)


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_the_stick_has_exactly_the_law_of_the_prior(n_states):
    """Distinct columns, all in a random order, and size-biased pieces that sum to the mass."""
    prior, rng = 1.0, np.random.default_rng(1)
    draws = np.zeros((N, n_states))
    for draw in draws:
        columns, chances = np.empty(n_states, np.int64), np.empty(n_states)
        end = sampling._break_stick(columns, chances, 0, 1.0, prior / n_states, n_states, rng)
        assert len(set(columns[:end].tolist())) == end
        assert chances[:end].sum() == pytest.approx(1.0, abs=2e-6)
        draw[columns[:end]] = chances[:end]
    share = prior / n_states
    check_mean(draws, np.full(n_states, 1 / n_states))
    check_mean(draws**2, np.full(n_states, share * (share + 1) / (prior * (prior + 1))))
    check_mean(draws**3, share * (share + 1) * (share + 2) / (prior * (prior + 1) * (prior + 2)))
    if n_states > 1:
        product = draws[:, 0] * draws[:, 1]
        check_mean(product, share * share / (prior * (prior + 1)))


def test_many_states_and_few_sticks():
    """With far more states than pieces, each row stays short and still is a law."""
    n_states, n_rows = 5000, 50
    counts = scipy.sparse.csr_array((n_rows, n_states), dtype=np.int64)
    laws = draw_sparse(counts, 1.0, np.random.default_rng(2))
    assert laws.nnz <= 64 * n_rows
    np.testing.assert_allclose(laws.sum(axis=1), 1.0, atol=2e-6)
    # A Dirichlet(a, ..., a) law with S a = 1 is near a Poisson-Dirichlet one: the sum of the
    # squares has mean (1 + a) / (1 + 1), and each is in [0, 1]: Hoeffding at 1e-6.
    squares = laws.power(2).sum(axis=1)
    assert abs(squares.mean() - 0.5) < np.sqrt(np.log(2e6) / (2 * n_rows))


def test_rows_without_any_weight_left_are_still_laws():
    """Shape parameters of 1e-9 underflow along the whole row."""
    laws = draw_dense(np.zeros((200, 3), np.int64), 3e-9, np.random.default_rng(3))
    np.testing.assert_allclose(laws.sum(axis=1), 1.0)
    corners = np.bincount(laws.argmax(axis=1), minlength=3)
    assert (corners > 30).all()  # each has 200 / 3 expected; chance of a false alarm below 1e-7


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_same_generator_gives_the_same_draw(kind):
    def draw(seed):
        rng = np.random.default_rng(seed)
        if kind == "dense":
            return draw_dense(COUNTS, 1.0, rng)
        return draw_sparse(scipy.sparse.csr_array(COUNTS), 1.0, rng).toarray()

    np.testing.assert_array_equal(draw(5), draw(5))
    assert not np.array_equal(draw(5), draw(6))

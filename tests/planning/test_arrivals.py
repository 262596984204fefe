import numpy as np
import pytest
import scipy.sparse

from romdp.core.errors import InvalidInputError
from romdp.planning import gather
from romdp.planning.dense import DenseArrivals
from romdp.planning.iteration import sizes
from romdp.planning.sparse import SparseArrivals


def test_totals_are_the_sums_of_the_rows_that_are_known():
    counts = np.random.default_rng(0).integers(0, 9, (5, 3, 5))
    known = np.random.default_rng(1).random((5, 3)) < 0.5
    for weights, kind in (
        (counts, DenseArrivals),
        (counts.astype(float), DenseArrivals),
        (scipy.sparse.csr_array(counts.reshape(15, 5)), SparseArrivals),
        (scipy.sparse.coo_array(counts.reshape(15, 5)), SparseArrivals),
    ):
        assert isinstance(gather(weights), kind)
        assert np.array_equal(gather(weights).totals, counts.sum(axis=-1))
        assert np.array_equal(gather(weights, known).totals, counts.sum(axis=-1) * known)


def test_sizes():
    assert sizes(np.zeros((3, 2, 3))) == (3, 2)
    assert sizes(scipy.sparse.csr_array((6, 3))) == (3, 2)
    assert sizes(gather(np.ones((3, 2, 3)))) == (3, 2)


@pytest.mark.parametrize(
    "transitions",
    [
        np.zeros((3, 2)),
        np.zeros((3, 2, 4)),
        np.zeros((0, 2, 0)),
        np.zeros((3, 0, 3)),
        scipy.sparse.csr_array((7, 3)),
        scipy.sparse.csr_array((0, 3)),
    ],
)
def test_bad_shapes_are_refused(transitions):
    with pytest.raises(InvalidInputError, match=r"has shape .*must be \(S, A, S\)"):
        gather(transitions)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_bad_weights_are_named(value, is_sparse):
    weights = np.ones((3, 2, 3))
    weights[2, 1, 0] = value
    given = scipy.sparse.csr_array(weights.reshape(6, 3)) if is_sparse else weights
    with pytest.raises(InvalidInputError, match=rf"transitions\[2, 1\] holds {value}"):
        gather(given)


def test_negative_counts_do_not_cancel():
    with pytest.raises(InvalidInputError, match="holds -4"):
        gather(np.array([[[5, -4]], [[1, 1]]]))


def test_entries_given_twice_add_up():
    twice = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert gather(twice).totals.tolist() == [[3.0], [1.0]]


@pytest.mark.parametrize("known", [np.ones((2, 3), bool), np.ones((3, 2))])
def test_a_bad_mask_is_refused(known):
    with pytest.raises(InvalidInputError, match=r"must be bool of shape \(3, 2\)"):
        gather(np.ones((3, 2, 3)), known)

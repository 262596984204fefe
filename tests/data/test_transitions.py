"""Transitions: what the tests of `Counts` do not reach."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError
from romdp.data.transitions import add_up, gather, group_dense, refuse_negative


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 10**15)), max_size=20))
def test_add_up_against_a_counter(items):
    expected = Counter()
    for key, count in items:
        expected[key] += count
    columns = np.array(items, np.int64).reshape(-1, 2)
    keys, counts = add_up(columns[:, 0], columns[:, 1])
    assert keys.tolist() == sorted({key for key, _ in items})
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == dict(expected)


def test_gather_keeps_large_counts_exact():
    one = np.array([0, 0])
    matrix = gather(one, one, np.array([2**60, 1]), (1, 1))
    assert matrix.data.tolist() == [2**60 + 1]
    assert matrix.has_canonical_format


def test_results_are_added_to_in_place():
    out = np.full((1, 1, 1), 10)
    transitions = np.array([[[1, 2]], [[3, 4]]])
    group_dense(transitions, transitions.sum(axis=2), np.array([0, -1]), out)
    assert out.tolist() == [[[11]]]


def test_the_first_negative_entry_is_named():
    refuse_negative("visits", np.zeros((2, 2)))
    with pytest.raises(InvalidInputError, match=r"visits\[1, 0\] is -3"):
        refuse_negative("visits", np.array([[0, 1], [-3, -4]]))

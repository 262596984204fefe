"""Tables of tallies and what transitions are made of."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import TooLargeError
from romdp.data import tally
from romdp.data.tally import Tally
from romdp.data.transitions import add_up, group_dense, sparse_rows

SPARSE = 10**15
"""Far more keys than a plain array would hold."""


def counted(tally):
    keys, counts = tally.items()
    assert keys.dtype == counts.dtype == np.int64
    assert (np.diff(keys) > 0).all()
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def as_keys(keys):
    return np.array(keys, np.int64)


@given(st.lists(st.integers(0, 99)))
def test_dense_counts_like_a_counter(keys):
    tally = Tally(100)
    tally.add(as_keys(keys))
    assert tally.is_dense
    assert counted(tally) == Counter(keys)


@given(st.lists(st.integers(0, 20) | st.integers(0, SPARSE - 1), max_size=300))
def test_sparse_counts_like_a_counter(keys):
    tally = Tally(SPARSE)
    tally.add(as_keys(keys))
    assert not tally.is_dense
    assert counted(tally) == Counter(keys)


@given(st.lists(st.integers(0, 2**12), max_size=100), st.data())
def test_colliding_keys_are_kept_apart(multiples, data):
    """Multiples of 2^32 leave the low bits of the table to the mixing alone."""
    shift = data.draw(st.sampled_from([2**12, 2**32, 2**45]))
    keys = [multiple * shift for multiple in multiples]
    tally = Tally(2**62)
    tally.add(as_keys(keys))
    assert counted(tally) == Counter(keys)


def test_a_table_grows_as_it_must():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, SPARSE, 20_000)
    tally = Tally(SPARSE)
    before = tally.counts.size
    tally.add(keys)
    tally.add(keys[:5_000])
    expected = Counter(keys.tolist())
    expected.update(keys[:5_000].tolist())
    assert counted(tally) == expected
    assert tally.journal[0] == len(expected)
    assert tally.counts.size > before
    assert 0.25 < len(expected) / tally.counts.size <= 0.75


def test_make_room_leaves_a_table_with_room_alone():
    tally = Tally(SPARSE)
    tally.add(as_keys([7, 7]))
    keys = tally.keys
    tally.make_room()
    assert tally.keys is keys
    dense = Tally(3)
    dense.make_room()
    assert dense.is_dense


@pytest.mark.parametrize("n_keys", [50_000, SPARSE])
def test_from_items_rebuilds_and_goes_on(n_keys):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, n_keys, 10_000)
    tally = Tally(n_keys)
    tally.add(keys)
    again = Tally.from_items(n_keys, *tally.items())
    assert counted(again) == Counter(keys.tolist())
    assert again.journal[0] == tally.journal[0]
    again.add(keys)
    assert counted(again) == {key: 2 * count for key, count in counted(tally).items()}


@pytest.mark.parametrize("n_keys", [0, 10, SPARSE])
def test_from_no_items(n_keys):
    assert counted(Tally.from_items(n_keys, *Tally(n_keys).items())) == {}


@pytest.mark.parametrize("n_keys", [10, SPARSE])
def test_clear(n_keys):
    tally = Tally(n_keys)
    tally.add(as_keys([1, 2, 2]))
    tally.clear()
    assert counted(tally) == {}
    assert tally.journal[0] == 0
    tally.add(as_keys([2]))
    assert counted(tally) == {2: 1}


def test_the_limit_decides(monkeypatch):
    monkeypatch.setattr(tally, "DENSE_LIMIT", 8)
    assert Tally(8).is_dense
    assert not Tally(9).is_dense


def test_too_many_possible_keys():
    Tally(2**63 - 1)
    with pytest.raises(TooLargeError, match="64 bits"):
        Tally(2**63)


def test_counts_beyond_32_bits():
    tally = Tally.from_items(SPARSE, as_keys([5]), as_keys([10**12]))
    tally.add(as_keys([5]))
    assert counted(tally) == {5: 10**12 + 1}


@pytest.mark.parametrize("n_keys", [100, tally.DENSE_LIMIT + 1])
def test_notes_hold_the_keys_since_the_last_look(n_keys):
    noting = Tally(n_keys)
    assert noting.noted() is None  # nobody takes notes yet
    noting.add(np.array([7]))
    noting.take_notes(3)
    assert noting.noted().tolist() == []
    for keys in ([5, 7], [7, 7, 9], []):
        noting.add(np.array(keys, np.int64))
        assert noting.noted().tolist() == keys
    noting.add(np.arange(4))
    assert noting.noted() is None  # one too many
    noting.add(np.array([1]))
    assert noting.noted().tolist() == [1]
    keys, counts = noting.items()
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == {
        0: 1, 1: 2, 2: 1, 3: 1, 5: 1, 7: 4, 9: 1,
    }  # fmt: skip


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
    matrix = sparse_rows(one, one, np.array([2**60, 1]), (1, 1))
    assert matrix.data.tolist() == [2**60 + 1]
    assert matrix.has_canonical_format


def test_results_are_added_to_in_place():
    out = np.full((1, 1, 1), 10)
    transitions = np.array([[[1, 2]], [[3, 4]]])
    group_dense(transitions, transitions.sum(axis=2), np.array([0, -1]), out)
    assert out.tolist() == [[[11]]]

"""Counting as it happens: the tally, and the recorder beside plain loops."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import TooLargeError
from romdp.data import tally
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.tally import Tally
from romdp.data.trajectory import Trajectory
from romdp.data.transitions import add_up, group_dense, sparse_rows
from romdp.data.triples import Triples

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


Y, A = 5, 2
SYMBOL_ACTION = np.arange(Y) % A
"""A fixed table observation -> action, so that triples of symbols know their action."""


def episodes_of(lengths_and_ends, seed):
    """Random episodes that follow the table; an end of -1 is unknown."""
    rng = np.random.default_rng(seed)
    observations = rng.integers(Y, size=sum(length for length, _ in lengths_and_ends))
    return Trajectory(
        observations,
        SYMBOL_ACTION[observations],
        rng.random(observations.size),
        lengths=[length for length, _ in lengths_and_ends],
        final_observations=[end for _, end in lengths_and_ends],
        n_observations=Y,
        n_actions=A,
    )


def record(recorder, trajectory):
    following = trajectory.next_observations
    ends = set(np.cumsum(trajectory.lengths) - 1)
    for t in range(trajectory.n_steps):
        step = trajectory.observations[t], trajectory.actions[t], trajectory.rewards[t]
        recorder.record(*step, following[t])
        if t in ends:
            recorder.last.fill(-1)  # the next episode has nothing before it


episodes = st.lists(st.tuples(st.integers(1, 12), st.integers(-1, Y - 1)), min_size=1, max_size=4)


@given(episodes, st.integers(0, 10**6))
def test_counts_and_triples_agree_with_those_of_the_trajectory(lengths_and_ends, seed):
    trajectory = episodes_of(lengths_and_ends, seed)
    recorder = Recorder(Y, A)
    recorder.watch_triples(np.arange(Y), SYMBOL_ACTION)
    record(recorder, trajectory)
    expected = Counts.from_trajectory(trajectory)
    assert np.array_equal(recorder.counts.visits, expected.visits)
    assert np.array_equal(recorder.counts.transitions, expected.transitions)
    assert recorder.counts.reward_sums == pytest.approx(expected.reward_sums)
    assert recorder.counts.reward_squares == pytest.approx(expected.reward_squares)
    assert recorder.triples == Triples.from_trajectory(trajectory)


@pytest.fixture
def everything_sparse(monkeypatch):
    monkeypatch.setattr(tally, "DENSE_LIMIT", 0)


def filled(seed=0, steps=300):
    recorder = Recorder(Y, A)
    recorder.watch_triples(np.arange(Y), SYMBOL_ACTION)
    record(recorder, episodes_of([(steps, 2)], seed))
    return recorder


def test_a_sparse_recorder_counts_the_same(monkeypatch):
    dense = filled()
    monkeypatch.setattr(tally, "DENSE_LIMIT", 0)
    sparse = filled()
    assert dense.pairs.is_dense
    assert not sparse.pairs.is_dense
    assert np.array_equal(sparse.counts.dense().transitions, dense.counts.transitions)
    assert sparse.triples == dense.triples


def test_counts_are_a_live_view_while_dense():
    recorder = filled()
    counts = recorder.counts
    before = counts.n_steps
    recorder.record(0, 1, 0.5, 1)
    assert counts.n_steps == before + 1


def test_triples_of_groups():
    trajectory = episodes_of([(200, -1)], 3)
    group = np.array([0, 1, 0, 1, 0])
    recorder = Recorder(Y, A)
    recorder.watch_triples(group, np.array([0, 1]))
    record(recorder, trajectory)
    seen = Trajectory(
        group[trajectory.observations], trajectory.actions, n_observations=2, n_actions=A
    )
    assert recorder.triples == Triples.from_trajectory(seen)


def test_watching_anew_forgets_the_triples_and_keeps_the_pairs():
    recorder = filled()
    pairs = recorder.counts.copy()
    recorder.watch_triples(np.arange(Y), SYMBOL_ACTION)
    assert recorder.triples.n_samples == 0
    recorder.record(0, 0, 1.0, 1)
    assert recorder.triples.n_samples == 0  # the step before belongs to another epoch
    recorder.record(1, 1, 1.0, 2)
    assert recorder.triples.n_samples == 1
    assert recorder.counts.n_steps == pairs.n_steps + 2
    recorder.watch_triples(np.zeros(Y, np.int64), np.array([0]))
    assert recorder.triples.n_observations == 1


def test_without_watching_there_are_no_triples():
    recorder = Recorder(Y, A)
    record(recorder, episodes_of([(10, 0)], 0))
    assert recorder.n_triple_groups == 0
    assert recorder.triples_tally.items()[0].size == 0


@pytest.mark.parametrize("limit", [0, 2**24])
@pytest.mark.parametrize("watching", [False, True])
def test_a_checkpoint_goes_on_as_if_nothing_had_happened(monkeypatch, limit, watching):
    monkeypatch.setattr(tally, "DENSE_LIMIT", limit)
    first, second = episodes_of([(100, 1)], 0), episodes_of([(100, 2)], 1)
    recorder = Recorder(Y, A)
    if watching:
        recorder.watch_triples(np.arange(Y), SYMBOL_ACTION)
    record(recorder, first)
    recorder.record(1, 1, 0.25, 3)
    arrays = recorder.arrays()
    saved = {name: array.copy() for name, array in arrays.items()}
    again = Recorder.from_arrays(Y, A, arrays)
    record(recorder, second)
    for name, array in saved.items():  # later steps leave a checkpoint alone
        assert np.array_equal(arrays[name], array), name
    record(again, second)
    for name, array in recorder.arrays().items():
        assert np.array_equal(again.arrays()[name], array), name
    assert again.counts == recorder.counts
    assert again.triple_groups is None or again.triples == recorder.triples


@pytest.mark.parametrize("limit", [0, 2**24])
def test_keeping_the_largest_branch_of_each_group(monkeypatch, limit):
    """Groups {0, 2}, {1, 4}, {3}: the unit with the most visits lends its history."""
    monkeypatch.setattr(tally, "DENSE_LIMIT", limit)
    recorder = filled()
    before = recorder.counts.dense().copy()
    groups = Partition([0, 1, 0, 2, 1])
    kept = [max(group, key=lambda y: before.visits[y].sum()) for group in ([0, 2], [1, 4], [3])]
    recorder.merge_keeping_largest(groups)
    after = recorder.counts.dense()
    assert np.array_equal(after.visits, before.visits[kept])
    assert np.array_equal(after.reward_sums, before.reward_sums[kept])
    assert np.array_equal(after.reward_squares, before.reward_squares[kept])
    led = before.transitions[kept] @ np.eye(3, dtype=np.int64)[groups.labels]
    assert np.array_equal(after.transitions, led)

    again = Recorder.from_arrays(Y, A, recorder.arrays())
    for counting in (recorder, again):  # from here on members of a group are one
        counting.record(2, 0, 0.5, 4)
        counting.record(0, 0, 0.5, -1)
    assert recorder.counts == again.counts
    assert recorder.counts.visits[0, 0] == before.visits[kept[0], 0] + 2
    assert recorder.counts.dense().transitions[0, 0, 1] == led[0, 0, 1] + 1
    recorder.merge_keeping_largest(Partition([0, 0, 0, 0, 0]))
    assert recorder.counts.n_observations == 1


def test_record_makes_room(everything_sparse):
    """A table of keys that keeps growing while single steps are recorded."""
    size = 200
    recorder = Recorder(size, 1)
    before = recorder.pairs.counts.size
    for y in range(size):
        for z in range(0, size, 5):
            recorder.record(y, 0, 0.0, z)
    assert recorder.pairs.counts.size > before
    assert recorder.counts.n_transitions == size * size // 5
    assert set(recorder.pairs.items()[1].tolist()) == {1}


def test_many_steps_are_recorded_as_one_after_the_other(everything_sparse):
    rng = np.random.default_rng(0)
    size, n = 200, 9000
    seen = Trajectory(
        rng.integers(size, size=n),
        rng.integers(3, size=n),
        rng.random(n),
        lengths=np.full(n // 9, 9),
        final_observations=rng.integers(-1, size - 20, size=n // 9),
        terminated=rng.random(n // 9) < 0.4,
        n_observations=size,
    )
    at_once, one_by_one = Recorder(size, 3), Recorder(size, 3)
    at_once.record_all(seen)
    columns = seen.observations, seen.actions, seen.rewards, seen.next_observations
    for t, step in enumerate(zip(*columns, strict=True)):
        if t % 9 == 0:
            one_by_one.begin(int(step[0]))
        one_by_one.record(*step)
    twin = one_by_one.arrays()
    for name, array in at_once.arrays().items():
        np.testing.assert_array_equal(array, twin[name], name)
    assert at_once.n_met == one_by_one.n_met == size


def test_symbols_without_a_group_make_no_triple():
    recorder = Recorder(3, 1)
    recorder.watch_triples(np.array([0, -1, 1]), np.array([0, 0]))
    walk = [0, 1, 0, 2, 1, 1, 0, 2, 0]
    for y, following in pairwise(walk):
        recorder.record(y, 0, 0.0, following)
    found = recorder.triples
    assert found.n_samples == 1
    assert (found.previous[0], found.middle[0], found.next[0]) == (0, 1, 0)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2], [0, -1, 1, -1, 0], [0, 1, 2, 3, 4]])
def test_hashed_counts_group_as_dense_ones_do(monkeypatch, labels):
    dense = Recorder(Y, A)
    monkeypatch.setattr(tally, "DENSE_LIMIT", 0)
    hashed = Recorder(Y, A)
    rng = np.random.default_rng(0)
    for _ in range(300):
        y, a, following = rng.integers(Y), rng.integers(A), rng.integers(-1, Y)
        for recorder in (dense, hashed):
            recorder.record(int(y), int(a), 0.5, int(following))
    assert not hashed.pairs.is_dense
    assert hashed.counts.is_sparse
    grouping = Partition(labels)
    assert hashed.counts.group(grouping) == dense.counts.group(grouping)
    assert hashed.counts == dense.counts


@pytest.mark.parametrize("n_observations", [12, 3_000], ids=["dense", "hashed"])
def test_groups_are_counted_from_where_they_were(n_observations):
    """Step by step, with groupings that stay, change, leave some out, and epochs of any length."""
    rng = np.random.default_rng(0)
    recorder = Recorder(n_observations, 2)
    groupings = [Partition(rng.integers(-1, 4, n_observations)) for _ in range(3)]
    groupings.append(Partition.singletons(n_observations))
    for call in range(40):
        length = 5_000 if call % 10 == 9 else int(rng.integers(0, 60))
        for _ in range(length):
            y, y2 = rng.integers(0, n_observations, 2)
            recorder.record(int(y), int(rng.integers(2)), float(rng.random()), int(y2))
        for _ in range(1 + call % 2):  # also twice without a step in between
            grouping = groupings[(call // 3) % 4]
            found, expected = recorder.group(grouping), recorder.counts.group(grouping)
            np.testing.assert_array_equal(found.visits, expected.visits)
            np.testing.assert_array_equal(found.reward_sums, expected.reward_sums)
            np.testing.assert_array_equal(found.reward_squares, expected.reward_squares)
            assert (found.matrix() != expected.matrix()).nnz == 0
            assert found.is_sparse == expected.is_sparse == scipy.sparse.issparse(found.transitions)


def test_groups_counted_earlier_stay_as_they_were():
    recorder = Recorder(4, 1)
    grouping = Partition([0, 0, 1, 1])
    recorder.record(0, 0, 1.0, 2)
    first = recorder.group(grouping)
    recorder.record(0, 0, 1.0, 2)
    assert recorder.group(grouping).transitions[0, 0, 1] == 2
    assert first.transitions[0, 0, 1] == 1

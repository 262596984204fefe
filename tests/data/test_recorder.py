from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from romdp.data import tally
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples

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

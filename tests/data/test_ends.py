"""The end of an episode as an outcome of its own in counts, recorders and trajectories."""

import numpy as np
import pytest
import scipy.sparse

from romdp.core.errors import InvalidInputError, StorageError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.tally import Tally
from romdp.data.trajectory import Trajectory

Y, A = 7, 3


def random_trajectory(seed, n_steps=300):
    rng = np.random.default_rng(seed)
    lengths = []
    while sum(lengths) < n_steps:
        lengths.append(min(int(rng.integers(1, 12)), n_steps - sum(lengths)))
    n = len(lengths)
    return Trajectory(
        rng.integers(0, Y, n_steps),
        rng.integers(0, A, n_steps),
        rng.integers(0, 9, n_steps) / 8,  # sums are exact
        lengths=lengths,
        final_observations=rng.integers(-1, Y, n),
        terminated=rng.random(n) < 0.6,
        n_observations=Y,
        n_actions=A,
    )


def plain_outcomes(seen, labels=None):
    """The transitions with the end as the last column, counted step by step."""
    labels = np.arange(Y) if labels is None else labels
    n_groups = labels.max() + 1
    table = np.zeros((n_groups, A, n_groups + 1), np.int64)
    last = set((seen.starts + seen.lengths - 1)[seen.terminated].tolist())
    for t in range(seen.n_steps):
        source, target = labels[seen.observations[t]], seen.next_observations[t]
        if source < 0:
            continue
        if t in last:
            table[source, seen.actions[t], n_groups] += 1
        elif target >= 0 and labels[target] >= 0:
            table[source, seen.actions[t], labels[target]] += 1
    return table


def recorded(seen, sparse=False):
    recorder = Recorder(seen.n_observations, A)
    if sparse:
        recorder.pairs = Tally(seen.n_observations**2 * A, hashed=True)
    last = set((seen.starts + seen.lengths - 1)[seen.terminated].tolist())
    for t in range(seen.n_steps):
        recorder.record(
            int(seen.observations[t]),
            int(seen.actions[t]),
            float(seen.rewards[t]),
            int(seen.next_observations[t]),
            terminated=t in last,
        )
    return recorder


def dense(outcomes, n_groups):
    array = outcomes if isinstance(outcomes, np.ndarray) else outcomes.toarray()
    return array.reshape(n_groups, A, n_groups + 1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ends_are_counted_apart_and_transitions_as_before(seed, sparse):
    seen = random_trajectory(seed)
    counts = Counts.from_trajectory(seen, sparse=sparse)
    assert (dense(counts.outcomes(), Y) == plain_outcomes(seen)).all()
    assert (counts.ended == plain_outcomes(seen)[..., Y]).all()
    without = Trajectory(
        seen.observations,
        seen.actions,
        seen.rewards,
        seen.lengths,
        seen.final_observations,
        n_observations=Y,
        n_actions=A,
    )
    before = Counts.from_trajectory(without, sparse=sparse)
    assert before.ends is None
    assert before != counts
    assert (before.matrix() != counts.matrix()).nnz == 0
    assert recorded(seen, sparse).counts == counts
    assert recorded(seen, sparse).has_ends


@pytest.mark.parametrize("sparse", [False, True])
def test_grouping_groups_the_ends_too(sparse):
    seen = random_trajectory(4)
    labels = np.array([0, 1, 0, -1, 1, 2, 2])
    counts = Counts.from_trajectory(seen, sparse=sparse)
    grouped = counts.group(Partition(labels))
    assert (dense(grouped.outcomes(), 3) == plain_outcomes(seen, labels)).all()
    recorder = recorded(seen, sparse)
    assert recorder.group(Partition(labels)) == grouped
    recorder.record(0, 1, 0.5, 2, terminated=True)  # what came since is added
    more = recorder.group(Partition(labels))
    assert more.ended[0, 1] == grouped.ended[0, 1] + 1
    assert more.transitions[0, 1, 0] == grouped.transitions[0, 1, 0] + 1


def test_counts_with_ends_add_up_and_survive_a_file():
    one, other = (Counts.from_trajectory(random_trajectory(seed)) for seed in (0, 1))
    both = one + other
    assert (both.ended == one.ended + other.ended).all()
    assert both - other == one
    with pytest.raises(InvalidInputError, match="negative"):
        one - both
    for counts in (one, one.sparse(), one.copy(), one.sparse().dense()):
        assert counts == one
        assert Counts.from_arrays(counts.arrays()) == one


def test_ends_that_do_not_fit_are_refused():
    counts = Counts.from_trajectory(random_trajectory(0))
    arrays = [counts.visits, counts.transitions, counts.reward_sums, counts.reward_squares]
    with pytest.raises(InvalidInputError, match="ended an episode there"):
        Counts(*arrays, counts.ends * 100)
    row = int(np.argmax(counts.visits.ravel()))
    lone = scipy.sparse.lil_array((Y * A, Y + 1), dtype=np.int64)
    target = int(np.argmin(counts.transitions.reshape(-1, Y)[row]))
    lone[row, target] = counts.transitions.reshape(-1, Y)[row, target] + 1
    with pytest.raises(InvalidInputError, match="more restarts than transitions"):
        Counts(*arrays, lone.tocsr())
    with pytest.raises(InvalidInputError, match="sparse array of shape"):
        Counts(*arrays, scipy.sparse.csr_array((Y * A, Y), dtype=np.int64))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_recorder_with_ends_survives_a_checkpoint(sparse):
    recorder = recorded(random_trajectory(2), sparse)
    again = Recorder.from_arrays(Y, A, recorder.arrays())
    assert again.counts == recorder.counts
    assert (again.ends.items()[0] == recorder.ends.items()[0]).all()
    broken = recorder.arrays()
    broken["end_counts"] = broken["end_counts"] + 1000
    with pytest.raises(StorageError, match="more ends than"):
        Recorder.from_arrays(Y, A, broken)


def test_without_ends_a_checkpoint_is_what_it_was():
    recorder = Recorder(3, 2)
    recorder.record(0, 1, 0.5, 2)
    assert not any(name.startswith("end") for name in recorder.arrays())
    assert recorder.counts.ends is None


def test_merged_groups_keep_the_ends_of_the_history_they_keep():
    recorder = Recorder(4, 1)
    for step in [(0, 1, True), (0, 1, True), (0, 2, False), (1, 3, True), (2, 0, False)]:
        recorder.record(step[0], 0, 0.0, step[1], terminated=step[2])
    recorder.merge_keeping_largest(Partition([0, 0, 1, 1]))
    counts = recorder.counts
    assert counts.ended.tolist() == [[2], [0]]  # the end of observation 1 is forgotten
    assert counts.outcomes()[:, 0].tolist() == [[0, 1, 2], [1, 0, 0]]
    recorder.record(3, 0, 0.0, 0, terminated=True)
    assert recorder.counts.ended.tolist() == [[2], [1]]


def test_terminated_belongs_to_episodes(tmp_path):
    seen = random_trajectory(3)
    seen.save(tmp_path / "seen.npz")
    assert Trajectory.load(tmp_path / "seen.npz") == seen
    assert Trajectory.concatenate(list(seen.episodes())) == seen
    with pytest.raises(InvalidInputError, match="terminated has shape"):
        Trajectory([0, 1], [0, 0], terminated=[True, False])
    with pytest.raises(InvalidInputError, match="pass True or False"):
        Trajectory([0, 1], [0, 0], terminated=[1])
    assert not Trajectory([0, 1], [0, 0]).terminated.any()
    # An end whose restart is unknown is an end all the same.
    lone = Counts.from_trajectory(Trajectory([0, 1], [0, 0], terminated=[True]))
    assert lone.ended.tolist() == [[0], [1]]
    assert lone.n_transitions == 1

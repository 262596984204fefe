"""The end of an episode as an outcome of its own in counts, recorders and trajectories."""

import numpy as np
import pytest

from romdp.core.errors import InvalidInputError, StorageError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.tally import Tally
from romdp.data.trajectory import END, Trajectory

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
    first = set(seen.starts.tolist())
    columns = seen.observations, seen.actions, seen.rewards, seen.next_observations
    for t, step in enumerate(zip(*columns, strict=True)):
        if t in first:
            recorder.begin(int(step[0]))
        recorder.record(*step)
    return recorder


def dense(outcomes, n_groups):
    array = outcomes if isinstance(outcomes, np.ndarray) else outcomes.toarray()
    return array.reshape(n_groups, A, n_groups + 1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ends_and_starts_are_counted_like_other_places(seed, sparse):
    seen = random_trajectory(seed)
    counts = Counts.from_trajectory(seen, sparse=sparse)
    plain = plain_outcomes(seen)
    assert (dense(counts.outcomes(), Y) == plain).all()
    assert (counts.ends == plain[..., Y]).all()
    assert (counts.starts == np.bincount(seen.observations[seen.starts], minlength=Y)).all()
    assert recorded(seen, sparse).counts == counts
    assert recorded(seen, sparse).has_ends
    cut = Trajectory(seen.observations, seen.actions, seen.rewards, seen.lengths, n_actions=A)
    assert not Counts.from_trajectory(cut, sparse=sparse).has_ends


@pytest.mark.parametrize("sparse", [False, True])
def test_who_goes_on_for_ever_begins_again_where_episodes_do(sparse):
    seen = random_trajectory(5)
    counts = Counts.from_trajectory(seen, sparse=sparse)
    plain, starts = plain_outcomes(seen), np.bincount(seen.observations[seen.starts], minlength=Y)
    again = counts.restarted()
    table = again if isinstance(again, np.ndarray) else again.toarray().reshape(Y, A, Y)
    np.testing.assert_allclose(table, plain[..., :Y] + plain[..., Y:] * starts / starts.sum())
    np.testing.assert_allclose(table.sum(axis=2), plain.sum(axis=2))


@pytest.mark.parametrize("sparse", [False, True])
def test_grouping_groups_the_ends_too(sparse):
    seen = random_trajectory(4)
    labels = np.array([0, 1, 0, -1, 1, 2, 2])
    counts = Counts.from_trajectory(seen, sparse=sparse)
    grouped = counts.group(Partition(labels))
    assert (dense(grouped.outcomes(), 3) == plain_outcomes(seen, labels)).all()
    recorder = recorded(seen, sparse)
    assert recorder.group(Partition(labels)) == grouped
    recorder.record(0, 1, 0.5, END)  # what came since is added
    recorder.begin(2)
    more = recorder.group(Partition(labels))
    assert more.ends[0, 1] == grouped.ends[0, 1] + 1
    assert more.starts[0] == grouped.starts[0] + 1
    assert (more.transitions == grouped.transitions).all()


def test_counts_with_ends_add_up_and_survive_a_file():
    one, other = (Counts.from_trajectory(random_trajectory(seed)) for seed in (0, 1))
    both = one + other
    assert (both.ends == one.ends + other.ends).all()
    assert (both.starts == one.starts + other.starts).all()
    assert both - other == one
    with pytest.raises(InvalidInputError, match="negative"):
        one - both
    for counts in (one, one.sparse(), one.copy(), one.sparse().dense()):
        assert counts == one
        assert Counts.from_arrays(counts.arrays()) == one


def test_ends_that_do_not_fit_are_refused():
    counts = Counts.from_trajectory(random_trajectory(0))
    arrays = [counts.visits, counts.transitions, counts.reward_sums, counts.reward_squares]
    with pytest.raises(InvalidInputError, match="ends start there"):
        Counts(*arrays, counts.ends * 100)
    with pytest.raises(InvalidInputError, match="ends has shape"):
        Counts(*arrays, counts.ends[:, :1])
    with pytest.raises(InvalidInputError, match=r"starts\[2\] is -1"):
        Counts(*arrays, counts.ends, [0, 0, -1, 0, 0, 0, 0])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_recorder_with_ends_survives_a_checkpoint(sparse):
    recorder = recorded(random_trajectory(2), sparse)
    again = Recorder.from_arrays(Y, A, recorder.arrays())
    assert again.counts == recorder.counts
    assert again.has_ends
    broken = recorder.arrays()
    broken["ends"] = broken["ends"] + 1000
    with pytest.raises(StorageError, match="more transitions and ends than visits"):
        Recorder.from_arrays(Y, A, broken)


def test_merged_groups_keep_the_ends_of_the_history_they_keep():
    recorder = Recorder(4, 1)
    for observation, following in [(0, END), (0, END), (0, 2), (1, END), (2, 0)]:
        recorder.record(observation, 0, 0.0, following)
    for observation in (0, 1, 1, 3):
        recorder.begin(observation)
    recorder.merge_keeping_largest(Partition([0, 0, 1, 1]))
    counts = recorder.counts
    assert counts.ends.tolist() == [[2], [0]]  # the end of observation 1 is forgotten
    assert counts.starts.tolist() == [3, 1]
    assert counts.outcomes()[:, 0].tolist() == [[0, 1, 2], [1, 0, 0]]
    recorder.record(3, 0, 0.0, END)
    assert recorder.counts.ends.tolist() == [[2], [1]]


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
    # What the restart showed is nothing that the last step led to.
    lone = Counts.from_trajectory(Trajectory([0, 1], [0, 0], None, [2], [0], terminated=[True]))
    assert lone.ends.tolist() == [[0], [1]]
    assert lone.n_transitions == 1

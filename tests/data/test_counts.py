"""Counts of pairs: what they count, how they add up and group, dense or sparse."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.data import transitions as transitions_module
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.planning import value_iteration

Y, A = 5, 2


@st.composite
def trajectories(draw):
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    steps = draw(
        st.lists(
            # Rewards are multiples of 1/4: sums are exact in any order, so == can be asked for.
            st.tuples(st.integers(0, Y - 1), st.integers(0, A - 1), st.integers(-4, 8)),
            min_size=sum(lengths),
            max_size=sum(lengths),
        )
    )
    observations, actions, quarters = (list(column) for column in zip(*steps, strict=True))
    final = draw(st.lists(st.integers(-1, Y - 1), min_size=len(lengths), max_size=len(lengths)))
    rewards = [quarter / 4 for quarter in quarters]
    return Trajectory(observations, actions, rewards, lengths, final, n_observations=Y, n_actions=A)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile every kernel before hypothesis looks at the clock."""
    counts = Counts.from_trajectory(Trajectory([0, 1], [0, 0], [1.0, 0.0]))
    for stored in (counts, counts.sparse()):
        stored.group(Partition.trivial(2))


storages = st.booleans()
counted = st.builds(
    lambda seen, sparse: Counts.from_trajectory(seen, sparse=sparse), trajectories(), storages
)
partitions = (
    st.lists(st.integers(-1, 3), min_size=Y, max_size=Y)
    .map(Partition)
    .filter(lambda p: p.n_clusters)
)


def counts_twin(seen):
    """Count the steps in a plain loop."""
    visits = np.zeros((Y, A), int)
    transitions = np.zeros((Y, A, Y), int)
    sums, squares = np.zeros((Y, A)), np.zeros((Y, A))
    for y, a, reward, following in zip(
        seen.observations, seen.actions, seen.rewards, seen.next_observations, strict=True
    ):
        visits[y, a] += 1
        sums[y, a] += reward
        squares[y, a] += reward**2
        if following >= 0:
            transitions[y, a, following] += 1
    return visits, transitions, sums, squares


def group_twin(counts, partition):
    """Add up observation by observation."""
    labels, n = partition.labels, partition.n_clusters
    full = counts.dense().transitions
    visits, transitions = np.zeros((n, A), int), np.zeros((n, A, n), int)
    sums, squares = np.zeros((n, A)), np.zeros((n, A))
    ends, starts = np.zeros((n, A), int), np.zeros(n, int)
    for y in range(Y):
        if labels[y] >= 0:
            visits[labels[y]] += counts.visits[y]
            ends[labels[y]] += counts.ends[y]
            starts[labels[y]] += counts.starts[y]
            sums[labels[y]] += counts.reward_sums[y]
            squares[labels[y]] += counts.reward_squares[y]
            for y2 in range(Y):
                if labels[y2] >= 0:
                    transitions[labels[y], :, labels[y2]] += full[y, :, y2]
    return Counts(visits, transitions, sums, squares, ends, starts)


def some_counts(**changes):
    parts = {
        "visits": [[2, 0], [1, 1]],
        "transitions": [[[1, 1], [0, 0]], [[0, 1], [0, 0]]],
        "reward_sums": [[0.5, 0], [1.0, -1.0]],
        "reward_squares": [[0.25, 0], [1.0, 1.0]],
    }
    return Counts(**(parts | changes))


@given(trajectories(), storages)
def test_counting_against_a_plain_loop(seen, sparse):
    counts = Counts.from_trajectory(seen, sparse=sparse)
    visits, transitions, sums, squares = counts_twin(seen)
    assert counts.is_sparse == sparse
    np.testing.assert_array_equal(counts.visits, visits)
    np.testing.assert_array_equal(counts.dense().transitions, transitions)
    np.testing.assert_array_equal(counts.reward_sums, sums)
    np.testing.assert_array_equal(counts.reward_squares, squares)
    assert counts.n_steps == len(seen)
    assert counts.n_transitions == np.count_nonzero(seen.next_observations >= 0)
    assert (counts.n_observations, counts.n_actions) == (Y, A)


def test_a_truncated_step_counts_its_reward_and_no_transition():
    counts = Counts.from_trajectory(Trajectory([0, 1], [0, 0], [1.0, 0.5]))
    assert counts.visits.tolist() == [[1], [1]]
    assert counts.reward_sums.tolist() == [[1.0], [0.5]]
    assert counts.transitions.tolist() == [[[0, 1]], [[0, 0]]]


def test_sparse_counting_goes_on_when_its_table_is_full():
    rng = np.random.default_rng(0)
    seen = Trajectory(rng.integers(60, size=20_000), rng.integers(3, size=20_000))
    sparse = Counts.from_trajectory(seen, sparse=True)
    assert sparse.transitions.nnz > 4096  # slots of the first table
    assert sparse == Counts.from_trajectory(seen, sparse=False)


def test_a_trajectory_without_known_transitions():
    for sparse in (False, True):
        counts = Counts.from_trajectory(Trajectory([1], [0]), sparse=sparse)
        assert (counts.n_steps, counts.n_transitions) == (1, 0)
        assert counts.reward_sums.sum() == 0


@given(trajectories(), trajectories(), storages)
def test_counts_of_a_concatenation_are_the_sum(first, second, sparse):
    both = Trajectory.concatenate([first, second])
    total = Counts.from_trajectory(first, sparse=sparse) + Counts.from_trajectory(second)
    assert Counts.from_trajectory(both) == total
    assert total.is_sparse == sparse


@given(counted, counted)
def test_subtraction_undoes_addition(x, y):
    assert (x + y) - y == x
    assert x - x == Counts.zeros(Y, A)
    assert x + y == y + x


@given(counted, counted)
def test_equality_does_not_depend_on_storage(x, y):
    assert x.sparse() == x.dense()
    assert (x == y) == (x.dense() == y.dense()) == (x.sparse() == y.sparse())
    np.testing.assert_array_equal(
        x.matrix().toarray().reshape(Y, A, Y), x.dense().transitions, strict=True
    )


@given(counted, partitions)
def test_grouping_against_a_plain_loop(x, p):
    grouped = x.group(p)
    assert grouped == group_twin(x, p)
    assert grouped.transitions.shape == (p.n_clusters, A, p.n_clusters)
    assert grouped.transitions.dtype == np.int64


@given(counted, counted, partitions)
def test_the_group_of_a_sum_is_the_sum_of_groups(x, y, p):
    assert (x + y).group(p) == x.group(p) + y.group(p)


@given(counted, partitions, st.data())
def test_grouping_twice_is_grouping_by_the_composition(x, p, data):
    labels = st.lists(st.integers(-1, 2), min_size=p.n_clusters, max_size=p.n_clusters)
    q = data.draw(labels.map(Partition).filter(lambda q: q.n_clusters))
    assert x.group(p).group(q) == x.group(p.compose(q))


@given(counted, partitions)
def test_groups_of_sparse_counts_can_stay_sparse(x, p):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transitions_module, "DENSE_LIMIT", 0)
        grouped = x.sparse().group(p)
    if not p.is_identity:
        assert grouped.is_sparse
    assert grouped == x.group(p)


def test_singletons_cost_nothing():
    counts = some_counts()
    assert counts.group(Partition.singletons(2)) is counts


def test_no_overflow_at_many_counts():
    many = 10**15
    counts = Counts(
        [[many], [many]], [[[many, 0]], [[many - 1, 1]]], np.ones((2, 1)), np.ones((2, 1))
    )
    for stored in (counts, counts.sparse()):
        total = stored + stored
        assert total.n_steps == 4 * many
        assert total.group(Partition.trivial(2)).transitions.tolist() == [[[4 * many]]]
        assert (total - stored) == counts


def test_large_counts_are_sparse_and_say_so_when_asked_for_more():
    seen = Trajectory([0, 99_999, 5], [0, 1, 3], n_observations=100_000)
    counts = Counts.from_trajectory(seen)
    assert counts.is_sparse
    assert counts.matrix().nnz == 2
    with pytest.raises(TooLargeError, match="keep them sparse, or group"):
        counts.dense()
    with pytest.raises(TooLargeError, match="40,000,000,000 entries"):
        Counts.from_trajectory(seen, sparse=False)
    labels = np.arange(100_000) % 3
    grouped = counts.group(Partition(labels))
    assert not grouped.is_sparse
    assert grouped.transitions.tolist() == (
        Counts.from_trajectory(
            Trajectory(labels[seen.observations], seen.actions)
        ).transitions.tolist()
    )
    with pytest.raises(TooLargeError, match="number the observations"):
        Counts.from_trajectory(Trajectory([10**12], [0]))


def test_reward_means_are_zero_where_nothing_was_seen():
    assert some_counts().reward_means.tolist() == [[0.25, 0.0], [1.0, -1.0]]


def test_zeros_choose_their_storage():
    assert not Counts.zeros(10, 2).is_sparse
    assert Counts.zeros(10, 2, sparse=True).is_sparse
    assert Counts.zeros(100_000, 2).is_sparse
    assert Counts.zeros(3, 2).n_steps == 0


def live_cells(n_observations=3, n_actions=2):
    cells = n_observations * n_actions
    return [
        np.zeros(cells, np.int64),
        np.zeros(cells * n_observations, np.int64),
        np.zeros(cells),
        np.zeros(cells),
        np.zeros(cells, np.int64),
        np.zeros(n_observations, np.int64),
    ]


def test_live_arrays_are_seen_through_and_protected():
    cells = live_cells()
    counts = Counts.from_cells(3, 2, *cells)
    cells[0][1 * 2 + 1] = 4
    cells[1][(1 * 2 + 1) * 3 + 2] = 3
    assert counts.visits[1, 1] == 4
    assert counts.transitions[1, 1, 2] == 3
    snapshot = counts.copy()
    cells[0][1 * 2 + 1] = 5
    assert (counts.visits[1, 1], snapshot.visits[1, 1]) == (5, 4)
    with pytest.raises(ValueError, match="read-only"):
        counts.visits[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        counts.transitions[0, 0, 0] = 1


def test_cells_may_come_as_keys_and_counts():
    cells = live_cells()
    cells[0][:] = 7
    keys = np.array([(2 * 2 + 1) * 3 + 0, (0 * 2 + 1) * 3 + 2])
    cells[1][keys] = [5, 6]
    dense = Counts.from_cells(3, 2, *cells)
    sparse = Counts.from_cells(3, 2, cells[0], (keys, np.array([5, 6])), *cells[2:])
    assert sparse.is_sparse
    assert sparse == dense
    assert (dense.transitions[2, 1, 0], dense.transitions[0, 1, 2]) == (5, 6)


@pytest.mark.parametrize("key", [-1, 18, 2**62])
def test_keys_of_cells_that_are_not_there_are_refused(key):
    cells = live_cells()
    pair = (np.array([0, key]), np.ones(2, np.int64))
    with pytest.raises(InvalidInputError, match="keys from 0 to 17"):
        Counts.from_cells(3, 2, cells[0], pair, *cells[2:])
    with pytest.raises(InvalidInputError, match="transitions has shape"):
        Counts.from_cells(3, 2, cells[0], (pair[0], pair[1][:1]), *cells[2:])


@pytest.mark.parametrize("change", [("indices", -1), ("indices", 3), ("indptr", 99)])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_sparse_arrays_that_lie_are_refused(kind, change):
    """Somebody wrote into one behind SciPy's back: compiled code would follow it anywhere."""
    name, value = change
    moved = kind(np.array([[0, 1, 0], [2, 0, 3], [0, 0, 4]]))
    getattr(moved, name)[-1] = value
    visits, nothing = np.full((3, 1), 9), np.zeros((3, 1))
    with pytest.raises(InvalidInputError, match="sparse transitions are damaged"):
        Counts(visits, moved, nothing, nothing)
    with pytest.raises(InvalidInputError, match="sparse transitions are damaged"):
        value_iteration(moved, nothing, 0.1)


@pytest.mark.parametrize(
    ("position", "name"), [(0, "visits"), (1, "transitions"), (3, "squares"), (5, "starts")]
)
def test_cells_of_the_wrong_size_or_kind_are_refused(position, name):
    cells = live_cells()
    cells[position] = cells[position][:-1]
    with pytest.raises(InvalidInputError, match=f"{name} has shape"):
        Counts.from_cells(3, 2, *cells)
    cells = live_cells()
    cells[position] = cells[position].astype(np.float32)
    with pytest.raises(InvalidInputError, match=f"{name} .*float32 entries"):
        Counts.from_cells(3, 2, *cells)


@given(counted)
def test_arrays_hold_everything(x):
    arrays = x.arrays()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    back = Counts.from_arrays({name: array.copy() for name, array in arrays.items()})
    assert back == x
    assert back.is_sparse == x.is_sparse


def test_damaged_arrays_are_refused():
    arrays = some_counts().arrays()
    with pytest.raises(InvalidInputError, match="lack 'visits'"):
        Counts.from_arrays({name: arrays[name] for name in arrays if name != "visits"})
    parts = some_counts().sparse().arrays()
    with pytest.raises(InvalidInputError, match="lack 'transitions_indptr'"):
        Counts.from_arrays({n: parts[n] for n in parts if n != "transitions_indptr"})
    with pytest.raises(InvalidInputError, match="damaged"):
        Counts.from_arrays(parts | {"transitions_indices": parts["transitions_indices"] + 5})
    with pytest.raises(InvalidInputError, match="damaged"):
        Counts.from_arrays(parts | {"transitions_indptr": parts["transitions_indptr"][:-1]})


def test_sparse_input_is_copied_and_cleaned():
    messy = scipy.sparse.coo_array(([1, 1, 0], ([0, 0, 3], [1, 1, 0])), shape=(4, 2))
    counts = some_counts(transitions=messy)
    assert counts.matrix().nnz == 1
    assert counts.dense().transitions[0, 0].tolist() == [0, 2]
    for part in (counts.transitions.data, counts.transitions.indices):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1


def test_input_is_copied_and_frozen():
    visits = np.array([[2, 0], [1, 1]])
    counts = some_counts(visits=visits)
    visits[0, 0] = 9
    assert counts == some_counts()
    for array in (counts.visits, counts.transitions, counts.reward_sums, counts.reward_squares):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_equality_sees_every_part():
    same = some_counts()
    assert same == some_counts()
    assert same != some_counts(visits=[[3, 0], [1, 1]])
    assert same != some_counts(transitions=[[[2, 0], [0, 0]], [[0, 1], [0, 0]]])
    assert same != some_counts(reward_sums=[[0.25, 0], [1.0, -1.0]])
    assert same != some_counts(reward_squares=[[0.5, 0], [1.0, 1.0]])
    assert same != Counts.zeros(3, 2)
    assert same != 4
    with pytest.raises(TypeError, match="unhashable"):
        hash(same)


def test_repr():
    assert repr(some_counts()) == "Counts(4 steps, 2 observations, 2 actions, dense)"
    assert repr(some_counts().sparse()) == "Counts(4 steps, 2 observations, 2 actions, sparse)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"visits": [[2, 0]]}, r"transitions has shape \(2, 2, 2\)"),
        ({"visits": [2, 0]}, r"visits has shape \(2,\)"),
        ({"visits": []}, "visits has shape"),
        ({"visits": [[2, 0], [1, -1]]}, r"visits\[1, 1\] is -1"),
        ({"visits": [[1, 0], [1, 1]]}, r"visits\[0, 0\] is 1, but 2 transitions"),
        ({"visits": [[2.0, 0], [1, 1]]}, "visits holds float64"),
        ({"visits": [["2", "0"], ["1", "1"]]}, "visits holds"),
        ({"transitions": np.zeros((2, 2, 3), int)}, r"transitions has shape \(2, 2, 3\)"),
        ({"transitions": -np.ones((2, 2, 2), int)}, r"transitions\[0, 0, 0\] is -1"),
        ({"transitions": np.zeros((2, 2, 2))}, "transitions holds float64"),
        (
            {"transitions": scipy.sparse.csr_array(np.zeros((2, 2), int))},
            r"sparse transitions have shape \(2, 2\); they must be \(4, 2\)",
        ),
        ({"transitions": scipy.sparse.csr_array(np.zeros((4, 2)))}, "transitions holds float64"),
        (
            {"transitions": scipy.sparse.csr_array([[0, 0], [0, 0], [0, 0], [0, -2]])},
            r"transitions\[1, 1, 1\] is -2",
        ),
        (
            {"transitions": scipy.sparse.csr_array([[0, 0], [0, 0], [0, 0], [0, 2]])},
            r"visits\[1, 1\] is 1, but 2 transitions",
        ),
        ({"reward_sums": [[0.5, 0], [np.nan, 0]]}, r"reward_sums\[1, 0\] is nan"),
        ({"reward_sums": [[0.5, 1], [0, 0]]}, r"visits\[0, 1\] is 0, but there are rewards"),
        ({"reward_squares": [[0.5, 0], [-0.1, 0]]}, r"reward_squares\[1, 0\] is -0.1"),
        ({"reward_squares": [[0.5, 0]]}, r"reward_squares has shape \(1, 2\)"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        some_counts(**changes)


@pytest.mark.parametrize("sparse", [False, True])
def test_subtraction_refuses_what_was_never_counted(sparse):
    small, large = some_counts(), some_counts() + some_counts()
    if sparse:
        small, large = small.sparse(), large.sparse()
    with pytest.raises(InvalidInputError, match=r"visits\[0, 0\] is -2"):
        small - large
    other = some_counts(transitions=[[[2, 0], [0, 0]], [[0, 1], [0, 0]]])
    with pytest.raises(InvalidInputError, match=r"transitions\[0, 0, 0\] is -1"):
        small - (other.sparse() if sparse else other)
    none_led = some_counts(transitions=np.zeros((2, 2, 2), int))
    with pytest.raises(InvalidInputError, match=r"visits\[0, 0\] is 0, but 2 transitions"):
        small - (none_led.sparse() if sparse else none_led)


def test_rounding_leaves_no_reward_behind():
    rewards = [0.1, 0.2, 0.3]
    first = Counts.from_trajectory(Trajectory([0, 0, 0], [0, 0, 0], rewards))
    second = Counts.from_trajectory(Trajectory([0], [0], [0.7]))
    left = (first + second) - first - second
    assert left == Counts.zeros(1, 1)


def test_sizes_must_agree():
    with pytest.raises(InvalidInputError, match="the sizes must agree"):
        some_counts() + Counts.zeros(3, 2)
    with pytest.raises(InvalidInputError, match="the sizes must agree"):
        some_counts() - Counts.zeros(2, 3)
    with pytest.raises(TypeError):
        some_counts() + 1
    with pytest.raises(TypeError):
        some_counts() - 1


def test_bad_groupings_are_refused():
    with pytest.raises(InvalidInputError, match="the partition has 3 observations"):
        some_counts().group(Partition([0, 0, 1]))
    with pytest.raises(InvalidInputError, match="the partition has no group"):
        some_counts().group(Partition.unseen(2))
    with pytest.raises(InvalidInputError, match=r"pass a romdp\.Partition"):
        some_counts().group([0, 0])


def test_rewards_whose_squares_overflow_are_refused():
    with pytest.raises(
        InvalidInputError, match=r"rewards\[0\] is 1e\+200; .* of magnitude 1e\+150"
    ):
        Trajectory([0], [0], [1e200])


@pytest.mark.parametrize(("n_observations", "n_actions"), [(0, 1), (1, 0), (1.5, 1), ("3", 1)])
def test_bad_sizes_are_refused(n_observations, n_actions):
    with pytest.raises(InvalidInputError, match="pass a whole number"):
        Counts.zeros(n_observations, n_actions)

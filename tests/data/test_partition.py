"""Groupings of observations: the order they form, and how two are compared."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.data.partition import Partition

SIZE = 7


def labels_of(size: int = SIZE, low: int = -1) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, 4), min_size=size, max_size=size)


partitions = labels_of().map(Partition)
whole_partitions = labels_of(low=0).map(Partition)


def relation(partition):
    """The pairs of observations that are together, each with itself if it has a group."""
    labels = partition.labels.tolist()
    return {
        (i, j)
        for i, j in itertools.product(range(len(labels)), repeat=2)
        if labels[i] == labels[j] != -1
    }


def merged_twin(p, q):
    """Union-find over the observations, in plain Python."""
    parent = list(range(p.n_observations))

    def root(i):
        while parent[i] != i:
            i = parent[i]
        return i

    for i, j in relation(p) | relation(q):
        parent[root(i)] = root(j)
    placed = (p.labels >= 0) | (q.labels >= 0)
    return [root(i) if placed[i] else -1 for i in range(p.n_observations)]


def test_labels_are_numbered_by_first_appearance():
    partition = Partition((9, -1, 4, 9, 10**18, 4))
    assert partition.labels.tolist() == [0, -1, 1, 0, 2, 1]
    assert partition.labels.dtype == np.int64
    assert (partition.n_observations, partition.n_clusters) == (6, 3)


@given(labels_of(), st.permutations(range(5)))
def test_numbers_of_groups_do_not_matter(labels, names):
    renamed = [names[label] if label >= 0 else -1 for label in labels]
    assert Partition(labels) == Partition(renamed)
    assert hash(Partition(labels)) == hash(Partition(np.array(renamed, np.int8)))


@given(partitions)
def test_labels_begin_at_zero_without_gaps(p):
    seen = [label for label in dict.fromkeys(p.labels.tolist()) if label >= 0]
    assert seen == list(range(p.n_clusters))


@given(partitions, partitions)
def test_equality_is_equality_of_groupings(p, q):
    assert (p == q) == (relation(p) == relation(q))
    assert p != p.labels.tolist()


def test_no_group_equals_only_no_group():
    assert Partition([0, 1, -1]) != Partition([0, 1, 2])
    assert Partition([0, -1]) != Partition([-1, 0])
    assert Partition([0, 0]) != Partition([0, 0, 0])


@given(partitions)
def test_members_and_sizes_follow_the_labels(p):
    assert len(p.members) == p.n_clusters
    assert [len(group) for group in p.members] == p.sizes.tolist()
    for label, group in enumerate(p.members):
        assert group.tolist() == [i for i in range(SIZE) if p.labels[i] == label]


def test_everything_is_frozen():
    p = Partition([0, 0, 1])
    for array in (p.labels, p.sizes, *p.members):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        p.labels = np.zeros(3, np.int64)
    given_labels = np.array([0, 0, 1])
    q = Partition(given_labels)
    given_labels[0] = 5
    assert q == p


def test_named_partitions():
    assert Partition.singletons(3) == Partition([0, 1, 2])
    assert Partition.trivial(3) == Partition([0, 0, 0])
    assert Partition.unseen(3) == Partition([-1, -1, -1])
    assert Partition.unseen(3).n_clusters == 0
    assert Partition.unseen(3).members == ()
    assert Partition.singletons(3).is_identity
    assert not Partition([0, -1]).is_identity


def test_repr_is_short():
    assert repr(Partition([0, 1, 1, -1])) == (
        "Partition(4 observations in 2 groups of 2, 1; 1 in none)"
    )
    assert repr(Partition.trivial(2)) == "Partition(2 observations in 1 group of 2)"
    assert repr(Partition.unseen(2)) == "Partition(2 observations in 0 groups; 2 in none)"
    assert len(repr(Partition.singletons(100_000))) < 100


def test_a_partition_survives_pickling():
    p = Partition([0, 0, -1, 1])
    assert pickle.loads(pickle.dumps(p)) == p


@given(partitions, partitions)
def test_merge_is_what_union_find_gives(p, q):
    assert p.merge(q) == Partition(merged_twin(p, q))


@given(partitions, partitions, partitions)
def test_merge_is_a_join(p, q, r):
    assert p.merge(p) == p
    assert p.merge(q) == q.merge(p)
    assert p.merge(q).merge(r) == p.merge(q.merge(r))
    assert p.refines(p.merge(q))
    assert q.refines(p.merge(q))
    if p.refines(r) and q.refines(r):
        assert p.merge(q).refines(r)
    assert p.merge(Partition.unseen(SIZE)) == p


@given(partitions, partitions)
def test_refines_is_inclusion_of_relations(p, q):
    assert p.refines(q) == (relation(p) <= relation(q))
    assert p.refines(q) == (p.merge(q) == q)


@given(partitions, partitions, partitions)
def test_refines_is_a_partial_order(p, q, r):
    assert p.refines(p)
    if p.refines(q) and q.refines(p):
        assert p == q
    if p.refines(q) and q.refines(r):
        assert p.refines(r)
    assert Partition.unseen(SIZE).refines(p)


@given(whole_partitions)
def test_singletons_and_trivial_are_the_ends(p):
    assert Partition.singletons(SIZE).refines(p)
    assert p.refines(Partition.trivial(SIZE))


@given(partitions, st.data())
def test_compose_groups_the_groups(p, data):
    if p.n_clusters == 0:
        return
    groups = Partition(data.draw(labels_of(p.n_clusters)))
    composed = p.compose(groups)
    expected = [int(groups.labels[label]) if label >= 0 else -1 for label in p.labels]
    # Not only the same grouping: the numbers of `groups` themselves are kept.
    assert composed.labels.tolist() == expected


@given(partitions, partitions)
def test_contingency_counts_overlaps(p, q):
    table = p.contingency(q).toarray()
    assert table.shape == (p.n_clusters, q.n_clusters)
    for i, mine in enumerate(p.members):
        for j, theirs in enumerate(q.members):
            assert table[i, j] == len(set(mine.tolist()) & set(theirs.tolist()))


@given(partitions, partitions)
def test_adjusted_rand_index_against_counted_pairs(p, q):
    both = [i for i in range(SIZE) if p.labels[i] >= 0 and q.labels[i] >= 0]
    pairs = list(itertools.combinations(both, 2))
    mine = [p.labels[i] == p.labels[j] for i, j in pairs]
    theirs = [q.labels[i] == q.labels[j] for i, j in pairs]
    a, b = sum(mine), sum(theirs)
    together = sum(x and y for x, y in zip(mine, theirs, strict=True))
    expected = a * b / len(pairs) if pairs else 0
    top = (a + b) / 2
    index = 1.0 if top == expected else (together - expected) / (top - expected)
    assert p.adjusted_rand_index(q) == pytest.approx(index)
    assert p.adjusted_rand_index(q) == pytest.approx(q.adjusted_rand_index(p))


def test_adjusted_rand_index_of_unrelated_groupings_is_near_zero():
    rng = np.random.default_rng(0)
    p, q = (Partition(rng.integers(5, size=100_000)) for _ in range(2))
    # The standard deviation is about 1e-5: a false alarm is a ten-sigma event.
    assert abs(p.adjusted_rand_index(q)) < 1e-4


@given(partitions, partitions, st.lists(st.integers(1, 9), min_size=SIZE, max_size=SIZE))
def test_misclassification_is_the_best_over_all_matchings(p, q, weights):
    assume(p.n_clusters <= 3)  # there are few enough matchings to try them all
    w = np.array(weights, float)
    counted = (p.labels >= 0) | (q.labels >= 0)
    placed = np.flatnonzero((p.labels >= 0) & (q.labels >= 0))
    targets = [*range(q.n_clusters), *[-2] * p.n_clusters]  # -2: matched with nothing
    agreed = max(
        sum(w[i] for i in placed if match[p.labels[i]] == q.labels[i])
        for match in set(itertools.permutations(targets, p.n_clusters))
    )
    total = w[counted].sum()
    expected = 1 - agreed / total if total else 0.0
    assert p.misclassification(q, weights) == pytest.approx(expected, abs=1e-12)
    assert p.misclassification(q, weights) == pytest.approx(q.misclassification(p, weights))


@given(whole_partitions, whole_partitions)
def test_misclassification_is_zero_exactly_for_equal_groupings(p, q):
    assert (p.misclassification(q) == 0) == (p == q)


def test_an_observation_without_a_group_is_wrong_unless_neither_places_it():
    truth = Partition([0, 0, 1, 1])
    assert Partition([0, 0, 1, -1]).misclassification(truth) == 0.25
    assert Partition([0, 0, 1, -1]).misclassification(Partition([0, 0, 1, -1])) == 0
    assert Partition.unseen(4).misclassification(truth) == 1
    assert Partition.unseen(4).misclassification(Partition.unseen(4)) == 0


def test_large_partitions_are_quick_enough_to_use():
    rng = np.random.default_rng(1)
    truth = Partition(rng.integers(50, size=100_000))
    fine = Partition.singletons(100_000)
    assert fine.refines(truth)
    assert fine.merge(truth) == truth
    assert fine.misclassification(truth) == pytest.approx(1 - 50 / 100_000)
    with pytest.raises(TooLargeError, match="adjusted_rand_index instead"):
        fine.misclassification(fine)
    assert fine.adjusted_rand_index(fine) == 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "no axis may be empty"),
        ([[0, 1]], r"labels has shape \(1, 2\)"),
        (3, r"labels has shape \(\)"),
        ([0, -2], r"labels\[1\] is -2"),
        ([0.0, 1.0], "float64 entries"),
        (["a", "b"], "entries; pass whole numbers"),
        ([True, False], "bool entries"),
        ([0, None], "object entries"),
        ([[0], [1, 2]], "labels is not an array"),
        (np.array([2**63], np.uint64), r"labels\[0\] is 9223372036854775808"),
    ],
)
def test_bad_labels_are_refused(labels, message):
    with pytest.raises(InvalidInputError, match=message):
        Partition(labels)


@pytest.mark.parametrize("method", ["merge", "refines", "misclassification", "contingency"])
def test_partitions_of_other_things_cannot_be_compared(method):
    compare = getattr(Partition([0, 0, 1]), method)
    with pytest.raises(InvalidInputError, match="has 2 observations, this one 3"):
        compare(Partition([0, 1]))
    with pytest.raises(InvalidInputError, match=r"pass a romdp\.Partition"):
        compare([0, 0, 1])


def test_other_bad_input_is_refused():
    p = Partition([0, 0, 1])
    with pytest.raises(InvalidInputError, match="this partition has 2 groups"):
        p.compose(p)
    with pytest.raises(InvalidInputError, match=r"pass a romdp\.Partition"):
        p.compose([0, 0])
    with pytest.raises(InvalidInputError, match=r"weights\[1\] is -1"):
        p.misclassification(p, [1, -1, 1])
    with pytest.raises(InvalidInputError, match="all weights are 0"):
        p.misclassification(p, [0, 0, 0])
    with pytest.raises(InvalidInputError, match=r"weights\[2\] is nan"):
        p.misclassification(p, [0, 0, np.nan])
    with pytest.raises(InvalidInputError, match=r"weights has shape \(2,\)"):
        p.misclassification(p, [1, 1])
    with pytest.raises(InvalidInputError, match="n_observations is 0"):
        Partition.singletons(0)

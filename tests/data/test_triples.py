"""Distinct triples: sorted, unique, and adding up."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples

Y, A = 4, 2

rows = st.lists(
    st.tuples(
        st.integers(0, Y - 1),
        st.integers(0, Y - 1),
        st.integers(0, A - 1),
        st.integers(0, Y - 1),
        st.integers(0, 3),
    ),
    max_size=12,
)
partitions = (
    st.lists(st.integers(-1, 3), min_size=Y, max_size=Y)
    .map(Partition)
    .filter(lambda p: p.n_clusters)
)


def build(given_rows, n_observations=Y, n_actions=A):
    columns = np.array(given_rows, np.int64).reshape(-1, 5).T
    return Triples(*columns, n_observations=n_observations, n_actions=n_actions)


def as_counter(triples):
    columns = (triples.previous, triples.middle, triples.action, triples.next)
    keys = zip(*(column.tolist() for column in columns), strict=True)
    return Counter(dict(zip(keys, triples.count.tolist(), strict=True)))


def rows_counter(given_rows):
    total = Counter()
    for *key, count in given_rows:
        if count:
            total[tuple(key)] += count
    return total


all_triples = rows.map(build)


@given(rows)
def test_triples_are_sorted_distinct_and_complete(given_rows):
    triples = build(given_rows)
    expected = rows_counter(given_rows)
    assert as_counter(triples) == expected
    assert triples.n_distinct == len(expected)
    assert triples.n_samples == expected.total()
    order = list(
        zip(
            *(getattr(triples, name).tolist() for name in ("action", "middle", "previous", "next")),
            strict=True,
        )
    )
    assert order == sorted(order)


@given(rows)
def test_keys_too_long_for_an_integer_are_sorted_as_well(given_rows):
    # Y^3 A is above 2^63, so that the triples cannot be packed into one number.
    shifted = [
        (p * 10**6, m * 10**6 + 7, a, n * 10**6 + 5, count) for p, m, a, n, count in given_rows
    ]
    large = build(shifted, n_observations=4 * 10**6)
    small = build(given_rows)
    np.testing.assert_array_equal(large.previous, small.previous * 10**6)
    np.testing.assert_array_equal(large.middle, small.middle * 10**6 + 7)
    np.testing.assert_array_equal(large.action, small.action)
    np.testing.assert_array_equal(large.next, small.next * 10**6 + 5)
    np.testing.assert_array_equal(large.count, small.count)


@given(st.data())
def test_from_trajectory_against_a_plain_walk(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    size = sum(lengths)
    observations = data.draw(st.lists(st.integers(0, Y - 1), min_size=size, max_size=size))
    actions = data.draw(st.lists(st.integers(0, A - 1), min_size=size, max_size=size))
    final = data.draw(
        st.lists(st.integers(-1, Y - 1), min_size=len(lengths), max_size=len(lengths))
    )
    expected, start = Counter(), 0
    for length, last in zip(lengths, final, strict=True):
        episode = [*observations[start : start + length], *([last] if last >= 0 else [])]
        for t in range(1, len(episode) - 1):
            expected[episode[t - 1], episode[t], actions[start + t], episode[t + 1]] += 1
        start += length
    seen = Trajectory(observations, actions, None, lengths, final, n_observations=Y, n_actions=A)
    triples = Triples.from_trajectory(seen)
    assert as_counter(triples) == expected
    assert (triples.n_observations, triples.n_actions) == (Y, A)
    parts = sum((Triples.from_trajectory(e) for e in seen.episodes()), Triples.zeros(Y, A))
    assert parts == triples


@given(all_triples, all_triples, all_triples)
def test_addition(x, y, z):
    assert as_counter(x + y) == as_counter(x) + as_counter(y)
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)
    assert x + Triples.zeros(Y, A) == x


@given(all_triples, partitions)
def test_relabelling_against_a_plain_loop(x, p):
    expected = Counter()
    for (previous, middle, action, following), count in as_counter(x).items():
        key = tuple(int(p.labels[y]) for y in (previous, middle, following))
        if min(key) >= 0:
            expected[key[0], key[1], action, key[2]] += count
    relabelled = x.relabel(p)
    assert as_counter(relabelled) == expected
    assert relabelled.n_observations == p.n_clusters
    assert relabelled.n_actions == A


@given(all_triples, all_triples, partitions, st.data())
def test_relabelling_is_additive_and_composes(x, y, p, data):
    assert (x + y).relabel(p) == x.relabel(p) + y.relabel(p)
    labels = st.lists(st.integers(-1, 2), min_size=p.n_clusters, max_size=p.n_clusters)
    q = data.draw(labels.map(Partition).filter(lambda q: q.n_clusters))
    assert x.relabel(p).relabel(q) == x.relabel(p.compose(q))


def test_singletons_cost_nothing():
    x = build([(0, 1, 0, 2, 3)])
    assert x.relabel(Partition.singletons(Y)) is x


@given(all_triples)
def test_selection_by_action(x):
    parts = [x.select(action) for action in range(A)]
    for action, part in enumerate(parts):
        assert (part.action == action).all()
        assert part.n_samples == x.count[x.action == action].sum()
    assert sum(parts, Triples.zeros(Y, A)) == x


def test_counts_do_not_overflow():
    x = build([(0, 1, 0, 2, 10**15), (0, 1, 0, 2, 10**15)])
    assert (x + x).count.tolist() == [4 * 10**15]


def test_equality_sees_every_part():
    x = build([(0, 1, 0, 2, 3)])
    for other in [
        (1, 1, 0, 2, 3),
        (0, 2, 0, 2, 3),
        (0, 1, 1, 2, 3),
        (0, 1, 0, 3, 3),
        (0, 1, 0, 2, 4),
    ]:
        assert x != build([other])
    assert x != build([(0, 1, 0, 2, 3)], n_observations=Y + 1)
    assert x != build([(0, 1, 0, 2, 3)], n_actions=A + 1)
    assert x != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_columns_are_read_only():
    x = build([(0, 1, 0, 2, 3)])
    for column in (x.previous, x.middle, x.action, x.next, x.count, x.select(0).count):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_repr():
    assert repr(build([(0, 1, 0, 2, 3)])) == (
        "Triples(3 samples, 1 distinct, 4 observations, 2 actions)"
    )


GOOD = {"previous": [0], "middle": [1], "action": [1], "next": [2], "count": [3]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"previous": [4]}, r"previous\[0\] is 4"),
        ({"middle": [-1]}, r"middle\[0\] is -1"),
        ({"action": [2]}, r"action\[0\] is 2; entries must lie from 0 to 1"),
        ({"next": [0.5]}, "next holds float64"),
        ({"count": [-1]}, r"count\[0\] is -1"),
        ({"count": [1, 1]}, r"count has shape \(2,\); it must be \(1,\)"),
        ({"count": ["many"]}, "count holds"),
        ({"previous": [[0]]}, r"previous has shape \(1, 1\)"),
        ({"n_observations": 0}, "n_observations is 0"),
        ({"n_actions": None}, "n_actions is None"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        Triples(**({"n_observations": Y, "n_actions": A} | GOOD | changes))


def test_other_bad_input_is_refused():
    x = build([(0, 1, 0, 2, 3)])
    with pytest.raises(InvalidInputError, match="the sizes must agree"):
        x + Triples.zeros(Y, A + 1)
    with pytest.raises(TypeError):
        x + 1
    with pytest.raises(InvalidInputError, match="the partition has 2 observations"):
        x.relabel(Partition([0, 1]))
    with pytest.raises(InvalidInputError, match="the partition has no group"):
        x.relabel(Partition.unseen(Y))
    with pytest.raises(InvalidInputError, match="action is 2"):
        x.select(2)

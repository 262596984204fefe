from collections import Counter

import numpy as np

from romdp.data.tally import Tally
from romdp.logs.reading.episodes import (
    ACTION_BITS,
    OBSERVATION_BITS,
    count_rewards,
    link,
    mark_ends,
    out_of_order,
    renamed,
    unpacked,
)


def random_rows(seed, n=400):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 9, n), rng.integers(0, 4, n), rng.integers(0, 12, n)


def key(observation, action, following):
    return (((observation << ACTION_BITS) | action) << OBSERVATION_BITS) | following


def test_links_are_those_of_a_plain_loop():
    seen, done, whose = random_rows(0)
    tally = Tally(2**63 - 1)
    first, last = np.full(12, -1), np.full(12, -1)
    at = 0
    while at < len(seen):
        at = link(seen, done, whose, first, last, tally.keys, tally.counts, tally.journal, at)
        tally.make_room()
    plain, before, begins = Counter(), {}, {}
    for o, a, e in zip(seen.tolist(), done.tolist(), whose.tolist(), strict=True):
        if e in before:
            plain[key(*before[e], o)] += 1
        begins.setdefault(e, o)
        before[e] = (o, a)
    keys, counts = tally.items()
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == plain
    assert first.tolist() == [begins.get(e, -1) for e in range(12)]
    ends = zip(*(column.tolist() for column in unpacked(last)), strict=True)
    assert list(ends) == [before[e] for e in range(12)]


def test_a_full_table_stops_the_loop_where_it_can_go_on():
    n = 10_000  # more different keys than the smallest table holds
    seen = np.arange(n)
    tally = Tally(2**63 - 1)
    first, last, stops = np.full(1, -1), np.full(1, -1), []
    at, zeros = 0, np.zeros(n, np.int64)
    while at < n:
        at = link(seen, zeros, zeros, first, last, tally.keys, tally.counts, tally.journal, at)
        stops.append(at)
        tally.make_room()
    assert len(stops) > 1
    np.testing.assert_array_equal(tally.items()[0], [key(i, 0, i + 1) for i in range(n - 1)])


def test_pairs_are_paid():
    seen, done, _ = random_rows(1)
    paid = np.random.default_rng(1).normal(size=400)
    visits, sums, squares = np.zeros((9, 4), int), np.zeros((9, 4)), np.zeros((9, 4))
    count_rewards(seen, done, paid, 0.5, visits, sums, squares)
    for o in range(9):
        for a in range(4):
            mine = paid[(seen == o) & (done == a)] - 0.5
            assert visits[o, a] == len(mine)
            np.testing.assert_allclose([sums[o, a], squares[o, a]], [mine.sum(), mine @ mine])


def test_the_first_row_out_of_order():
    who = np.array([0, 1, 0, 1, 0])
    for order, expected in (
        ([1, 1, 2, 2, 3], -1),
        ([1, 1, 2, 1, 3], 3),
        ([1, 5, 0, 6, 3], 2),
        ([1.0, 5.0, 1.5, 6.0, 1.25], 4),
    ):
        state = (np.zeros(2, bool), np.zeros(2), np.zeros(2))
        assert out_of_order(who, np.array(order), *state) == expected


def test_rows_after_an_end():
    whose = np.array([0, 1, 0, 1])
    over = np.zeros(2, bool)
    assert mark_ends(whose, np.array([False, False, True, False]), over) == -1
    assert over.tolist() == [True, False]
    assert mark_ends(np.array([1, 0]), np.array([False, False]), over) == 1


def test_keys_are_translated():
    observations, actions = np.array([5, 3, 8]), np.array([1, 0])
    keys = np.array([key(0, 1, 2), key(2, 0, 1)])
    assert renamed(keys, observations, actions).tolist() == [key(5, 0, 8), key(8, 1, 3)]

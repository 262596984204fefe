"""Rows linked to the next of their episode, and names matched over pieces of a log."""

import datetime
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import romdp
from romdp.data.tally import Tally
from romdp.logs import fit
from romdp.logs.applying import apply_model
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
from romdp.logs.reading.names import Matcher


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


WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=6, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 2000, seed=0)
DAY = datetime.datetime(2024, 1, 31, 18, 5)
HOURS = [DAY + datetime.timedelta(hours=i) for i in range(6)]

COLUMNS = {
    "whole": pa.array([-3, 0, 1, 2**53 + 1, 2**62, 7]),
    "unsigned": pa.array([2**63 + i for i in range(6)], pa.uint64()),
    "truth": pa.array([True, False] * 3),
    "double": pa.array([0.1, 1 / 3, 1e300, -2.0, 1e-5, 123456789.125]),
    "single": pa.array(np.array([0.1, 1 / 3, 1e30, -2.0, 1e-5, 0.7], np.float32)),
    "decimal": pa.array([Decimal(i) / 8 for i in range(6)], pa.decimal128(20, 5)),
    "seconds": pa.array(HOURS, pa.timestamp("s")),
    "micros": pa.array(HOURS, pa.timestamp("us")),
    "zoned": pa.array(HOURS, pa.timestamp("us", "Europe/Berlin")),
    "date": pa.array([hour.date() + datetime.timedelta(i) for i, hour in enumerate(HOURS)]),
    "time": pa.array([hour.time() for hour in HOURS], pa.time64("us")),
    "text": pa.array(["1", "1.0", "true", "True", "", "a\nb"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_are_found_in_every_format(tmp_path, kind):
    """Version 0.1 placed no row of a CSV file with truth values or times, and few floats."""
    values = COLUMNS[kind].take(pa.array(SEEN.observations))
    table = pa.table({"page": values, "offer": SEEN.actions, "paid": SEEN.rewards})
    if kind == "text":
        table = table.filter(pa.compute.not_equal(table["page"], ""))  # CSV: a missing value
    pyarrow.csv.write_csv(table, tmp_path / "new.csv")
    typed = fit(table, "page", "offer", "paid")
    assert apply_model(typed, tmp_path / "new.csv", tmp_path / "out.parquet").n_unplaced == 0
    states = pa.parquet.read_table(tmp_path / "out.parquet")["hidden_state"]
    assert states.to_pylist() == typed.predict(table["page"]).tolist()

    of_text = fit(tmp_path / "new.csv", "page", "offer", "paid")
    assert apply_model(of_text, table, tmp_path / "out.parquet").n_unplaced == 0
    back = pa.parquet.read_table(tmp_path / "out.parquet")["hidden_state"]
    lines = pyarrow.csv.read_csv(
        tmp_path / "new.csv",
        convert_options=pyarrow.csv.ConvertOptions(column_types={"page": pa.string()}),
    )
    names = lines["page"].to_pylist()
    assert back.to_pylist() == of_text.predict(names).tolist()


def test_text_that_reads_as_two_names_finds_neither():
    known = Matcher(["1", "1.0", "2"])
    assert known.find([1, 2]) == [0, 2]  # "1" is exactly how 1 is written
    assert known.find([1.0, 2.0]) == [1, 2]
    assert Matcher(["1.0", "1.00", "2"]).find([1, 2]) == [-1, 2]


def test_text_that_is_not_of_the_kind_is_unknown():
    assert Matcher([1, 2]).find(["2", "2.0", "2.5", "two", "", "9" * 400]) == [1, 1, -1, -1, -1, -1]
    assert Matcher([True, False]).find(["TRUE", "0", "no"]) == [0, 1, -1]
    assert Matcher([DAY]).find(["2024-01-31T18:05", "2024-01-31", "x"]) == [0, -1, -1]


def test_rows_without_a_state_are_counted_and_shown(tmp_path):
    model = fit(SEEN)
    data = {"page": [0, 1, 99, None, 99, 98, 97, 96, 95]}
    found = apply_model(model, data, tmp_path / "out.csv", "page")
    assert (int(found), found.n_unplaced) == (9, 7)
    assert found.examples == (99, None, 98, 97, 96)
    assert found.describe() == (
        "9 rows, 7 of them without a hidden state, since the model does not know their "
        "observation: 99, a missing value, 98, 97, 96, ..."
    )
    all_known = apply_model(model, {"page": [0]}, tmp_path / "out.csv", "page")
    assert all_known.describe() == "1 row, 0 of them without a hidden state"

"""Columns of a log: their kinds, the names in them, and where episodes begin and end."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.columns import Columns, Place, names, numbers, ordered
from romdp.logs.reading.counting import count_logs
from romdp.logs.reading.names import coded, digests, mix

HERE = Place("log.csv", 100)


def batch(**columns):
    return pa.table(columns).combine_chunks().to_batches()[0]


def test_a_missing_column_suggests_the_nearest():
    table = {"page": [1, 2], "Offer": [0, 1]}
    with pytest.raises(InvalidInputError, match=r"no column 'pge'; did you mean 'page'\?"):
        count_logs(table, Columns("pge"))
    with pytest.raises(InvalidInputError, match=r"no column 'offer'; did you mean 'Offer'\?"):
        count_logs(table, Columns("page", "offer"))
    with pytest.raises(InvalidInputError, match=r"no column 'xyzzy'; it has 'page', 'Offer'"):
        count_logs(table, Columns("page", episode="xyzzy"))


def test_one_column_cannot_be_two_things():
    with pytest.raises(InvalidInputError, match=r"'page' cannot be both observation and reward"):
        Columns("page", reward="page")
    with pytest.raises(InvalidInputError, match=r"action is 3; pass the name"):
        Columns("page", 3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[["a"]], [["b"]]], "'x' holds vectors, which romdp.fit encodes"),
        ([{"a": 1}, {"a": 2}], "cannot name things"),
        ([None, None], "cannot name things"),
    ],
)
def test_what_cannot_be_a_name(values, words):
    with pytest.raises(InvalidInputError, match=words):
        count_logs(pa.table({"x": values}), Columns("x"))


def test_text_cannot_be_a_reward_or_an_order():
    table = {"page": [1, 2], "x": ["a", "b"]}
    with pytest.raises(InvalidInputError, match=r"'x' of the table holds string.*be the reward"):
        count_logs(table, Columns("page", reward="x"))
    with pytest.raises(
        InvalidInputError, match=r"'x' of the table holds string, which has no order"
    ):
        count_logs(table, Columns("page", order="x"))


@pytest.mark.parametrize(
    "values",
    [["a", None, "b"], [1, None, 2], [0.5, float("nan"), 1.0], [None, "a", "b"]],
)
def test_a_missing_name_is_found(values):
    row = [i for i, v in enumerate(values) if v is None or v != v][0]  # noqa: RUF015, PLR0124
    words = f"row {101 + row} of log.csv, column 'x': the value is missing"
    with pytest.raises(InvalidInputError, match=words):
        names(batch(x=values), ["x"], HERE)
    assert names(batch(x=values), ["x"], HERE, "drop").codes[row] == -1
    own = names(batch(x=values), ["x"], HERE, "own")
    assert own.names()[own.codes[row]] is None


def test_a_missing_name_hidden_in_a_dictionary_is_found():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    with pytest.raises(InvalidInputError, match=r"row 102 of log.csv, column 'x'"):
        names(batch(x=array), ["x"], HERE)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), None])
def test_a_reward_must_be_finite(bad):
    with pytest.raises(InvalidInputError, match=r"row 103 of log.csv, column 'x'"):
        numbers(batch(x=pa.array([1.0, 2.0, bad])), "x", HERE)


@pytest.mark.parametrize(
    "values",
    [[True, False], [1, 0], [1.0, 0.0], [Decimal("1.0"), Decimal("0.0")]],
)
def test_rewards_of_every_kind(values):
    assert numbers(batch(x=values), "x", HERE).tolist() == [1.0, 0.0]


def test_orders_of_every_kind():
    day = datetime.date(2024, 2, 3)
    for values in (
        [1, 2],
        [0.5, 0.75],
        [day, day + datetime.timedelta(1)],
        [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 1)],
        [datetime.time(1, 2), datetime.time(1, 3)],
    ):
        order = ordered(batch(x=values), "x", HERE)
        assert order[0] < order[1]
    with pytest.raises(InvalidInputError, match=r"row 102"):
        ordered(batch(x=[1, None]), "x", HERE)


@pytest.mark.parametrize(
    "values",
    [
        ["é", "日本", "é", "🙂"],
        [3, 1, 3, -2],
        [True, False, True],
        [b"x", b"y"],
        [datetime.date(2024, 2, 3), datetime.date(2024, 2, 4)],
        [0.5, 1.5],
    ],
)
def test_names_are_numbered_by_first_appearance(values):
    found = coded(batch(x=values).column("x"), "x")
    assert found.names() == list(dict.fromkeys(values))
    assert [found.names()[i] for i in found.codes] == values


def test_types_that_need_a_cast():
    text = pa.array(["a", "b", "a"], pa.string_view())
    assert coded(text, "x").names() == ["a", "b"]
    times = pa.array([2000, 1000], pa.int64()).cast(pa.timestamp("ns"))
    assert coded(times, "x").names()[1] == datetime.datetime(1970, 1, 1, 0, 0, 0, 1)
    finer = pa.array([1], pa.int64()).cast(pa.timestamp("ns"))
    with pytest.raises(InvalidInputError, match=r"'x' holds times with nanoseconds"):
        coded(finer, "x")


def test_unused_entries_of_a_dictionary_get_no_number():
    array = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(["a", "b", "c"]))
    found = coded(array, "x")
    assert found.codes.tolist() == [0, 1]
    assert found.names() == ["c", "a"]


def test_digests_are_equal_for_equal_names_only():
    users = [f"user {i}" for i in range(5000)]
    first, again = (digests(coded(pa.array(some), "x")) for some in (users, users[::-1]))
    np.testing.assert_array_equal(first, again[::-1])
    assert len(np.unique(first)) == 5000
    assert first.min() >= 0
    whole = digests(coded(pa.array(np.arange(5000)), "x"))
    assert len(np.unique(whole)) == 5000


def test_mixed_words_look_uniform():
    """The probability that a fair draw is this far off is below 1e-6 (5 standard errors)."""
    share = (mix(np.arange(100_000)) < 0.2 * 2.0**63).mean()
    assert abs(share - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 100_000)

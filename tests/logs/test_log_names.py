import datetime

import numpy as np
import pyarrow as pa
import pytest

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.columns import Place
from romdp.logs.reading.names import Names, coded, digests, mix

HERE = Place("log.csv", 100)


def batch(**columns):
    return pa.table(columns).combine_chunks().to_batches()[0]


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
    numbering = Names("x", 10, "observation")
    found = numbering.encode(coded(batch(x=values), "x", HERE))
    assert numbering.names == list(dict.fromkeys(values))
    assert [numbering.names[i] for i in found] == values


def test_types_that_need_a_cast():
    text = pa.array(["a", "b", "a"], pa.string_view())
    assert coded(batch(x=text), "x", HERE).names() == ["a", "b"]
    times = pa.array([2000, 1000], pa.int64()).cast(pa.timestamp("ns"))
    assert coded(batch(x=times), "x", HERE).names()[1] == datetime.datetime(1970, 1, 1, 0, 0, 0, 1)
    finer = pa.array([1], pa.int64()).cast(pa.timestamp("ns"))
    with pytest.raises(InvalidInputError, match=r"'x' holds times with nanoseconds"):
        coded(batch(x=finer), "x", HERE)


def test_unused_entries_of_a_dictionary_get_no_number():
    array = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(["a", "b", "c"]))
    numbering = Names("x", 10, "observation")
    assert numbering.encode(coded(batch(x=array), "x", HERE)).tolist() == [0, 1]
    assert numbering.names == ["c", "a"]


def test_digests_are_equal_for_equal_names_only():
    names = [f"user {i}" for i in range(5000)]
    first = digests(coded(batch(x=names), "x", HERE))
    again = digests(coded(batch(x=names[::-1]), "x", HERE))
    np.testing.assert_array_equal(first, again[::-1])
    assert len(np.unique(first)) == 5000
    assert first.min() >= 0
    whole = digests(coded(batch(x=np.arange(5000)), "x", HERE))
    assert len(np.unique(whole)) == 5000


def test_mixed_words_look_uniform():
    """The chance that a fair draw is this far off is below 1e-6 (5 standard errors)."""
    share = (mix(np.arange(100_000)) < 0.2 * 2.0**63).mean()
    assert abs(share - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 100_000)

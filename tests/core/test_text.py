"""Tables, numbers and JSON: one place prints them all."""

import json

import numpy as np
import pytest

from romdp.core.text import columns, count, interval, number, one_line, plain


@pytest.mark.parametrize(
    "name", ["a\nb", "a\r", "a\tb", "\x1b[31m", "a\u2028b", "\udcff", "\u202eb"]
)
def test_a_name_never_leaves_its_line(name):
    text = one_line(name)
    assert text.isprintable()
    assert text.encode()
    (line,) = columns([[name, "x"]])
    assert line == f"{text}  x"


def test_names_are_cut_after_they_are_escaped():
    assert one_line("\n" * 50, 10) == "\\n\\n\\n\\n\\…"
    assert one_line("é" * 10, 10) == "é" * 10


def test_columns_are_aligned():
    rows = [["name", "size", "more"], ["a", 10, ""], ["long", 7, "x"]]
    assert columns(rows, "<>") == ["name  size  more", "a       10", "long     7     x"]
    assert columns(rows) == ["name  size  more", "a     10", "long  7     x"]
    with pytest.raises(ValueError, match="zip"):
        columns([["a", "b"], ["a"]])


def test_numbers():
    assert number(12345678.4) == "12,345,678"
    assert number(999.987) == "1,000"
    assert number(0.000123456) == "0.0001235"
    assert number(None) == number(float("inf")) == number(np.nan, 2) == "-"
    assert number(1234.56, 1) == "1,234.6"
    assert number(3) == "3"
    assert interval((1, 2.25), 1) == "[1.0, 2.2]"
    assert interval((1.0, float("nan"))) == "-"
    assert count(0, "run") == "0 runs"


def test_what_json_can_hold():
    value = {
        "whole": np.arange(2),
        "real": (1.0, np.float64("nan"), np.inf, np.float32(0.5)),
        3: [None, True, np.bool_(False), "x"],
    }
    expected = {"whole": [0, 1], "real": [1.0, None, None, 0.5], "3": [None, True, False, "x"]}
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected
    assert plain({"a": -np.inf}, str) == {"a": "-inf"}
    assert plain(np.array([1.23456789, 12345678.0]), digits=4) == [1.235, 12350000.0]

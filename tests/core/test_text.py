"""What people read: tables, numbers, JSON, and errors that suggest the nearest name."""

import json

import numpy as np
import pytest

import romdp
from romdp.core.errors import ROMDPError, StorageError, UnknownNameError
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


TWO_CLASSES = np.eye(2)[:, None, :], np.array([[0.0], [1.0]])


@pytest.mark.parametrize(
    ("ordinary", "call"),
    [
        (ValueError, lambda: romdp.MDP(np.ones((2, 1, 2)), np.zeros((2, 1)))),
        (ValueError, lambda: romdp.worlds.make("river-swin")),
        (ArithmeticError, lambda: romdp.MDP(*TWO_CLASSES).gain),
        (MemoryError, lambda: romdp.worlds.random_romdp(5, 4, 10_000_000, seed=0).observable),
        (OSError, lambda: romdp.MDP.load("no-such-file.npz")),
        (OSError, lambda: romdp.MDP(*TWO_CLASSES).save("no-such-folder/mdp.npz")),
        (RuntimeError, lambda: romdp.Online(romdp.UCRL2(), 2, 1).observe(0.0, 1)),
    ],
)
def test_who_catches_the_ordinary_error_catches_ours(ordinary, call):
    with pytest.raises(ordinary) as caught:
        call()
    assert isinstance(caught.value, ROMDPError)


def test_a_storage_error_keeps_its_message():
    """OSError treats two arguments in a way of its own; ours always have one."""
    assert str(StorageError("cannot read x: gone")) == "cannot read x: gone"


def test_the_nearest_name_is_suggested():
    error = UnknownNameError("world", "river-swin", ["grid", "river-swim", "random-mdp"])
    assert str(error) == "unknown world 'river-swin': did you mean 'river-swim'?"


def test_without_a_near_name_all_are_listed_in_order():
    error = UnknownNameError("world", "zzz", ["grid", "cube"])
    assert str(error) == "unknown world 'zzz': choose from cube, grid"

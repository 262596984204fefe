"""What people read: tables, numbers, JSON, descriptions, and errors that name a remedy."""

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import romdp
from romdp.core.errors import ROMDPError, StorageError, UnknownNameError
from romdp.core.formats import describe, fingerprint
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
        (MemoryError, lambda: romdp.worlds.random_romdp(5, 4, 200_000, seed=0).observable),
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


@dataclass(frozen=True)
class Part:
    size: int
    weights: np.ndarray


class Plain:
    """No dataclass and no repr of its own."""

    def __init__(self, size):
        self.size = size


class Speaks:
    def __describe__(self):
        return {"words": ["a", np.int64(3)]}


def test_values_become_plain_data():
    value = {"a": (1, 2.5, None), 3: np.float64(0.5), "flag": np.bool_(True), "set": {2, 1}}
    plain = describe(value)
    assert plain == {"a": [1, 2.5, None], "3": 0.5, "flag": True, "set": [1, 2]}
    assert json.loads(json.dumps(plain)) == plain


def test_a_dataclass_becomes_its_name_and_fields():
    plain = describe(Part(2, np.zeros((2, 3))))
    assert plain["type"] == "Part"
    assert plain["size"] == 2
    assert plain["weights"]["shape"] == [2, 3]
    assert describe(Speaks()) == {"type": "Speaks", "words": ["a", 3]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(3), np.array([0.0, 0.0, 1e-300])),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(2, np.int64), np.zeros(2)),
        (Part(1, np.zeros(1)), Part(2, np.zeros(1))),
        (Part(1, np.zeros(1)), Part(1, np.ones(1))),
        (Plain(1), Plain(2)),
        (romdp.Doubling(), romdp.Doubling(eager=False)),
        (romdp.Partition([0, 1]), romdp.Partition([0, 0])),
        ([1, [2]], [[1], 2]),
        (1, "1"),
    ],
)
def test_different_values_have_different_fingerprints(one, other):
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        (np.arange(6)[::2], np.array([0, 2, 4])),
        (Part(1, np.zeros(1)), Part(np.int64(1), np.zeros(1))),
        (Plain(1), Plain(1)),  # not where in memory they are
        (romdp.Partition([5, 5, 2]), romdp.Partition([0, 0, 1])),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((1, 2), [1, 2]),
    ],
)
def test_equal_values_have_the_same_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(other)


def test_a_fingerprint_is_the_same_in_another_process():
    """Python salts the hashes of strings anew in each; a checkpoint must not notice."""
    code = (
        "import romdp; from romdp.core.formats import fingerprint; "
        "print(fingerprint([romdp.UCRL2(), romdp.Oracle([0, 1, 1]), {'x', 'y', 'z'}]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == fingerprint(
        [romdp.UCRL2(), romdp.Oracle([0, 1, 1]), {"x", "y", "z"}]
    )

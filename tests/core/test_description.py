"""Descriptions are plain data, equal just when the values are."""

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import romdp
from romdp.core.description import describe, fingerprint


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
        "import romdp; from romdp.core.description import fingerprint; "
        "print(fingerprint([romdp.UCRL2(), romdp.Oracle([0, 1, 1]), {'x', 'y', 'z'}]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == fingerprint(
        [romdp.UCRL2(), romdp.Oracle([0, 1, 1]), {"x", "y", "z"}]
    )

import enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.storage import write_json
from romdp.data.vocabulary import Vocabulary


def test_vocabulary_grows_in_order_of_appearance() -> None:
    vocabulary = Vocabulary()
    assert [vocabulary.encode(word) for word in "abacab"] == [0, 1, 0, 2, 0, 1]
    assert vocabulary.names == ["a", "b", "c"]
    assert len(vocabulary) == 3
    assert [vocabulary.decode(number) for number in range(3)] == ["a", "b", "c"]
    assert vocabulary.encode("d", grow=False) == -1
    assert "d" not in vocabulary
    assert "c" in vocabulary
    vocabulary.names.append("x")  # a copy
    assert vocabulary.names == ["a", "b", "c"]


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("observation", "name", "alike"),
    [
        (np.array([[1, 2], [3, 4]]), ((1, 2), (3, 4)), [[1, 2], [3, 4]]),
        (np.array([0.5, -0.0]), (0.5, 0.0), (0.5, 0)),
        (np.float32(0.1), float(np.float32(0.1)), float(np.float32(0.1))),
        (np.array(3), 3, np.int8(3)),
        (np.str_("a"), "a", "a"),
        ((1, [2, np.array([3])]), (1, (2, (3,))), (1, (2, (3,)))),
        ({"b": np.array([1]), "a": 2}, (("a", 2), ("b", (1,))), {"a": 2, "b": [1]}),
        (b"\x00\xff", b"\x00\xff", b"\x00\xff"),
        (None, None, None),
        (Colour.RED, Colour.RED, Colour.RED),
        (np.array([], float), (), ()),
        (np.longdouble(2), 2, np.longdouble(2)),
    ],
)
def test_vocabulary_kinds(observation: Any, name: Any, alike: Any) -> None:
    vocabulary = Vocabulary(names=["first"])
    assert vocabulary.encode(observation) == 1
    assert vocabulary.encode(observation) == 1
    assert vocabulary.encode(alike) == 1
    assert alike in vocabulary
    assert vocabulary.decode(1) == name


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (float("nan"), "NaN"),
        (np.array([1.0, np.nan]), "NaN"),
        ({1, 2}, "set, which is not hashable"),
        (({1, 2}, 3), "set, which is not hashable"),
        ({1: 0, "a": 0}, "cannot be sorted"),
    ],
)
def test_vocabulary_refuses_what_has_no_equal(observation: Any, message: str) -> None:
    vocabulary = Vocabulary()
    with pytest.raises(InvalidInputError, match=message):
        vocabulary.encode(observation)
    assert len(vocabulary) == 0


def test_vocabulary_full() -> None:
    vocabulary = Vocabulary(capacity=2, names=["a", "b"])
    with pytest.raises(InvalidInputError, match=r"full: \('c', 0\) is new.*larger capacity"):
        vocabulary.encode(("c", 0))
    assert vocabulary.encode("b") == 1
    assert len(vocabulary) == 2


@pytest.mark.parametrize("number", [2, -1, "a", 0.5])
def test_vocabulary_decode_refuses(number: Any) -> None:
    with pytest.raises(InvalidInputError, match="number is"):
        Vocabulary(names=["a", "b"]).decode(number)


def test_empty_vocabulary_decodes_nothing() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        Vocabulary().decode(0)


def test_vocabulary_bad_capacity() -> None:
    with pytest.raises(InvalidInputError, match="capacity is 0"):
        Vocabulary(0)


simple = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
names_of_all_kinds = st.recursive(
    simple | st.binary(), lambda part: st.lists(part, max_size=4).map(tuple), max_leaves=6
)


@given(st.lists(names_of_all_kinds, max_size=20))
def test_vocabulary_is_a_bijection(shown: list[Any]) -> None:
    vocabulary = Vocabulary()
    numbers = [vocabulary.encode(observation) for observation in shown]
    assert [vocabulary.decode(number) for number in numbers] == shown
    assert sorted(set(numbers)) == list(range(len(vocabulary)))
    assert len(vocabulary) == len(set(shown))


def test_vocabulary_file(tmp_path: Any) -> None:
    names = ["é", 3, (1, ("a", 2.5)), b"\x00\xff", None, (), -(10**30), True, ((),)]
    vocabulary = Vocabulary(capacity=50, names=names)
    vocabulary.save(tmp_path / "v.json")
    loaded = Vocabulary.load(tmp_path / "v.json")
    assert loaded == vocabulary
    assert loaded.names == names
    assert loaded.capacity == 50
    assert loaded.encode("new") == len(names)
    assert loaded != vocabulary


def test_vocabulary_that_json_cannot_hold(tmp_path: Any) -> None:
    for name in (Colour.RED, float("inf"), (1, Colour.RED)):
        with pytest.raises(InvalidInputError, match=r"names\[1\]"):
            Vocabulary(names=["a", name]).save(tmp_path / "v.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "no vocabulary"),
        ({"kind": "other"}, "no vocabulary"),
        ({"version": 2}, "version 2"),
        ({"names": ["a", "a"]}, "twice"),
        ({"names": [{"text": "a"}]}, "damaged"),
        ({"names": [{"bytes": "xyz"}]}, "damaged"),
        ({"names": "abc"}, "damaged"),
        ({"capacity": 1, "names": ["a", "b"]}, "damaged"),
        ({"capacity": "many"}, "damaged"),
    ],
)
def test_vocabulary_damaged_files(content: Any, message: str, tmp_path: Any) -> None:
    good = {"kind": "romdp vocabulary", "version": 1, "capacity": None, "names": ["a"]}
    write_json(tmp_path / "v.json", {**good, **content} if content else content)
    with pytest.raises(StorageError, match=message):
        Vocabulary.load(tmp_path / "v.json")

"""Spaces with finitely many elements, numbered and back."""

import numpy as np
import pytest
from gymnasium import spaces

from romdp.core.errors import InvalidInputError
from romdp.playing.spaces import Numbering

SPACES = [
    spaces.Discrete(1),
    spaces.Discrete(7),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiDiscrete([2, 3], start=[1, -1]),
    spaces.MultiDiscrete([[2, 3], [1, 4]]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 2]),
    spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2), spaces.Discrete(2, start=1)]),
    spaces.Dict({"b": spaces.Discrete(3), "a": spaces.MultiDiscrete([2, 2])}),
    spaces.Tuple([spaces.Dict({"x": spaces.Discrete(2)}), spaces.Tuple([spaces.Discrete(4)])]),
]


def plain(element):
    """An element as nested tuples, so that two can be compared."""
    if isinstance(element, dict):
        return tuple((key, plain(element[key])) for key in sorted(element))
    if isinstance(element, tuple):
        return tuple(plain(part) for part in element)
    return np.asarray(element).tolist(), np.shape(element)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_numbers_and_elements_are_one_to_one(space):
    numbering = Numbering(space, "observation")
    elements = [numbering.decode(number) for number in range(numbering.size)]
    assert all(element in space for element in elements)
    assert [numbering.encode(element) for element in elements] == list(range(numbering.size))
    assert len({repr(plain(element)) for element in elements}) == numbering.size


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_whatever_a_space_samples_has_a_number(space):
    numbering = Numbering(space, "observation")
    space.seed(0)
    for _ in range(200):
        element = space.sample()
        number = numbering.encode(element)
        assert 0 <= number < numbering.size
        assert plain(numbering.decode(number)) == plain(element)


def test_the_sizes_are_products():
    assert [Numbering(space, "action").size for space in SPACES] == [
        1, 7, 5, 24, 6, 24, 16, 16, 24, 12, 8
    ]  # fmt: skip


def test_numbers_of_any_kind_will_do():
    numbering = Numbering(spaces.Discrete(5), "observation")
    assert {numbering.encode(kind(3)) for kind in (int, np.int32, np.uint8, np.array)} == {3}


@pytest.mark.parametrize(
    ("space", "element"),
    [
        (spaces.Discrete(3), 3),
        (spaces.Discrete(3), -1),
        (spaces.Discrete(3), None),
        (spaces.Discrete(3), 1.5),
        (spaces.Discrete(3), np.nan),
        (spaces.Discrete(3), "two"),
        (spaces.Discrete(3, start=1), 0),
        (spaces.MultiDiscrete([2, 3]), [1, 3]),
        (spaces.MultiDiscrete([2, 3]), [-1, 0]),
        (spaces.MultiDiscrete([2, 3]), [1]),
        (spaces.MultiDiscrete([2, 3]), [1, 1, 1]),
        (spaces.MultiDiscrete([2, 3]), [0.5, 1]),
        (spaces.MultiBinary(2), [0, 2]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (0,)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (0, 5)),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 0}),
        (spaces.Dict({"a": spaces.Discrete(2)}), 0),
    ],
    ids=str,
)
def test_an_element_outside_is_refused(space, element):
    with pytest.raises(InvalidInputError, match="observation"):
        Numbering(space, "observation").encode(element)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (2,)),
        spaces.Text(5),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]),
        spaces.Sequence(spaces.Discrete(2)),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_numbered_are_refused(space):
    with pytest.raises(InvalidInputError, match=r"action space .* enumerable.*VocabularyWrapper"):
        Numbering(space, "action")


def test_spaces_that_are_too_large_are_refused():
    for space in (spaces.MultiDiscrete([1000] * 5), spaces.MultiBinary(64), spaces.Discrete(2**40)):
        with pytest.raises(InvalidInputError, match="too many to number"):
            Numbering(space, "observation")

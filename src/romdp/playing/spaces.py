"""Gymnasium spaces with finitely many elements, numbered from 0."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces

from romdp.core.errors import InvalidInputError

_MOST = 2**31  # elements that a space may have and still be numbered


class Numbering:
    """Numbers for the elements of an enumerable space.

    `Discrete`, `MultiDiscrete`, `MultiBinary`, and `Tuple` and `Dict` of such.

    Parameters
    ----------
    space
        The space.
    what
        What it is called in messages: "observation" or "action".

    Examples
    --------
    >>> numbering = Numbering(spaces.MultiDiscrete([2, 3]), "observation")
    >>> numbering.size, numbering.encode(np.array([1, 2])), numbering.decode(5)
    (6, 5, array([1, 2]))
    """

    def __init__(self, space: Any, what: str) -> None:
        self.space, self.what = space, what
        self.size: int
        self._encode: Callable[[Any], int]
        self._decode: Callable[[int], Any]
        if isinstance(space, spaces.Discrete):
            self.size = int(space.n)
            first = int(space.start)
            self._encode = lambda element: _whole(element) - first
            self._decode = lambda number: space.dtype.type(number + first)
        elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            self._set_grid(space)
        elif isinstance(space, spaces.Tuple | spaces.Dict):
            self._set_parts(space)
        else:
            raise InvalidInputError(
                f"the {what} space is {space}; it must be enumerable (Discrete, MultiDiscrete, "
                "MultiBinary, or Tuple or Dict of these). Wrap the environment in "
                "romdp.worlds.VocabularyWrapper to number whatever it shows"
            )
        if self.size > _MOST:
            raise InvalidInputError(
                f"the {what} space has {self.size:.3g} elements, too many to number; wrap the "
                "environment in romdp.worlds.VocabularyWrapper to number those that occur"
            )

    def _set_grid(self, space: Any) -> None:
        binary = isinstance(space, spaces.MultiBinary)
        lengths = np.full(space.shape, 2) if binary else np.asarray(space.nvec)
        start = 0 if binary else np.asarray(space.start)
        shape = tuple(int(n) for n in lengths.ravel())
        self.size = prod(shape)

        def encode(element: Any) -> int:
            given = np.asarray(element)
            whole = given.astype(np.int64)
            if given.shape != lengths.shape or (whole != given).any():
                raise ValueError(f"{element!r} has another shape, or is not whole")
            return int(np.ravel_multi_index(tuple((whole - start).ravel()), shape))

        def decode(number: int) -> Any:
            index = np.array(np.unravel_index(number, shape)).reshape(lengths.shape)
            return (index + start).astype(space.dtype)

        self._encode, self._decode = encode, decode

    def _set_parts(self, space: Any) -> None:
        keyed = isinstance(space, spaces.Dict)
        keys = list(space.spaces) if keyed else list(range(len(space.spaces)))
        parts = [Numbering(space.spaces[key], self.what) for key in keys]
        shape = tuple(part.size for part in parts)
        self.size = prod(shape)

        def encode(element: Any) -> int:
            index = [part.encode(element[key]) for key, part in zip(keys, parts, strict=True)]
            return int(np.ravel_multi_index(tuple(index), shape))

        def decode(number: int) -> Any:
            index = np.unravel_index(number, shape)
            elements = [part.decode(int(i)) for part, i in zip(parts, index, strict=True)]
            return dict(zip(keys, elements, strict=True)) if keyed else tuple(elements)

        self._encode, self._decode = encode, decode

    def encode(self, element: Any) -> int:
        """Return the number of an element; one outside the space is refused."""
        try:
            number = self._encode(element)
        except (TypeError, ValueError, KeyError, IndexError):
            number = -1
        if not 0 <= number < self.size:
            raise InvalidInputError(f"{self.what} {element!r} is not in {self.space}")
        return number

    def decode(self, number: int) -> Any:
        """Return the element of a number."""
        return self._decode(number)


def _whole(element: Any) -> int:
    number = int(element)
    if number != element:
        raise ValueError(f"{element!r} is not a whole number")
    return number

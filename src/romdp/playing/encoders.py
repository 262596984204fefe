"""Observations in, codes out: how what an environment shows becomes a whole number, from 0 on.

An agent sees codes only. There are four encoders: `Numbers` for observations that are numbers
already, `Numbering` for the elements of a finite Gymnasium space,
`romdp.playing.vector_encoder.VectorEncoder` for vectors and pictures, and `Names` for anything else
that can be told apart, in the order in which it first appears. `Numbers` and `Numbering` also turn
an action's number into an action again.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.formats import Stored
from romdp.core.validation import whole_number
from romdp.data.vocabulary import Vocabulary

_MOST = 2**31  # elements that a space may have and still be numbered
_MANY = 2**20  # elements from which only those that occur are numbered
_LONG_NAME = 80  # characters of an observation that are shown
_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_CAPACITY = 2**13  # different observations that an environment may show where it does not say


class ObservationEncoder(Protocol):
    """From observations to codes.

    Attributes
    ----------
    size
        How many codes there can be.
    learns
        Whether codes are learned from what was seen, and may change.
    """

    size: int
    learns: bool = False

    @property
    def depends_on_step(self) -> bool:
        """Whether the same observation has another code at another step of the episode."""
        return False

    def read(self, observation: Any) -> Any:
        """Check an observation; returns what `code` takes."""
        ...

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the code of what was read, which may be a new one.

        ``age`` is how many steps of the episode are over.
        """
        ...

    def encode(self, observation: Any, age: int = 0) -> int:
        """Return the code of what is seen now, which may be a new one."""
        return self.code(self.read(observation), age)

    def find(self, observation: Any, age: int = 0) -> int:
        """Return the code, -1 for what has none; nothing is learned by asking."""
        return self.encode(observation)

    def name(self, code: int) -> str:
        """Return what has a code, as text for people."""
        ...

    def example(self, code: int) -> NDArray[Any] | None:
        """Return a vector with a code, to be looked at; None where the name says it all."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `encoder_from` reads."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned of the codes and is no plain data; most learn nothing."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what `arrays` returned."""
        Stored(arrays, "the encoder").finish()

    def is_in_the_dark(self, step: int) -> bool:
        """Whether so many steps have taught nothing of what is seen."""
        return False

    def snapshot(self) -> "ObservationEncoder":
        """Return the encoder as it is now, for a policy."""
        return self


class Numbers(ObservationEncoder):
    """Observations or actions that are numbers from 0 already.

    Parameters
    ----------
    size
        How many there are.
    what
        What they are called in messages.

    Examples
    --------
    >>> Numbers(3, "observation").encode(2)
    2
    """

    def __init__(self, size: int, what: str) -> None:
        self.size, self.what = whole_number(size, f"n_{what}s", 1), what

    def read(self, observation: Any) -> int:
        """Check a number and return it."""
        return whole_number(observation, self.what, 0, self.size - 1)

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the number."""
        return int(seen)

    def decode(self, number: int) -> int:
        """Return the number."""
        return number

    def name(self, code: int) -> str:
        """Return the number as text."""
        return str(code)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"numbers": self.size}


class Names(ObservationEncoder):
    """Anything that can be told apart, numbered in the order of first appearance.

    Parameters
    ----------
    vocabulary
        What was met so far; its capacity is the number of codes.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.size = whole_number(vocabulary.capacity, "capacity of the vocabulary", 1)

    def read(self, observation: Any) -> Any:
        """Check that an observation can be told from others, and that there is room for it."""
        return self.vocabulary.read(observation)

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the number of an observation; a new one gets the next."""
        return self.vocabulary.encode(seen)

    def find(self, observation: Any, age: int = 0) -> int:
        """Return the number of an observation, -1 if it was never met."""
        return self.vocabulary.encode(observation, grow=False)

    def name(self, code: int) -> str:
        """Return the beginning of an observation."""
        text = str(self.vocabulary.decode(code))
        return text if len(text) <= _LONG_NAME else f"{text[:_LONG_NAME]}..."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; names that JSON cannot hold are refused."""
        return {"names": self.vocabulary.to_dict()}


def encoder_for(space: Any) -> ObservationEncoder:
    """Choose the encoder of observations.

    Parameters
    ----------
    space
        How many numbers there are, or a Gymnasium space. A finite space is numbered; vectors,
        pictures, and what Gymnasium flattens to one are learned (see `VectorEncoder`); in
        any other one, each different observation is a name.

    Examples
    --------
    >>> encoder_for(spaces.Box(0, 255, (2, 2), np.uint8)).encode(np.zeros((2, 2), np.uint8))
    0
    """
    if not isinstance(space, spaces.Space):
        return Numbers(space, "observation")
    if (size := count(space)) is not None and size <= _MANY:
        return Numbering(space, "observation")
    boxed = any(isinstance(part, spaces.Box) for part in _parts(space))
    if boxed and isinstance(_flat(space), spaces.Box):
        from romdp.playing.vector_encoder import VectorEncoder

        return VectorEncoder(space)
    return Names(Vocabulary(_CAPACITY if size is None else min(size, _CAPACITY)))


def actions_for(space: Any) -> "Numbers | Numbering":
    """Return numbers for the actions of a Gymnasium space, or for so many actions."""
    if not isinstance(space, spaces.Space):
        return Numbers(space, "action")
    size = count(space)
    if size is None or size > _MANY:
        raise InvalidInputError(
            f"the action space is {space}; romdp chooses among a few actions (Discrete, "
            "MultiDiscrete, MultiBinary, or Tuple or Dict of these). Wrap the environment in "
            "gymnasium.wrappers.TransformAction with a Discrete space of actions to choose from"
        )
    return Numbering(space, "action")


def count(space: Any) -> int | None:
    """Return how many elements a space has; None where that is not known, or no number."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiBinary):
        return int(2 ** prod(space.shape))
    if isinstance(space, spaces.MultiDiscrete):
        return prod(int(n) for n in space.nvec.ravel())
    if isinstance(space, spaces.Tuple | spaces.Dict):
        sizes = [count(part) for part in _children(space)]
        return prod(size for size in sizes if size is not None) if None not in sizes else None
    return None


def _children(space: Any) -> list[Any]:
    if isinstance(space, spaces.Dict):
        return list(space.spaces.values())
    return list(space.spaces) if isinstance(space, spaces.Tuple) else []


def _parts(space: Any) -> list[Any]:
    children = _children(space)
    return [leaf for child in children for leaf in _parts(child)] if children else [space]


def _flat(space: Any) -> Any:
    """Return what Gymnasium flattens a space to, None if it cannot."""
    try:
        flat = spaces.flatten_space(space)
        space_to_json(space)  # a text, say, flattens to numbers that mean nothing
        return flat
    except (NotImplementedError, AttributeError):
        return None


def encoder_from(content: Any, what: str) -> Any:
    """Read what ``to_dict`` of an encoder gave; anything else is an `InvalidInputError`."""
    match content:
        case {"numbers": int(size)} if len(content) == 1:
            return Numbers(size, what)
        case {"names": dict(names)} if len(content) == 1 and what == "observation":
            return Names(Vocabulary.from_dict(names))
        case {"space": space} if len(content) == 1:
            return Numbering(space_from(space), what)
        case {"vectors": space} if len(content) == 1 and what == "observation":
            from romdp.playing.vector_encoder import VectorEncoder

            return VectorEncoder(space_from(space))
    raise InvalidInputError(f"this is no encoder of an {what}: {str(content)[:60]}")


def space_to_json(space: Any) -> dict[str, Any]:
    """Return a space as plain data; the bounds of a box are left out."""
    if isinstance(space, spaces.Box):
        whole = np.issubdtype(space.dtype, np.integer)
        kind = {"dtype": np.dtype(space.dtype).name} if whole else {}
        return {"box": list(space.shape), **kind}
    if isinstance(space, spaces.Discrete):
        return {"discrete": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiBinary):
        return {"binary": list(space.shape)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"grid": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.Tuple):
        return {"tuple": [space_to_json(part) for part in space.spaces]}
    return {"dict": [[name, space_to_json(part)] for name, part in space.spaces.items()]}


def space_from(content: Any) -> Any:
    """Read what `space_to_json` returned."""
    try:
        match content:
            case {"discrete": int(size), "start": int(start)}:
                return spaces.Discrete(size, start=start)
            case {"binary": list(shape)} if all(type(n) is int and n > 0 for n in shape):
                return spaces.MultiBinary(shape)
            case {"grid": list(lengths), "start": list(start)}:
                return spaces.MultiDiscrete(np.array(lengths), start=np.array(start))
            case {"box": list(shape)} if len(content) == 1 and all(
                type(n) is int and n > 0 for n in shape
            ):
                return spaces.Box(-np.inf, np.inf, tuple(shape))
            case {"box": list(shape), "dtype": str(kind)} if kind in _WHOLE and all(
                type(n) is int and n > 0 for n in shape
            ):
                bounds = np.iinfo(kind)
                return spaces.Box(bounds.min, bounds.max, tuple(shape), np.dtype(kind).type)
            case {"tuple": list(parts)}:
                return spaces.Tuple([space_from(part) for part in parts])
            case {"dict": list(parts)}:
                return spaces.Dict({str(name): space_from(part) for name, part in parts})
    except (AssertionError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"this is no space: {error}") from error
    raise InvalidInputError(f"this is no space: {str(content)[:60]}")


class Numbering(ObservationEncoder):
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

    def read(self, observation: Any) -> int:
        """Return the number of an element; one outside the space is refused."""
        try:
            number = self._encode(observation)
        except (TypeError, ValueError, KeyError, IndexError):
            number = -1
        if not 0 <= number < self.size:
            raise InvalidInputError(f"{self.what} {observation!r} is not in {self.space}")
        return number

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the number."""
        return int(seen)

    def decode(self, number: int) -> Any:
        """Return the element of a number."""
        return self._decode(number)

    def name(self, code: int) -> str:
        """Return the element that has a code, as text."""
        return str(self.decode(code))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"space": space_to_json(self.space)}


def _whole(element: Any) -> int:
    number = int(element)
    if number != element:
        raise ValueError(f"{element!r} is not a whole number")
    return number

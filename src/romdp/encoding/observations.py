"""Observations in, codes out: how what an environment shows becomes a whole number, from 0 on.

An agent sees codes only. There are four encoders: `Numbers` for observations that are numbers
already, `Numbering` for the elements of a finite Gymnasium space,
`romdp.encoding.vector_codes.VectorCodes` for vectors and pictures, and `Names` for anything else
that can be told apart, in the order in which it first appears. `Numbers` and `Numbering` also turn
an action's number into an action again. Each takes one observation, or a batch with one axis more.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Protocol, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.core.arrays import Ints
from romdp.core.errors import InvalidInputError
from romdp.core.formats import Format
from romdp.core.text import plain
from romdp.core.validation import whole_array, whole_number
from romdp.data.vocabulary import Vocabulary

_MOST = 2**31  # elements that a space may have and still be numbered
_MANY = 2**20  # elements from which only those that occur are numbered
_LONG_NAME = 80  # characters of an observation that are shown
_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NO_ELEMENT = (TypeError, ValueError, KeyError, IndexError, OverflowError)  # infinity, say
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

    def find_all(self, observations: Any, ages: Any = 0) -> tuple[Ints, bool]:
        """Return the codes of a batch, or of a single observation, and whether it is a single one.

        What has no code has -1; nothing is learned by asking. ``ages`` is one for all, or one each.
        """
        ...

    def name(self, code: int) -> str:
        """Return what has a code, as text for people."""
        ...

    def plain_name(self, code: int) -> Any:
        """Return what a table calls it: a number or a text."""
        return self.name(code)

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
        Format("encoder").read(arrays)

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

    def find_all(self, observations: Any, ages: Any = 0) -> tuple[Ints, bool]:
        """Return the numbers."""
        if _axes(observations) == 0:
            return np.array([self.read(observations)]), True
        return whole_array(observations, f"{self.what}s", ("n",), 0, self.size - 1), False

    def decode(self, number: Any) -> Any:
        """Return the number, or the array of them."""
        return number

    def name(self, code: int) -> str:
        """Return the number as text."""
        return str(code)

    def plain_name(self, code: int) -> int:
        """Return the number."""
        return code

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"numbers": self.size}


class Names(ObservationEncoder):
    """Anything that can be told apart, numbered in the order of first appearance.

    Parameters
    ----------
    vocabulary
        What was met so far; its capacity is the number of codes.
    n_axes
        How many axes an observation has that is an array; a batch has one more.
    """

    def __init__(self, vocabulary: Vocabulary, n_axes: int = 0) -> None:
        self.vocabulary = vocabulary
        self.n_axes = whole_number(n_axes, "n_axes", 0)
        self.size = whole_number(vocabulary.capacity, "capacity of the vocabulary", 1)

    def read(self, observation: Any) -> Any:
        """Check that an observation can be told from others, and that there is room for it."""
        return self.vocabulary.read(observation)

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the number of an observation; a new one gets the next."""
        return self.vocabulary.encode(seen)

    def find_all(self, observations: Any, ages: Any = 0) -> tuple[Ints, bool]:
        """Return the numbers, -1 for what was never met."""
        several = isinstance(observations, list | np.ndarray)
        single = not several or _axes(observations) <= self.n_axes
        each = [observations] if single else observations
        codes = [self.vocabulary.encode(name, grow=False) for name in each]
        return np.array(codes, np.int64), single

    def name(self, code: int) -> str:
        """Return the beginning of an observation."""
        text = str(self.vocabulary.decode(code))
        return text if len(text) <= _LONG_NAME else f"{text[:_LONG_NAME]}..."

    def plain_name(self, code: int) -> str:
        """Return an observation as text."""
        return str(self.vocabulary.decode(code))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; names that JSON cannot hold are refused."""
        return {"names": self.vocabulary.to_dict(), "axes": self.n_axes}


def encoder_for(space: Any) -> ObservationEncoder:
    """Choose the encoder of observations.

    Parameters
    ----------
    space
        How many numbers there are, or a Gymnasium space. A finite space is numbered; vectors,
        pictures, and what Gymnasium flattens to one have codes that are learned (see
        `romdp.encoding.vector_codes`); in any other one, each different observation is a name.

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
        from romdp.encoding.vector_codes import VectorCodes

        return VectorCodes(space)
    vocabulary = Vocabulary(_CAPACITY if size is None else min(size, _CAPACITY))
    return Names(vocabulary, len(space.shape or ()))


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
        sizes = [count(part) for _, part in _items(space)]
        return prod(size for size in sizes if size is not None) if None not in sizes else None
    return None


def _items(space: Any) -> list[tuple[Any, Any]]:
    """Return the parts of a space with their keys; a space without parts has none."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


def _parts(space: Any) -> list[Any]:
    children = _items(space)
    return [leaf for _, child in children for leaf in _parts(child)] if children else [space]


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
        case {"names": dict(names), "axes": axes} if len(content) == 2 and what == "observation":
            return Names(Vocabulary.from_dict(names), axes)
        case {"space": space} if len(content) == 1:
            return Numbering(space_from(space), what)
        case {"vectors": space} if len(content) == 1 and what == "observation":
            from romdp.encoding.vector_codes import VectorCodes

            return VectorCodes(space_from(space))
        case {"remembered": inner, "memory": limit} if what == "observation":
            from romdp.encoding.remembered import RememberedCodes

            return RememberedCodes(
                encoder_from(inner, what),
                None if limit is None else whole_number(limit, "memory", 1),
            )
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
        self._encode: Callable[[Any], Any]  # an element, or as many as there are in a batch
        self._decode: Callable[[Any], Any]
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

    def __reduce__(self) -> tuple[type[Self], tuple[Any, str]]:
        return type(self), (self.space, self.what)  # functions cannot be pickled

    def _set_grid(self, space: Any) -> None:
        binary = isinstance(space, spaces.MultiBinary)
        lengths = np.full(space.shape, 2) if binary else np.asarray(space.nvec)
        start = 0 if binary else np.asarray(space.start)
        shape = tuple(int(n) for n in lengths.ravel())
        self.size = prod(shape)

        def encode(element: Any) -> Any:
            whole = _whole(np.asarray(element))
            if whole.shape[whole.ndim - lengths.ndim :] != lengths.shape:
                raise ValueError(f"{element!r} has another shape")
            index = (whole - start).reshape(*whole.shape[: whole.ndim - lengths.ndim], -1)
            return np.ravel_multi_index(tuple(np.moveaxis(index, -1, 0)), shape)

        def decode(number: Any) -> Any:
            index = np.stack(np.unravel_index(number, shape), axis=-1)
            return (index.reshape(*np.shape(number), *lengths.shape) + start).astype(space.dtype)

        self._encode, self._decode = encode, decode

    def _set_parts(self, space: Any) -> None:
        keys = [key for key, _ in _items(space)]
        parts = [Numbering(part, self.what) for _, part in _items(space)]
        shape = tuple(part.size for part in parts)
        self.size = prod(shape)

        def encode(element: Any) -> Any:
            index = [part._inside(element[key]) for key, part in zip(keys, parts, strict=True)]
            return np.ravel_multi_index(tuple(index), shape)

        def decode(number: Any) -> Any:
            index = np.unravel_index(number, shape)
            elements = [part.decode(i) for part, i in zip(parts, index, strict=True)]
            return _composed(space, dict(zip(keys, elements, strict=True)))

        self._encode, self._decode = encode, decode

    def _inside(self, elements: Any) -> Any:
        """Return numbers; elements that have none are a `ValueError` or the like."""
        found = self._encode(elements)
        if np.any((found < 0) | (found >= self.size)):
            raise ValueError(f"{elements!r} is outside")
        return found

    def read(self, observation: Any) -> int:
        """Return the number of an element; one outside the space is refused."""
        try:
            number = self._encode(observation)
            if not np.ndim(number) and 0 <= number < self.size:
                return int(number)
        except _NO_ELEMENT:
            pass
        raise InvalidInputError(f"{self.what} {observation!r} is not in {self.space}")

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the number."""
        return int(seen)

    def find_all(self, observations: Any, ages: Any = 0) -> tuple[Ints, bool]:
        """Return the numbers of elements."""
        if not is_batch(self.space, observations):
            return np.array([self.read(observations)]), True
        try:
            codes = np.asarray(self._inside(stacked(self.space, observations)), np.int64)
        except _NO_ELEMENT:
            codes = np.zeros((0, 0), np.int64)
        if codes.ndim != 1:
            raise InvalidInputError(f"not all of these {self.what}s are in {self.space}")
        return codes, False

    def decode(self, number: Any) -> Any:
        """Return the element of a number, or a batch of those of several numbers."""
        return self._decode(number)

    def name(self, code: int) -> str:
        """Return the element that has a code, as text."""
        return str(plain(self.decode(code)))

    def plain_name(self, code: int) -> Any:
        """Return a number as such, and all else as text."""
        return (
            int(self.decode(code)) if isinstance(self.space, spaces.Discrete) else self.name(code)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"space": space_to_json(self.space)}


def _whole(element: Any) -> Any:
    """Return a whole number, or an array of them."""
    if not np.ndim(element):
        number = int(element)
        if number != element:
            raise ValueError(f"{element!r} is not a whole number")
        return number
    given = np.asarray(element)
    with np.errstate(invalid="ignore"):  # what is no number is refused below
        whole = given.astype(np.int64)
    if (whole != given).any():
        raise ValueError("some numbers are not whole")
    return whole


def is_batch(space: Any, given: Any) -> bool:
    """Say whether there is one axis more than a single element of a space has.

    A batch of dictionaries is a dictionary of batches, as Gymnasium has it, or a list of them.

    Examples
    --------
    >>> is_batch(spaces.Discrete(3), 2), is_batch(spaces.Discrete(3), [2, 2])
    (False, True)
    """
    if parts := _items(space):
        if isinstance(given, list | np.ndarray):
            return True
        try:
            return any(is_batch(part, given[key]) for key, part in parts)
        except (KeyError, IndexError, TypeError):
            return False
    return _axes(given) > len(space.shape)


def _axes(given: Any) -> int:
    try:
        return np.ndim(given)
    except ValueError:  # rows of different lengths: whoever reads them says so
        return 0


def stacked(space: Any, given: Any) -> Any:
    """Return a batch of elements as Gymnasium has it, also from a list of them."""
    if not (parts := _items(space)):
        return np.asarray(given)
    several = isinstance(given, list | np.ndarray)
    found = {
        key: stacked(part, [element[key] for element in given] if several else given[key])
        for key, part in parts
    }
    return _composed(space, found)


def _composed(space: Any, parts: dict[Any, Any]) -> Any:
    return parts if isinstance(space, spaces.Dict) else tuple(parts.values())


def length(space: Any, batch: Any) -> int:
    """Return how many elements a batch has."""
    while parts := _items(space):
        key, space = parts[0]
        batch = batch[key]
    return len(batch)


def flattened(space: Any, given: Any, n: int) -> NDArray[Any]:
    """Return ``n`` elements of a space as rows, each as Gymnasium flattens it."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = (
            space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        )
        return np.concatenate([flattened(part, given[key], n) for key, part in children], axis=1)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        one = isinstance(space, spaces.Discrete)
        sizes = np.ravel(space.n if one else space.nvec)  # type: ignore[union-attr]
        at = _whole(np.asarray(given).reshape(n, -1)) - np.ravel(space.start)
        if at.shape[1] != len(sizes) or (at < 0).any() or (at >= sizes).any():
            raise ValueError(f"{given!r} is not in {space}")
        rows = np.zeros((n, sizes.sum()), space.dtype)
        rows[np.arange(n)[:, None], at + np.cumsum(sizes) - sizes] = 1
        return rows
    return np.asarray(given).reshape(n, -1)

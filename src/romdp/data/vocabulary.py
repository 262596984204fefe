"""Observations by name: anything that can be compared becomes a number."""

import math
import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.storage import read_json, write_json
from romdp.core.validation import check, flag, whole_number

_KIND, _VERSION = "romdp vocabulary", 1


class Vocabulary:
    """Numbers for observations of any kind, in the order in which they first appear.

    Strings, numbers, tuples, lists, arrays, dictionaries and anything hashable will do. Lists
    and arrays are read as tuples and dictionaries as the sorted tuple of their items; numbers
    that are equal, such as 1 and 1.0, are one observation.

    Parameters
    ----------
    capacity
        The largest size; None for no limit.
    names
        What the vocabulary starts with.

    Examples
    --------
    >>> vocabulary = Vocabulary()
    >>> [vocabulary.encode(page) for page in ["home", "cart", "home"]]
    [0, 1, 0]
    >>> vocabulary.encode(np.array([[1, 2], [3, 4]]))
    2
    >>> vocabulary.names
    ['home', 'cart', ((1, 2), (3, 4))]
    >>> vocabulary.decode(1)
    'cart'
    """

    def __init__(self, capacity: int | None = None, names: Iterable[Any] = ()) -> None:
        self.capacity = None if capacity is None else whole_number(capacity, "capacity", 1)
        self._numbers: dict[Hashable, int] = {}
        self._names: list[Any] = []
        check(names, "names", "__iter__")
        for name in names:
            self.encode(name)

    @property
    def names(self) -> list[Any]:
        """The observations in order of their numbers, as tuples where they were arrays."""
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, observation: Any) -> bool:
        return _key(observation) in self._numbers

    def read(self, observation: Any) -> Hashable:
        """Return what stands for an observation here; refuses one for which there is no room."""
        key = _key(observation)
        if key not in self._numbers and len(self._names) == self.capacity:
            raise InvalidInputError(
                f"the vocabulary is full: {_short(key)} is new and capacity is {self.capacity}. "
                "Pass a larger capacity, or make observations coarser before they get here"
            )
        return key

    def encode(self, observation: Any, grow: bool = True) -> int:
        """Return the number of an observation.

        Parameters
        ----------
        observation
            What was seen.
        grow
            What to do with a new one: True gives it the next number, False returns -1.
        """
        flag(grow, "grow")
        try:
            return self._numbers[observation]
        except (KeyError, TypeError):  # new, or a kind that cannot be a key as it is
            key = self.read(observation) if grow else _key(observation)
        number = self._numbers.get(key, -1)
        if number < 0 and grow:
            number = self._numbers[key] = len(self._names)
            self._names.append(key)
        return number

    def decode(self, number: int) -> Any:
        """Return the observation that has a number."""
        if not self._names:
            raise InvalidInputError("the vocabulary is empty; encode an observation first")
        return self._names[whole_number(number, "number", 0, len(self._names) - 1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary to a JSON file, completely or not at all.

        Strings, bytes, finite numbers, None and tuples of these can be written.
        """
        write_json(path, {"kind": _KIND, "version": _VERSION, **self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold: the capacity and the names."""
        names = [_to_json(name, f"names[{i}]") for i, name in enumerate(self._names)]
        return {"capacity": self.capacity, "names": names}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave; anything else is an `InvalidInputError`."""
        try:
            names = _from_json(content["names"])
            if not isinstance(names, tuple):
                raise ValueError("names is no list")
            vocabulary = cls(content["capacity"], names)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidInputError(f"content is no vocabulary ({error})") from error
        if len(vocabulary) != len(names):
            raise InvalidInputError("content has a name twice")
        return vocabulary

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a vocabulary that `save` wrote; a damaged or foreign file is a `StorageError`."""
        content = read_json(path)
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise StorageError(f"{path} holds no vocabulary of romdp")
        if content.get("version") != _VERSION:
            raise StorageError(
                f"{path} has format version {content.get('version')}; "
                f"this romdp reads version {_VERSION}"
            )
        try:
            return cls.from_dict(content)
        except InvalidInputError as error:
            raise StorageError(f"{path} is damaged: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.capacity == other.capacity and self._names == other._names

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)}, capacity {self.capacity}>"


def _key(observation: Any) -> Hashable:
    """Turn an observation into something hashable that equals itself."""
    if hasattr(observation, "__array__"):  # tensors hash by identity, so ask for this first
        plain = np.asarray(observation).tolist()
        return plain if isinstance(plain, np.generic) else _key(plain)  # a long double stays one
    if isinstance(observation, list | tuple):
        return tuple(_key(part) for part in observation)
    if isinstance(observation, Mapping):
        try:
            return _key(sorted(observation.items(), key=lambda item: item[0]))
        except TypeError:
            raise InvalidInputError(
                f"the keys of {_short(observation)} cannot be sorted; use strings"
            ) from None
    if isinstance(observation, float) and math.isnan(observation):
        raise InvalidInputError(
            "an observation holds NaN, which equals nothing, not even itself; replace it"
        )
    try:
        hash(observation)
    except TypeError:
        raise InvalidInputError(
            f"an observation is a {type(observation).__name__}, which is not hashable: turn "
            f"{_short(observation)} into a string, a number or a tuple"
        ) from None
    key: Hashable = observation
    return key


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _to_json(name: Any, where: str) -> Any:
    match name:
        case tuple():
            return [_to_json(part, where) for part in name]
        case bytes():
            return {"bytes": name.hex()}
        case None | str() | int():
            return name
        case float() if math.isfinite(name):
            return name
    raise InvalidInputError(
        f"{where} is {_short(name)}, which JSON cannot hold; encode strings, bytes, finite "
        "numbers or tuples of these"
    )


def _from_json(name: Any) -> Any:
    match name:
        case list():
            return tuple(_from_json(part) for part in name)
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case dict():
            raise ValueError(f"unknown kind of name {_short(name)}")
    return name

"""What a stored class is made of, declared once: its arrays and its facts.

A `Format` stands beside the class that it is about. It writes and reads that class, and it is the
one place that says which type, shape and range an array must have before anything compiled sees
it::

    FORMAT = Format(
        "portrait",
        1,
        means=real("states numbers"),
        rows=whole("states", low=0),
        state_of_code=index("codes", of="states"),
        view=fact(str),
    )

    FORMAT.save(path, portrait)
    portrait = FORMAT.load(path, Portrait, states=3)

A word in a shape is a length. Lengths that are given must agree; the others are learned from the
first array that has them, in the order of the fields. ``*`` is any length.

Below, `describe` turns any frozen object into plain data, for fingerprints and files.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from romdp.core.errors import StorageError
from romdp.core.storage import Arrays, PathLike, read_arrays, reading, write_arrays
from romdp.core.text import one_line, plain

Lengths = dict[str, int]

_Built = TypeVar("_Built")
_LONGEST = 60  # characters of a wrong value that a message shows
_WORDS = ("inf", "-inf", "nan")  # how facts hold floats that JSON has no number for


@dataclass(frozen=True)
class Field:
    """An array: its type, its shape, and the range of its entries.

    Parameters
    ----------
    dtype
        The exact type.
    shape
        The length of each axis: a number, a word, or None for any length.
    low, high
        The smallest and the largest entry; None for no limit.
    of
        The length, by number or word, of what the entries count from 0; they are below it.
    finite
        Whether infinity and NaN are refused.
    optional
        Whether the array may be missing; it is then None.
    """

    dtype: DTypeLike
    shape: tuple[int | str | None, ...] = ()
    low: float | None = None
    high: float | None = None
    of: int | str | None = None
    finite: bool = False
    optional: bool = False

    def check(self, name: str, array: NDArray[Any], lengths: Lengths) -> NDArray[Any]:
        """Return a copy of an array that is as it must be; else the message is a ValueError's."""
        if array.dtype != np.dtype(self.dtype):
            wanted = np.dtype(self.dtype)
            raise ValueError(f"{name} holds {array.dtype} entries; they must be {wanted}")
        shape = tuple(lengths.get(n, n) if isinstance(n, str) else n for n in self.shape)
        if len(array.shape) != len(shape) or any(
            isinstance(wanted, int) and wanted != length
            for wanted, length in zip(shape, array.shape, strict=True)
        ):
            raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
        lengths |= {n: size for n, size in zip(shape, array.shape, strict=True) if type(n) is str}
        if self.finite and not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite numbers")
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if self.of is not None:
            high = (lengths[self.of] if isinstance(self.of, str) else self.of) - 1
        if array.dtype.kind in "iuf":
            wrong = array[(array < low) | (array > high)]
            if wrong.size:
                raise ValueError(f"{name} holds {wrong[0]}; it must lie in [{low}, {high}]")
        return np.array(array, order="C")


@dataclass(frozen=True)
class Fact:
    """Plain data, of the type that an annotation says; its text, numbers and dataclasses."""

    kind: Any = Any


@dataclass(frozen=True)
class Part:
    """An object with arrays of its own, which are kept under names that begin with the field's.

    Parameters
    ----------
    build
        Makes the object: of a mapping of its arrays, or of the fields of its ``format``.
    format
        Where there is none, the object has a method ``arrays``.
    """

    build: Callable[..., Any] = dict
    format: "Format | None" = None


def _shape(text: str) -> tuple[int | str | None, ...]:
    sizes: list[int | str | None] = []
    for word in text.split():
        sizes.append(int(word) if word.isdecimal() else None if word == "*" else word)
    return tuple(sizes)


def whole(
    shape: str = "",
    low: int | None = None,
    high: int | None = None,
    *,
    dtype: DTypeLike = np.int64,
) -> Field:
    """Declare whole numbers from ``low`` to ``high``."""
    return Field(dtype, _shape(shape), low, high)


def index(shape: str, of: int | str, *, none: bool = False) -> Field:
    """Declare numbers of things, from 0 on; ``of`` is how many there are, -1 stands for none."""
    return Field(np.int64, _shape(shape), -1 if none else 0, of=of)


def real(
    shape: str = "", low: float | None = None, high: float | None = None, *, finite: bool = True
) -> Field:
    """Declare floats from ``low`` to ``high``; infinity and NaN if not ``finite``."""
    return Field(np.float64, _shape(shape), low, high, finite=finite)


def exact(dtype: DTypeLike, shape: str = "") -> Field:
    """Declare entries of a type, whatever they are."""
    return Field(dtype, _shape(shape))


def optional(field: Field) -> Field:
    """Declare that an array may be missing; it is then None."""
    return replace(field, optional=True)


fact, part = Fact, Part  # as `fact(str)` they read like the others


class Format:
    """The format of a stored class.

    Parameters
    ----------
    kind
        What it is called in files and messages: "policy".
    version
        The version of the format; files of another one are refused.
    fields
        What it holds, by name. No other name may begin with that of a part.

    Examples
    --------
    >>> format = Format("agent", 1, labels=index("observations", of="groups"), gain=real())
    >>> arrays, _ = format.pack({"labels": np.array([0, 1, 1]), "gain": 0.5})
    >>> format.read(arrays, groups=2)
    {'labels': array([0, 1, 1]), 'gain': 0.5}
    >>> format.read(arrays, groups=1)
    Traceback (most recent call last):
    ...
    romdp.core.errors.StorageError: the agent is damaged: labels holds 1; it must lie in [0, 0]
    """

    def __init__(self, kind: str, version: int = 1, /, **fields: Field | Fact | Part) -> None:
        self.kind, self.version, self._fields = kind, version, fields

    def pack(self, value: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays and the facts of an object, or of a mapping, copied."""
        arrays: dict[str, NDArray[Any]] = {}
        facts: dict[str, Any] = {}
        for name, declared in self._fields.items():
            held = value[name] if isinstance(value, Mapping) else getattr(value, name)
            if isinstance(declared, Fact):
                facts[name] = plain(held, str)
            elif isinstance(declared, Part) and held is not None:
                inner, told = declared.format.pack(held) if declared.format else (held.arrays(), {})
                arrays |= {f"{name}_{own}": array for own, array in inner.items()}
                facts |= {name: told} if told else {}
            elif isinstance(declared, Field) and held is not None:
                arrays[name] = np.array(held, declared.dtype)
        return arrays, facts

    def read(
        self, arrays: Arrays, facts: Mapping[str, Any] | None = None, /, **lengths: int
    ) -> dict[str, Any]:
        """Return what `pack` was given, checked and copied; what does not fit is a `StorageError`.

        Arrays without axes come back as numbers.
        """
        try:
            return self._read(dict(arrays), dict(facts or {}), lengths)
        except (ValueError, KeyError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise self.damaged(str(reason)) from error

    def damaged(self, reason: str) -> StorageError:
        """Return the error that says what is wrong with what was stored."""
        return StorageError(f"the {self.kind} is damaged: {reason}")

    def refuse(self, faults: Mapping[str, object]) -> None:
        """Raise `damaged` for the first of these faults that is there: each is said, then true."""
        for reason, is_there in faults.items():
            if is_there:
                raise self.damaged(reason)

    def _read(
        self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any], lengths: Lengths
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, declared in self._fields.items():
            if isinstance(declared, Fact):
                found[name] = conform(declared.kind, facts.pop(name), name)
            elif isinstance(declared, Part):
                names = [full for full in arrays if full.startswith(f"{name}_")]
                inner = {full.removeprefix(f"{name}_"): arrays.pop(full) for full in names}
                told = facts.pop(name, {})
                if declared.format is not None and inner:
                    found[name] = declared.build(**declared.format._read(inner, told, lengths))
                else:
                    found[name] = declared.build(inner) if inner else None
            elif declared.optional and name not in arrays:
                found[name] = None
            else:
                array = declared.check(name, arrays.pop(name), lengths)
                found[name] = array if array.shape else array.item()
        for strange in (*arrays, *facts):
            raise ValueError(f"{strange} does not belong there")
        return found

    def save(self, path: PathLike, value: Any) -> None:
        """Write an object to exactly this file, completely or not at all."""
        arrays, facts = self.pack(value)
        write_arrays(path, self.kind, self.version, arrays, facts)

    def load(self, path: PathLike, build: Callable[..., _Built], /, **lengths: int) -> _Built:
        """Read a file and build an object of what it holds; what is refused is a damaged file."""
        arrays, facts = read_arrays(path, self.kind, self.version)
        with reading(path):
            return build(**self.read(arrays, facts, **lengths))


def conform(kind: Any, value: Any, where: str) -> Any:
    """Return plain data as what an annotation says.

    Parameters
    ----------
    kind
        The annotation.
    value
        What JSON gave.
    where
        Its place, for the message of the `ValueError` where it does not fit.

    Examples
    --------
    >>> conform(tuple[float, ...] | None, [1, "inf"], "bounds")
    (1.0, inf)
    """
    outer, inner = get_origin(kind), get_args(kind)
    if kind is Any or (kind in (str, int, bool, NoneType) and type(value) is kind):
        return value
    if kind is float and (type(value) in (int, float) or value in _WORDS):
        return float(value)
    if outer is Literal and value in inner:
        return value
    if outer in (Union, UnionType):
        for choice in inner:
            try:
                return conform(choice, value, where)
            except ValueError:
                continue
    if outer is tuple and isinstance(value, list):
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            return tuple(conform(one, item, f"{where}[{i}]") for i, (one, item) in pairs)
    if isinstance(outer, type) and issubclass(outer, Mapping) and isinstance(value, dict):
        return {key: conform(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        if value.keys() == (names := {entry.name for entry in fields(kind)}):
            built: Any = kind
            return built(**{n: conform(hints[n], value[n], f"{where}.{n}") for n in names})
    shown = one_line(repr(value), _LONGEST)
    raise ValueError(f"{one_line(where)} is {shown}; it must be {getattr(kind, '__name__', kind)}")


def describe(value: Any) -> Any:
    """Turn a value into JSON-able data that is equal if and only if the value is.

    A dataclass becomes its name and fields, an array (and whatever has ``labels`` or
    ``transition`` arrays) its shape and a hash of its content; other objects their ``repr``, or
    their attributes where the ``repr`` would only tell where in memory they are.

    Examples
    --------
    >>> from romdp.planning.confidence import Hoeffding
    >>> describe(Hoeffding(scale=2.0))
    {'type': 'Hoeffding', 'scale': 2.0, 'constants': 'paper', 'reward_states': 'groups'}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "sha256": _digest(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {str(name): describe(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(describe(item) for item in value)
    parts = getattr(value, "__describe__", None)
    if parts is not None:
        return {"type": type(value).__name__, **describe(parts())}
    writes: object = type(value).__repr__
    if writes is object.__repr__ and hasattr(value, "__dict__"):
        return {"type": type(value).__name__, **describe(vars(value))}
    return repr(value)


def fingerprint(value: Any) -> str:
    """Return a short hash of `describe`: two values that differ have different ones."""
    text = json.dumps(describe(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest(array: np.ndarray[Any, Any]) -> str:
    content = np.ascontiguousarray(array)
    return hashlib.sha256(str(content.dtype).encode() + content.tobytes()).hexdigest()[:16]

"""Schemas for JSON: what a stored file must hold, declared once and checked when it is read.

A schema is a function that takes a value and its place in the file, and returns the value or
raises an `InvalidInputError` that names the place. They are put together from the functions below::

    RUN = record({"agent": text(), "seed": whole(0)}, optional={"scale": number(0)})
    facts = check(read_json(path), RUN, path)
"""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from romdp.core.errors import InvalidInputError, StorageError

Schema = Callable[[Any, str], Any]

_LONGEST = 60  # characters of a wrong value that a message shows
_INT64 = 2**63 - 1


def check(value: Any, schema: Schema, path: str | os.PathLike[str]) -> Any:
    """Check what was read from a file; a value that breaks the schema is a `StorageError`."""
    try:
        return schema(value, "")
    except InvalidInputError as error:
        raise StorageError(f"{os.fspath(path)} is damaged: {error}") from error


def whole(low: int = -_INT64, high: int = _INT64) -> Schema:
    """Accept whole numbers from ``low`` to ``high``; true and false are not numbers here."""

    def accept(value: Any, where: str) -> int:
        if type(value) is not int:
            raise _wrong(value, where, "a whole number")
        if not low <= value <= high:
            raise _wrong(value, where, f"a whole number from {low} to {high}")
        return value

    return accept


def number(low: float = -math.inf, high: float = math.inf, infinite: bool = False) -> Schema:
    """Accept numbers from ``low`` to ``high`` and return floats.

    Numbers that JSON cannot hold are stored as the words "inf", "-inf" and "nan"; they are
    accepted if ``infinite`` is true.
    """

    def accept(value: Any, where: str) -> float:
        if infinite and value in ("inf", "-inf", "nan"):
            return float(value)
        if type(value) not in (int, float) or abs(value) > 1e308 or math.isnan(value):
            raise _wrong(value, where, "a finite number")
        if not low <= value <= high:
            raise _wrong(value, where, f"a number from {low:g} to {high:g}")
        return float(value)

    return accept


def text() -> Schema:
    """Accept text."""

    def accept(value: Any, where: str) -> str:
        if type(value) is not str:
            raise _wrong(value, where, "text")
        return value

    return accept


def anything() -> Schema:
    """Accept whatever JSON can hold."""
    return lambda value, where: value


def one_of(*options: Any) -> Schema:
    """Accept one of a few values."""

    def accept(value: Any, where: str) -> Any:
        if not any(type(value) is type(option) and value == option for option in options):
            raise _wrong(value, where, " or ".join(map(repr, options)))
        return value

    return accept


def nullable(schema: Schema) -> Schema:
    """Accept null, too."""
    return lambda value, where: None if value is None else schema(value, where)


def listed(schema: Schema, length: int | None = None) -> Schema:
    """Accept lists of values of one kind, if asked of one length."""

    def accept(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or length not in (None, len(value)):
            raise _wrong(value, where, "a list" if length is None else f"a list of {length}")
        return [schema(item, f"{where}[{i}]") for i, item in enumerate(value)]

    return accept


def mapped(schema: Schema) -> Schema:
    """Accept objects with any keys and values of one kind."""

    def accept(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, where, "an object")
        return {key: schema(item, _inside(where, key)) for key, item in value.items()}

    return accept


def record(
    fields: Mapping[str, Schema],
    optional: Mapping[str, Schema] | None = None,
    *,
    others: bool = False,
) -> Schema:
    """Accept objects with the given keys, and unknown ones only if ``others`` is true."""
    known = {**fields, **(optional or {})}

    def accept(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, where, "an object")
        for key in fields:
            if key not in value:
                raise InvalidInputError(f"{_inside(where, key)} is missing")
        if not others and (strange := [key for key in value if key not in known]):
            raise InvalidInputError(f"{_inside(where, strange[0])} is unknown")
        return {
            key: known[key](item, _inside(where, key)) if key in known else item
            for key, item in value.items()
        }

    return accept


def _inside(where: str, key: str) -> str:
    key = key if key.isprintable() and len(key) <= _LONGEST else repr(key[:_LONGEST])
    return f"{where}.{key}" if where else key


def _wrong(value: Any, where: str, wanted: str) -> InvalidInputError:
    shown = repr(value)[: _LONGEST + 1]
    shown = f"{shown[:_LONGEST]}..." if len(shown) > _LONGEST else shown
    return InvalidInputError(f"{where or 'the content'} is {shown}; it must be {wanted}")

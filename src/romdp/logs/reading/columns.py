"""The columns of a log: which is what, whether they can be used, and their batches as arrays."""

import difflib
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.pieces import Wanted

Floats = NDArray[np.float64]

_NAMES = ("text", "whole", "real", "truth", "time", "bytes")  # kinds that can name things
_NUMBERS = ("whole", "real", "truth", "none")  # a column of nothing is refused by its first row
_ORDERS = ("whole", "real", "time", "none")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_SHOWN = 12  # columns that a message lists


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a log is what.

    Parameters
    ----------
    observation
        What was seen.
    action
        What was then done; None if nobody could choose.
    reward
        What that brought; None if it does not matter.
    episode
        Whose row it is: a user, a session. None: all rows are one long episode.
    order
        What rises from row to row of an episode, such as a time; None if nothing does.
    terminated
        True (or 1) in the last row of an episode that ended for good, so that the next step
        began another one; None if nothing tells.
    propensity
        With what probability, in (0, 1], the action was chosen; None if nobody noted it.
    """

    observation: str
    action: str | None = None
    reward: str | None = None
    episode: str | None = None
    order: str | None = None
    terminated: str | None = None
    propensity: str | None = None

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        for field in fields(self):
            name = getattr(self, field.name)
            if name is None and field.name != "observation":
                continue
            if not isinstance(name, str):
                raise InvalidInputError(
                    f"{field.name} is {name!r}; pass the name of the column as a string"
                )
            if name in roles:
                raise InvalidInputError(
                    f"column {name!r} cannot be both {roles[name]} and {field.name}"
                )
            roles[name] = field.name

    @property
    def wanted(self) -> Wanted:
        """What to read."""
        names = tuple(c for c in (self.observation, self.action, self.episode) if c is not None)
        others = () if self.terminated is None else (self.terminated,)
        numbers = tuple(c for c in (self.reward, self.propensity) if c is not None)
        return Wanted(names, numbers, self.order, others)

    def check(self, types: dict[str, Any], label: str) -> dict[str, str]:
        """Check that the columns exist and can be read; return the kind of each."""
        kinds = {}
        for column in self.wanted.all:
            if column not in types:
                raise InvalidInputError(_missing(column, list(types), label))
            if types[column] is None:
                raise InvalidInputError(
                    f"{label} has two columns called {column!r}; rename or drop one"
                )
            kinds[column] = kind_of(types[column])
        for column in self.wanted.names:
            if kinds[column] not in _NAMES:
                raise InvalidInputError(
                    f"column {column!r} of {label} holds {types[column]}, which cannot name "
                    "things; turn it into text or whole numbers"
                )
        for wanted, allowed, wrong in (
            (self.reward, _NUMBERS, "so it cannot be the reward; pass a column of numbers"),
            (
                self.propensity,
                _NUMBERS,
                "so it cannot be the propensity; pass a column of numbers above 0 and up to 1",
            ),
            (
                self.order,
                _ORDERS,
                "which has no order in time; pass a column of numbers or of times",
            ),
            (
                self.terminated,
                _NUMBERS,
                "so it cannot tell which episodes terminated; pass a column of true and false",
            ),
        ):
            if wanted is not None and kinds[wanted] not in allowed:
                raise InvalidInputError(
                    f"column {wanted!r} of {label} holds {types[wanted]}, {wrong}"
                )
        return kinds


def _missing(column: str, present: list[str], label: str) -> str:
    if len(present) == 1:
        for mark, word in _SEPARATORS.items():
            if mark in present[0]:
                return (
                    f"{label} has no column {column!r}: its header is {present[0]!r}. Are the "
                    f"columns separated by {word}? Separate them by commas"
                )
    near = difflib.get_close_matches(column, present, n=1, cutoff=0.6)
    lower = [name for name in present if name.lower() == column.lower()]
    if near or lower:
        return f"{label} has no column {column!r}; did you mean {(lower or near)[0]!r}?"
    dots = ", ..." if len(present) > _SHOWN else ""
    listed = ", ".join(repr(name) for name in present[:_SHOWN])
    return f"{label} has no column {column!r}; it has {listed or 'none at all'}{dots}"


def kind_of(arrow_type: Any) -> str:
    """Say what an Arrow type is to us; "none" for a column without any value."""
    import pyarrow.types as t

    if t.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    text = (t.is_string, t.is_large_string, t.is_string_view)
    tests = {
        "text": text,
        "whole": (t.is_integer,),
        "real": (t.is_floating, t.is_decimal),
        "truth": (t.is_boolean,),
        "time": (t.is_timestamp, t.is_date, t.is_time, t.is_duration),
        "bytes": (t.is_binary, t.is_large_binary, t.is_fixed_size_binary),
    }
    for kind, questions in tests.items():
        if any(ask(arrow_type) for ask in questions):
            return kind
    return "none" if t.is_null(arrow_type) else "other"


class Place(NamedTuple):
    """Where a batch lies: what to call its file, and how many rows of it come before."""

    label: str
    first_row: int

    def error(self, row: int, column: str, text: str) -> InvalidInputError:
        """Make the error for a row of the batch; people count rows from one."""
        return InvalidInputError(
            f"row {self.first_row + row + 1:,} of {self.label}, column {column!r}: {text}"
        )


def numbers(batch: Any, column: str, place: Place) -> Floats:
    """Read a column of finite numbers."""
    array = batch.column(column)
    refuse_missing(array, column, place)
    values = _plain(array, "float64")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise place.error(row, column, f"{values[row]} is not a finite number")
    return values


def propensities(batch: Any, column: str, place: Place) -> Floats:
    """Read a column of probabilities in (0, 1]."""
    values = numbers(batch, column, place)
    bad = (values <= 0) | (values > 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise place.error(
            row,
            column,
            f"{values[row]:g} cannot be the probability of an action that was taken; propensities "
            "lie in (0, 1]",
        )
    return values


def flags(batch: Any, column: str, place: Place) -> NDArray[np.bool_]:
    """Read a column of true and false, or of 1 and 0."""
    values = numbers(batch, column, place)
    bad = (values != 0) & (values != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise place.error(row, column, f"{values[row]:g} is neither true nor false")
    true: NDArray[np.bool_] = values == 1
    return true


def ordered(batch: Any, column: str, place: Place) -> NDArray[Any]:
    """Read the column of the order: times as whole numbers."""
    array = batch.column(column)
    refuse_missing(array, column, place)
    if kind_of(array.type) == "real":
        return numbers(batch, column, place)
    if kind_of(array.type) == "time":
        import pyarrow as pa

        wide = array.type.bit_width == 64
        array = array.view(pa.int64() if wide else pa.int32())
    return _plain(array, "int64")


def _plain(array: Any, dtype: str) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    values: NDArray[Any] = pc.cast(array, dtype, safe=False).to_numpy(zero_copy_only=False)
    return values


def refuse_missing(array: Any, column: str, place: Place) -> None:
    """Refuse a column with missing values."""
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise place.error(row, column, "the value is missing")

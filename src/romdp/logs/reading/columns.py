"""The columns of a log: which is what, whether they can be used, and their batches as arrays."""

import datetime
import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import check, shown
from romdp.logs.reading.names import Coded, coded, join_parts
from romdp.logs.reading.sources import BATCH_ROWS, Piece, is_list

Floats = NDArray[np.float64]

MISSING = ("error", "drop", "own")
"""What a missing observation may be: refused, a row that is left out, or a name of its own."""

_NAMES = ("text", "whole", "real", "truth", "time", "bytes")  # kinds that can name things
_NUMBERS = ("whole", "real", "truth", "none")  # a column of nothing is refused by its first row
_ORDERS = ("whole", "real", "time", "none")
_FLAGS = {"true": True, "yes": True, "y": True, "1": True}
_FLAGS |= {"false": False, "no": False, "n": False, "0": False}
_LARGEST = 1e100  # squares of larger numbers, added up, may be infinite
_SHOWN = 12  # columns that a message lists


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a log is what.

    Parameters
    ----------
    observation
        What was seen. Several columns of numbers, or one of lists, are vectors; several columns
        of names are one observation together.
    action
        What was then done; None if nobody could choose.
    reward
        What that brought; None if it does not matter.
    episode
        Whose row it is: a user, a session. None: all rows are one long episode.
    order
        What rises from row to row of an episode, such as a time, or stays; None if nothing does.
    terminated
        True (or yes, or 1) in the last row of an episode that came to its end; None if nothing
        tells.
    propensity
        With what probability, in (0, 1], the action was chosen; None if nobody noted it.
    """

    observation: str | Sequence[str]
    action: str | None = None
    reward: str | None = None
    episode: str | None = None
    order: str | None = None
    terminated: str | None = None
    propensity: str | None = None

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        if not isinstance(self.observation, str | None):
            check(self.observation, "observation", str, list, tuple)
            object.__setattr__(self, "observation", tuple(self.observation))
        for field in fields(self):
            value = getattr(self, field.name)
            names = value if isinstance(value, tuple) else (value,)
            if (value is None and field.name != "observation") or not names:
                continue
            for name in names:
                if not isinstance(name, str) or not name:
                    raise InvalidInputError(
                        f"{field.name} is {shown(name)}; pass the name of the column as a string"
                    )
                if name in roles:
                    both = f"both {roles[name]} and {field.name}"
                    again = "named twice" if roles[name] == field.name else both
                    raise InvalidInputError(f"column {name!r} cannot be {again}")
                roles[name] = field.name
        if "observation" not in roles.values():
            raise InvalidInputError("observation is empty; name the column of what was seen")

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns of the observation."""
        return (self.observation,) if isinstance(self.observation, str) else tuple(self.observation)

    @property
    def shown(self) -> str:
        """What the column of the observation, or all of them together, are called."""
        return ",".join(self.parts)

    def are_vectors(self, types: Mapping[str, Any]) -> bool:
        """Say whether observations are vectors, and not names."""
        kinds = [kind_of(types.get(part)) for part in self.parts]
        if isinstance(self.observation, str):
            return kinds == ["list"]
        numbers = [part for part, kind in zip(self.parts, kinds, strict=True) if kind in _NUMBERS]
        real = [part for part, kind in zip(self.parts, kinds, strict=True) if kind == "real"]
        if real and len(numbers) < len(kinds):
            other = next(part for part in self.parts if part not in numbers)
            raise InvalidInputError(
                f"column {other!r} holds {types.get(other)} and {real[0]!r} measurements: together "
                "they are neither a vector nor a name. Turn the measurements into a few classes"
            )
        return len(numbers) == len(kinds)

    def check(self, piece: Piece) -> dict[str, Any]:
        """Check that the columns exist and can be read; return the types as which they are."""
        types = piece.types
        named = [name for name in (self.action, self.episode) if name is not None]
        plain = [n for n in (self.reward, self.propensity, self.order, self.terminated) if n]
        for column in (*self.parts, *named, *plain):
            if column not in types:
                raise InvalidInputError(_missing(column, list(types), piece.label))
            if types[column] is None:
                raise InvalidInputError(
                    f"{piece.label} has two columns called {column!r}; rename or drop one"
                )
        as_numbers = [name for name in (self.reward, self.propensity) if name is not None]
        if self.are_vectors(types):
            as_numbers += self.parts
        else:
            named = [*self.parts, *named]
        flag = () if self.terminated is None else (self.terminated,)
        read = piece.types_read((*named, *flag), as_numbers)
        for allowed, columns, wrong in (
            (_NAMES, named, "which cannot name things; turn it into text or whole numbers"),
            (_NUMBERS, [self.reward], "so it cannot be the reward; pass a column of numbers"),
            (_NUMBERS, [self.propensity], "so it cannot be the propensity; pass probabilities"),
            (_ORDERS, [self.order], "which has no order in time; pass numbers or times"),
            (
                (*_NUMBERS, "text"),
                [self.terminated],
                "so it cannot tell which episodes terminated; pass a column of true and false",
            ),
        ):
            for name in columns:
                if name is not None and kind_of(read[name]) not in allowed:
                    if name == self.order and piece.is_csv:
                        raise _no_time(piece, name)
                    raise InvalidInputError(
                        f"column {name!r} of {piece.label} holds {types[name]}, {wrong}"
                    )
        return {column: read[column] for column in (*self.parts, *named, *plain)}


def _no_time(piece: Piece, column: str) -> InvalidInputError:
    """Name the value that makes the first lines of a column text, not numbers or times."""
    import pyarrow as pa

    texts = next(piece.batches({column: pa.string()}, BATCH_ROWS)).column(column).to_pylist()
    kinds = [None if text is None else _looks(text) for text in texts]
    top = next(kind for kind in kinds if kind is not None)
    row = next((i for i, kind in enumerate(kinds) if kind not in (None, top)), kinds.index(top))
    return Place(piece.label, 0).error(
        row,
        column,
        f"{texts[row]!r} is no order in time: write whole numbers, or times such as 2024-01-31 "
        "18:05:00, in all rows",
    )


def _looks(text: str) -> str:
    for kind, read in (("number", float), ("time", datetime.datetime.fromisoformat)):
        with suppress(ValueError):
            read(text)
            return kind
    return "text"


def _missing(column: str, present: list[str], label: str) -> str:
    near = difflib.get_close_matches(column, present, n=1, cutoff=0.6)
    lower = [name for name in present if name.lower() == column.lower()]
    if near or lower:
        return f"{label} has no column {shown(column)}; did you mean {(lower or near)[0]!r}?"
    dots = ", ..." if len(present) > _SHOWN else ""
    listed = ", ".join(repr(name) for name in present[:_SHOWN])
    return f"{label} has no column {shown(column)}; it has {listed or 'none at all'}{dots}"


def split_name(observation: Any, pieces: Sequence[Piece]) -> Any:
    """Split a name such as ``"x,y"``, as models and commands call several columns."""
    if isinstance(observation, str) and "," in observation and observation not in pieces[0].types:
        return tuple(observation.split(","))
    return observation


def kind_of(arrow_type: Any) -> str:
    """Say what an Arrow type is to us; "none" for a column without any value."""
    import pyarrow.types as t

    if arrow_type is None:
        return "other"
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
        "list": (is_list,),
        "none": (t.is_null,),
    }
    return next((kind for kind, asks in tests.items() if any(a(arrow_type) for a in asks)), "other")


class Place(NamedTuple):
    """Where a batch lies: what to call its file, and how many rows of it come before."""

    label: str
    first_row: int

    def error(self, row: Any, column: str, text: str) -> InvalidInputError:
        """Make the error for a row of the batch; people count rows from one."""
        return InvalidInputError(
            f"row {self.first_row + int(row) + 1:,} of {self.label}, column {column!r}: {text}"
        )

    def refuse(self, bad: NDArray[np.bool_], column: str, values: Any, text: str) -> None:
        """Refuse the first row that is bad; ``text`` says what is wrong with its value."""
        if bad.any():
            row = int(np.argmax(bad))
            raise self.error(row, column, text.format(values[row]))


def names(
    batch: Any, parts: Sequence[str], place: Place, missing: str = "error", remedy: str = ""
) -> Coded:
    """Read a column of names, or several whose names belong together; see `MISSING`."""
    columns = [batch.column(part) for part in parts]
    whole = columns[0] if len(parts) == 1 else join_parts(columns, fill=missing == "own")
    found = coded(whole, parts[0])
    if missing == "error" and (found.codes < 0).any():
        row = int(np.argmax(found.codes < 0))
        lacks = [part for part, x in zip(parts, columns, strict=True) if not x[row].is_valid]
        raise place.error(row, (lacks or parts)[0], f"the value is missing{remedy}")
    return found.with_missing() if missing == "own" else found


def numbers(batch: Any, column: str, place: Place) -> Floats:
    """Read a column of finite numbers."""
    array = batch.column(column)
    refuse_missing(array, column, place)
    values = _plain(array, "float64")
    place.refuse(~np.isfinite(values), column, values, "{} is not a finite number")
    return values


def propensities(batch: Any, column: str, place: Place) -> Floats:
    """Read a column of probabilities in (0, 1]."""
    values = numbers(batch, column, place)
    text = "{:g} cannot be the probability of an action that was taken; propensities lie in (0, 1]"
    place.refuse((values <= 0) | (values > 1), column, values, text)
    return values


def flags(batch: Any, column: str, place: Place) -> NDArray[np.bool_]:
    """Read a column of true and false, yes and no, y and n, or 1 and 0."""
    found = names(batch, [column], place)
    read = [_FLAGS.get(_flag_text(name)) for name in found.names()]
    bad = np.array([truth is None for truth in read], np.bool_)[found.codes]
    text = "{!r} is neither true nor false; write true or false, yes or no, 1 or 0"
    place.refuse(bad, column, [found.names()[i] for i in found.codes] if bad.any() else (), text)
    return np.array(read, np.bool_)[found.codes]


def _flag_text(name: Any) -> str:
    return str(name).strip().lower() if isinstance(name, str | bool) else f"{float(name):g}"


def ordered(batch: Any, column: str, place: Place) -> NDArray[Any]:
    """Read the column of the order: times as whole numbers."""
    array = batch.column(column)
    refuse_missing(array, column, place)
    if kind_of(array.type) == "real":
        return numbers(batch, column, place)
    if kind_of(array.type) == "time":
        import pyarrow as pa

        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return _plain(array, "int64")


def vectors(batch: Any, parts: Sequence[str], place: Place) -> NDArray[Any]:
    """Read vectors from columns of numbers, or from one of lists; what is missing is NaN."""
    columns = [batch.column(part) for part in parts]
    if is_list(columns[0].type):
        found = _lists(columns[0], parts[0], place)
    else:
        found = np.column_stack([_plain(column, "float64") for column in columns])
    if found.dtype.kind == "f":
        largest = min(_LARGEST, float(np.finfo(found.dtype).max))
        for row, column in np.argwhere(np.abs(found) > largest)[:1].tolist():
            text = f"{found[row, column]:g} is no finite number of at most {largest:.2g}"
            raise place.error(row, parts[min(column, len(parts) - 1)], text)
    return found


def _lists(array: Any, column: str, place: Place) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    known = lengths[~np.isnan(lengths.astype(np.float64))]
    size = int(known[0]) if len(known) else 1
    if is_list(array.type.value_type) or kind_of(array.type.value_type) not in _NUMBERS:
        raise InvalidInputError(f"column {column!r} holds {array.type}; pass lists of numbers")
    text = f"the list has {{:g}} numbers and that of the first row {size}; make all equally long"
    place.refuse((lengths < size) | (lengths > size), column, lengths, text)
    if not size:
        raise place.error(0, column, "the list is empty")
    whole = array.null_count == 0
    flat = (array if whole else array.drop_null()).flatten()
    kind = flat.type
    if flat.null_count or not whole or (pa.types.is_integer(kind) and kind.bit_width > 8):
        kind = pa.float64()
    values = _plain(flat, str(kind) if pa.types.is_primitive(kind) else "float64")
    if whole:
        return values.reshape(len(array), size)
    found = np.full((len(array), size), np.nan)
    found[array.is_valid().to_numpy(zero_copy_only=False)] = values.reshape(-1, size)
    return found


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
        bad = array.is_null().to_numpy(zero_copy_only=False)
        raise place.error(np.argmax(bad), column, "the value is missing; fill it or drop the row")

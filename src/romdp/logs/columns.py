"""The columns of a log: which is what, whether they can be used, and their batches as arrays."""

import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.compiled import kernel
from romdp.errors import InvalidInputError
from romdp.logs.sources import Wanted

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NAMES = ("text", "whole", "real", "truth", "time", "bytes")  # kinds that can name things
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
    """

    observation: str
    action: str | None = None
    reward: str | None = None
    episode: str | None = None
    order: str | None = None

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
        return Wanted(names, () if self.reward is None else (self.reward,), self.order)

    def check(self, types: dict[str, Any], label: str) -> dict[str, str]:
        """Check that the columns exist and can be read; return the kind of each."""
        kinds = {}
        for column in self.wanted.all:
            if column not in types:
                raise InvalidInputError(_missing(column, list(types), label))
            kinds[column] = kind_of(types[column])
        for column in self.wanted.names:
            if kinds[column] not in _NAMES:
                raise InvalidInputError(
                    f"column {column!r} of {label} holds {types[column]}, which cannot name "
                    "things; turn it into text or whole numbers"
                )
        if self.reward is not None and kinds[self.reward] not in ("whole", "real", "truth"):
            raise InvalidInputError(
                f"column {self.reward!r} of {label} holds {types[self.reward]}, so it cannot be "
                "the reward; pass a column of numbers"
            )
        if self.order is not None and kinds[self.order] not in ("whole", "real", "time"):
            raise InvalidInputError(
                f"column {self.order!r} of {label} holds {types[self.order]}, which has no order "
                "in time; pass a column of numbers or of times"
            )
        return kinds


def _missing(column: str, present: list[str], label: str) -> str:
    near = difflib.get_close_matches(column, present, n=1, cutoff=0.5)
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
        "time": (t.is_temporal,),
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


class Coded(NamedTuple):
    """Names as codes: ``values[code]`` is the name; ``used`` lists codes by first appearance."""

    codes: Ints
    values: Any  # an Arrow array
    used: Ints
    rows: Ints  # of the first appearance of each

    def names(self) -> list[Any]:
        """Return the names in the order of first appearance."""
        import pyarrow as pa

        names: list[Any] = self.values.take(pa.array(self.used)).to_pylist()
        return names


@kernel
def _first_uses(codes: NDArray[Any], n_values: int) -> tuple[Ints, Ints]:
    seen = np.zeros(n_values, np.bool_)
    used = np.empty(n_values, np.int64)
    rows = np.empty(n_values, np.int64)
    n_used = 0
    for row in range(codes.size):
        code = codes[row]
        if not seen[code]:
            seen[code] = True
            used[n_used] = code
            rows[n_used] = row
            n_used += 1
    return used[:n_used], rows[:n_used]


def coded(batch: Any, column: str, place: Place) -> Coded:
    """Read a column of names."""
    import pyarrow as pa

    array = batch.column(column)
    _refuse_missing(array, column, place)
    array = simple_names(array, column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    used, rows = _first_uses(codes, len(array.dictionary))
    found = Coded(codes, array.dictionary, used, rows)
    kind = kind_of(array.dictionary.type)
    if kind == "real" or array.dictionary.null_count:
        for i, name in enumerate(found.names()):
            if name is None or name != name:  # noqa: PLR0124 - not-a-number differs from itself
                raise place.error(int(rows[i]), column, "the value is missing")
    return found


def simple_names(array: Any, column: str) -> Any:
    """Cast names of types that Arrow cannot take apart, or Python not hold, to ones they can."""
    import pyarrow as pa

    t = pa.types
    if t.is_string_view(array.type):
        return array.cast(pa.large_string())
    if t.is_timestamp(array.type) and array.type.unit == "ns":
        try:
            return array.cast(pa.timestamp("us", array.type.tz))
        except pa.ArrowInvalid:
            raise InvalidInputError(
                f"column {column!r} holds times with nanoseconds, which cannot name things; round "
                "them or turn them into text"
            ) from None
    return array


def numbers(batch: Any, column: str, place: Place) -> Floats:
    """Read a column of finite numbers."""
    array = batch.column(column)
    _refuse_missing(array, column, place)
    values = _plain(array, "float64")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise place.error(row, column, f"{values[row]} is not a finite number")
    return values


def ordered(batch: Any, column: str, place: Place) -> NDArray[Any]:
    """Read the column of the order: times as whole numbers."""
    array = batch.column(column)
    _refuse_missing(array, column, place)
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


def _refuse_missing(array: Any, column: str, place: Place) -> None:
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise place.error(row, column, "the value is missing")


class Numbering:
    """Numbers for names, in the order in which they first appear."""

    def __init__(self, column: str, most: int, what: str) -> None:
        self.column, self.most, self.what = column, most, what
        self.numbers: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> list[Any]:
        """The names in the order of their numbers."""
        return list(self.numbers)

    def add(self, names: Iterable[Any]) -> Ints:
        """Return the numbers of names; new ones get the next numbers."""
        known = self.numbers
        found = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        if len(known) > self.most:
            raise InvalidInputError(
                f"column {self.column!r} holds more than {self.most:,} different {self.what}s. Is "
                "it an identifier or a time? Make it coarser, or raise "
                f"max_{self.what}s if so many are meant"
            )
        return found

    def encode(self, found: Coded) -> Ints:
        """Return the number of the name in every row."""
        table = np.zeros(len(found.values), np.int64)
        table[found.used] = self.add(found.names())
        return table[found.codes]


_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mix(words: NDArray[Any]) -> Ints:
    """Scramble 64-bit words (splitmix64) into numbers that look drawn from [0, 2^63)."""
    z = words.astype(np.int64).view(np.uint64) + _MIX[0]
    z = (z ^ (z >> np.uint64(30))) * _MIX[1]
    z = (z ^ (z >> np.uint64(27))) * _MIX[2]
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).view(np.int64)


def digests(found: Coded) -> Ints:
    """Return 63 bits for each name used; the same name gives the same bits anywhere.

    Two of n names share theirs with a chance of about n^2 / 2^64.
    """
    import pyarrow as pa

    if pa.types.is_integer(found.values.type):
        chosen = found.values.take(pa.array(found.used))
        return mix(chosen.to_numpy(zero_copy_only=False))
    texts = (str(name).encode() for name in found.names())
    words = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(words, np.int64) & np.int64(2**63 - 1)

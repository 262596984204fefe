"""Names of observations, actions and episodes as numbers."""

import datetime
import hashlib
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.columns import Place, kind_of, refuse_missing

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Coded(NamedTuple):
    """Names as codes: ``values[code]`` is the name; ``used`` lists codes by first appearance."""

    codes: Ints
    values: Any  # an Arrow array
    used: Ints

    def names(self) -> list[Any]:
        """Return the names in the order of first appearance."""
        import pyarrow as pa

        return python_names(self.values.take(pa.array(self.used)))

    def replaced(self, numbers: Ints) -> Ints:
        """Return a number for every row, given those of the names in use."""
        table = np.zeros(len(self.values), np.int64)
        table[self.used] = numbers
        return table[self.codes]


def python_names(array: Any) -> list[Any]:
    """Turn an Arrow array of names into Python's own values."""
    try:
        names: list[Any] = array.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(
            f"names of type {array.type} hold a time outside the years 1 to 9999, which cannot "
            f"name things ({error}); turn them into text"
        ) from error
    return names


def coded(batch: Any, column: str, place: Place) -> Coded:
    """Read a column of names."""
    import pyarrow as pa

    array = batch.column(column)
    refuse_missing(array, column, place)
    array = simple_names(array, column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes, used = (
        x.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        for x in (array.indices, array.indices.unique())
    )
    found = Coded(codes, array.dictionary, used)
    if kind_of(array.dictionary.type) == "real" or array.dictionary.null_count:
        for code, name in zip(used, found.names(), strict=True):
            if name is None or name != name:  # noqa: PLR0124 - not-a-number differs from itself
                raise place.error(int(np.argmax(codes == code)), column, "the value is missing")
    return found


def simple_names(array: Any, column: str) -> Any:
    """Cast names of types that Arrow cannot take apart, or Python not hold, to ones they can."""
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(array.type):
        values = simple_names(array.dictionary, column)
        same = values is array.dictionary
        return array if same else pa.DictionaryArray.from_arrays(array.indices, values)
    if t.is_string_view(array.type):
        return array.cast(pa.large_string())
    if getattr(array.type, "unit", None) == "ns":  # Python has no nanoseconds
        whole = pa.timestamp("us", array.type.tz) if t.is_timestamp(array.type) else None
        whole = pa.duration("us") if t.is_duration(array.type) else whole or pa.time64("us")
        try:
            return array.cast(whole)
        except pa.ArrowInvalid:
            raise InvalidInputError(
                f"column {column!r} holds times with nanoseconds, which cannot name things; round "
                "them or turn them into text"
            ) from None
    return array


class Names:
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
        return found.replaced(self.add(found.names()))


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


_TRUTHS = {"true": True, "false": False, "1": True, "0": False}


class Matcher:
    """Finds the numbers of names, also where one side is text and the other is not.

    Text is read as what the typed names are, so that ``"1.50"`` is 1.5, ``"true"`` is True and
    ``"2024-01-31 18:05:00Z"`` that moment in any time zone. Where two names would be read alike,
    only the exact text finds one.

    Parameters
    ----------
    names
        The names that are known, all of one kind.
    """

    def __init__(self, names: Sequence[Any]) -> None:
        self.names = names
        self._exact = {name: i for i, name in enumerate(names)}
        self._texts = {str(name): i for i, name in enumerate(names)}
        self._read: dict[type, dict[Any, int]] = {}
        for name, i in list(self._exact.items()):
            for alias in _short_floats(name):
                self._exact.setdefault(alias, i)

    def find(self, others: Iterable[Any]) -> list[int]:
        """Return the number of each name, -1 where it is not known."""
        wanted = list(others)
        known = next((name for name in wanted if name is not None), None)
        if isinstance(known, str) and not isinstance(self.names[0], str):
            read = _reader(type(self.names[0]))
            return [self._exact.get(read(text), self._texts.get(text, -1)) for text in wanted]
        if known is not None and isinstance(self.names[0], str) and not isinstance(known, str):
            typed = self._read_as(type(known))
            return [self._find_text(name, typed) for name in wanted]
        return [self._exact.get(name, -1) for name in wanted]

    def _find_text(self, name: Any, typed: dict[Any, int]) -> int:
        """Find the text that is written as a value is, or else the only one that is read as it."""
        if str(name) in self._texts:
            return self._texts[str(name)]
        ways = (name, *_short_floats(name))
        return next((typed[value] for value in ways if value in typed), -1)

    def _read_as(self, kind: type) -> dict[Any, int]:
        """Read the names, which are text, as values of a type; -1 where two are read alike."""
        if kind not in self._read:
            read = _reader(kind)
            typed: dict[Any, int] = {}
            for i, name in enumerate(self.names):
                value = read(name)
                typed[value] = -1 if value in typed else i
            self._read[kind] = typed
        return self._read[kind]


def _short_floats(name: Any) -> Iterable[float]:
    """Say how a number of single or half precision is written: 0.1 for 0.10000000149011612."""
    if isinstance(name, float):
        for kind in ("float32", "float16"):
            with np.errstate(over="ignore", under="ignore"):
                short: Any = np.array(name).astype(kind)[()]
            if float(short) == name:
                yield float(str(short))


def _reader(kind: type) -> Callable[[Any], Any]:
    """Return what reads text as values of a type; text that is none stays as it is."""
    parse: Callable[[str], Any] = _PARSERS.get(kind, str)

    def read(text: Any) -> Any:
        try:
            return parse(text)
        except (ValueError, KeyError, InvalidOperation, OverflowError):
            return text

    return read


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def _date(text: str) -> datetime.date:
    moment = datetime.datetime.fromisoformat(text)
    if moment.time() != datetime.time():
        raise ValueError(text)
    return moment.date()


_PARSERS: dict[type, Callable[[str], Any]] = {
    bool: lambda text: _TRUTHS[text.lower()],
    int: _whole,
    float: float,
    Decimal: Decimal,
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: _date,
    datetime.time: datetime.time.fromisoformat,
    bytes: str.encode,
}

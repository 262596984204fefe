"""Names of observations, actions and episodes as numbers."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Coded(NamedTuple):
    """Names as codes, in the order of first appearance; the code of a missing one is -1."""

    codes: Ints
    values: Any  # an Arrow array: the name of each code

    def names(self) -> list[Any]:
        """Return the name of each code."""
        return python_names(self.values)

    def replaced(self, numbers: Ints) -> Ints:
        """Return the number of every row, given those of the codes; -1 where it is missing."""
        return np.append(numbers, -1)[self.codes]

    def with_missing(self) -> "Coded":
        """Return the same with a code for what is missing, which is then called None."""
        import pyarrow as pa

        absent = self.codes < 0
        if not absent.any():
            return self
        values = pa.concat_arrays([self.values, pa.nulls(1, self.values.type)])
        return Coded(np.where(absent, len(self.values), self.codes), values)


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


def coded(array: Any, column: str) -> Coded:
    """Read a column of names."""
    import pyarrow as pa

    array = simple_names(array, column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    found, kinds = array.indices.cast(pa.int64()), array.indices.unique().drop_null()
    codes = found.fill_null(-1).to_numpy(zero_copy_only=False)
    used = kinds.cast(pa.int64()).to_numpy(zero_copy_only=False)
    values = array.dictionary.take(pa.array(used))
    named = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        named &= ~np.isnan(values.to_numpy(zero_copy_only=False))
    table = np.full(len(array.dictionary) + 1, -1)
    table[used[named]] = np.arange(named.sum())
    return Coded(table[codes], values if named.all() else values.filter(pa.array(named)))


def join_parts(columns: Sequence[Any], fill: bool = True) -> Any:
    """Make one column of several: their names as a line of CSV, such as ``home,phone``.

    Where a name is missing, it is empty, or else, without ``fill``, the whole is.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    large = pa.large_string()
    mark, none, comma = (pa.scalar(text, large) for text in ('"', "", ","))
    texts = []
    for column in columns:
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        text = pc.fill_null(plain.cast(large), "") if fill else plain.cast(large)
        doubled = pc.replace_substring(text, '"', '""')
        quoted = pc.binary_join_element_wise(mark, doubled, mark, none)
        texts.append(pc.if_else(pc.match_substring_regex(text, '[",\r\n]'), quoted, text))
    return pc.binary_join_element_wise(*texts, comma)


def join_names(names: Sequence[Sequence[Any]]) -> list[str]:
    """Join names of several parts, given as tuples, as `join_parts` does with columns."""
    import pyarrow as pa

    joined: list[str] = join_parts(
        [pa.array(part) for part in zip(*names, strict=True)]
    ).to_pylist()
    return joined


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


def numbered(lists: Sequence[Iterable[Any]], as_numbers: bool) -> tuple[list[Any], list[Ints]]:
    """Sort all the names in some lists; return them, and the place of each name of every list.

    So numbers do not depend on the order of rows, files or workers. ``as_numbers`` says that names
    which are all whole numbers were read as text. A missing name comes last.
    """
    known = dict.fromkeys(name for names in lists for name in names)
    read: dict[Any, Any] = {name: name for name in known}
    if as_numbers and all(_is_whole(name) for name in known if isinstance(name, str)):
        read = {name: int(name) if isinstance(name, str) else name for name in known}
    found = sorted(read.values(), key=lambda name: (name is None, 0 if name is None else name))
    place = {name: i for i, name in enumerate(found)}
    return found, [np.array([place[read[x]] for x in names], np.int64) for names in lists]


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text


_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mix(words: NDArray[Any]) -> Ints:
    """Scramble 64-bit words (splitmix64) into numbers that look drawn from [0, 2^63)."""
    z = words.astype(np.int64).view(np.uint64) + _MIX[0]
    z = (z ^ (z >> np.uint64(30))) * _MIX[1]
    z = (z ^ (z >> np.uint64(27))) * _MIX[2]
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).view(np.int64)


def digests(found: Coded) -> Ints:
    """Return 63 bits for each name; the same name gives the same bits anywhere.

    Two of n names share theirs with a probability of about n^2 / 2^64.
    """
    import pyarrow as pa

    if pa.types.is_integer(found.values.type):
        return mix(found.values.to_numpy(zero_copy_only=False))
    texts = (str(name).encode() for name in found.names())
    words = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(words, np.int64) & np.int64(2**63 - 1)

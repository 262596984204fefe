"""Text for people, and values for JSON: aligned tables, numbers, names on one line."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

UNKNOWN = "-"
"""What is printed where there is no value."""

# Control characters, line and paragraph separators, half surrogates, changes of direction.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def one_line(value: object, most: int | None = None) -> str:
    r"""Write a name on one line: what would break the line is escaped, what is too long is cut.

    Examples
    --------
    >>> one_line("two\nlines"), one_line("a long name", 7)
    ('two\\nlines', 'a long…')
    """
    text = _UNPRINTABLE.sub(lambda found: ascii(found.group())[1:-1], str(value))
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def columns(rows: Iterable[Sequence[object]], align: str = "<") -> list[str]:
    r"""Align the cells of rows, and return a line for each row.

    Parameters
    ----------
    rows
        All of one length; the first may be the headings.
    align
        ``<`` (left) or ``>`` (right) for each column; the last one counts for all that follow.

    Examples
    --------
    >>> print("\n".join(columns([["agent", "regret"], ["ucrl2", 12]], "<>")))
    agent  regret
    ucrl2      12
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = align.ljust(len(widths), align[-1])
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def number(value: float | None, decimals: int | None = None) -> str:
    """Write a number for people, a dash where there is none.

    Parameters
    ----------
    value
        The number; None and what is not finite are unknown.
    decimals
        How many to write; by default four significant digits, and none from 1,000 on.

    Examples
    --------
    >>> number(1234567.0), number(0.12345), number(float("nan")), number(2.0, 1)
    ('1,234,567', '0.1235', '-', '2.0')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if decimals is None and value != int(value) and abs(value) < 1000:
        return f"{value:,.4g}"
    return f"{value:,.{decimals or 0}f}"


def interval(ends: Sequence[float | None], decimals: int | None = None) -> str:
    """Write the ends of an interval, a dash where one is unknown.

    Examples
    --------
    >>> interval((1.0, 2.5)), interval((None, 2.5))
    ('[1, 2.5]', '-')
    """
    written = [number(end, decimals) for end in ends]
    return UNKNOWN if UNKNOWN in written else f"[{', '.join(written)}]"


def count(size: int, noun: str) -> str:
    """Write how many there are.

    Examples
    --------
    >>> count(1, "state"), count(2000, "state")
    ('1 state', '2,000 states')
    """
    return f"{size:,} {noun}{'' if size == 1 else 's'}"


def plain(
    value: Any, unknown: Callable[[float], Any] = lambda _: None, digits: int | None = None
) -> Any:
    """Turn a value into what strict JSON can hold.

    Arrays become lists, tuples too; dataclasses become objects, and keys text.

    Parameters
    ----------
    value
        Numbers, text, arrays, mappings, dataclasses and sequences of these. An object with a
        method ``to_json`` is asked.
    unknown
        What to write for a float that is infinite or not a number; by default null.
    digits
        How many significant digits to keep of a float; what is then whole loses its point. By
        default all are kept.

    Examples
    --------
    >>> plain({"a": (1.23456, float("inf"))}, digits=3), plain([float("-inf")], str)
    ({'a': [1.23, None]}, ['-inf'])
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return unknown(value)
        # NumPy's float64 is one of Python's floats too, and prints differently.
        return float(value) if digits is None else _rounded(value, digits)
    if isinstance(value, Mapping):
        return {str(key): plain(item, unknown, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, unknown, digits) for item in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        named = {entry.name: getattr(value, entry.name) for entry in fields(value)}
        return plain(named, unknown, digits)
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return plain(value.tolist(), unknown, digits)
    return value


def _rounded(value: float, digits: int) -> float | int:
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short

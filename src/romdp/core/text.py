"""Text for people, in a terminal and in a notebook, and values for JSON."""

import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any

UNKNOWN = "-"
"""What is printed where there is no value."""

MOST_LISTED = 50
"""Entries of a list for people, in messages and on pages; a screen shows about as many."""

_FEW = 8  # entries of a list inside a line

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


def shortened(entries: Sequence[str], most: int = MOST_LISTED) -> list[str]:
    """Cut a list that is long, and say how many more there are.

    Examples
    --------
    >>> shortened(["a", "b", "c"], 2)
    ['a', 'b', 'and 1 more']
    """
    more = len(entries) - most
    return [*entries[:most], f"and {more:,} more"] if more > 0 else list(entries)


def listed(entries: Any) -> str:
    """Write the first few entries of a list on one line, and dots if there are more.

    Examples
    --------
    >>> listed([3, 1]), listed(range(20))
    ('3, 1', '0, 1, 2, 3, 4, 5, 6, 7, ...')
    """
    return ", ".join([*map(str, entries[:_FEW])] + ["..."] * (len(entries) > _FEW))


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


def with_error(value: float | None, error: float | None) -> str:
    """Write a number no finer than its standard error bears out, with twice that error.

    Four digits are enough: an error that they do not show is left out.

    Examples
    --------
    >>> with_error(2.2503, 0.0634), with_error(-0.0004, 0.01), with_error(1234.5, 120.0)
    ('2.25 ± 0.13', '0.000 ± 0.020', '1,234 ± 240')
    >>> with_error(-1.0, 0.0), with_error(float("nan"), 0.1)
    ('-1', '-')
    """
    if value is None or error is None or not (math.isfinite(value) and math.isfinite(error)):
        return number(value)
    half = 2.0 * error
    if half <= 5e-4 * abs(value):
        return number(value)
    decimals = max(0, 1 - math.floor(math.log10(half)))
    return f"{round(value, decimals) + 0.0:,.{decimals}f} ± {half:,.{decimals}f}"


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


_LEFT = ' style="text-align:left"'  # notebooks align to the right by default
SECONDS = 0.2  # between two pieces of news for somebody who looks on

Bar = Callable[[float, str], None]
"""Shows how much of the work is done, from 0 to 1, and a line of facts."""


def in_notebook() -> bool:
    """Say whether a notebook's kernel runs this process."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def notebook_bar(name: str) -> Bar:
    """Put a bar below the cell that runs; whatever calls the result moves it."""
    screen: Any = import_module("IPython.display")  # there is no IPython outside of notebooks
    handle = screen.display(screen.HTML(_bar(name, 0, "")), display_id=True)
    shown = time.monotonic()

    def show(share: float, facts: str) -> None:
        nonlocal shown
        if share >= 1 or time.monotonic() - shown > SECONDS:
            shown = time.monotonic()
            handle.update(screen.HTML(_bar(name, share, facts)))

    return show


def _bar(name: str, share: float, facts: str) -> str:
    return f'{_text(name)} <progress value="{share:.4f}" max="1"></progress> {_text(facts)}'


def html_table(
    title: str,
    rows: Iterable[Sequence[object]],
    head: Sequence[object] = (),
    notes: Iterable[object] = (),
) -> str:
    """Write a table as HTML without styles or scripts of its own; all text is escaped.

    Parameters
    ----------
    title
        What stands above the table.
    rows
        The cells; the first of each row is its heading.
    head
        The headings of the columns, if they have any.
    notes
        Lines that stand below the table.

    Examples
    --------
    >>> html_table("A run", [["steps", "10"]], notes=["R < 3"])
    '<p><b>A run</b></p><table><tr><th style="text-align:left">steps</th><td style="text-align:left">10</td></tr></table><p>R &lt; 3</p>'
    """  # noqa: E501 (what is returned is one line)
    lines = [_row(head, "th")] if head else []
    lines += [_row(row, "td") for row in rows]
    below = "<br/>".join(_text(note) for note in notes)
    return (
        f"<p><b>{_text(title)}</b></p><table>{''.join(lines)}</table>"
        f"{f'<p>{below}</p>' if below else ''}"
    )


def _row(cells: Sequence[object], kind: str) -> str:
    kinds = ["th", *[kind] * (len(cells) - 1)]
    return f"<tr>{''.join(_cell(c, k) for c, k in zip(cells, kinds, strict=True))}</tr>"


def _cell(content: object, kind: str) -> str:
    return f"<{kind}{_LEFT}>{_text(content)}</{kind}>"


def _text(content: object) -> str:
    return escape(one_line(content))

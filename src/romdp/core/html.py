"""How results and progress show themselves in a notebook, without widgets or scripts."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Any

from romdp.core.text import one_line

_LEFT = ' style="text-align:left"'  # notebooks align to the right by default
_SECONDS = 0.1  # between two updates of a bar

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
        if share >= 1 or time.monotonic() - shown > _SECONDS:
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

"""How results show themselves in a notebook: a title, a table and notes."""

from collections.abc import Iterable, Sequence
from html import escape

from romdp.core.text import one_line

_LEFT = ' style="text-align:left"'  # notebooks align to the right by default


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

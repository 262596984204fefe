"""The shell of our HTML pages: one self-contained file with its style, its script and its data.

Pages have the same look and the same parts. A part takes plain text and escapes it; what is
already HTML says so by being `Html`. Nothing is fetched: the page forbids it to itself.

A page's own script finds ``romdp.data`` (what Python passed), ``romdp.plot(element, traces,
layout)`` (Plotly in the page's colours, drawn again when the theme changes) and
``romdp.isDark()``; see ``assets/shell.js``.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from romdp.core.errors import InvalidInputError, WriteError
from romdp.core.storage import write_bytes
from romdp.core.text import number, plain

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Make HTML of anything: `Html` stays as it is, all else is escaped text.

    Examples
    --------
    >>> escape("a < b"), escape(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def join(*parts: object) -> Html:
    """Put parts one after another."""
    return Html("\n".join(escape(part) for part in parts))


def element(tag: str, *content: object, **attributes: object) -> Html:
    """Make an element; ``class_`` gives its class, ``data_x`` the attribute ``data-x``.

    Examples
    --------
    >>> element("p", "a & b", class_="note")
    '<p class="note">a &amp; b</p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{written}>{join(*content)}</{tag}>")


def section(identity: str, heading: str, *content: object, note: object = None) -> Html:
    """Make a section with a heading and, below it, a line that explains it."""
    notes = [] if note is None else [element("p", note, class_="note")]
    return element("section", element("h2", heading), *notes, *content, id=identity)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    row_attributes: Iterable[Mapping[str, object]] | None = None,
) -> Html:
    """Make a table; columns of numbers are set to the right. It scrolls where it is too wide."""
    listed = [list(row) for row in rows]
    attributes = [{}] * len(listed) if row_attributes is None else list(row_attributes)
    kinds = [
        "number" if listed and all(_is_number(row[place]) for row in listed) else None
        for place in range(len(headings))
    ]
    head = [
        element("th", heading, scope="col", class_=kind)
        for heading, kind in zip(headings, kinds, strict=True)
    ]
    body = [
        element("tr", *(_cell(*pair) for pair in zip(row, kinds, strict=True)), **extra)
        for row, extra in zip(listed, attributes, strict=True)
    ]
    inner = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0")


def _is_number(value: object) -> bool:
    """Whether a value is a number or the lack of one."""
    return value is None or (
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
    )


def _cell(value: object, kind: str | None) -> Html:
    if value is None:
        return element("td", "-", class_=kind)
    if _is_number(value):
        return element("td", number(float(str(value))), class_="number")
    return element("td", value, class_=kind)


def facts(content: Mapping[str, object]) -> Html:
    """Make a list of names and values; values that are maps or lists are written as JSON."""
    pairs = [
        element("div", element("dt", name), element("dd", _fact(value)))
        for name, value in content.items()
    ]
    return element("dl", *pairs, class_="facts")


def _fact(value: object) -> object:
    if isinstance(value, Html | str):
        return value
    if isinstance(value, dict | list | tuple):
        return element("code", json.dumps(value, ensure_ascii=False, default=str))
    return "-" if value is None else str(value)


def folded(summary: str, *content: object) -> Html:
    """Make a part that unfolds when its line is clicked."""
    return element("details", element("summary", summary), *content)


def alert(*content: object) -> Html:
    """Make a box for what the reader must not miss."""
    return element("div", *content, class_="alert", role="note")


def tiles(rows: Iterable[tuple[str, str, str]]) -> Html:
    """Make tiles of figures: what each is, its value, and a line below it."""
    kinds = ("label", "value", "label")
    cards = [
        [element("div", text, class_=kind) for text, kind in zip(row, kinds, strict=True)]
        for row in rows
    ]
    return element("div", *(element("div", *c, class_="card tile") for c in cards), class_="tiles")


def as_json(data: object) -> str:
    r"""Write data for a script element: no NaN, short numbers, nothing that could end the element.

    Examples
    --------
    >>> as_json({"a": [float("nan"), 1.23456789, np.int64(3)], "b": "</script>"})
    '{"a":[null,1.23457,3],"b":"\\u003c/script>"}'
    """
    short = plain(data, digits=6)  # enough for a picture
    text = json.dumps(short, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def asset(name: str) -> str:
    """Return the text of a file in ``assets``."""
    return (files("romdp.reports") / "assets" / name).read_text(encoding="utf-8")


def document(
    title: str,
    *body: object,
    subtitle: str = "",
    data: object = None,
    script: str = "",
    style: str = "",
    plotly: bool = True,
) -> str:
    """Make the whole page.

    Parameters
    ----------
    title, subtitle
        Its heading and the line below it.
    body
        Its sections.
    data
        What its script needs, as plain data: ``romdp.data``.
    script
        Its own script, run once everything is there.
    style
        Its own style, after the shared one.
    plotly
        Whether it draws with Plotly: that takes 4.8 MB, and the package.
    """
    top = element(
        "header",
        element("div", element("h1", title), element("p", subtitle, class_="subtitle")),
        element("button", "light / dark", id="theme", type="button"),
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>",
            f"<style>\n{asset('shell.css')}{style}</style>",
            "</head>",
            "<body>",
            top,
            element("main", *body),
            element("noscript", element("p", "The pictures of this page need JavaScript.")),
            f'<script type="application/json" id="data">{as_json(data)}</script>',
            f"<script>{_plotly() if plotly else ''}</script>",
            f"<script>\n{asset('shell.js')}</script>",
            f"<script>\n{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _plotly() -> str:
    """Return the source of plotly.js, which the Python package carries."""
    if find_spec("plotly") is None:
        raise InvalidInputError("pages need plotly: pip install 'romdp[plot]'")
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def make_directory(folder: Path) -> None:
    """Make a directory and those above it, with a clear error where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot make {folder}: {error.strerror or error}") from error


def write_page(path: Path, content: str) -> Path:
    """Write a page completely or not at all, with the directories above it."""
    make_directory(path.parent)
    write_bytes(path, content.encode())
    return path

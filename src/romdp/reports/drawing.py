"""Colours, pictures as SVG on a page and in print, and the sheet that Matplotlib draws curves on.

A colour, dash and marker mean the same agent, or the same state, in every picture. The colours are
those of Okabe and Ito, which stay apart for the colour-blind; where two agents share a colour, dash
and marker differ, so that the pictures also survive a grey printer.
"""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Literal

from romdp.core.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILLION, PURPLE, BLACK, GREY, YELLOW = "#D55E00", "#CC79A7", "#000000", "#7F7F7F", "#F0E442"

_MORE = ("#8C6D31", "#7A57D1", "#A8D65C")  # brown, violet, lime
STATE_COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, YELLOW, *_MORE)
"""The colours of states and groups; they repeat after ten, so pictures also number them."""

UNSEEN_COLOUR = "#BFBFBF"
"""The colour of observations without a group or without a known state."""


@dataclass(frozen=True, slots=True)
class Style:
    """How an agent is drawn, in Matplotlib's words; the ``page_`` ones are Plotly's."""

    colour: str
    dash: Literal["-", "--", ":", "-."]
    marker: str

    @property
    def dark_colour(self) -> str:
        """The colour on a dark background."""
        return {BLACK: "#F2F2F2", BLUE: "#4AA8E0", GREY: "#A6A6A6"}.get(self.colour, self.colour)

    @property
    def page_dash(self) -> str:
        """The dash by Plotly's name."""
        return {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}[self.dash]

    @property
    def page_symbol(self) -> str:
        """The marker by Plotly's name."""
        return _SYMBOLS[self.marker]


_SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "<": "triangle-left",
    ">": "triangle-right",
    "X": "x",
    "P": "cross",
    "h": "hexagon",
    "p": "pentagon",
    "*": "star",
}

_KNOWN = {
    "sl-ucrl": Style(BLUE, "-", "o"),
    "sl-ucrl-paper": Style(BLUE, ":", "v"),
    "sl-ucrl-matrix": Style(SKY, "-.", "<"),
    "sl-ucrl-spectral": Style(SKY, "--", ">"),
    "lc-ucrl": Style(GREEN, "-", "D"),
    "lc-psrl": Style(GREEN, "--", "^"),
    "ucrl2": Style(VERMILLION, "-", "s"),
    "ucrl3": Style(VERMILLION, "-.", "s"),
    "psrl": Style(ORANGE, "--", "P"),
    "oracle": Style(BLACK, "--", "X"),
    "oracle-psrl": Style(BLACK, ":", "p"),
    "two-phase": Style(SKY, "-", "h"),
    "dqn": Style(PURPLE, "-", "*"),
    "q-learning": Style(GREY, "-.", ">"),
}

_SPARE_COLOURS = (PURPLE, ORANGE, BLUE, GREEN, VERMILLION, SKY, GREY)
_SPARE = (
    *(Style(colour, "-.", "h") for colour in _SPARE_COLOURS),
    *(Style(colour, ":", "v") for colour in _SPARE_COLOURS),
    *(Style(colour, "--", "<") for colour in _SPARE_COLOURS),
)


def agent_styles(names: Iterable[str]) -> dict[str, Style]:
    """Give every agent its style: those of the library have fixed ones, others take spare ones.

    Examples
    --------
    >>> agent_styles(["oracle", "mine"])["oracle"]
    Style(colour='#000000', dash='--', marker='X')
    """
    styles: dict[str, Style] = {}
    spare = 0
    for name in names:
        if name not in styles:
            known = _KNOWN.get(name)
            styles[name] = _SPARE[spare % len(_SPARE)] if known is None else known
            spare += known is None
    return styles


def state_colour(state: int) -> str:
    """Return the colour of a hidden state or a group; below zero means that there is none."""
    return UNSEEN_COLOUR if state < 0 else STATE_COLOURS[state % len(STATE_COLOURS)]


INK, PAPER = "ink", "paper"
"""The two colours that depend on the theme of a page."""

_ON_PAGE = {INK: "currentColor", PAPER: "var(--page)"}
_IN_PRINT = {INK: "black", PAPER: "white"}
_NOTE_SIZE = 7.5  # points
_NOTE_CHARACTERS = 17  # of a note, on an inch
_NARROWEST = 600  # pixels of a picture with a title or a note
_PIXELS_PER_INCH = 100
_HATCHING = (
    '<defs><pattern id="hatched" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="var(--page)"/>'
    '<line x1="0" y1="0" x2="0" y2="6" stroke="currentColor" stroke-width="2"/></pattern></defs>'
)


def new_figure(width: float, height: float) -> "Figure":
    """Make a figure of this size in inches; it belongs to no window and changes no global state."""
    if find_spec("matplotlib") is None:
        raise InvalidInputError("figures need matplotlib: pip install 'romdp[plot]'")
    from matplotlib.figure import Figure

    class Drawn(Figure):
        """Shows itself in a notebook, also where pyplot was never imported."""

        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return Drawn(figsize=(width, height), layout="constrained")


def add_note(figure: "Figure", note: str) -> None:
    """Explain a figure below it, in lines that are no longer than it is wide."""
    text = "\n".join(note_lines(note, figure.get_size_inches()[0]))
    figure.supxlabel(text, fontsize=_NOTE_SIZE, color="#555555")


def note_lines(note: str, inches: float) -> list[str]:
    """Break a note into lines that fit; where it has breaks, they stay."""
    most = int(inches * _NOTE_CHARACTERS)
    return [line for part in note.split("\n") for line in textwrap.wrap(part, most)]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; the page shows ``hint`` under the mouse."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    hint: str = ""
    opacity: float = 1.0
    framed: bool = False
    hatched: bool = False

    def svg(self) -> str:
        """Write it for a page."""
        fill = "url(#hatched)" if self.hatched else _ON_PAGE.get(self.fill, self.fill)
        return _element(
            "rect",
            {
                "x": self.x,
                "y": self.y,
                "width": self.width,
                "height": self.height,
                "fill": fill,
                "fill-opacity": None if self.opacity == 1 else self.opacity,
                "stroke": "currentColor" if self.framed else None,
                "stroke-width": 0.8 if self.framed else None,
            },
            self.hint,
        )


@dataclass(frozen=True, slots=True)
class Ribbon:
    """A band that swings from one height on the left to another on the right."""

    left: float
    right: float
    left_top: float
    right_top: float
    thickness: float
    fill: str
    hint: str = ""

    def svg(self) -> str:
        """Write it for a page."""
        a, b, wide = self.left_top, self.right_top, self.thickness
        left, right, middle = map(_short, (self.left, self.right, (self.left + self.right) / 2))
        p, q, r, s = map(_short, (a, b, b + wide, a + wide))
        path = f"M{left},{p}C{middle},{p} {middle},{q} {right},{q}V{r}"
        path += f"C{middle},{r} {middle},{s} {left},{s}Z"
        return _element("path", {"d": path, "fill": self.fill, "fill-opacity": 0.6}, self.hint)


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text, centred on a place or to the left or right of it."""

    x: float
    y: float
    text: str
    size: float = 11
    side: str = "middle"
    colour: str = INK
    bold: bool = False
    upright: bool = False

    def svg(self) -> str:
        """Write it for a page."""
        place = f"rotate(-90 {_short(self.x)} {_short(self.y)})" if self.upright else None
        return _element(
            "text",
            {
                "x": self.x,
                "y": self.y,
                "text-anchor": self.side,
                "dominant-baseline": "central",
                "fill": _ON_PAGE.get(self.colour, self.colour),
                "font-size": self.size,
                "font-weight": 600 if self.bold else None,
                "pointer-events": "none",
                "transform": place,
            },
            text=self.text,
        )


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes on a sheet measured in pixels, y growing downwards; ``about`` describes it.

    For print it stands below a ``title`` and above the lines of a ``note``, where there are any.
    """

    width: float
    height: float
    about: str
    shapes: tuple[Box | Ribbon | Words, ...]
    title: str = ""
    note: str = ""

    def svg(self) -> str:
        """Write the picture for a page: in the colours of its theme, with hints."""
        shapes = "".join(shape.svg() for shape in self.shapes)
        hatching = _HATCHING if "url(#hatched)" in shapes else ""
        width, height = _short(self.width), _short(self.height)
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(self.about)}" '
            f'style="min-width:{_short(min(self.width, 640))}px;width:100%;max-width:{width}px">'
            f"{hatching}{shapes}</svg>"
        )

    def print_svg(self) -> str:
        """Write the picture for print, as a file of its own: in black on white, with its words."""
        wide = max(self.width, _NARROWEST) if self.title or self.note else self.width
        lines = note_lines(self.note, wide / _PIXELS_PER_INCH)
        top, line = 30 * bool(self.title), 13
        tall = top + self.height + line * (len(lines) + bool(lines))
        words = [Words(wide / 2, 16, self.title, 14)] if self.title else []
        below = top + self.height + line
        words += [Words(wide / 2, below + line * i, text, 10) for i, text in enumerate(lines)]
        around = "".join(each.svg() for each in words)
        size = f'width="{_short(wide)}" height="{_short(tall)}"'
        place = f'x="{_short((wide - self.width) / 2)}" y="{top}" width="{_short(self.width)}"'
        inner = self.svg().replace("<svg ", f'<svg {place} height="{_short(self.height)}" ', 1)
        content = f'<rect {size} fill="white"/>{around}{inner}'
        for name, colour in _IN_PRINT.items():
            content = content.replace(_ON_PAGE[name], colour)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
            f"{content}</svg>\n"
        )

    def _repr_svg_(self) -> str:
        return self.print_svg()


def _element(
    tag: str, attributes: dict[str, str | float | None], hint: str = "", text: str = ""
) -> str:
    written = "".join(
        f' {name}="{value if isinstance(value, str) else _short(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = f"<title>{escape(hint)}</title>" if hint else escape(text)
    return f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>"


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def listed(numbers: Iterable[int], most: int = 12) -> str:
    """List numbers in order, and cut the list where it is long.

    Examples
    --------
    >>> listed([3, 1, 2]), listed(range(20), 3)
    ('1, 2, 3', '0, 1, 2, …')
    """
    ordered = sorted(numbers)
    return ", ".join(map(str, ordered[:most])) + (", …" if len(ordered) > most else "")

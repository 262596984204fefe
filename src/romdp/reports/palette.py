"""Colours, dashes and markers that mean the same agent, or the same state, in every picture.

The colours are those of Okabe and Ito, which stay apart for the colour-blind; where two agents
share a colour, dash and marker differ, so that the pictures also survive a grey printer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILLION, PURPLE, BLACK, GREY, YELLOW = "#D55E00", "#CC79A7", "#000000", "#7F7F7F", "#F0E442"

STATE_COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, YELLOW, "#8C6D31")
"""The colours of states and groups; they repeat after eight, so pictures also number them."""

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

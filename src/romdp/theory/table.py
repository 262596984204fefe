"""A list of named quantities, each with the label of its formula; prints as a table."""

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from romdp.core.errors import UnknownNameError
from romdp.core.text import columns, plain
from romdp.theory.magnitude import INFINITE, Magnitude

Scalar: TypeAlias = Magnitude | float | int | None
Value: TypeAlias = Scalar | tuple[Scalar, ...]

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity.

    Attributes
    ----------
    section
        The heading it stands under.
    name
        Its symbol; no other row of the table has it.
    value
        A number, or a tuple with one for each action; None where there is nothing to say, such
        as for an action that is never taken.
    label
        The label of its formula in the paper; empty if it is not from there.
    note
        What it is, and what was assumed.
    """

    section: str
    name: str
    value: Value
    label: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """The value as people write it."""
        if not isinstance(self.value, tuple):
            return _text(self.value)
        shown = [_text(item) for item in self.value[:_SHOWN]]
        return ", ".join(shown + ["..."] * (len(self.value) > _SHOWN))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, ready for JSON."""
        content: dict[str, Any] = {"value": plain(self.value, lambda _: INFINITE)}
        if isinstance(self.value, Magnitude) and self.value.overflows:
            content["log10"] = self.value.log / math.log(10)
        return {**content, "label": self.label, "note": self.note}


def _text(value: Scalar) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return INFINITE if math.isinf(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else repr(value)


@dataclass(frozen=True)
class Table:
    """Named quantities; ``table["tau_M"]`` is the value of one.

    Attributes
    ----------
    title
        One line that says what was computed.
    rows
        The quantities in order.
    """

    title: str
    rows: tuple[Row, ...] = field(repr=False)

    def __getitem__(self, name: str) -> Value:
        for row in self.rows:
            if row.name == name:
                return row.value
        raise UnknownNameError("quantity", name, [row.name for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, ready for JSON; what no float can hold is written as a word."""
        quantities = {row.name: row.to_dict() for row in self.rows}
        return {"title": self.title, "quantities": quantities}

    def __str__(self) -> str:
        written = columns([("", row.name, row.text, row.label, row.note) for row in self.rows])
        lines = [self.title]
        pairs = zip(self.rows, written, strict=True)
        for section, rows in groupby(pairs, key=lambda pair: pair[0].section):
            lines += ["", section, *(line for _, line in rows)]
        return "\n".join(lines)

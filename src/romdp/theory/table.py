"""A list of named quantities, each with the label of its formula; prints as a table.

Bounds of the paper may be larger than any float: a `Magnitude` holds them.
"""

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias, Union

from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.text import columns, listed, plain

_LARGEST = math.log(1.7976931348623157e308)
OVERFLOW = "overflow (> 1e308)"
INFINITE = "infinite"

Number: TypeAlias = Union["Magnitude", float]


@dataclass(frozen=True, slots=True, order=True, eq=True, repr=False)
class Magnitude:
    """A number from zero to infinity, kept as its natural logarithm.

    Magnitudes can be multiplied, divided and added, also with plain numbers, raised to a power
    and compared with one another. Zero times infinity is zero: what lasts no steps costs
    nothing. So no result is ever not-a-number, and what is infinite is told from what is only
    very large.

    Examples
    --------
    >>> Magnitude.of(1e200) ** 2 / 1e300
    1e+100
    >>> Magnitude.of(1e200) ** 2
    overflow (> 1e308): 10^400.0
    >>> 1 / Magnitude.of(0)
    infinite
    """

    log: float

    @classmethod
    def of(cls, value: "Number") -> "Magnitude":
        """Take a plain number, which must not be negative."""
        if isinstance(value, Magnitude):
            return value
        if not value >= 0:
            raise InvalidInputError(f"{value} has no magnitude; pass a number >= 0")
        return cls(math.log(value) if value > 0 else -math.inf)

    @property
    def is_infinite(self) -> bool:
        """Whether it is larger than any number."""
        return self.log == math.inf

    @property
    def overflows(self) -> bool:
        """Whether it is finite and larger than any float."""
        return _LARGEST < self.log < math.inf

    def sqrt(self) -> "Magnitude":
        """Return the square root."""
        return Magnitude(self.log / 2)

    def minus(self, other: "Number") -> "Magnitude":
        """Return the difference, or zero where the other is not smaller."""
        theirs = Magnitude.of(other).log
        if theirs >= self.log:
            return Magnitude(-math.inf)
        if math.isinf(self.log) or theirs == -math.inf:
            return self
        return Magnitude(self.log + math.log(-math.expm1(theirs - self.log)))

    def __mul__(self, other: "Number") -> "Magnitude":
        theirs = Magnitude.of(other).log
        if -math.inf in (self.log, theirs):
            return Magnitude(-math.inf)
        return Magnitude(self.log + theirs)

    __rmul__ = __mul__

    def __truediv__(self, other: "Number") -> "Magnitude":
        return self * Magnitude(-Magnitude.of(other).log)

    def __rtruediv__(self, other: "Number") -> "Magnitude":
        return Magnitude.of(other) / self

    def __pow__(self, exponent: float) -> "Magnitude":
        return Magnitude(self.log * exponent)

    def __add__(self, other: "Number") -> "Magnitude":
        theirs = Magnitude.of(other).log
        high, low = max(self.log, theirs), min(self.log, theirs)
        if math.isinf(high) or low == -math.inf:
            return Magnitude(high)
        return Magnitude(high + math.log1p(math.exp(low - high)))

    __radd__ = __add__

    def __float__(self) -> float:
        return math.exp(self.log) if self.log <= _LARGEST else math.inf

    def __repr__(self) -> str:
        if self.is_infinite:
            return INFINITE
        if self.overflows:
            return f"{OVERFLOW}: 10^{self.log / math.log(10):.1f}"
        return f"{float(self):.4g}"

    def to_json(self) -> Any:
        """Return a float, or the words for what no float can say."""
        if self.is_infinite:
            return INFINITE
        return OVERFLOW if self.overflows else float(self)


Scalar: TypeAlias = Magnitude | float | int | None
Value: TypeAlias = Scalar | tuple[Scalar, ...]


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
        return listed([_text(item) for item in self.value])

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

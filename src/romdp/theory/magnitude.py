"""Non-negative numbers of any size: bounds of the paper that no float can hold."""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

from romdp.core.errors import InvalidInputError

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

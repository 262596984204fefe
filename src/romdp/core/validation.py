"""Checks of what a caller passes in; every failure names the entry and the remedy."""

import math
import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError, TooLargeError, UnknownNameError

_Array = TypeVar("_Array", bound=NDArray[Any])

SUM_TOLERANCE = 1e-8
"""How far the sum of a law may be from one before it is refused; it is then made exact."""

LARGEST_REWARD = 1e150
"""Magnitude of a reward: the sum of 10^8 squares of this is still a float."""

_EPSILON = float(np.finfo(np.float64).eps)


def whole_number(value: Any, name: str, low: int = 0, high: int | None = None) -> int:
    """Check a whole number in [low, high]; ``1e6`` and NumPy integers are accepted."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if not whole or isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} is {value!r}; pass a whole number")
    number = int(value)
    if number < low or (high is not None and number > high):
        allowed = f">= {low}" if high is None else f"from {low} to {high}"
        raise InvalidInputError(f"{name} is {number}; pass a whole number {allowed}")
    return number


def real_number(
    value: Any,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Check a finite number in [low, high], the ends left out where ``open_*`` says so."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} is {value!r}; pass a number")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInputError(f"{name} is beyond the floats; pass a finite number") from None
    inside = (number > low if open_low else number >= low) and (
        number < high if open_high else number <= high
    )
    if not math.isfinite(number) or not inside:
        bounds = []
        if math.isfinite(low):
            bounds.append(f"{'above' if open_low else 'at least'} {low:g}")
        if math.isfinite(high):
            bounds.append(f"{'below' if open_high else 'at most'} {high:g}")
        asked = " ".join(["a finite number", " and ".join(bounds)]).strip()
        raise InvalidInputError(f"{name} is {number:g}; pass {asked}")
    return number


def flag(value: Any, name: str) -> bool:
    """Check a flag: True or False, of Python or NumPy, and nothing that only counts as one."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} is {value!r}; pass True or False")
    return bool(value)


def check_memory(what: str, *shape: int) -> None:
    """Refuse an array of floats that this machine has no memory for, before any of it is made.

    A table is held about three times while a model is built and checked.
    """
    needed = 3 * 8 * math.prod(shape)
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > present:
        sizes = " x ".join(f"{size:,}" for size in shape)
        raise TooLargeError(
            f"{what} of {sizes} numbers would take {needed >> 30:,} GiB, and this machine has "
            f"{present >> 30:,}; pass smaller sizes"
        )


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """Check a word against a list; the error suggests the nearest."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is {value!r}; choose from {', '.join(sorted(options))}")
    names = list(options)
    if value not in names:
        raise UnknownNameError(name, value, names)
    return value


def entry(name: str, index: Iterable[Any]) -> str:
    """Write the name of an array's entry: ``reward[3, 1]``."""
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


def first_index(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def refuse(bad: NDArray[np.bool_], name: str, array: NDArray[Any], must: str) -> None:
    """Raise an error that names the first entry that is marked as bad, if there is one."""
    if bad.any():
        index = first_index(bad)
        shown = format(array[index], "" if array.dtype.kind in "iu" else "g")
        raise InvalidInputError(f"{entry(name, index)} is {shown}; {must}")


def rectangular(value: ArrayLike, name: str) -> NDArray[Any]:
    """Copy ``value`` to an array, whatever it holds; ragged lists are refused."""
    try:
        return np.array(value)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{name} is not an array: it is not rectangular, rows differ in length ({error})"
        ) from None


def real_array(
    value: ArrayLike, name: str, shape: tuple[str | int, ...], largest: float = np.inf
) -> NDArray[np.float64]:
    """Copy ``value`` to a float array of finite numbers, of magnitude ``largest`` at most.

    ``shape`` gives an exact length for each axis, or a word that names a free one; axes with
    the same word must agree.
    """
    array = rectangular(value, name)
    if array.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"{name} holds {array.dtype} entries; pass an array of real numbers"
        )
    with np.errstate(over="ignore"):  # what is too long for a float becomes inf, and is refused
        array = array.astype(np.float64, order="C")
    check_shape(array, name, shape)
    most = f" of magnitude {largest:g} at most" if np.isfinite(largest) else ""
    bad = ~(np.isfinite(array) & (np.abs(array) <= largest))
    refuse(bad, name, array, f"every entry must be a finite number{most}")
    return array


def whole_array(
    value: ArrayLike, name: str, shape: tuple[str | int, ...], low: int, high: int
) -> NDArray[np.int64]:
    """Copy ``value`` to an int64 array with entries from ``low`` to ``high``, both included."""
    array = rectangular(value, name)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} holds {array.dtype} entries; pass whole numbers")
    check_shape(array, name, shape)
    bad = (array < low) | (array > high)
    refuse(bad, name, array, f"entries must lie from {low} to {high}")
    return array.astype(np.int64)


def check_shape(array: NDArray[Any], name: str, shape: tuple[str | int, ...]) -> None:
    """Check the shape of an array against lengths and named free axes; no axis may be empty."""
    wanted = f"({', '.join(str(axis) for axis in shape)}{',' if len(shape) == 1 else ''})"
    if array.ndim != len(shape):
        raise InvalidInputError(f"{name} has shape {array.shape}; it must be {wanted}")
    free: dict[str, int] = {}
    for length, axis in zip(array.shape, shape, strict=True):
        expected = axis if isinstance(axis, int) else free.setdefault(axis, length)
        if length != expected:
            raise InvalidInputError(f"{name} has shape {array.shape}; it must be {wanted}")
        if length == 0 and expected != axis:
            raise InvalidInputError(f"{name} has shape {array.shape}; no axis may be empty")


def laws(array: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Check that the last axis holds probabilities that sum to one, and make the sums exact.

    Laws that sum to one up to rounding stay as they are, bit by bit: a model that is saved and
    loaded, or built again from its own arrays, is the same.
    """
    refuse(array < 0, name, array, "probabilities must not be negative")
    with np.errstate(over="ignore"):
        sums = array.sum(axis=-1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        index = first_index(off)
        raise InvalidInputError(
            f"{name}[{''.join(f'{i}, ' for i in index)}:] sums to {sums[index]:.10g}; the last "
            f"axis is the outcome and must sum to 1. Divide by {name}.sum(axis=-1, keepdims=True)"
        )
    exact: NDArray[np.float64] = array / divisors(sums, array.shape[-1])[..., None]
    return exact + 0.0  # no negative zeros: equal laws have equal bytes


def divisors(sums: NDArray[np.float64], lengths: ArrayLike) -> NDArray[np.float64]:
    """Return what to divide laws by, given their sums: exactly 1 for a sum of 1 up to rounding.

    Adding ``length`` numbers in any order loses at most length * eps; so what was divided once
    is never changed again.
    """
    rounding = np.maximum(lengths, 16) * _EPSILON
    return np.where(np.abs(sums - 1.0) <= rounding, 1.0, sums)


def freeze(array: _Array) -> _Array:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


class Frozen:
    """A base of objects that never change: their makers fill ``__dict__``."""

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        raise AttributeError(f"cannot set {name}: a {kind} never changes; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: a {type(self).__name__} never changes")

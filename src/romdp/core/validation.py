"""Checks of what a caller passes in; every failure names the entry and the remedy."""

import difflib
import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError, TooLargeError, UnknownNameError
from romdp.core.text import one_line

_Array = TypeVar("_Array", bound=NDArray[Any])
_Function = TypeVar("_Function", bound=Callable[..., Any])

SUM_TOLERANCE = 1e-8
"""How far the sum of a law may be from one before it is refused; it is then made exact."""

LARGEST_REWARD = 1e150
"""Magnitude of a reward: the sum of 10^8 squares of this is still a float."""

SMALLEST = 1e-100
"""Of a probability or a weight that must not be 0: what it is divided by stays a float."""

LARGEST_WEIGHT = 1e9
"""Of a prior, in visits: beside a larger one, no visit is anything but rounding."""

LARGEST_WHOLE = 2**62
"""No size, count or step is larger: two of them still add up in 64 bits."""

_LONGEST_NAME = 255  # bytes; no file system in use allows more
_EPSILON = float(np.finfo(np.float64).eps)


def shown(value: Any) -> str:
    """Write a value in a message: on one line, and not longer than anybody reads."""
    try:
        return one_line(repr(value), 80)
    except Exception:  # noqa: BLE001 - a caller's object may fail at that, a long integer does
        return f"a {type(value).__name__}"


def check(value: Any, name: str, *kinds: type | str | Callable[..., Any] | None) -> None:
    """Check what kind of thing a value is; the error says what was probably meant.

    Parameters
    ----------
    value, name
        The value, and what the caller calls it.
    *kinds
        Any of these will do: an object of a class; one with the method of this name; None. Or a
        check of this module, such as `flag`, which is then asked alone, unless None was passed.
    """
    for kind in kinds:
        if isinstance(kind, type):
            if isinstance(value, kind):
                return
        elif isinstance(kind, str):
            is_number = isinstance(value, np.ndarray) and not value.ndim  # has every method
            if (
                not isinstance(value, type)
                and not is_number
                and callable(getattr(value, kind, None))
            ):
                return
        elif kind is None:
            if value is None:
                return
        else:
            kind(value, name)
            return
    raise InvalidInputError(f"{name} is {shown(value)}; {_meant(value, kinds)}")


def _meant(value: Any, kinds: tuple[Any, ...]) -> str:
    """Say what to pass in place of a value: the public maker whose name is nearest, if any is."""
    library = sys.modules["romdp"]
    made = {name: _made_by(getattr(library, name)) for name in library.__all__}
    makers = [name for name in made if any(_fits(made[name], kind) for kind in kinds)]
    word = value if isinstance(value, str) else getattr(value, "__name__", "")
    plain = {"".join(filter(str.isalnum, name)).lower(): name for name in makers}
    asked = "".join(filter(str.isalnum, word)).lower()[:80]
    near = difflib.get_close_matches(asked, plain, n=1)
    if near:
        return f"did you mean romdp.{plain[near[0]]}()?"
    classes = [kind for kind in kinds if isinstance(kind, type)]
    if classes:
        homes = (kind.__module__.partition(".")[0].replace("builtins", "") for kind in classes)
        named = [f"{home}.{kind.__name__}" for home, kind in zip(homes, classes, strict=True)]
        return f"pass a {' or '.join(name.removeprefix('.') for name in named)}"
    if kinds[0] in ("__iter__", "__len__"):
        return "pass a list"
    such = ", ".join(f"romdp.{name}" for name in makers[:3])
    return f"pass an object with {kinds[0]}(), such as {such}"


def _made_by(maker: Any) -> Any:
    """Return the class of what a public class or function makes."""
    if isinstance(maker, type) or not callable(maker):
        return maker
    made = getattr(maker, "__annotations__", {}).get("return")
    return made if isinstance(made, type) else None


def _fits(made: Any, kind: Any) -> bool:
    if not isinstance(made, type):
        return False
    return (
        issubclass(made, kind)
        if isinstance(kind, type)
        else callable(getattr(made, str(kind), None))
    )


def takes(**kinds: Any) -> Callable[[_Function], _Function]:
    """Check arguments of a function before it runs, each as by `check`.

    Examples
    --------
    >>> @takes(loud=flag)
    ... def greet(name, loud=False):
    ...     return name.upper() if loud else name
    >>> greet("you", loud="yes")
    Traceback (most recent call last):
    romdp.core.errors.InvalidInputError: loud is 'yes'; pass True or False
    """

    def decorate(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters.values()
        places = {p.name: i for i, p in enumerate(parameters) if p.kind is p.POSITIONAL_OR_KEYWORD}

        @functools.wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            for name, kind in kinds.items():  # not by `bind`: this runs in every epoch
                place = places.get(name, len(arguments))
                if place < len(arguments):
                    value = arguments[place]
                elif name in named:
                    value = named[name]
                else:
                    continue
                check(value, name, *(kind if isinstance(kind, tuple) else (kind,)))
            return function(*arguments, **named)

        return checked  # type: ignore[return-value]

    return decorate


def check_fields(owner: Any, **kinds: Any) -> None:
    """Check attributes of an object that was made, each as by `check`."""
    for name, kind in kinds.items():
        check(getattr(owner, name), name, *(kind if isinstance(kind, tuple) else (kind,)))


def as_path(value: Any, name: str = "path") -> Path:
    """Check the name of a file or a folder; a whole number is none, and would be an open file."""
    if not isinstance(value, str | os.PathLike) or not str(value) or "\0" in str(value):
        raise InvalidInputError(f"{name} is {shown(value)}; pass the name of a file or a folder")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in Path(value).parts):
        raise InvalidInputError(
            f"{name} is {shown(value)}; no name may be longer than {_LONGEST_NAME} bytes"
        )
    return Path(value)


def whole_number(value: Any, name: str, low: int = 0, high: int | None = None) -> int:
    """Check a whole number in [low, high]; ``1e6`` and NumPy integers are accepted."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if not whole or isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} is {shown(value)}; pass a whole number")
    number = int(value)
    if not low <= number <= (LARGEST_WHOLE if high is None else high):
        most = LARGEST_WHOLE if high is None and number > low else high
        allowed = f">= {low}" if most is None else f"from {low} to {most}"
        raise InvalidInputError(f"{name} is {shown(number)}; pass a whole number {allowed}")
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
        raise InvalidInputError(f"{name} is {shown(value)}; pass a number")
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


def how_many(value: Any, name: str) -> int:
    """Check how many there are of something: a whole number, at least 1."""
    return whole_number(value, name, 1)


def level(value: Any, name: str) -> float:
    """Check a probability that is neither 0 nor 1, such as that of an error."""
    return real_number(value, name, SMALLEST, 1, open_high=True)


def flag(value: Any, name: str) -> bool:
    """Check a flag: True or False, of Python or NumPy, and nothing that only counts as one."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} is {shown(value)}; pass True or False")
    return bool(value)


def function(value: Any, name: str) -> None:
    """Check that a value can be called."""
    if not callable(value):
        raise InvalidInputError(f"{name} is {shown(value)}; pass a function")


def check_memory(what: str, *shape: int, copies: int = 3) -> None:
    """Refuse an array of floats that this machine has no memory for, before any of it is made.

    A table is held about three times while a model is built and checked; an agent keeps six.
    """
    needed = copies * 8 * math.prod(shape)
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > present:
        sizes = " x ".join(f"{length:,}" for length in shape)
        raise TooLargeError(
            f"{what} of {sizes} numbers would take {needed >> 30:,} GiB, and this machine has "
            f"{present >> 30:,}; pass smaller sizes"
        )


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """Check a word against a list; the error suggests the nearest."""
    if not isinstance(value, str):
        listed = ", ".join(sorted(options))
        raise InvalidInputError(f"{name} is {shown(value)}; choose from {listed}")
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
    except Exception as error:
        raise InvalidInputError(f"{name} is {shown(value)}, no array of numbers") from error


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

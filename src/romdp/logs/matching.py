"""Names of a model found in tables of any kind: text is read as what the names are."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

_TRUTHS = {"true": True, "false": False, "1": True, "0": False}


class Matcher:
    """Finds the numbers of names, also where one side is text and the other is not.

    Text is read as what the typed names are, so that ``"1.50"`` is 1.5, ``"true"`` is True and
    ``"2024-01-31 18:05:00Z"`` that moment in any time zone. Where two names would be read alike,
    only the exact text finds one.

    Parameters
    ----------
    names
        The names that are known, all of one kind.
    """

    def __init__(self, names: Sequence[Any]) -> None:
        self.names = names
        self._exact = {name: i for i, name in enumerate(names)}
        self._texts = {str(name): i for i, name in enumerate(names)}
        self._read: dict[type, dict[Any, int]] = {}
        for name, i in list(self._exact.items()):
            for alias in _short_floats(name):
                self._exact.setdefault(alias, i)

    def find(self, others: Iterable[Any]) -> list[int]:
        """Return the number of each name, -1 where it is not known."""
        wanted = list(others)
        known = next((name for name in wanted if name is not None), None)
        if isinstance(known, str) and not isinstance(self.names[0], str):
            read = _reader(type(self.names[0]))
            return [self._exact.get(read(text), self._texts.get(text, -1)) for text in wanted]
        if known is not None and isinstance(self.names[0], str) and not isinstance(known, str):
            typed = self._read_as(type(known))
            return [self._find_text(name, typed) for name in wanted]
        return [self._exact.get(name, -1) for name in wanted]

    def _find_text(self, name: Any, typed: dict[Any, int]) -> int:
        """Find the text that is written as a value is, or else the only one that is read as it."""
        if str(name) in self._texts:
            return self._texts[str(name)]
        ways = (name, *_short_floats(name))
        return next((typed[value] for value in ways if value in typed), -1)

    def _read_as(self, kind: type) -> dict[Any, int]:
        """Read the names, which are text, as values of a type; -1 where two are read alike."""
        if kind not in self._read:
            read = _reader(kind)
            typed: dict[Any, int] = {}
            for i, name in enumerate(self.names):
                value = read(name)
                typed[value] = -1 if value in typed else i
            self._read[kind] = typed
        return self._read[kind]


def _short_floats(name: Any) -> Iterable[float]:
    """Say how a number of single or half precision is written: 0.1 for 0.10000000149011612."""
    if isinstance(name, float):
        for kind in ("float32", "float16"):
            with np.errstate(over="ignore", under="ignore"):
                short: Any = np.array(name).astype(kind)[()]
            if float(short) == name:
                yield float(str(short))


def _reader(kind: type) -> Callable[[Any], Any]:
    """Return what reads text as values of a type; text that is none stays as it is."""
    parse: Callable[[str], Any] = _PARSERS.get(kind, str)

    def read(text: Any) -> Any:
        try:
            return parse(text)
        except (ValueError, TypeError, KeyError, InvalidOperation, OverflowError):
            return text

    return read


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def _date(text: str) -> datetime.date:
    moment = datetime.datetime.fromisoformat(text)
    if moment.time() != datetime.time():
        raise ValueError(text)
    return moment.date()


_PARSERS: dict[type, Callable[[str], Any]] = {
    bool: lambda text: _TRUTHS[text.lower()],
    int: _whole,
    float: float,
    Decimal: Decimal,
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: _date,
    datetime.time: datetime.time.fromisoformat,
    bytes: str.encode,
}

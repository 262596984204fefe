"""Arrays taken from a file one by one, where no `romdp.core.formats.Format` is declared yet."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from romdp.core.errors import StorageError
from romdp.core.formats import Field


class Stored:
    """Named arrays from a file; each is checked and copied when it is taken.

    Parameters
    ----------
    arrays
        What was read.
    what
        What the arrays belong to, for messages: "the agent".

    Examples
    --------
    >>> stored = Stored({"table": np.array([0, 1, 7])}, "the agent")
    >>> stored.whole("table", (3,), 0, 1)
    Traceback (most recent call last):
    ...
    romdp.core.errors.StorageError: the agent is damaged: table holds 7; it must lie in [0, 1]
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], what: str) -> None:
        self._arrays = arrays
        self._what = what
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error that says what is damaged."""
        raise StorageError(f"{self._what} is damaged: {reason}")

    def _take(self, name: str, field: Field) -> NDArray[Any]:
        if name not in self._arrays:
            self.refuse(f"{name} is missing")
        self._taken.add(name)
        try:
            return field.check(name, self._arrays[name], {})
        except ValueError as error:
            self.refuse(str(error))

    def take(
        self, name: str, shape: tuple[int | None, ...], dtype: DTypeLike = np.int64
    ) -> NDArray[Any]:
        """Return a copy of an array of this shape and dtype; None is an axis of any length."""
        return self._take(name, Field(dtype, shape))

    def whole(
        self,
        name: str,
        shape: tuple[int | None, ...] = (),
        low: int | None = None,
        high: int | None = None,
        dtype: DTypeLike = np.int64,
    ) -> NDArray[Any]:
        """Return a copy of whole numbers from ``low`` to ``high``."""
        return self._take(name, Field(dtype, shape, low, high))

    def number(self, name: str, low: int | None = None, high: int | None = None) -> int:
        """Return a single whole number."""
        return int(self.whole(name, (), low, high))

    def real(
        self, name: str, shape: tuple[int | None, ...] = (), low: float | None = None
    ) -> NDArray[np.float64]:
        """Return a copy of finite numbers, none below ``low``."""
        return self._take(name, Field(np.float64, shape, low, finite=True))

    def part(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the arrays whose names begin with ``prefix``, without it, still unchecked."""
        found = {name for name in self._arrays if name.startswith(prefix)}
        self._taken |= found
        return {name.removeprefix(prefix): self._arrays[name] for name in found}

    def finish(self) -> None:
        """Refuse arrays that nobody has taken."""
        for strange in sorted(set(self._arrays) - self._taken):
            self.refuse(f"{strange} does not belong there")

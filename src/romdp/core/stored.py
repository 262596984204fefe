"""Arrays read from a file, treated as hostile: nothing compiled sees one that was not checked."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from romdp.core.errors import StorageError

_LOW, _HIGH = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


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

    def take(
        self, name: str, shape: tuple[int | None, ...], dtype: DTypeLike = np.int64
    ) -> NDArray[Any]:
        """Return a copy of an array of this shape and dtype; None is an axis of any length."""
        if name not in self._arrays:
            self.refuse(f"{name} is missing")
        self._taken.add(name)
        array = self._arrays[name]
        if array.dtype != np.dtype(dtype):
            self.refuse(f"{name} holds {array.dtype} entries; they must be {np.dtype(dtype)}")
        same = len(array.shape) == len(shape) and all(
            wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
        )
        if not same:
            self.refuse(f"{name} has shape {array.shape}; it must be {shape}")
        return np.array(array, order="C")

    def whole(
        self,
        name: str,
        shape: tuple[int | None, ...] = (),
        low: int = _LOW,
        high: int = _HIGH,
        dtype: DTypeLike = np.int64,
    ) -> NDArray[Any]:
        """Return a copy of whole numbers from ``low`` to ``high``."""
        array = self.take(name, shape, dtype)
        if array.size:
            for extreme in (int(array.min()), int(array.max())):
                if not low <= extreme <= high:
                    self.refuse(f"{name} holds {extreme}; it must lie in [{low}, {high}]")
        return array

    def number(self, name: str, low: int = _LOW, high: int = _HIGH) -> int:
        """Return a single whole number."""
        return int(self.whole(name, (), low, high))

    def real(
        self, name: str, shape: tuple[int | None, ...] = (), low: float = -np.inf
    ) -> NDArray[np.float64]:
        """Return a copy of finite numbers, none below ``low``."""
        array = self.take(name, shape, np.float64)
        if not np.isfinite(array).all() or (array < low).any():
            self.refuse(f"{name} must hold finite numbers" + f" >= {low:g}" * (low > -np.inf))
        return array

    def part(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the arrays whose names begin with ``prefix``, without it, still unchecked."""
        found = {name for name in self._arrays if name.startswith(prefix)}
        self._taken |= found
        return {name.removeprefix(prefix): self._arrays[name] for name in found}

    def finish(self) -> None:
        """Refuse arrays that nobody has taken."""
        if strange := sorted(set(self._arrays) - self._taken):
            self.refuse(f"{strange[0]} does not belong there")

"""Rows in the order of time: sorted batch by batch, kept on disk and merged."""

import tempfile
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import WriteError


class Sorter:
    """Takes batches of rows and returns all of them in order; rows of the same time stay as read.

    In memory are only the times and the order, 16 bytes for each row. The file has no name: it
    goes with the process.
    """

    def __init__(self) -> None:
        self._times: list[Any] = []
        self._type: Any = None
        try:
            self._file = tempfile.TemporaryFile(prefix="romdp-")  # noqa: SIM115 - closed below
        except OSError as error:
            raise WriteError(f"there is no room for temporary files: {error}") from error

    def __enter__(self) -> Self:
        return self

    def put(self, rows: NDArray[Any]) -> None:
        """Take a batch."""
        rows = rows[np.argsort(rows["t"], kind="stable")]
        self._times.append(rows["t"].copy())
        self._type = rows.dtype
        try:
            rows.tofile(self._file)
        except OSError as error:
            raise WriteError(
                f"cannot keep the rows of the log in {tempfile.gettempdir()} ({error}); sorting "
                f"a log needs {rows.itemsize} bytes of disk per row"
            ) from error

    def rest(self, size: int) -> Iterator[NDArray[Any]]:
        """Yield all rows in order, so many at a time, and forget them."""
        if self._times:
            times, self._times = np.concatenate(self._times), []
            order = np.argsort(times, kind="stable")
            self._file.flush()
            rows = np.memmap(self._file, self._type, "r")
            for start in range(0, len(order), size):
                yield np.asarray(rows[order[start : start + size]])

    def __exit__(self, *error: object) -> None:
        self._file.close()

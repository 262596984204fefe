"""Sort the rows of every episode without holding the whole log in memory.

Rows become numbers first. They are then spread over temporary files by episode, so that an
episode lies in one file, and each file is sorted and counted alone. Without an episode column
there is one file, and all of it is sorted in memory (45 bytes per row).
"""

import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import WriteError
from romdp.logs.reading.columns import Place
from romdp.logs.reading.episodes import disorder
from romdp.logs.reading.partial import AFTER_THE_END, Partial

_BUCKETS = 64
_CHUNK = 2**18


class Sorter:
    """Takes batches in any order and gives their rows, sorted, to a `Partial`."""

    def __init__(self, partial: Partial) -> None:
        self._partial = partial
        self._n_buckets = 1 if partial.settings.columns.episode is None else _BUCKETS
        self._labels: list[str] = []
        self._dtype: np.dtype[Any] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="romdp-sort-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def put(self, batch: Any, place: Place) -> None:
        """Take a batch."""
        if batch.num_rows == 0:
            return
        rows = self._partial.read(batch, place)
        assert rows.order is not None
        if place.label not in self._labels:
            self._labels.append(place.label)
        if self._dtype is None:
            fields = [
                *(("seen", "i4"), ("done", "i4"), ("paid", "f8")),
                *(("whose", "i4"), ("over", "?")),
            ]
            self._dtype = np.dtype(
                [*fields, ("order", rows.order.dtype), ("row", "i8"), ("file", "i4")]
            )
        records = np.empty(len(rows.seen), self._dtype)
        records["seen"], records["done"], records["paid"] = rows.seen, rows.done, rows.paid
        records["whose"] = 0 if rows.whose is None else rows.whose
        records["over"] = False if rows.terminated is None else rows.terminated
        records["order"] = rows.order
        records["row"] = place.first_row + np.arange(len(records))
        records["file"] = self._labels.index(place.label)
        bucket = records["whose"] % self._n_buckets
        by_bucket = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[by_bucket], np.arange(self._n_buckets + 1))
        for number in np.unique(bucket):
            self._write(int(number), records[by_bucket[ends[number] : ends[number + 1]]])

    def _path(self, bucket: int) -> Path:
        return Path(self._folder.name) / f"{bucket}.rows"

    def _write(self, bucket: int, records: NDArray[Any]) -> None:
        try:
            with open(self._path(bucket), "ab") as file:
                file.write(records.tobytes())
        except OSError as error:
            raise WriteError(
                f"cannot write temporary rows to {self._folder.name}: {error.strerror or error}; "
                "sorting needs as much space as the log"
            ) from error

    def drain(self) -> None:
        """Sort and count what was put."""
        has_episodes = self._partial.settings.columns.episode is not None
        for bucket in range(self._n_buckets):
            if self._dtype is None or not self._path(bucket).exists():
                continue
            records = np.fromfile(self._path(bucket), self._dtype)
            records = records[np.lexsort((records["order"], records["whose"]))]
            self._refuse_ties(records)
            if has_episodes:
                self._mark_ends(records)
            for start in range(0, len(records), _CHUNK):
                part = records[start : start + _CHUNK]
                self._partial.absorb(
                    part["seen"].astype(np.int64),
                    part["done"].astype(np.int64),
                    part["paid"].copy(),
                    part["whose"].astype(np.int64) if has_episodes else None,
                )

    def _mark_ends(self, records: NDArray[Any]) -> None:
        whose = records["whose"].astype(np.int64)
        late = self._partial.mark_ends(whose, np.ascontiguousarray(records["over"]))
        if late >= 0:
            raise self._place(records[late]).error(
                0, str(self._partial.settings.columns.terminated), AFTER_THE_END
            )

    def _place(self, record: Any) -> Place:
        return Place(self._labels[record["file"]], int(record["row"]))

    def _refuse_ties(self, records: NDArray[Any]) -> None:
        same = (np.diff(records["whose"]) == 0) & (np.diff(records["order"]) == 0)
        if same.any():
            later = records[1:][same]
            first = later[np.lexsort((later["row"], later["file"]))[0]]
            raise self._place(first).error(
                0, str(self._partial.settings.columns.order), disorder(True)
            )

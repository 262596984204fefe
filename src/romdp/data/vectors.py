"""Observations that are vectors: one row of finite numbers each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError


def are_vectors(values: Any) -> bool:
    """Say whether observations are meant as vectors: rows of numbers, not single names."""
    shape = getattr(values, "shape", None)
    if shape is not None and getattr(values, "dtype", None) != np.dtype(object):
        return len(shape) > 1
    try:
        first = next(iter(values))
    except (TypeError, StopIteration):
        return False
    return isinstance(first, list | tuple | np.ndarray) and np.ndim(first) > 0


def vector_array(
    values: ArrayLike, name: str = "vectors", columns: Sequence[str] | None = None
) -> NDArray[Any]:
    """Check vectors: rows of equally many finite numbers.

    Arrays of floats and small integers keep their type, so that pictures stay small. Arrays with
    more than two dimensions, such as pictures, are flattened.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"{name}: rows have different lengths ({error})") from None
    if array.dtype == object:
        rows = array.ravel().tolist() if array.ndim == 1 else array.tolist()
        array = vector_rows(rows, name)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iuf":
        raise InvalidInputError(f"{name} holds {array.dtype} entries; vectors are made of numbers")
    if array.ndim < 2:
        raise InvalidInputError(
            f"{name} has shape {array.shape}; pass one row per observation, shape (n, d). Numbers "
            "that are names and not quantities are discrete observations: pass those as a column"
        )
    array = array.reshape(len(array), -1)
    if 0 in array.shape:
        raise InvalidInputError(f"{name} has shape {array.shape}; there is nothing in it")
    if array.dtype.kind == "f":
        for start in range(0, len(array), 65536):
            bad = ~np.isfinite(array[start : start + 65536])
            if bad.any():
                row, column = (int(i) for i in np.argwhere(bad)[0])
                which = f"column {columns[column]!r}" if columns else f"column {column}"
                raise InvalidInputError(
                    f"{name}: {which} holds {array[start + row, column]} in row {start + row}; "
                    "every number must be finite. Fill or drop such rows first"
                )
    elif array.dtype.itemsize > 1:
        array = array.astype(np.float64)
    return array


def vector_rows(rows: Sequence[Any], name: str) -> NDArray[np.float64]:
    """Read lists of numbers, which must be equally long; entries need not be finite."""
    try:
        lengths = [len(row) for row in rows]
    except TypeError:
        at = next(i for i, row in enumerate(rows) if not hasattr(row, "__len__"))
        raise InvalidInputError(
            f"{name}: row {at} is {rows[at]!r}, not a list of numbers"
        ) from None
    if len(set(lengths)) > 1:
        at = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise InvalidInputError(
            f"{name}: row {at} has {lengths[at]} numbers and row 0 has {lengths[0]}; all rows must "
            "be equally long"
        )
    try:
        return np.array(rows, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: some rows hold what is no number ({error})") from None

"""Observations that are vectors: one row of finite numbers each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.arrays import Floats
from romdp.core.errors import InvalidInputError

BLOCK = 2**22
"""So many numbers of vectors are looked at, or kept, together: 32 MiB."""

_LARGEST = 1e100  # squares of larger numbers, added up, may be infinite


def are_vectors(values: Any) -> bool:
    """Say whether observations are meant as vectors: rows of numbers, not single names."""
    shape = getattr(values, "shape", None)
    if shape is not None and getattr(values, "dtype", None) != np.dtype(object):
        return len(shape) > 1
    try:
        first = next(iter(values))
    except (TypeError, StopIteration):
        return False
    return isinstance(first, list | tuple) or (isinstance(first, np.ndarray) and first.ndim > 0)


def vector_array(values: Any, name: str = "vectors") -> NDArray[Any]:
    """Check vectors: rows of equally many finite numbers.

    Arrays of floats and small integers keep their type, so that pictures stay small. Arrays with
    more than two dimensions, such as pictures, are flattened.

    Parameters
    ----------
    values
        One row per observation.
    name
        What messages call the vectors. Their columns are called as a data frame names them, else by
        number.
    """
    if scipy.sparse.issparse(values):
        raise InvalidInputError(f"{name} is sparse, which is not supported; pass its toarray()")
    names: Any = column_names(values) or getattr(values, "columns", ())
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths, or no lists at all
        array = _vector_rows(list(values), name)
    if array.dtype == object and array.ndim:
        rows = array.ravel().tolist() if array.ndim == 1 else array.tolist()
        array = _vector_rows(rows, name)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iuf" and array.ndim:
        raise InvalidInputError(f"{name} holds {array.dtype} entries; vectors are made of numbers")
    if array.ndim < 2:
        raise InvalidInputError(
            f"{name} has shape {array.shape}. Reshape your data: one row per observation, shape "
            "(n, d). Numbers that are names and not quantities are discrete observations: pass "
            "those as a column"
        )
    if 0 in array.shape:
        raise InvalidInputError(f"{name} has shape {array.shape}; there is nothing in it")
    array = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        largest = min(_LARGEST, float(np.finfo(array.dtype).max))
        for rows in blocks(array):
            bad = ~(np.abs(array[rows]) <= largest)
            if bad.any():
                row, column = (int(i) for i in np.argwhere(bad)[0])
                which = repr(names[column]) if len(names) == array.shape[1] else column
                raise InvalidInputError(
                    f"{name}: column {which} holds {array[rows][row, column]} in row "
                    f"{rows.start + row}; every number must be finite (not NaN, "
                    f"at most {largest:.2g}). Fill or drop such rows first"
                )
    elif array.dtype.itemsize > 1:
        array = array.astype(np.float64)
    return array


def blocks(vectors: NDArray[Any]) -> list[slice]:
    """Cut rows into blocks of bounded memory; there is at least one."""
    size = max(256, BLOCK // max(1, vectors.shape[1]))
    return [slice(start, start + size) for start in range(0, max(1, len(vectors)), size)]


def column_names(values: Any) -> list[str]:
    """Return what a data frame or an Arrow table calls its columns; none unless all are texts."""
    for attribute in ("columns", "column_names"):
        names = list(getattr(values, attribute, ()))
        if names and all(isinstance(name, str) for name in names):
            return names
    return []


def _vector_rows(rows: Sequence[Any], name: str) -> Floats:
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
        raise InvalidInputError(
            f"{name}: some rows hold what is no number, or lists of different lengths ({error})"
        ) from None

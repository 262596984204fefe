"""Transitions as an array, as sparse rows or as keys: put into rows, added up to groups, checked.

Kernels add to the arrays that are passed for their results.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.arrays import Bools, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.core.validation import check, entry
from romdp.data.partition import Partition
from romdp.data.tally import DENSE_LIMIT

Sparse: TypeAlias = "scipy.sparse.csr_array[np.int64, tuple[int, int]]"
"""Transitions with one row per pair (observation, action) and one column per observation."""
Transitions: TypeAlias = "Ints | scipy.sparse.csr_array[np.int64, tuple[int, int]]"

_CSR_PARTS = ("data", "indices", "indptr")


def add_up(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Sort the keys and add up the counts of equal ones."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    if len(first) == 0:
        return ordered, counts
    return ordered[first], np.add.reduceat(counts[order], first)


def group_pairs(values: NDArray[Any], labels: Ints, n_groups: int) -> NDArray[Any]:
    """Add the rows of observations up to rows of groups, leaving out those without a group."""
    out = np.zeros((n_groups, values.shape[1]), values.dtype)
    _add_rows(values, labels, out)
    return out


@kernel
def _add_rows(values: NDArray[np.generic], labels: Ints, out: NDArray[np.generic]) -> None:
    for y in range(labels.size):
        if labels[y] >= 0:
            for a in range(values.shape[1]):
                out[labels[y], a] += values[y, a]


def group_observations(values: Ints, labels: Ints, n_groups: int) -> Ints:
    """Add one number of each observation up to those of groups."""
    return group_pairs(values[:, None], labels, n_groups)[:, 0]


@kernel
def group_dense(transitions: Ints, visits: Ints, labels: Ints, out: Ints) -> None:
    """Add transitions of observations up to transitions of groups, in one pass.

    Here and below ``out`` has a row for every label of a `Partition`, which numbers them from 0.
    """
    n_observations, n_actions = visits.shape
    for y in range(n_observations):
        if labels[y] < 0:
            continue
        for a in range(n_actions):
            if visits[y, a] == 0:
                continue
            row = transitions[y, a]
            total = out[labels[y], a]
            for y2 in range(n_observations):
                if labels[y2] >= 0:
                    total[labels[y2]] += row[y2]


@kernel
def _group_stored(
    counts: Ints, columns: NDArray[Any], row_starts: NDArray[Any], labels: Ints, out: Ints
) -> None:
    """Add sparse transitions up to an array of transitions of groups."""
    n_actions = out.shape[1]
    for row in range(row_starts.size - 1):
        source = labels[row // n_actions]
        if source < 0:
            continue
        total = out[source, row % n_actions]
        for i in range(row_starts[row], row_starts[row + 1]):
            target = labels[columns[i]]
            if target >= 0:
                total[target] += counts[i]


@kernel
def group_keys(keys: Ints, counts: Ints, labels: Ints, out: Ints) -> None:
    """Add keys and their counts, such as those of a hash table, to transitions of groups."""
    n_observations, n_actions = labels.size, out.shape[1]
    for slot in range(keys.size):
        if counts[slot] > 0:
            cell, following = divmod(keys[slot], n_observations)
            observation, action = divmod(cell, n_actions)
            if labels[observation] >= 0 and labels[following] >= 0:
                out[labels[observation], action, labels[following]] += counts[slot]


def keys_of_groups(keys: Ints, labels: Ints, n_groups: int, n_actions: int) -> tuple[Ints, Bools]:
    """Turn keys of observations into keys of groups; says which have both groups."""
    cells, following = np.divmod(keys, labels.size)
    rows, target, kept = places_of_groups(cells, following, labels, n_actions)
    return rows * n_groups + target, kept


def places_of_groups(
    rows: NDArray[Any], columns: NDArray[Any], labels: Ints, n_actions: int
) -> tuple[Ints, Ints, Bools]:
    """Turn rows and columns of observations into those of groups; says which have both groups."""
    source, target = labels[rows // n_actions], labels[columns]
    kept = (source >= 0) & (target >= 0)
    return (source * n_actions + rows % n_actions)[kept], target[kept], kept


def group_sparse(
    transitions: Sparse, labels: Ints, n_groups: int, n_actions: int, keep_sparse: bool
) -> Transitions:
    """Add sparse transitions up to transitions of groups, linearly in the number stored."""
    if not keep_sparse:
        out = np.zeros((n_groups, n_actions, n_groups), np.int64)
        _group_stored(transitions.data, transitions.indices, transitions.indptr, labels, out)
        return out
    matrix = transitions.tocoo()
    pairs, following = matrix.coords
    rows, target, kept = places_of_groups(pairs, following, labels, n_actions)
    return sparse_rows(rows, target, matrix.data[kept], (n_groups * n_actions, n_groups))


def append_end(transitions: Transitions, ends: Ints) -> Transitions:
    """Append a column for the end of an episode."""
    n_columns = transitions.shape[-1]
    if isinstance(transitions, np.ndarray):
        wide = np.empty((*transitions.shape[:-1], n_columns + 1), np.int64)
        wide[..., :n_columns], wide[..., n_columns] = transitions, ends
        return wide
    seen, ended = canonical(transitions), ends.ravel()
    over = np.flatnonzero(ended)
    if not over.size:
        parts, shape = (seen.data, seen.indices, seen.indptr), (seen.shape[0], n_columns + 1)
        return scipy.sparse.csr_array(parts, shape=shape, copy=True)
    at = seen.indptr[over + 1]  # the end is the last entry of its row
    indptr = seen.indptr + np.append(0, np.cumsum(ended > 0)).astype(seen.indptr.dtype)
    matrix: Sparse = scipy.sparse.csr_array(
        (np.insert(seen.data, at, ended[over]), np.insert(seen.indices, at, n_columns), indptr),
        shape=(seen.shape[0], n_columns + 1),
    )
    matrix.has_canonical_format = True
    return matrix


def canonical(matrix: Any) -> Any:
    """Return sparse rows whose columns are in order, each at most once; a copy if they were not."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


@kernel
def _fill_rows(
    array: Ints, indptr: NDArray[np.int32], indices: NDArray[np.int32], data: Ints
) -> None:
    """Write what is not zero as sparse rows; there is room for all of it."""
    end = 0
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            if array[row, column] != 0:
                indices[end] = column
                data[end] = array[row, column]
                end += 1
        indptr[row + 1] = end


def compress(array: Ints) -> Sparse:
    """Turn an array into sparse rows; an agent does it at every epoch.

    SciPy's own conversion goes through lists of coordinates and sorts: six times as slow.
    """
    n_entries = int(np.count_nonzero(array))
    indptr = np.zeros(array.shape[0] + 1, np.int32)
    indices, data = np.empty(n_entries, np.int32), np.empty(n_entries, np.int64)
    _fill_rows(array, indptr, indices, data)
    matrix: Sparse = scipy.sparse.csr_array((data, indices, indptr), shape=array.shape)
    return matrix


@kernel
def _sort_places(
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: Ints,
    indptr: NDArray[np.int32],
    n_columns: int,
    indices: NDArray[np.int32],
    data: Ints,
) -> int:
    """Sort places by column, then by row, and add up equal ones; returns how many are left.

    Two passes of a counting sort: time is linear in places, rows and columns. Rows and columns
    index ``indptr`` and ``ends`` as they are: whoever makes them from keys has checked these.
    """
    n_rows, size = indptr.size - 1, rows.size
    ends = np.zeros(n_columns + 1, np.int64)
    for i in range(size):
        ends[columns[i] + 1] += 1
        indptr[rows[i] + 1] += 1
    for column in range(n_columns):
        ends[column + 1] += ends[column]
    for row in range(n_rows):
        indptr[row + 1] += indptr[row]
    by_column = np.empty(size, np.int64)
    for i in range(size):
        by_column[ends[columns[i]]] = i
        ends[columns[i]] += 1
    ordered = np.empty(size, np.int64)
    for place in by_column:
        ordered[indptr[rows[place]]] = place  # the start of each row becomes that of the next
        indptr[rows[place]] += 1
    left, begin = 0, 0
    for row in range(n_rows):
        end = indptr[row]
        indptr[row] = left
        first = left
        for place in ordered[begin:end]:
            if left > first and indices[left - 1] == columns[place]:
                data[left - 1] += values[place]
            else:
                indices[left], data[left] = columns[place], values[place]
                left += 1
        begin = end
    indptr[n_rows] = left
    return left


def sparse_rows(rows: Ints, columns: Ints, values: Ints, shape: tuple[int, int]) -> Sparse:
    """Build sorted sparse rows, adding up the values of equal places.

    An agent does it several times at every epoch; SciPy's own way takes three times as long.
    """
    indptr = np.zeros(shape[0] + 1, np.int32)
    indices, data = np.empty(rows.size, np.int32), np.empty(rows.size, np.int64)
    left = _sort_places(rows, columns, values, indptr, shape[1], indices, data)
    matrix: Sparse = scipy.sparse.csr_array((data[:left], indices[:left], indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix


def is_large(n_observations: int, n_actions: int) -> bool:
    """Say whether transitions are too many for an array."""
    return n_observations * n_actions * n_observations > DENSE_LIMIT


def refuse_large(n_observations: int, n_actions: int) -> None:
    """Raise an error if transitions are too many for an array."""
    if is_large(n_observations, n_actions):
        raise TooLargeError(
            f"transitions between {n_observations:,} observations under {n_actions:,} actions "
            f"would be {n_observations * n_actions * n_observations:,} entries, above the limit "
            f"of {DENSE_LIMIT:,}; keep them sparse, or group the observations first"
        )


def transition_arrays(transitions: Transitions) -> dict[str, NDArray[Any]]:
    """Return plain arrays for a file, as `transitions_from_arrays` takes them."""
    if isinstance(transitions, np.ndarray):
        return {"transitions": transitions}
    return {f"transitions_{name}": getattr(transitions, name) for name in _CSR_PARTS}


def transitions_from_arrays(
    arrays: Mapping[str, NDArray[Any]], pairs: tuple[int, ...]
) -> "NDArray[Any] | Sparse":
    """Rebuild transitions of so many (observations, actions); sparse rows are checked."""
    if "transitions" in arrays:
        return arrays["transitions"]
    parts = tuple(arrays[f"transitions_{name}"] for name in _CSR_PARTS)
    try:
        shape = (int(np.prod(pairs, dtype=np.int64)), pairs[0])
        matrix: Sparse = scipy.sparse.csr_array(parts, shape=shape)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidInputError(f"the sparse transitions are damaged: {error}") from None
    return matrix


def refuse_negative_sparse(matrix: Sparse, n_actions: int) -> None:
    """Raise an error that names the first negative entry, if there is one."""
    bad = np.flatnonzero(matrix.data < 0)
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        where = entry("transitions", (*divmod(row, n_actions), matrix.indices[bad[0]]))
        raise InvalidInputError(f"{where} is {matrix.data[bad[0]]}; it must not be negative")


def refuse_damaged_sparse(transitions: Any) -> None:
    """Refuse compressed rows or columns whose indices lead out of them: kernels believe these."""
    try:
        getattr(transitions, "check_format", lambda: None)()
    except ValueError as error:
        raise InvalidInputError(f"the sparse transitions are damaged: {error}") from error


def checked_sparse(transitions: Any, n_observations: int, n_actions: int) -> Sparse:
    """Copy sparse transitions to sorted rows without duplicates or stored zeros."""
    shape = (n_observations * n_actions, n_observations)
    if transitions.shape != shape:
        raise InvalidInputError(
            f"sparse transitions have shape {transitions.shape}; they must be {shape}: "
            "(n_observations * n_actions, n_observations)"
        )
    if transitions.dtype.kind not in "iu":
        raise InvalidInputError(
            f"transitions holds {transitions.dtype} entries; pass whole numbers"
        )
    refuse_damaged_sparse(transitions)
    matrix: Sparse = scipy.sparse.csr_array(transitions, dtype=np.int64, copy=True)
    refuse_negative_sparse(matrix, n_actions)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def check_groups(partition: Partition, n_observations: int) -> None:
    """Check that a partition groups what was counted, and some of it at all."""
    check(partition, "partition", Partition)
    if partition.n_observations != n_observations:
        raise InvalidInputError(
            f"the partition has {partition.n_observations} observations, what was counted has "
            f"{n_observations}; the two must agree"
        )
    if partition.n_clusters == 0:
        raise InvalidInputError("the partition has no group; at least one observation needs one")

"""Draws of transition laws from their Dirichlet posterior, dense and sparse."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.planning.rows import SparseRows

_REST = 1e-6  # mass of a law that may be left undrawn
_MOST_STICKS = 64


def draw_dense(transitions: NDArray[Any], prior: ArrayLike, rng: np.random.Generator) -> Floats:
    """Draw a law for each row of counts from Dirichlet(counts + prior / S).

    The prior is one number, or one for each row. Drawn as in `draw_sparse`: only transitions that
    were seen cost a gamma variate. Counts need not be whole numbers.
    """
    n_states = transitions.shape[-1]
    laws = np.zeros(transitions.shape)
    counts = np.ascontiguousarray(transitions, np.float64).reshape(-1, n_states)
    _draw_rows(counts, _for_each(prior, len(counts)), rng, laws.reshape(-1, n_states))
    return laws


def draw_sparse(
    transitions: "scipy.sparse.csr_array[Any, tuple[int, int]]",
    prior: ArrayLike,
    rng: np.random.Generator,
    shares: Floats | None = None,
) -> SparseRows:
    """Draw a law for each row of counts from Dirichlet(counts + prior / S), as sparse rows.

    The prior is one number, or one for each row. A row may count with a share of its counts only.

    With w from Beta(prior, n) it is w times a draw from the prior plus 1 - w times a draw from
    Dirichlet(counts), which lives on the transitions seen. The prior's draw is broken off a
    stick in size-biased order: piece k is a Beta(1 + a, a (S - k)) share of what is left, with
    a = prior / S, and goes to a state drawn among those that have none yet.
    """
    n_rows, n_states = transitions.shape
    drawn = _draw(
        transitions.indptr,
        transitions.indices,
        transitions.data.astype(np.float64),
        np.ones(n_rows) if shares is None else shares,
        n_states,
        _for_each(prior, n_rows),
        rng,
    )
    return SparseRows(*drawn)


def _for_each(prior: ArrayLike, n_rows: int) -> Floats:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(prior, np.float64), (n_rows,)))


def counted_share(visits: Ints, enough: ArrayLike) -> Floats:
    """Return the share of its visits that each pair counts with: all of them from ``enough`` on.

    ``enough`` is one number, or one for each pair.

    Examples
    --------
    >>> counted_share(np.array([[0, 1], [4, 9]]), enough=8.0)
    array([[1.   , 0.125],
           [0.5  , 1.   ]])
    """
    share: Floats = np.minimum(1.0, visits / np.maximum(enough, 1.0))
    return np.where(visits > 0, share, 1.0)


@kernel
def _draw_rows(counts: Floats, prior: Floats, rng: np.random.Generator, laws: Floats) -> None:
    n_rows, n_states = counts.shape
    columns = np.empty(_MOST_STICKS, np.int64)
    masses = np.empty(_MOST_STICKS)
    for row in range(n_rows):
        visits = 0.0
        total = 0.0
        for column in range(n_states):
            count = counts[row, column]
            if count > 0.0:
                weight = rng.standard_gamma(count)
                laws[row, column] = weight
                total += weight
                visits += count
        if visits > 0.0 and total == 0.0:
            laws[row, _corner(counts[row], rng)] = total = 1.0
        from_prior = rng.beta(prior[row], visits) if visits > 0.0 else 1.0
        if visits > 0.0:
            for column in range(n_states):
                laws[row, column] *= (1.0 - from_prior) / total
        end = _break_stick(columns, masses, 0, from_prior, prior[row] / n_states, n_states, rng)
        for i in range(end):
            laws[row, columns[i]] += masses[i]


@kernel
def _draw(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    counts: Floats,
    shares: Floats,
    n_states: int,
    prior: Floats,
    rng: np.random.Generator,
) -> tuple[Ints, Ints, Floats]:
    n_rows = indptr.size - 1
    room = counts.size + n_rows * min(_MOST_STICKS, n_states)
    new_indptr = np.zeros(n_rows + 1, np.int64)
    columns = np.empty(room, np.int64)
    masses = np.empty(room)
    end = 0
    for row in range(n_rows):
        first, last = indptr[row], indptr[row + 1]
        visits = 0.0
        total = 0.0
        for i in range(first, last):
            count = shares[row] * counts[i]
            visits += count
            columns[end + i - first] = indices[i]
            masses[end + i - first] = rng.standard_gamma(count)
            total += masses[end + i - first]
        if visits > 0.0 and total == 0.0:
            masses[end + _corner(counts[first:last], rng)] = total = 1.0
        from_prior = rng.beta(prior[row], visits) if visits > 0.0 else 1.0
        for i in range(end, end + last - first):
            masses[i] *= (1.0 - from_prior) / total
        end += last - first
        share = prior[row] / n_states
        end = _break_stick(columns, masses, end, from_prior, share, n_states, rng)
        new_indptr[row + 1] = end
    return new_indptr, columns[:end].copy(), masses[:end].copy()


@kernel
def _corner(counts: Floats, rng: np.random.Generator) -> int:
    """Draw the place that has all of a law whose weights are too small for a float."""
    mark = rng.random() * counts.sum()
    last = 0
    for i in range(counts.size):
        if counts[i] > 0.0:
            last = i
            mark -= counts[i]
            if mark < 0.0:
                break
    return last


@kernel
def _break_stick(
    columns: Ints,
    masses: Floats,
    end: int,
    mass: float,
    share: float,
    n_states: int,
    rng: np.random.Generator,
) -> int:
    """Append a draw from the prior of weight ``mass``; a column may appear a second time."""
    start = end
    pieces = min(_MOST_STICKS, n_states)
    while end - start < pieces and mass > _REST:
        k = end - start + 1
        piece = rng.beta(1.0 + share, share * (n_states - k)) if k < pieces else 1.0
        column = rng.integers(0, n_states)
        while True:
            taken = False
            for i in range(start, end):
                taken = taken or columns[i] == column
            if not taken:
                break
            column = rng.integers(0, n_states)
        columns[end] = column
        masses[end] = mass * piece
        mass *= 1.0 - piece
        end += 1
    if end > start:
        masses[end - 1] += mass  # what is left undrawn
    return end

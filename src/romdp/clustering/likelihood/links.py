"""The transitions of `Counts`, laid out for walking: from every observation, and into it."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.arrays import Ints
from romdp.core.compiled import kernel
from romdp.core.validation import freeze
from romdp.data.counts import Counts

_Matrix: TypeAlias = "scipy.sparse.csr_array[Any, tuple[int, int]]"

_LARGEST = np.iinfo(np.int32).max


class Links(NamedTuple):
    """Transitions twice: sorted by where they start, and by where they end.

    A *cell* is a pair (observation, action), numbered ``observation * n_actions + action``.
    Counts and numbers are 32-bit: at 10^8 distinct transitions every byte shows.
    """

    n_actions: int
    out_start: Ints  # (Y * A + 1,): the links of each cell
    out_target: NDArray[np.int32]  # where a link leads
    out_count: NDArray[np.int32]
    in_start: Ints  # (Y + 1,): the links into each observation
    in_cell: NDArray[np.int32]  # where a link comes from
    in_count: NDArray[np.int32]

    @classmethod
    def of(cls, counts: Counts) -> "Links":
        """Lay out the transitions of counts; linear in their number."""
        return cls._of_matrix(counts.matrix(), counts.n_actions)

    @classmethod
    def _of_matrix(cls, matrix: _Matrix, n_actions: int) -> "Links":
        start = matrix.indptr.astype(np.int64)
        target = matrix.indices.astype(np.int32, copy=False)
        count = np.minimum(matrix.data, _LARGEST).astype(np.int32)
        in_start, in_cell, in_count = _turn(start, target, count, matrix.shape[1])
        # All are read-only: otherwise kernels would be compiled a second time for frozen arrays.
        return cls(
            n_actions,
            freeze(start),
            freeze(target.view()),
            freeze(count),
            freeze(in_start),
            freeze(in_cell),
            freeze(in_count),
        )

    def restrict(self, chosen: Ints) -> "Links":
        """Keep the transitions among some observations, renumbered in the order given."""
        cells = (chosen[:, None] * self.n_actions + np.arange(self.n_actions)).ravel()
        shape = (self.n_observations * self.n_actions, self.n_observations)
        parts = (self.out_count, self.out_target, self.out_start)
        matrix = scipy.sparse.csr_array(parts, shape=shape)[cells][:, chosen]
        return self._of_matrix(matrix, self.n_actions)

    def part(self, share: float, rng: np.random.Generator) -> tuple["Links", "Links"]:
        """Set a share of all transitions aside, drawn at random; returns the others first."""
        held = rng.binomial(self.out_count, share)
        shape = (len(self.out_start) - 1, self.n_observations)
        both = (
            scipy.sparse.csr_array((count, self.out_target, self.out_start), shape=shape)
            for count in (self.out_count - held, held)
        )
        kept, apart = (scipy.sparse.csr_array(matrix[:]) for matrix in both)
        for matrix in (kept, apart):
            matrix.eliminate_zeros()
        return self._of_matrix(kept, self.n_actions), self._of_matrix(apart, self.n_actions)

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return self.in_start.size - 1

    def in_totals(self) -> Ints:
        """How often each observation was reached."""
        return _totals(self.in_start, self.in_count)

    def out_totals(self) -> Ints:
        """How many known transitions start at each observation."""
        return _totals(self.out_start[:: self.n_actions], self.out_count)


def _totals(start: Ints, count: NDArray[np.int32]) -> Ints:
    """Add up the counts between consecutive starts."""
    running = np.concatenate([[0], np.cumsum(count, dtype=np.int64)])
    return np.diff(running[start])


def _turn(
    start: Ints, target: NDArray[np.int32], count: NDArray[np.int32], n_observations: int
) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
    """Sort the links by where they end; the links into one observation stay in order."""
    in_start = np.zeros(n_observations + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=n_observations), out=in_start[1:])
    cell, turned = np.empty_like(target), np.empty_like(count)
    _scatter(start, target, count, in_start[:-1].copy(), cell, turned)
    return in_start, cell, turned


@kernel
def _scatter(
    start: Ints,
    target: NDArray[np.int32],
    count: NDArray[np.int32],
    place: Ints,
    cell: NDArray[np.int32],
    turned: NDArray[np.int32],
) -> None:
    """Copy each link to the next free place of the observation it leads to."""
    for row in range(start.size - 1):
        for i in range(start[row], start[row + 1]):
            slot = place[target[i]]
            place[target[i]] += 1
            cell[slot] = row
            turned[slot] = count[i]

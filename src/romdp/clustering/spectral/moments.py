"""Second moments of successive observations, per action, sparse; and how many states they show.

For an action l the views are what came before (1), the middle where l was taken (2) and what
came after (3). ``K_pq = E[v_p v_q']`` is estimated by the counts divided by their number nu(l).
Rows and columns are the groups that occur, so an action's middle view ranges only over the
groups where it was taken.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import svds

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.data.triples import Triples

_DENSE = 2**22  # entries up to which a matrix is an array: 32 MiB
_SMALL = 400  # rows or columns up to which all singular values are cheap


@dataclass(frozen=True, eq=False)
class Moments:
    """The weighted triples of one action, and the second moments they give.

    Attributes
    ----------
    groups : tuple of three ndarray of int64
        The groups that occur in each view, sorted.
    places : tuple of three ndarray of int64, shape (n_distinct,)
        Where each distinct triple lies in ``groups``; sorted by middle, then previous.
    weights : ndarray of float64, shape (n_distinct,)
        The share of each distinct triple; they sum to one.
    n_samples : float
        The number nu(l) of triples seen; infinite for exact moments.

    Examples
    --------
    >>> from romdp.data.trajectory import Trajectory
    >>> seen = Trajectory([0, 1, 2, 1, 0, 1], [0, 1, 0, 1, 0, 0])
    >>> moments = Moments.from_triples(Triples.from_trajectory(seen), action=1)
    >>> moments.second(2, 3)
    array([[0.5, 0.5]])
    """

    groups: tuple[Ints, Ints, Ints]
    places: tuple[Ints, Ints, Ints]
    weights: Floats
    n_samples: float

    @classmethod
    def from_triples(cls, triples: Triples, action: int) -> "Moments":
        """Take the triples with one action in the middle; there must be some."""
        chosen = triples.select(action)
        total = chosen.n_samples
        if total == 0:
            raise InvalidInputError(
                f"action {action} is in the middle of no triple, so it has no moments; "
                "collect at least three successive observations with it"
            )
        views = [
            np.unique(column, return_inverse=True)
            for column in (chosen.previous, chosen.middle, chosen.next)
        ]
        first, second, third = views
        return cls(
            (first[0], second[0], third[0]),
            (first[1], second[1], third[1]),
            chosen.count / total,
            float(total),
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of groups in each view."""
        first, second, third = self.groups
        return len(first), len(second), len(third)

    def second(self, p: int, q: int) -> Any:
        """Return K_pq, an array where it is small and else a sparse one; p and q are 1, 2 or 3."""
        shape = (self.shape[p - 1], self.shape[q - 1])
        rows, columns = self.places[p - 1], self.places[q - 1]
        if shape[0] * shape[1] <= _DENSE:
            cells = rows * shape[1] + columns
            return np.bincount(cells, self.weights, shape[0] * shape[1]).reshape(shape)
        return scipy.sparse.coo_array((self.weights, (rows, columns)), shape=shape).tocsr()

    def resample(self, rng: np.random.Generator) -> "Moments":
        """Draw the counts again, each from a Poisson law around what was seen (a bootstrap).

        Successive triples overlap and are not independent. But given the hidden states,
        emissions and moves are, and they carry the error of the directions that matter: the
        standard errors found in this way agree with those between independent runs.
        """
        counts = rng.poisson(self.weights * self.n_samples).astype(np.float64)
        total = max(counts.sum(), 1.0)
        return Moments(self.groups, self.places, counts / total, self.n_samples)


def truncated_svd(
    matrix: Any, rank: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return the leading singular vectors and values; dense where that is cheap.

    Returns
    -------
    left : shape (n_rows, rank);  values : decreasing;  right : shape (n_columns, rank)
    """
    rank = min(rank, *matrix.shape)
    if min(matrix.shape) <= _SMALL or rank >= min(matrix.shape) // 2:
        full = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        left, values, right = np.linalg.svd(full, full_matrices=False)
    else:
        left, values, right = svds(matrix, k=rank, v0=rng.standard_normal(min(matrix.shape)))
        order = np.argsort(values)[::-1]
        left, values, right = left[:, order], values[order], right[order]
    return left[:, :rank], values[:rank], right[:rank].T


@dataclass(frozen=True, slots=True, eq=False)
class Rank:
    """How many singular values of K_23 exceed a threshold (appendix ``sec:rank``).

    Attributes
    ----------
    rank : int
        Singular values above the threshold; there may be none.
    singular_values : ndarray
        Those that were computed, decreasing.
    threshold : float
        ``g / nu ** (1/2 - epsilon)``.
    """

    rank: int
    singular_values: Floats
    threshold: float


def threshold_rank(
    moments: Moments,
    rng: np.random.Generator,
    *,
    g: float | None = None,
    epsilon: float = 0.02,
    n_replicates: int = 8,
) -> Rank:
    """Estimate the rank of K_23, the number of hidden states where the action was taken.

    The paper asks for a threshold ``g / nu^(1/2 - epsilon)`` and leaves g open. Where none is given
    it is the size of the noise in the data at hand: the largest spectral norm of ``K* - K_23``
    over a few Poisson resamples K* of the counts, times sqrt(nu).
    """
    k23 = moments.second(2, 3)
    nu = moments.n_samples
    if not np.isfinite(nu):
        threshold = 1e-12  # exact moments have no noise but rounding
    elif g is None:
        threshold = _noise_norm(k23, nu, rng, n_replicates) * nu**epsilon
    else:
        threshold = g / nu ** (0.5 - epsilon)
    wanted, full = 16, min(k23.shape)
    while True:
        values = truncated_svd(k23, min(wanted, full), rng)[1]
        if values[-1] <= threshold or len(values) == full:
            break
        wanted *= 2
    return Rank(int(np.count_nonzero(values > threshold)), values, threshold)


def certain_rank(arrivals: Any, rng: np.random.Generator, n_replicates: int = 8) -> Rank:
    """Tell how many hidden states some groups belong to, where `eq:rankcondition` holds.

    Parameters
    ----------
    arrivals
        How often each pair (row) led to each of the groups (column).
    rng, n_replicates
        For the size of the noise, as in `threshold_rank`.

    Notes
    -----
    Whatever the policies were, groups of one hidden state have columns that are multiples of one
    another, as a state's observation is drawn afresh at each visit. So the rank of what is expected
    is the number of states, if a single action has a transition matrix of full rank
    (``asm:expansive``). Rows and columns are scaled so that the noise is of one size. The rank is
    0 where a singular value is above the noise and below twice the noise: `eq:rankcondition` asks
    for a threshold between the noise and half the smallest singular value.
    """
    counts = np.asarray(arrivals.toarray(), np.float64)
    scale = 1 / np.sqrt(np.maximum(np.outer(counts.sum(axis=1), counts.sum(axis=0)), 1.0))
    values = _spectrum(counts * scale)
    noise, rank = 0.0, 0
    for _ in range(n_replicates):
        noise = max(noise, float(_spectrum((rng.poisson(counts) - counts) * scale)[0]))
        rank = int(np.count_nonzero(values > noise))
        if rank == 0 or values[rank - 1] < 2 * noise:
            return Rank(0, values, 2 * noise)
    return Rank(rank, values, 2 * noise)


def _spectrum(matrix: Floats) -> Floats:
    """Return the singular values of a matrix with few columns, decreasing."""
    squares = np.linalg.eigvalsh(matrix.T @ matrix)[::-1]
    values: Floats = np.sqrt(np.maximum(squares, 0.0))
    return values


def _noise_norm(
    matrix: Any, n_samples: float, rng: np.random.Generator, n_replicates: int
) -> float:
    """Return the largest spectral norm of a few draws of the sampling error."""
    draws = (_noise(matrix, n_samples, rng) for _ in range(n_replicates))
    return max(float(truncated_svd(draw, 1, rng)[1][0]) for draw in draws)


def _noise(matrix: Any, n_samples: float, rng: np.random.Generator) -> Any:
    """Draw the error of a matrix of shares: each count is drawn again from a Poisson law."""
    if isinstance(matrix, np.ndarray):
        return rng.poisson(matrix * n_samples) / n_samples - matrix
    error = matrix.copy()
    error.data = rng.poisson(matrix.data * n_samples) / n_samples - matrix.data
    return error

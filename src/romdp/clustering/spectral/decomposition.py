"""Decomposition of a small symmetric tensor into an orthogonal frame: two solvers, one function.

A whitened third moment is ``T = sum_i values[i] q_i (x) q_i (x) q_i`` with orthonormal q_i, up
to sampling noise. The power method is the paper's (Anandkumar et al. 2012 and 2014: restarts
and deflation). The joint frame iteration is ours: it finds all vectors at once, so that the
error of one is not passed on to the next.
"""

from dataclasses import dataclass

import numpy as np

from romdp.core.arrays import Floats
from romdp.core.compiled import kernel
from romdp.core.validation import choice, real_array, whole_number

SOLVERS = ("joint", "power")


@dataclass(frozen=True, slots=True, eq=False)
class Decomposition:
    """A frame of orthogonal directions.

    Attributes
    ----------
    vectors : ndarray, shape (k, k)
        Unit vectors in the columns; orthogonal exactly for ``"joint"``, nearly for ``"power"``.
    values : ndarray, shape (k,)
        ``T(q_i, q_i, q_i)``, decreasing.
    residual : float
        Norm of what the frame leaves over, as a share of the norm of the tensor.
    iterations : int
        Steps of the best start (joint) or in all (power).
    solver : str
    """

    vectors: Floats
    values: Floats
    residual: float
    iterations: int
    solver: str


def decompose(
    tensor: Floats,
    solver: str = "joint",
    rng: np.random.Generator | None = None,
    *,
    n_starts: int = 8,
    max_iterations: int = 200,
    tolerance: float = 1e-13,
    start: Floats | None = None,
) -> Decomposition:
    """Decompose a tensor; it is made symmetric first.

    Parameters
    ----------
    tensor
        Shape (k, k, k).
    solver
        ``"joint"`` or ``"power"``.
    rng
        Draws the starts; by default a fixed one.
    n_starts
        Random projections to start from (joint), or starts of each vector for each dimension
        (power).
    max_iterations, tolerance
        A start has converged when an iteration moves no entry by more than the tolerance.
    start
        A frame to start from as well (joint only).

    Examples
    --------
    >>> tensor = np.zeros((2, 2, 2))
    >>> tensor[0, 0, 0], tensor[1, 1, 1] = 3.0, 2.0
    >>> found = decompose(tensor)
    >>> found.values.round(6), round(found.residual, 6)
    (array([3., 2.]), 0.0)
    """
    choice(solver, "solver", SOLVERS)
    whole_number(n_starts, "n_starts", 0 if start is not None else 1)
    symmetric = symmetrise(real_array(tensor, "tensor", ("k", "k", "k")))
    rng = np.random.default_rng(0) if rng is None else rng
    if solver == "joint":
        vectors, iterations = _joint(symmetric, rng, n_starts, max_iterations, tolerance, start)
    else:
        vectors, iterations = _power(symmetric, rng, n_starts, max_iterations, tolerance)
    values = _values(symmetric, vectors)
    order = np.argsort(-values, kind="stable")
    vectors, values = vectors[:, order], values[order]
    rest = symmetric - np.einsum("ai,bi,ci,i->abc", vectors, vectors, vectors, values)
    size = float(np.linalg.norm(symmetric))
    residual = float(np.linalg.norm(rest)) / size if size > 0 else 0.0
    return Decomposition(vectors, values, residual, iterations, solver)


def symmetrise(tensor: Floats) -> Floats:
    """Average a tensor over the six orders of its axes."""
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    mean: Floats = np.mean([tensor.transpose(order) for order in orders], axis=0)
    return mean


def polar(matrix: Floats) -> Floats:
    """Return the nearest orthogonal matrix."""
    left, _, right = np.linalg.svd(matrix)
    nearest: Floats = left @ right
    return nearest


def _images(tensor: Floats, vectors: Floats) -> Floats:
    """Return T(I, q, q) for every column q."""
    once = np.tensordot(tensor, vectors, axes=(2, 0))  # (k, k, n)
    image: Floats = np.einsum("abn,bn->an", once, vectors)
    return image


def _values(tensor: Floats, vectors: Floats) -> Floats:
    value: Floats = np.einsum("an,an->n", _images(tensor, vectors), vectors)
    return value


def _joint(
    tensor: Floats,
    rng: np.random.Generator,
    n_starts: int,
    max_iterations: int,
    tolerance: float,
    start: Floats | None,
) -> tuple[Floats, int]:
    """Iterate Q <- polar(T(I, Q, Q)) from several starts and keep the best frame.

    A start is the eigenbasis of a random projection T(I, I, w): for an exact tensor that is
    already the answer, but one projection alone may have eigenvalues that nearly meet. For a
    frame the residual falls as the sum of squared values rises.
    """
    size = len(tensor)
    frames = [np.linalg.eigh(tensor @ rng.standard_normal(size))[1] for _ in range(n_starts)]
    if start is not None:
        frames.insert(0, polar(start))
    best, best_score, best_iterations = np.eye(size), -np.inf, 0
    for frame in frames:
        vectors, iterations = _climb(tensor, np.ascontiguousarray(frame), max_iterations, tolerance)
        score = float((_values(tensor, vectors) ** 2).sum())
        if score > best_score:
            best, best_score, best_iterations = vectors, score, iterations
    return best, best_iterations


@kernel
def _climb(
    tensor: Floats, vectors: Floats, max_iterations: int, tolerance: float
) -> tuple[Floats, int]:
    """Iterate from one frame until an iteration moves no entry by more than the tolerance."""
    size = len(tensor)
    images = np.zeros((size, size))
    for iteration in range(max_iterations):
        images[:] = 0.0
        for a in range(size):
            for b in range(size):
                for c in range(size):
                    for i in range(size):
                        images[a, i] += tensor[a, b, c] * vectors[b, i] * vectors[c, i]
        left, _, right = np.linalg.svd(images)
        moved = left @ right
        change = np.abs(moved - vectors).max()
        vectors = moved
        if change <= tolerance:
            return vectors, iteration + 1
    return vectors, max_iterations


def _power(
    tensor: Floats, rng: np.random.Generator, n_starts: int, max_iterations: int, tolerance: float
) -> tuple[Floats, int]:
    """Find the vectors one by one with the robust power method and take each out of the tensor."""
    size = len(tensor)
    rest = tensor.copy()
    vectors = np.zeros((size, size))
    iterations = 0
    for i in range(size):
        tries = _unit(rng.standard_normal((size, n_starts * size)))
        for _ in range(20):  # enough to tell which start is best; it is then followed to the end
            tries = _unit(_images(rest, tries))
        vector = tries[:, [int(np.argmax(_values(rest, tries)))]]
        for _ in range(max_iterations):
            iterations += 1
            moved = _unit(_images(rest, vector))
            change = np.abs(moved - vector).max()
            vector = moved
            if change <= tolerance:
                break
        vectors[:, i] = vector[:, 0]
        value = float(_values(rest, vector)[0])
        rest = rest - value * np.einsum("a,b,c->abc", vector[:, 0], vector[:, 0], vector[:, 0])
    return vectors, iterations


def _unit(columns: Floats) -> Floats:
    """Scale columns to length one; a column that vanished stays zero."""
    length = np.linalg.norm(columns, axis=0)
    scaled: Floats = columns / np.where(length > 0, length, 1.0)
    return scaled

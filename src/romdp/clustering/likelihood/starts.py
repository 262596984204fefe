"""Spectral starts of the search: an embedding of the counts, then k-means."""

import numpy as np
import scipy.sparse

from romdp.clustering.likelihood.links import Links
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel

_PASSES = 4  # of subspace iteration
_LLOYD_STEPS = 20


def embed(links: Links, rows: Ints, rank: int, rng: np.random.Generator) -> Floats:
    """Embed observations by where they lead and from where they are reached, under each action.

    The counts out of and into each observation stand side by side, one column per (direction,
    action, other observation), divided by the roots of both totals; the totals are raised by
    their mean, so that neither rare nor very frequent observations dominate (this does what
    trimming is for). The leading left singular vectors, scaled back, come from subspace
    iteration.

    Parameters
    ----------
    links
        All transitions.
    rows
        The observations to embed; the columns range over all observations.
    rank
        Number of dimensions.
    rng
        Draws the first subspace.

    Returns
    -------
    Coordinates, shape (len(rows), rank or less).
    """
    matrix = _side_by_side(links, rows)
    degree: Floats = np.asarray(matrix.sum(axis=1))
    across: Floats = np.asarray(matrix.sum(axis=0))
    row_scale = 1.0 / np.sqrt(degree + degree.mean())
    column_scale = 1.0 / np.sqrt(across + across.mean())
    scaled = scipy.sparse.csr_array(
        matrix.multiply(row_scale[:, None]).multiply(column_scale[None, :])
    )
    turned = scipy.sparse.csr_array(scaled.T)
    size = min(rank + 5, len(rows))
    basis = scaled @ rng.standard_normal((scaled.shape[1], size))
    for _ in range(_PASSES):
        basis, _ = np.linalg.qr(basis)
        basis = scaled @ (turned @ basis)
    left, _ = np.linalg.qr(basis)
    small = turned @ left  # scaled = left @ small.T, nearly
    squares, vectors = np.linalg.eigh(small.T @ small)
    kept = np.argsort(-squares)[:rank]
    scale = np.sqrt(np.maximum(squares[kept], 0.0))
    coordinates: Floats = (left @ vectors[:, kept]) * scale * row_scale[:, None]
    return coordinates


def _side_by_side(
    links: Links, rows: Ints
) -> "scipy.sparse.csr_array[np.float64, tuple[int, int]]":
    """Stack the counts out of each of ``rows`` and into it, one row each; no column is empty."""
    n_actions = links.n_actions
    outgoing = links.out_start[(rows + 1) * n_actions] - links.out_start[rows * n_actions]
    incoming = links.in_start[rows + 1] - links.in_start[rows]
    start = np.concatenate([[0], np.cumsum(outgoing + incoming)])
    column = np.empty(start[-1], np.int64)
    value = np.empty(start[-1])
    _fill(links, rows, start, column, value)
    used, column = np.unique(column, return_inverse=True)
    return scipy.sparse.csr_array((value, column, start), shape=(len(rows), len(used)))


@kernel
def _fill(links: Links, rows: Ints, start: Ints, column: Ints, value: Floats) -> None:
    n_observations = links.in_start.size - 1
    n_actions = links.n_actions
    for r in range(rows.size):
        slot = start[r]
        y = rows[r]
        for a in range(n_actions):
            cell = y * n_actions + a
            for i in range(links.out_start[cell], links.out_start[cell + 1]):
                column[slot] = a * n_observations + links.out_target[i]
                value[slot] = links.out_count[i]
                slot += 1
        for i in range(links.in_start[y], links.in_start[y + 1]):
            column[slot] = n_observations * n_actions + links.in_cell[i]
            value[slot] = links.in_count[i]
            slot += 1


@kernel
def _lloyd(points: Floats, weights: Floats, draws: Floats, labels: Ints) -> float:
    """Weighted k-means: far-apart first centres (k-means++), then Lloyd's steps.

    A point that is no number stays with its label, which is below the number of draws.
    """
    n_points, n_dims = points.shape
    n_groups = draws.size
    centres = np.empty((n_groups, n_dims))
    near = np.full(n_points, np.inf)
    for c in range(n_groups):
        total = 0.0
        for i in range(n_points):
            total += weights[i] * (near[i] if c > 0 else 1.0)
        left = draws[c] * total
        chosen = n_points - 1
        for i in range(n_points):
            left -= weights[i] * (near[i] if c > 0 else 1.0)
            if left <= 0.0:
                chosen = i
                break
        for d in range(n_dims):  # copying the row takes numba 3 s longer to compile
            centres[c, d] = points[chosen, d]
        for i in range(n_points):
            distance = 0.0
            for d in range(n_dims):
                distance += (points[i, d] - centres[c, d]) ** 2
            near[i] = min(near[i], distance)
    mass = np.empty(n_groups)
    loss = np.inf
    for _ in range(_LLOYD_STEPS):
        before = loss
        loss = 0.0
        for i in range(n_points):
            best = np.inf
            for c in range(n_groups):
                distance = 0.0
                for d in range(n_dims):
                    distance += (points[i, d] - centres[c, d]) ** 2
                    if distance >= best:
                        break
                if distance < best:
                    best = distance
                    labels[i] = c
            loss += weights[i] * best
        if loss >= before * (1 - 1e-4):
            break
        mass[:] = 0.0
        for i in range(n_points):
            mass[labels[i]] += weights[i]
        for c in range(n_groups):
            if mass[c] > 0:
                centres[c] = 0.0
        for i in range(n_points):
            for d in range(n_dims):
                centres[labels[i], d] += weights[i] * points[i, d] / mass[labels[i]]
    return loss


def k_means(
    points: Floats, weights: Floats, n_groups: int, rng: np.random.Generator, restarts: int = 1
) -> Ints:
    """Group weighted points around ``n_groups`` centres; the best of several restarts."""
    best, lowest = np.zeros(len(points), np.int64), np.inf
    for _ in range(restarts):
        labels = np.zeros(len(points), np.int64)
        loss = _lloyd(points, weights, rng.random(min(n_groups, len(points))), labels)
        if loss < lowest:
            best, lowest = labels, loss
    return best

"""The factor V_2 of one action: symmetrised views, whitening, decomposition.

``[V_2]_ji = P(y_2 = j | x_2 = i, a_2 = l)`` tells which groups in the middle a hidden state shows.
Everything is kept in factored form: with ``K_13 = U_1 S U_3'`` cut at rank k, the symmetrised
views of ``eq:symmetric.views`` are ``A_1 S^-1 U_1' v_1`` and ``A_3 S^-1 U_3' v_3`` with
``A_1 = K_23 U_3`` and ``A_3 = K_21 U_1``; so ``M_2 = A_1 S^-1 A_3'`` (``eq:second.moment``) and the
whitened third moment (``eq:third.moment``) is added up from the triples, k x k x k only.
"""

from dataclasses import dataclass

import numpy as np

from romdp.clustering.spectral.decomposition import decompose
from romdp.clustering.spectral.moments import Moments, truncated_svd
from romdp.clustering.spectral.report import Group, Refusal
from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import StructureError

_NOTHING = 1e-11  # singular values below this share of the largest are rounding


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """An estimate of V_2.

    Attributes
    ----------
    columns : ndarray, shape (n_middle, k)
        One law over the groups in the middle per hidden state; each sums to one.
    chance : ndarray, shape (k,)
        The weight of each hidden state; for the matrix variant the eigenvalue instead.
    condition : float
        Ratio of the extreme eigenvalues of M_2 times that of the singular values of K_13: how
        much noise is blown up.
    residual : float
        What the decomposition left over, as a share.
    """

    columns: Floats
    chance: Floats
    condition: float
    residual: float


@dataclass(frozen=True, slots=True, eq=False)
class _Symmetric:
    """The symmetrised second moment in factored form, and the coordinates of the views."""

    basis: Floats  # (n_middle, k) eigenvectors of M_2
    eigenvalues: Floats  # (k,), positive, decreasing
    lift: tuple[Floats, Floats]  # A_1, A_3
    coordinates: tuple[Floats, Floats]  # rows S^-1 U_1' v_1 and S^-1 U_3' v_3
    condition: float


def _symmetrised(moments: Moments, rank: int, rng: np.random.Generator) -> _Symmetric:
    """Compute M_2 without forming it, and its leading eigenvectors."""
    left, values, right = truncated_svd(moments.second(1, 3), rank, rng)
    if len(values) < rank or values[-1] <= _NOTHING * values[0]:
        found = int(np.count_nonzero(values > _NOTHING * values[0]))
        raise StructureError(f"K_13 has rank {found}, below the {rank} of K_23")
    lift_1, lift_3 = moments.second(2, 3) @ right, moments.second(2, 1) @ left
    frame, corner = np.linalg.qr(np.hstack([lift_1, lift_3]))
    first, third = corner[:, :rank], corner[:, rank:]
    core = (first / values) @ third.T
    eigenvalues, vectors = np.linalg.eigh((core + core.T) / 2)
    eigenvalues, vectors = eigenvalues[::-1][:rank], vectors[:, ::-1][:, :rank]
    if len(eigenvalues) < rank or eigenvalues[-1] <= _NOTHING * eigenvalues[0]:
        found = int(np.count_nonzero(eigenvalues > _NOTHING * max(eigenvalues[0], 0)))
        raise StructureError(f"M_2 has {found} positive eigenvalues, fewer than the rank {rank}")
    condition = float(values[0] / values[-1] * eigenvalues[0] / eigenvalues[-1])
    coordinates = (left / values, right / values)
    return _Symmetric(frame @ vectors, eigenvalues, (lift_1, lift_3), coordinates, condition)


@kernel
def _whitened_tensor(
    first: Ints,
    second: Ints,
    third: Ints,
    weights: Floats,
    view_1: Floats,
    view_2: Floats,
    view_3: Floats,
) -> Floats:
    """Add up ``sum_t w_t view_1[first_t] (x) view_3[third_t] (x) view_2[second_t]``.

    Triples come sorted by second, then first, so the inner sums are shared: the cost is k for
    each triple, k^2 for each distinct (second, first) and k^3 for each distinct second.
    """
    size = view_2.shape[1]
    tensor = np.zeros((size, size, size))
    slab = np.zeros((size, size))
    line = np.zeros(size)
    n_triples = len(weights)
    for t in range(n_triples):
        for c in range(size):
            line[c] += weights[t] * view_3[third[t], c]
        last = t + 1 == n_triples
        turns = last or second[t + 1] != second[t]
        if turns or first[t + 1] != first[t]:
            for a in range(size):
                for c in range(size):
                    slab[a, c] += view_1[first[t], a] * line[c]
            line[:] = 0.0
        if turns:
            for a in range(size):
                for c in range(size):
                    for b in range(size):
                        tensor[a, c, b] += slab[a, c] * view_2[second[t], b]
            slab[:] = 0.0
    return tensor


def tensor_factors(
    moments: Moments,
    rank: int,
    rng: np.random.Generator,
    *,
    solver: str = "joint",
    n_starts: int = 8,
    start: Floats | None = None,
    tolerance: float = 1e-13,
) -> Factors:
    """Recover V_2 from the whitened third moment (``lem:tensor.decomposition``).

    Parameters
    ----------
    moments, rank, rng, solver, n_starts
        The moments of one action, the number of hidden states, and how to decompose.
    start : ndarray, shape (n_middle, rank), optional
        Columns near the answer, to start from as well (joint solver only).
    tolerance : float
        When the decomposition has converged.

    Raises
    ------
    StructureError
        If the second moments do not reach the rank.
    """
    views = _symmetrised(moments, rank, rng)
    scale = np.sqrt(views.eigenvalues)
    whiten = views.basis / scale  # W with W' M_2 W = I
    first, third = (
        np.ascontiguousarray(c @ (lift.T @ whiten))
        for c, lift in zip(views.coordinates, views.lift, strict=True)
    )
    tensor = _whitened_tensor(
        *moments.places, moments.weights, first, np.ascontiguousarray(whiten), third
    )
    frame = None if start is None else whiten.T @ start
    found = decompose(tensor, solver, rng, n_starts=n_starts, start=frame, tolerance=tolerance)
    columns = _laws((views.basis * scale) @ found.vectors)
    chance = 1.0 / np.maximum(found.values, 1.0) ** 2  # values are omega^(-1/2)
    return Factors(columns, chance, views.condition, found.residual)


def matrix_factors(moments: Moments, rank: int, rng: np.random.Generator) -> Factors:
    """Read V_2 off the eigenvectors of M_2 (``lem:matrix.decomposition``).

    They are its columns, scaled, only where eigenvalues differ; `separated` tells which do.
    """
    views = _symmetrised(moments, rank, rng)
    columns = _laws(views.basis)
    return Factors(columns, views.eigenvalues, views.condition, 0.0)


def separated(eigenvalues: Floats, noise: float) -> Bools:
    """Tell which eigenvalues (decreasing) are more than twice the noise from their neighbours.

    The last one must also keep that distance from zero.

    Examples
    --------
    >>> separated(np.array([0.5, 0.2, 0.19]), noise=0.02)
    array([ True, False, False])
    """
    gaps = -np.diff(np.append(eigenvalues, 0.0))
    far = gaps > 2 * noise + 1e-9 * eigenvalues[0]
    far_above = np.append(True, far[:-1])
    both: Bools = far & far_above
    return both


def _laws(columns: Floats) -> Floats:
    """Scale columns to sum to one, whatever their sign; one that sums to nothing is left alone."""
    sums = columns.sum(axis=0)
    scaled: Floats = columns / np.where(np.abs(sums) > 1e-12, sums, 1.0)
    return scaled


def settle(
    claims: Bools, trusted: Bools, members: Ints
) -> tuple[tuple[Group, ...], tuple[Refusal, ...]]:
    """Decide which claims of the columns of V_2 become groups (``eq:estimated.cluster3``).

    Hidden states have no observation in common, so where two columns claim the same neither of
    them is believed.

    Parameters
    ----------
    claims : ndarray of bool, shape (n_members, n_columns)
        What each column claims.
    trusted : ndarray of bool, shape (n_columns,)
        Which columns may claim anything at all.
    members : ndarray of int64, shape (n_members,)
        The groups so far that stand behind the rows.

    Returns
    -------
    groups, refused
        Groups of two or more, and what was refused, with the reason.

    Examples
    --------
    >>> claims = np.array([[True, False], [True, False], [False, True], [False, True]])
    >>> settle(claims, np.array([True, False]), np.array([4, 6, 7, 9]))[0]
    ((4, 6),)
    """
    groups: list[Group] = []
    refused: list[Refusal] = []
    shared = claims[:, trusted].sum(axis=1) > 1
    for column in np.flatnonzero(claims.sum(axis=0) >= 2):
        claimed = claims[:, column]
        conflict = claimed & shared
        if not trusted[column]:
            reason = "the eigenvalue is not separated from the next"
            refused.append(Refusal(_group(members[claimed]), reason))
        elif conflict.any():
            reason = f"two columns claim {_group(members[conflict])}"
            refused.append(Refusal(_group(members[claimed]), reason))
        else:
            groups.append(_group(members[claimed]))
    return tuple(groups), tuple(refused)


def _group(members: Ints) -> Group:
    return tuple(int(member) for member in members)

"""Exact facts of one finite Markov chain: classes, stationary law, gain and bias, mixing.

The linear systems are solved by state reduction (Grassmann, Taksar and Heyman 1985): states are
taken out one by one, and the probability to leave a state is summed, never found as one minus
the rest. Nothing is subtracted, so stationary laws and passage times are right in every
digit but the last few, also where they are as small as 1e-100 or as large as 1e100.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import StructureError
from romdp.core.text import listed

SPARSE = 0.1  # below this share of non-zero entries it pays to treat a matrix as sparse
_CLOSE = 64  # powers of a chain up to this one are all tried, then only every doubling
_FARTHEST = 2**50
_NO_CONTRACTION = 1e-12  # rounding can fake a contraction smaller than this


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The recurrent classes of a chain (sorted by their first state) and its transient states."""

    recurrent: tuple[Ints, ...]
    transient: Ints


@dataclass(frozen=True, slots=True)
class Mixing:
    """How fast a chain forgets its start.

    For every start x and every t >= 1 the law of x_t given x_1 = x is within
    ``geometric_ergodicity * contraction ** (t - 1)`` of the stationary law in total variation
    (G and theta in the appendix of the paper, proof of ``lem:decomp``).

    Attributes
    ----------
    geometric_ergodicity
        G >= 1.
    contraction
        theta in [0, 1).
    second_eigenvalue
        The second largest modulus of an eigenvalue: no theta below it can hold.
    """

    geometric_ergodicity: float
    contraction: float
    second_eigenvalue: float


@kernel
def _reduce(inside: Floats, leaving: Floats) -> Floats:
    """Take the states out from the last to the first, in place; returns each one's pivot.

    ``inside[i, j]`` is the chance to go from i to j and ``leaving[i]`` the chance to go to none
    of them. The pivot of k is the probability to leave k for a state below k or for good.
    """
    n = leaving.size
    pivots = np.zeros(n)
    columns = np.empty(n, np.int64)
    for k in range(n - 1, -1, -1):
        pivot = leaving[k]
        n_columns = 0
        for j in range(k):
            if inside[k, j] != 0.0:
                pivot += inside[k, j]
                columns[n_columns] = j
                n_columns += 1
        pivots[k] = pivot
        dense = 4 * n_columns > k
        for i in range(k):
            if inside[i, k] != 0.0:
                share = inside[i, k] / pivot
                leaving[i] += share * leaving[k]
                if dense:
                    for j in range(k):
                        inside[i, j] += share * inside[k, j]
                else:
                    for c in range(n_columns):
                        inside[i, columns[c]] += share * inside[k, columns[c]]
    return pivots


@kernel
def _substitute(reduced: Floats, pivots: Floats, totals: Floats) -> None:
    """Turn what is earned in each state into the expected total until leaving, in place.

    Where nothing leaves (pivot 0 of the first state) that state is the reference, of total 0.
    """
    n = pivots.size
    for k in range(n - 1, 0, -1):
        earned = totals[k] / pivots[k]
        for i in range(k):
            if reduced[i, k] != 0.0:  # zero times a total beyond the largest number is zero
                totals[i] += reduced[i, k] * earned
    totals[0] = totals[0] / pivots[0] if pivots[0] > 0.0 else 0.0
    for k in range(1, n):
        total = totals[k]
        for j in range(k):
            if reduced[k, j] != 0.0:
                total += reduced[k, j] * totals[j]
        totals[k] = total / pivots[k]


@kernel
def _expand(reduced: Floats, pivots: Floats) -> Floats:
    """Read the stationary law off a reduced recurrent class."""
    n = pivots.size
    law = np.zeros(n)
    law[0] = 1.0
    for k in range(1, n):
        arriving = 0.0
        for i in range(k):
            arriving += law[i] * reduced[i, k]
        law[k] = arriving / pivots[k]
        if law[k] > 1e200:  # the first states may be very rare: keep clear of overflow
            for i in range(k + 1):
                law[i] *= 1e-200
    law /= law.sum()
    return law


@kernel
def support_period(support: Bools) -> int:
    """Return the period of the class of state 0, ``support[i, j]``: can i go to j in one step."""
    n = support.shape[0]
    level = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    level[0] = 0
    queue[0] = 0
    head, tail = 0, 1
    period = 0
    while head < tail:
        i = queue[head]
        head += 1
        for j in range(n):
            if support[i, j]:
                if level[j] < 0:
                    level[j] = level[i] + 1
                    queue[tail] = j
                    tail += 1
                rest = abs(level[i] + 1 - level[j])
                while rest > 0:
                    period, rest = rest, period % rest
    return period


def _ordering(matrix: Floats) -> NDArray[np.intp]:
    """Order states so that a sparse matrix becomes narrow-banded, which state reduction keeps."""
    n = len(matrix)
    if n < 64 or np.count_nonzero(matrix) > SPARSE * n * n:
        return np.arange(n)
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return np.asarray(reverse_cuthill_mckee(csr_array(matrix)), np.intp)


def expected_total(inside: Floats, leaving: Floats, earned: Floats) -> Floats:
    """Return the expected sum of what is earned until the chain leaves.

    Parameters
    ----------
    inside
        (n, n) probabilities to go from one of n states to another.
    leaving
        (n,) probabilities to leave them; together with ``inside`` each row sums to one. From every
        state it must be possible to leave.
    earned
        (n,) earned at each visit. If none is negative the result has full relative accuracy.

    Examples
    --------
    >>> expected_total(np.array([[0.75]]), np.array([0.25]), np.array([1.0]))
    array([4.])
    """
    if not earned.size:
        return np.zeros(0)
    order = _ordering(inside)
    matrix = inside[np.ix_(order, order)]
    totals = earned[order]
    _substitute(matrix, _reduce(matrix, leaving[order]), totals)
    result = np.empty_like(totals)
    result[order] = totals
    return result


def _solve_class(matrix: Floats, reward: Floats) -> tuple[Floats, float, Floats]:
    """Return the stationary law, the gain and the bias of a chain that is one recurrent class."""
    n = len(matrix)
    order = _ordering(matrix)
    law, bias = np.empty(n), np.empty(n)
    for _ in range(2):
        reduced = matrix[np.ix_(order, order)]
        pivots = _reduce(reduced, np.zeros(n))
        law[order] = _expand(reduced, pivots)
        reference = law.argmax()
        if law[order[0]] >= 0.1 * law[reference]:
            break
        # Biases count from the first state: were it a rare one, they would drown in rounding.
        order = np.concatenate(([reference], order[order != reference]))
    gain = float(law @ reward)
    totals = (reward - gain)[order]
    _substitute(reduced, pivots, totals)
    bias[order] = totals
    return law, gain, bias - law @ bias


def classes(matrix: Floats) -> Classes:
    """Split the states of a chain into its recurrent classes and its transient states.

    Examples
    --------
    >>> found = classes(np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> [members.tolist() for members in found.recurrent], found.transient.tolist()
    ([[1], [2]], [0])
    """
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    edges = csr_array(np.asarray(matrix > 0, np.int8))
    n_components, component = connected_components(edges, directed=True, connection="strong")
    source = np.repeat(component, np.diff(edges.indptr))
    closed = np.ones(n_components, bool)
    closed[source[source != component[edges.indices]]] = False
    members = [np.flatnonzero(component == c) for c in np.flatnonzero(closed)]
    members.sort(key=lambda states: int(states[0]))
    return Classes(tuple(members), np.flatnonzero(~closed[component]))


def period(matrix: Floats, members: Ints) -> int:
    """Return the period of a recurrent class.

    Examples
    --------
    >>> period(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]))
    2
    """
    return int(support_period(matrix[np.ix_(members, members)] > 0))


def _single_class(matrix: Floats, question: str) -> Ints:
    """Return the one recurrent class, or say that there are several."""
    recurrent = classes(matrix).recurrent
    if len(recurrent) > 1:
        raise StructureError(
            f"the chain has {len(recurrent)} recurrent classes, among them "
            f"{{{listed(recurrent[0])}}} and {{{listed(recurrent[1])}}}, so {question} depends on "
            "the start state"
        )
    return recurrent[0]


def stationary_law(matrix: Floats) -> Floats:
    """Return the stationary law of a chain with one recurrent class.

    Raises
    ------
    StructureError
        If there are several recurrent classes; the message names two of them.

    Examples
    --------
    >>> stationary_law(np.array([[0.0, 1.0], [0.5, 0.5]])).round(3)
    array([0.333, 0.667])
    """
    members = _single_class(matrix, "its long-run law")
    law = np.zeros(len(matrix))
    inner = matrix[np.ix_(members, members)]
    law[members] = _solve_class(inner, np.zeros(len(members)))[0]
    return law


def gain_and_bias(matrix: Floats, reward: Floats) -> tuple[Floats, Floats]:
    """Return the gain and the bias of every state, for any finite chain.

    The gain g is the long-run average of the reward, the bias h the expected total of reward
    minus gain (in the sense of Cesaro where the chain is periodic). They solve g = P g and
    g + h = r + P h, with mean zero of h under the stationary law of each recurrent class.

    Parameters
    ----------
    matrix
        (S, S) transition matrix.
    reward
        (S,) mean reward in each state.

    Examples
    --------
    >>> gain, bias = gain_and_bias(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0]))
    >>> gain, bias
    (array([0.5, 0.5]), array([ 0.25, -0.25]))
    """
    found = classes(matrix)
    gain, bias = np.zeros(len(matrix)), np.zeros(len(matrix))
    for members in found.recurrent:
        inner = matrix[np.ix_(members, members)]
        _, gain[members], bias[members] = _solve_class(inner, reward[members])
    transient = found.transient
    if transient.size:
        rows = matrix[transient]
        inner, away = rows[:, transient], np.delete(rows, transient, axis=1)
        leaving = away.sum(axis=1)
        if len(found.recurrent) == 1:
            gain[transient] = gain[found.recurrent[0][0]]
        else:
            gain[transient] = expected_total(inner, leaving, away @ np.delete(gain, transient))
        earned = reward[transient] - gain[transient] + away @ np.delete(bias, transient)
        bias[transient] = expected_total(inner, leaving, earned)
    return gain, bias


def dobrushin(matrix: Floats) -> float:
    """Return the largest total variation between two rows of a transition matrix.

    Examples
    --------
    >>> dobrushin(np.array([[0.5, 0.5], [0.25, 0.75]]))
    0.25
    """
    if len(matrix) == 1:
        return 0.0
    from scipy.spatial.distance import pdist  # slow to import

    return min(1.0, float(pdist(matrix, "cityblock").max()) / 2)


def _mixing_cost(ergodicity: float, contraction: float) -> float:
    return ergodicity / (1 - contraction) if contraction < 1 else math.inf


def mixing(matrix: Floats) -> Mixing:
    """Bound how fast a chain forgets its start, by a pair (G, theta) that holds for every t.

    Let delta be the Dobrushin coefficient of the m-step chain. Then every theta with theta^m >=
    delta holds with G = theta^-(m - 1). The pair returned makes G / (1 - theta), the factor in
    the paper's bounds, as small as the choice of m and theta allows.

    Raises
    ------
    StructureError
        If the chain is periodic, has several recurrent classes, or mixes so slowly that
        floating-point numbers cannot tell.

    Examples
    --------
    >>> mixing(np.array([[0.5, 0.5], [0.2, 0.8]])).geometric_ergodicity
    1.0
    """
    members = _single_class(matrix, "where it settles")
    cycle = period(matrix, members)
    if cycle > 1:
        raise StructureError(
            f"the chain is periodic: it returns to a state of {{{listed(members)}}} only after "
            f"multiples of {cycle} steps, so its law never settles"
        )
    best = (1.0, 1.0)
    power, m = matrix, 1
    while m <= _FARTHEST:
        # For a given m, theta = 1 - 1/m would be best; smaller delta than that is of no more use.
        floor = 1 - 1 / m
        if _mixing_cost(floor ** (1 - m), floor) >= _mixing_cost(*best):
            break  # and this lowest cost grows with m
        delta = dobrushin(power)
        if delta < 1 - _NO_CONTRACTION:
            contraction = max(delta ** (1 / m), floor)
            ergodicity = contraction ** (1 - m) if m > 1 else 1.0
            best = min(best, (ergodicity, contraction), key=lambda pair: _mixing_cost(*pair))
        power, m = (power @ matrix, m + 1) if m < _CLOSE else (power @ power, 2 * m)
        power = power / power.sum(axis=1, keepdims=True)  # or rounding would double with m
    if best[1] >= 1:
        raise StructureError("the chain mixes too slowly to be measured in floating point")
    moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))
    second = float(moduli[-2]) if len(moduli) > 1 else 0.0
    return Mixing(best[0], best[1], min(second, 1.0))

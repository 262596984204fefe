"""Rows grouped by their futures: two become one where the same law explains both better.

A row counts what followed one thing (a code of a machine, say): under every action a list of
outcomes, such as next observations. Outcomes keep their names, unlike in the block model, where
they are grouped as well. The probabilities of each list are unknown and integrated out, with
Dirichlet parameters that are learned as those of moves are. The prior of groupings is that of a
Dirichlet process: a row joins a group in proportion to its size, or is the first of a new one.
"""

import math

import numpy as np
from scipy.special import gammaln

from romdp.clustering.likelihood.blockmodel import log_gamma
from romdp.clustering.likelihood.rules import ALPHAS
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.data.partition import Partition

_TABLE = 2**12  # counts below this are looked up; making longer tables takes as long as merging
_SWEEPS = 3  # after merging, in each of which every row may move
_MOST_MERGED = 600  # rows that are merged pair by pair, the most frequent; the others then join


def group_rows(
    rows: Ints, columns: Ints, counts: Ints, lists: Ints, n_rows: int, price: float = 0.0
) -> Ints:
    """Group rows by what followed them.

    Parameters
    ----------
    rows, columns, counts
        How often each row was followed by each outcome; each pair at most once.
    lists
        The list that each outcome belongs to, from 0 on.
    n_rows
        The number of rows.
    price
        What each group must gain, in nats, beyond the evidence that is weighed anyhow.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
        The group of each row, numbered by first appearance.

    Examples
    --------
    >>> rows, columns, counts = np.array([[0, 0, 9], [1, 1, 9], [2, 0, 7]]).T
    >>> group_rows(rows, columns, counts, np.array([0, 0]), 3)
    array([0, 1, 0])
    """
    order = np.lexsort((columns, rows))
    rows, columns, counts = (np.ascontiguousarray(x[order]) for x in (rows, columns, counts))
    start = np.searchsorted(rows, np.arange(n_rows + 1))
    totals = np.bincount(rows, counts, n_rows)
    frequent = np.argsort(-totals, kind="stable")
    sizes = np.bincount(lists)
    alpha, labels = 0.5, np.full(n_rows, -1)
    for _ in range(2):  # the second time with the parameter that the first groups have
        labels = np.full(n_rows, -1)
        core = frequent[:_MOST_MERGED]
        labels[core] = np.arange(len(core))
        groups = np.zeros((len(core), len(lists)), np.int64)
        sums = np.zeros((len(core), len(sizes)), np.int64)
        cell, row = _tables(alpha, sizes)
        data = (start, columns, counts, lists)
        _add_all(*data, labels, groups, sums)
        _merge(groups, sums, cell, row, alpha, sizes, price, labels)
        for sweep in range(_SWEEPS + 1):
            visited = frequent if sweep else frequent[_MOST_MERGED:]
            if not _place(*data, visited, groups, sums, cell, row, alpha, sizes, labels) and sweep:
                break
        alpha = _fit_alpha(groups, sums, sizes)
    return Partition(labels).labels


def _tables(alpha: float, sizes: Ints) -> tuple[Floats, Floats]:
    """Look up the terms of cells, and of the totals of each list."""
    n = np.arange(_TABLE)
    mass = alpha * sizes[:, None]
    return gammaln(n + alpha) - gammaln(alpha), gammaln(mass) - gammaln(n + mass)


def _fit_alpha(groups: Ints, sums: Ints, sizes: Ints) -> float:
    """Return the parameter under which the groups are most probable."""
    cells, masses = groups[groups > 0], sums[sums > 0]
    widths = np.broadcast_to(sizes, sums.shape)[sums > 0]
    scores = [
        (gammaln(cells + alpha) - gammaln(alpha)).sum()
        + (gammaln(alpha * widths) - gammaln(masses + alpha * widths)).sum()
        for alpha in ALPHAS
    ]
    return float(ALPHAS[int(np.argmax(scores))])


@kernel
def _cell(cell: Floats, alpha: float, n: int) -> float:
    """Return the term of an outcome that followed n times."""
    value = cell[n] if n < cell.size else log_gamma(n + alpha) - log_gamma(alpha)
    return float(value)


@kernel
def _row(row: Floats, alpha: float, sizes: Ints, which: int, n: int) -> float:
    """Return the term of a list that n steps chose from."""
    mass = alpha * sizes[which]
    value = row[which, n] if n < row.shape[1] else log_gamma(mass) - log_gamma(n + mass)
    return float(value)


@kernel
def _add_all(
    start: Ints,
    columns: Ints,
    counts: Ints,
    lists: Ints,
    labels: Ints,
    groups: Ints,
    sums: Ints,
) -> None:
    """Count the outcomes of groups; rows with label -1 are left out."""
    for r in range(labels.size):
        if labels[r] >= 0:
            for i in range(start[r], start[r + 1]):
                groups[labels[r], columns[i]] += counts[i]
                sums[labels[r], lists[columns[i]]] += counts[i]


@kernel
def _rise(
    groups: Ints,
    sums: Ints,
    cell: Floats,
    row: Floats,
    alpha: float,
    sizes: Ints,
    members: Ints,
    factorials: Floats,
    filled: Ints,
    k: int,
    m: int,
) -> float:
    """By how much the score rises when groups k and m become one; ``filled`` are outcomes of k."""
    value = float(factorials[members[k] + members[m]])
    value -= factorials[members[k]] + factorials[members[m]]
    for which in range(sizes.size):
        x, y = sums[k, which], sums[m, which]
        if x > 0 and y > 0:
            value += _row(row, alpha, sizes, which, x + y) - _row(row, alpha, sizes, which, x)
            value -= _row(row, alpha, sizes, which, y)
    for j in filled:
        x, y = groups[k, j], groups[m, j]
        if y > 0:
            value += _cell(cell, alpha, x + y) - _cell(cell, alpha, x) - _cell(cell, alpha, y)
    return float(value)


@kernel
def _merge(
    groups: Ints,
    sums: Ints,
    cell: Floats,
    row: Floats,
    alpha: float,
    sizes: Ints,
    price: float,
    labels: Ints,
) -> None:
    """Merge the two groups whose union is most probable, until none is better than apart."""
    n = sums.shape[0]
    alive = np.ones(n, np.bool_)
    members = np.ones(n, np.int64)
    factorials = np.zeros(n + 1)  # log (size - 1)!
    for size in range(2, n + 1):
        factorials[size] = factorials[size - 1] + math.log(size - 1)
    rises = np.full((n, n), -np.inf)  # of pairs k < m
    best = np.full(n, -1)
    for k in range(n):
        filled = np.flatnonzero(groups[k])
        for m in range(k + 1, n):
            rises[k, m] = _rise(
                groups, sums, cell, row, alpha, sizes, members, factorials, filled, k, m
            )
            if best[k] < 0 or rises[k, m] > rises[k, best[k]]:
                best[k] = m
    left = n
    parent = np.arange(n)
    while left > 1:
        k = -1
        for i in range(n):
            if alive[i] and best[i] >= 0 and (k < 0 or rises[i, best[i]] > rises[k, best[k]]):
                k = i
        m = best[k]
        if rises[k, m] <= -price:
            break
        members[k] += members[m]
        groups[k] += groups[m]
        sums[k] += sums[m]
        groups[m] = 0
        sums[m] = 0
        alive[m] = False
        parent[m] = k
        left -= 1
        filled = np.flatnonzero(groups[k])
        for i in range(n):
            if alive[i] and i != k:
                value = _rise(
                    groups, sums, cell, row, alpha, sizes, members, factorials, filled, k, i
                )
                if i < k:
                    rises[i, k] = value
                else:
                    rises[k, i] = value
        for i in range(n):
            if not alive[i]:
                continue
            if i == k or best[i] == k or best[i] == m:
                best[i] = -1
                for j in range(i + 1, n):
                    if alive[j] and (best[i] < 0 or rises[i, j] > rises[i, best[i]]):
                        best[i] = j
            elif i < k and rises[i, k] > rises[i, best[i]]:
                best[i] = k
    for r in range(labels.size):
        if labels[r] >= 0:
            while parent[labels[r]] != labels[r]:
                labels[r] = parent[labels[r]]


@kernel
def _place(
    start: Ints,
    columns: Ints,
    counts: Ints,
    lists: Ints,
    visited: Ints,
    groups: Ints,
    sums: Ints,
    cell: Floats,
    row: Floats,
    alpha: float,
    sizes: Ints,
    labels: Ints,
) -> int:
    """Move each row to the group in which it is most probable; returns how many moved.

    Some group has a row, so that one without a group finds one: values are finite.
    """
    moved = 0
    own = np.zeros(sizes.size, np.int64)
    size = np.zeros(groups.shape[0], np.int64)
    for r in range(labels.size):
        if labels[r] >= 0:
            size[labels[r]] += 1
    for r in visited:
        own[:] = 0
        before = labels[r]
        for i in range(start[r], start[r + 1]):
            own[lists[columns[i]]] += counts[i]
            if before >= 0:
                groups[before, columns[i]] -= counts[i]
        if before >= 0:
            sums[before] -= own
            size[before] -= 1
        best, most = before, -np.inf
        for s in range(groups.shape[0]):
            if size[s] == 0 and s != before:
                continue
            value = math.log(max(size[s], 1))
            for which in range(sizes.size):
                if own[which] > 0:
                    total = sums[s, which]
                    value += _row(row, alpha, sizes, which, total + own[which])
                    value -= _row(row, alpha, sizes, which, total)
            for i in range(start[r], start[r + 1]):
                n = groups[s, columns[i]]
                value += _cell(cell, alpha, n + counts[i]) - _cell(cell, alpha, n)
            if value > most + 1e-9:
                best, most = s, value
        labels[r] = best
        moved += best != before
        size[best] += 1
        sums[best] += own
        for i in range(start[r], start[r + 1]):
            groups[best, columns[i]] += counts[i]
    return moved

"""What policies can reach and avoid, and how long it takes, exactly, on plain arrays.

``transition`` is (S, A, S), as in `romdp.exact.mdp.MDP`, which checks it.
"""

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.validation import real_array, refuse
from romdp.exact.chains import SPARSE, expected_total, support_period

_ENUMERABLE = 100_000


class _Graph(NamedTuple):
    """Who can lead where: ``pairs[starts[y] : starts[y + 1]]`` are the x * A + a that lead to y."""

    starts: Ints
    pairs: Ints
    n_actions: int


def _graph(transition: Floats) -> _Graph:
    n_states, n_actions, _ = transition.shape
    target, pair = np.nonzero(transition.reshape(-1, n_states).T)
    starts = np.searchsorted(target, np.arange(n_states + 1))
    return _Graph(starts.astype(np.int64), pair.astype(np.int64), n_actions)


@kernel
def _distances(starts: Ints, pairs: Ints, n_actions: int, target: int) -> Ints:
    """Return how many steps a sure way to the target needs at least, -1 where no way is sure.

    A way is sure if its actions lead only to the target and to states that have a sure way.
    """
    n_states = starts.size - 1
    alive = np.ones(n_states * n_actions, np.bool_)
    distance = np.empty(n_states, np.int64)
    queue = np.empty(n_states + 1, np.int64)
    while True:
        distance[:] = -1
        queue[0] = target
        head, tail, n_found = 0, 1, 0
        while head < tail and n_found < n_states:
            y = queue[head]
            steps = 1 if head == 0 else distance[y] + 1
            head += 1
            for p in pairs[starts[y] : starts[y + 1]]:
                x = p // n_actions
                if alive[p] and distance[x] < 0:
                    distance[x] = steps
                    n_found += 1
                    if x != target:
                        queue[tail] = x
                        tail += 1
        changed = False
        for y in range(n_states):
            if distance[y] < 0 and y != target:
                for p in pairs[starts[y] : starts[y + 1]]:
                    changed = changed or alive[p]
                    alive[p] = False
        if not changed:
            return distance


@kernel
def _avoiding(starts: Ints, pairs: Ints, n_actions: int, target: int) -> Bools:
    """Return the largest set without the target in which every state has an action that stays."""
    n_states = starts.size - 1
    inside = np.ones(n_states, np.bool_)
    alive = np.ones(n_states * n_actions, np.bool_)
    n_alive = np.full(n_states, n_actions)
    queue = np.empty(n_states, np.int64)
    queue[0] = target
    inside[target] = False
    head, tail = 0, 1
    while head < tail < n_states:
        y = queue[head]
        head += 1
        for p in pairs[starts[y] : starts[y + 1]]:
            x = p // n_actions
            if alive[p]:
                alive[p] = False
                n_alive[x] -= 1
                if n_alive[x] == 0 and inside[x]:
                    inside[x] = False
                    queue[tail] = x
                    tail += 1
    return inside


@kernel
def _endangered(starts: Ints, pairs: Ints, n_actions: int, target: int, trap: Bools) -> Bools:
    """Return the states from where some policy may get into the trap before the target."""
    n_states = starts.size - 1
    marked = trap.copy()
    queue = np.empty(n_states, np.int64)
    tail = 0
    for y in range(n_states):
        if trap[y]:
            queue[tail] = y
            tail += 1
    head = 0
    while head < tail:
        y = queue[head]
        head += 1
        for p in pairs[starts[y] : starts[y + 1]]:
            x = p // n_actions
            if not marked[x]:
                marked[x] = True
                if x != target:
                    queue[tail] = x
                    tail += 1
    return marked


def can_avoid(transition: Floats) -> Bools:
    """Say which states can be avoided: ``[x, u]`` is whether from u some policy never visits x.

    Row x is the largest set without x in which every state has an action that stays inside.
    Every policy's chain is irreducible (``asm:ergodicity``) if and only if all rows are empty.

    Examples
    --------
    >>> stay_or_swap = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> can_avoid(stay_or_swap)
    array([[False,  True],
           [ True, False]])
    """
    graph = _graph(transition)
    return np.array([_avoiding(*graph, target) for target in range(len(transition))])


def _passage_times(
    transition: Floats, pairs: Any, target: int, distance: Ints, finite: Bools, longest: bool
) -> Floats:
    """Solve for one target by policy iteration.

    The start is to come nearer with the largest probability: a policy that surely arrives. The
    values of a policy have full relative accuracy, however large they are.
    """
    states = np.arange(len(finite))
    inner = np.flatnonzero(finite & (states != target))
    outside = ~finite
    outside[target] = False
    shape = transition.shape[:2]
    forbidden = (pairs @ outside.astype(np.float64)).reshape(shape) > 0
    left = np.where(states == target, 0, distance)
    approach = np.einsum("xay,xy->xa", transition, (left < distance[:, None]).astype(np.float64))
    policy = np.where(forbidden, -1.0, approach).argmax(axis=1)
    worst = -np.inf if longest else np.inf
    best = np.full(len(finite), worst)
    while True:
        rows = transition[inner, policy[inner]]
        values = np.zeros(len(finite))
        values[inner] = expected_total(rows[:, inner], rows[:, target], np.ones(len(inner)))
        if np.isinf(values).any():  # beyond the largest number
            row = transition[target, policy[target]]
            values[target] = 1.0 + row[row > 0] @ values[row > 0]
            return np.where(finite, values, np.inf)
        ahead = 1.0 + (pairs @ values).reshape(shape)
        ahead[forbidden] = worst
        times = ahead[states, policy]
        times[inner] = values[inner]
        gained = times[finite] - best[finite] if longest else best[finite] - times[finite]
        if not (gained > 1e-12 * times[finite]).any():
            break
        best = times
        choice = ahead.argmax(axis=1) if longest else ahead.argmin(axis=1)
        gained = np.abs(ahead[states, choice][finite] - times[finite])
        policy[finite] = np.where(gained > 1e-14 * times[finite], choice[finite], policy[finite])
    return np.where(finite, best, np.inf)


def hitting_times(
    transition: Floats, chance: ArrayLike | None = None, *, longest: bool = False
) -> Floats:
    """Return the smallest (or largest) expected number of steps until each state is hit.

    Parameters
    ----------
    transition
        (S, A, S) transition probabilities.
    chance
        (S,) the probability that an arrival in a state counts as a hit; 1 by default. With the
        probability of a rare observation it gives hitting times among observations.
    longest
        Whether policies try to hit as late as possible instead of as soon as possible.

    Returns
    -------
    (S, S) array
        ``[x, target]`` counts from state x, at least one step, so that the diagonal holds return
        times. It is inf where no policy surely gets there (for ``longest``: where some policy
        may never get there), which is decided exactly on the graph. Times are right in all but
        the last few digits; those beyond 1e308 are inf.

    Examples
    --------
    >>> ring = np.array([[[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]]])
    >>> hitting_times(ring)
    array([[3., 1., 2.],
           [2., 3., 1.],
           [1., 2., 3.]])
    """
    n_states = len(transition)
    hit = np.ones(n_states) if chance is None else real_array(chance, "chance", (n_states,))
    refuse((hit < 0) | (hit > 1), "chance", hit, "pass probabilities in [0, 1]")
    graph = _graph(transition)
    distance = np.array([_distances(*graph, target) for target in range(n_states)])
    finite = distance >= 0
    if longest:
        for target in range(n_states):
            finite[target] = ~_endangered(*graph, target, _avoiding(*graph, target))
    pairs: Any = transition.reshape(-1, n_states)
    if graph.pairs.size < SPARSE * pairs.size:
        from scipy.sparse import csr_array  # slow to import

        pairs = csr_array(pairs)
    times = np.empty((n_states, n_states))
    for target in range(n_states):
        way, there = distance[target], finite[target]
        times[:, target] = _passage_times(transition, pairs, target, way, there, longest)
    # An arrival that does not count starts again from the target: on average 1 / hit - 1 times.
    for target in np.flatnonzero(hit < 1).tolist():
        with np.errstate(over="ignore", divide="ignore"):
            times[:, target] += (1 / hit[target] - 1) * times[target, target]
    return times


def has_periodic_policy(transition: Floats) -> bool | None:
    """Say whether some deterministic policy's chain is periodic, given that all are irreducible.

    There is none if some state may stay under every action. Otherwise the policies are tried one
    by one, if at most 100,000 of them differ in which states can follow which; else the answer is
    None.

    Examples
    --------
    >>> has_periodic_policy(np.array([[[0.0, 1.0]], [[1.0, 0.0]]]))
    True
    """
    support = transition > 0
    states = np.arange(len(support))
    if support[states, :, states].all(axis=1).any():
        return False
    different = [np.unique(rows, axis=0, return_index=True)[1].tolist() for rows in support]
    if math.prod(map(len, different)) > _ENUMERABLE:
        return None
    policies = product(*different)
    return any(support_period(support[states, policy]) > 1 for policy in policies)

"""Bounds on the regret as functions of the number of steps N, and the diameters they need."""

import math

import numpy as np

from romdp.core.arrays import Floats
from romdp.data.partition import Partition
from romdp.exact.hitting import hitting_times
from romdp.exact.romdp import ROMDP
from romdp.theory.table import Magnitude, Number


def ucrl_bound(
    diameter: float, n_states: int, n_actions: int, steps: Number, delta: float
) -> Magnitude:
    """Return the bound of UCRL2 (Jaksch et al. 2010): 34 D S sqrt(A N log(N / delta)).

    A single state has diameter 0 and is still a bandit problem: D counts as 1 at least.
    """
    n = Magnitude.of(steps)
    price = max(0.0, n.log) - math.log(delta)
    return 34 * Magnitude.of(max(diameter, 1.0)) * n_states * (n_actions * n * price).sqrt()


def corollary_bound(
    found: Magnitude,
    diameters: tuple[float, float],
    sizes: tuple[int, int],
    n_actions: int,
    steps: Number,
    delta: float,
) -> Magnitude:
    """Return the bound of ``cor:regret``.

    ``34 D_X X sqrt(A (N - N_X) log(N / delta)) [N >= N_X]
    + min(N_X, 34 D_Y Y sqrt(A N_X log(N_X / delta)))``.

    Parameters
    ----------
    found
        N_X.
    diameters, sizes
        (D_X, D_Y) and (X, Y).
    """
    n = Magnitude.of(steps)
    before = min(found, ucrl_bound(diameters[1], sizes[1], n_actions, found, delta))
    if n < found:
        return before
    price = max(0.0, n.log) - math.log(delta)
    root = (n_actions * n.minus(found) * price).sqrt()
    return 34 * Magnitude.of(max(diameters[0], 1.0)) * sizes[0] * root + before


def pomdp_bound(
    diameter: float, n_states: int, n_actions: int, n_observations: int, steps: Number
) -> Magnitude:
    """Return D_pomdp X^(3/2) sqrt(A Y N) (``Aux:deter``): constants and logarithms are left out."""
    root = (n_actions * n_observations * Magnitude.of(steps)).sqrt()
    return Magnitude.of(diameter) * float(n_states**1.5) * root


def two_phase_bound(
    exploration: Number, diameter: float, n_states: int, n_actions: int, steps: Number
) -> Magnitude:
    """Return the conjecture of ``Aux:deter``: T + D_X X sqrt(A N), T steps of pure exploration.

    Constants and logarithms are left out. The paper conjectures it for deterministic ROMDPs, for
    an agent that explores uniformly until the exact clustering is found and then runs UCRL on the
    hidden states; it says no more about T than that it does not grow with N.
    """
    n, first = Magnitude.of(steps), Magnitude.of(exploration)
    if n < first:
        return n
    return first + Magnitude.of(max(diameter, 1.0)) * n_states * (n_actions * n).sqrt()


def pomdp_diameter(transition: Floats) -> float:
    """Return D_pomdp: the longest of the shortest expected ways from (x, a) to another (x', a').

    From (x, a) one step leads to x2 by T(. | x, a), then the shortest way to x'; there a' is taken
    at once. So it is the maximum over x, a and x' of 1 + sum over x2 != x' of T(x2 | x, a)
    h(x2, x') with h the hidden MDP's hitting times. The minimum is over policies of the hidden
    state; the stochastic policies of the POMDP's observations can do no better.
    """
    n_states, n_actions, _ = transition.shape
    times = hitting_times(transition)
    np.fill_diagonal(times, 0.0)
    unreachable = np.isinf(times)
    ways = 1.0 + transition @ np.where(unreachable, 0.0, times)
    ways[transition @ unreachable.astype(np.float64) > 0] = np.inf
    if n_actions == 1:  # then (x, a) to (x, a) is no journey
        ways = ways[~np.eye(n_states, dtype=bool)[:, None, :]]
    return float(ways.max(initial=0.0))


def auxiliary_diameter(world: ROMDP, partition: Partition, times: Floats | None = None) -> float:
    """Return the diameter of the auxiliary MDP of a grouping that refines the hidden states.

    A group s of observations of hidden state x(s) has the probability q(s), the sum of theirs, and
    p(s' | s, a) = T(x(s') | x(s), a) q(s'). An arrival in x(s') that shows another group
    starts again from there, so hitting times follow from those of the hidden MDP, and the
    hardest target in each hidden state is its rarest group. Observations without a group are
    groups of their own, as in ``cor:partial.cluster.est``.

    Parameters
    ----------
    world, partition
        The grouping must refine ``world.labels``.
    times
        `hitting_times` of the hidden MDP, if they are known already.
    """
    labels = as_singletons(partition).labels
    n_groups = int(labels.max()) + 1
    chance = np.bincount(labels, world.observation_chance, n_groups)
    state = np.empty(n_groups, np.int64)
    state[labels] = world.labels
    rarest = np.full(world.n_states, np.inf)
    np.minimum.at(rarest, state, np.minimum(chance, 1.0))
    again = 1 / rarest - 1
    ways = hitting_times(world.transition) if times is None else times
    back = np.where(again > 0, np.diag(ways), 0.0)  # it may be infinite where nobody needs it
    ways = ways + again * back
    # From the only group of a state to itself is no journey.
    alone = np.bincount(state, minlength=world.n_states) == 1
    np.fill_diagonal(ways, np.where(alone, 0.0, np.diag(ways)))
    return float(ways.max())


def as_singletons(partition: Partition) -> Partition:
    """Give every observation without a group one of its own."""
    labels = partition.labels.copy()
    unplaced = np.flatnonzero(labels < 0)
    labels[unplaced] = partition.n_clusters + np.arange(len(unplaced))
    return Partition(labels)

"""The exact multi-view model of a world under a policy: what the spectral bounds are made of.

The factor matrices V_1, V_2, V_3 of ``lem:decomp`` have Y rows, but only their singular values are
asked for, and observations of one hidden state differ only by a factor (and by the policy): so
matrices with at most X A rows have the same singular values, and nothing of size Y x X is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats
from romdp.core.errors import StructureError
from romdp.core.validation import choice, takes
from romdp.data.partition import Partition
from romdp.exact.chains import Mixing, mixing, stationary_law
from romdp.exact.romdp import ROMDP
from romdp.worlds import simulator

_ZERO = 1e-12  # relative: singular values below are zeros spoilt by rounding


@dataclass(frozen=True, slots=True)
class View:
    """One action under one policy.

    Attributes
    ----------
    n_states
        X^(l): the number of hidden states where the action is taken.
    omega
        The smallest non-zero P(x = i | a = l).
    sigma_first, sigma_second, sigma_third
        The singular values number X^(l) of V_1, V_2 and V_3, the laws of the observation before,
        at and after the action given the hidden state at it (``eq:v2toO``); 0 where there are
        fewer that are not zero.
    sigma_pairs
        sigma_r: the same of K_{2,3} (``eq:rankcondition``).
    rank_first
        The rank of V_1. The paper's assumptions do not make it X^(l): a policy may use an action in
        states that are all reached from the same place. Where it is smaller the method cannot work.
    mixing
        How fast the hidden chain mixes under the policy; None if it is periodic.
    """

    n_states: int
    omega: float
    sigma_first: float
    sigma_second: float
    sigma_third: float
    sigma_pairs: float
    mixing: Mixing | None
    rank_first: int = -1  # -1: not computed

    @property
    def sigma(self) -> float:
        """The smallest of the three views' singular values."""
        return min(self.sigma_first, self.sigma_second, self.sigma_third)

    @property
    def speed(self) -> float:
        """G / (1 - theta); infinite for a periodic chain."""
        return mixing_speed(self.mixing)


Views = tuple[View | None, ...]
"""A view for each action; None for one that is never taken."""


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """What the observations of each hidden state do under a policy.

    ``taken[x, a]`` is P(a | x), ``norms[x, a]`` the length of the vector P(y, a | x) over y, and
    ``factors[x]`` an (A, A) matrix with the same products of columns as P(y, a | x) over (y, a).
    """

    taken: Floats
    norms: Floats
    factors: Floats


def mixing_speed(found: Mixing | None) -> float:
    """Return G / (1 - theta), the factor of all spectral bounds; infinite for None."""
    return np.inf if found is None else found.geometric_ergodicity / (1 - found.contraction)


def policy_rows(world: ROMDP, policy: ArrayLike | str) -> Floats:
    """Return the probabilities of the actions at each observation, shape (Y, A).

    ``policy`` is (Y,) actions, (Y, A) rows, ``"uniform"`` or ``"optimal"``. A policy p of the
    hidden states is ``p[world.labels]``.
    """
    if isinstance(policy, str) and choice(policy, "policy", ("uniform", "optimal")) == "optimal":
        policy = world.hidden.optimal_policy[world.labels]
    return simulator.policy_rows(policy, world.n_observations, world.n_actions)


def action_share(world: ROMDP, rows: Floats) -> float:
    """Return alpha_p of one policy: the smallest non-zero P(a | x) (``eq:prob.action``).

    alpha_pi(a) = sum over the observations y of x of P(y | x) P(pi takes a at y).
    """
    taken = _per_state(world, world.observation_chance[:, None] * rows)
    return float(taken[taken > 0].min())


def views(world: ROMDP, rows: Floats) -> Views:
    """Compute the views of all actions under a policy with the given (Y, A) rows.

    Raises
    ------
    StructureError
        If the policy's chain has several recurrent classes.
    """
    weight = world.observation_chance[:, None] * rows
    order = np.argsort(world.labels, kind="stable")
    ends = np.cumsum(np.bincount(world.labels, minlength=world.n_states))[:-1]
    factors = np.zeros((world.n_states, world.n_actions, world.n_actions))
    for x, members in enumerate(np.split(order, ends)):
        triangle = np.linalg.qr(weight[members], mode="r")
        factors[x, : len(triangle)] = triangle
    norms = np.sqrt(_per_state(world, weight**2))
    return _views(world, _Blocks(_per_state(world, weight), norms, factors))


def hidden_policy_views(world: ROMDP) -> Iterator[Views]:
    """Yield the views of every deterministic policy of the hidden states; there are A^X."""
    lengths = _emission_norms(world)[:, None]
    choices = np.eye(world.n_actions)
    for policy in product(range(world.n_actions), repeat=world.n_states):
        taken = choices[list(policy)]
        norms = lengths * taken
        yield _views(world, _Blocks(taken, norms, norms[:, :, None] * choices))


@takes(world=ROMDP)
def partial_groups(world: ROMDP, policy: ArrayLike | str) -> Partition:
    """Return the auxiliary states S of ``lem:partial.cluster``: what one policy can show at best.

    With exact moments the spectral step groups the observations of a hidden state at which the
    policy takes the same action; groups of different actions meet only in observations where a
    stochastic policy takes both. Where V_1 or V_3 of an action lacks the full rank its moments
    cannot be decomposed, and its observations stay as they are. An observation that is never
    shown stays alone.

    Parameters
    ----------
    world
        Its hidden states are read.
    policy
        (Y,) actions, (Y, A) rows, ``"uniform"`` or ``"optimal"``.

    Examples
    --------
    >>> world = ROMDP(
    ...     transition=[[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.7, 0.3]]],
    ...     reward=[[0.0, 0.5], [1.0, 0.2]],
    ...     emission=[[0.5, 0.3, 0.2, 0.0], [0.0, 0.0, 0.0, 1.0]],
    ... )
    >>> partial_groups(world, [0, 0, 1, 1])
    Partition(4 observations in 3 groups of 2, 1, 1)
    """
    rows = policy_rows(world, policy)
    found = Partition.singletons(world.n_observations)
    for action, view in enumerate(views(world, rows)):
        if view is None or min(view.sigma_first, view.sigma_pairs) == 0:
            continue
        taken = (rows[:, action] > 0) & (world.observation_chance > 0)
        labels = np.arange(world.n_observations) + world.n_states
        labels[taken] = world.labels[taken]
        found = found.merge(Partition(labels))
    return found


def contraction_of_all(world: ROMDP) -> float:
    """Return the contraction theta that holds with G = 1 under every policy whatsoever.

    It is the largest total variation between T(. | x, a) and T(. | x', a') for x != x': the rows of
    a policy's chain are mixtures of these, and the distance is convex.
    """
    from scipy.spatial.distance import cdist

    largest = 0.0
    for x in range(world.n_states - 1):
        rest = world.transition[x + 1 :].reshape(-1, world.n_states)
        largest = max(largest, float(cdist(world.transition[x], rest, "cityblock").max()) / 2)
    return min(largest, 1.0)


def _views(world: ROMDP, blocks: _Blocks) -> Views:
    moves, taken = world.transition, blocks.taken
    chain = np.einsum("xa,xaz->xz", taken, moves)
    law = stationary_law(chain)
    try:
        found = mixing(chain)
    except StructureError:
        found = None
    before = np.einsum("x,xba,xaz->xbz", law, blocks.factors, moves).reshape(-1, len(law))
    lengths = _emission_norms(world)

    def view(action: int) -> View | None:
        joint = law * taken[:, action]
        states = np.flatnonzero(joint > 0)
        if not states.size:
            return None
        omega = joint[states] / joint.sum()
        second = blocks.norms[states, action] / taken[states, action]  # its columns do not overlap
        third = moves[states, action] * lengths
        first = before[:, states] / law[states]
        return View(
            n_states=len(states),
            omega=float(omega.min()),
            sigma_first=least_singular_value(first, len(states)),
            sigma_second=float(second.min()),
            sigma_third=least_singular_value(third, len(states)),
            sigma_pairs=least_singular_value((omega * second)[:, None] * third, len(states)),
            mixing=found,
            rank_first=int(np.linalg.matrix_rank(first, rtol=_ZERO)),
        )

    return tuple(view(action) for action in range(world.n_actions))


def _per_state(world: ROMDP, values: Floats) -> Floats:
    """Sum the rows of a (Y, A) array over the observations of each hidden state."""
    columns = [np.bincount(world.labels, column, world.n_states) for column in values.T]
    return np.stack(columns, axis=1)


def _emission_norms(world: ROMDP) -> Floats:
    """Return the length of each hidden state's vector of emission probabilities."""
    return np.sqrt(np.bincount(world.labels, world.observation_chance**2, world.n_states))


def least_singular_value(matrix: Floats, rank: int) -> float:
    """Return the singular value number ``rank``, or 0 where the matrix has a smaller rank.

    The paper's sigma_min is the smallest that is not zero. But the decomposition needs as many as
    there are hidden states: where one is missing it cannot work, and bounds must say so.
    """
    values = np.linalg.svd(matrix, compute_uv=False)
    if len(values) < rank or values[rank - 1] <= _ZERO * values[0]:
        return 0.0
    return float(values[rank - 1])

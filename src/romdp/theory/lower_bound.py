"""The limit: no agent that learns every world has less regret than C log N, asymptotically."""

from math import inf, log

import numpy as np

from romdp.core.arrays import Floats
from romdp.core.compiled import kernel
from romdp.exact.assumptions import ergodicity
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp

_SAME = 1e-9  # an action whose gap is below this (times the span of the biases) is optimal
_BISECTIONS = 50


def lower_bound(world: ROMDP | MDP) -> float | None:
    """Return the constant C of Burnetas and Katehakis: regret grows at least as C log N.

    It is the bound for an agent that is told the hidden states, and so for every agent. Let g and
    h be the optimal gain and bias of the hidden MDP; a pair (x, a) loses the
    ``gap = g + h(x) - r - p h`` whenever it is chosen. With other rewards and moves this one pair
    would be optimal, and its samples must exclude the nearest of these (Burnetas and Katehakis
    1997)::

        C = sum over non-optimal pairs of gap / K,
        K = min KL(p, q) + kl(r, u)  over laws q and means u in [0, 1] with u + q h >= g + h(x)

    Rewards are Bernoulli, and q may be any law over the next states. A pair that nothing could make
    optimal adds nothing.

    Parameters
    ----------
    world : ROMDP or MDP
        A known world.

    Returns
    -------
    float or None
        The factor of log N, with the natural logarithm. None where the theorem does not apply: it
        is about worlds in which every policy's chain is ergodic and rewards are Bernoulli.

    Notes
    -----
    For a given u, the least KL(p, q) with ``q h >= m`` is by duality the largest value of
    ``sum of p(y) log(1 - z (h(y) - m))`` over one number z in [0, 1 / (max h - m)]
    (Honda and Takemura 2010). It is convex in m, as kl(r, u) is in u, so that the best split
    of the deviation between reward and moves is found by a search over u.

    Examples
    --------
    >>> import romdp
    >>> round(lower_bound(romdp.worlds.random_romdp(5, 4, 30, seed=0)), 1)
    68.7
    """
    hidden = as_romdp(world).hidden
    if hidden.reward_law != "bernoulli" or not ergodicity(hidden.transition)[0]:
        return None
    gain, bias = hidden.gain, hidden.bias.copy()  # kernels are compiled for writable arrays
    aims = gain + bias  # (X,)
    gaps = aims[:, None] - hidden.reward - hidden.transition @ bias
    total = 0.0
    for x, a in np.argwhere(gaps > _SAME * max(1.0, float(np.ptp(bias)))).tolist():
        reward = float(hidden.reward[x, a])
        total += float(gaps[x, a]) / cost_of_deviation(
            hidden.transition[x, a].copy(), reward, bias, float(aims[x])
        )
    return total


@kernel
def cost_of_deviation(law: Floats, reward: float, values: Floats, aim: float) -> float:
    """Return the least divergence from a pair's law and mean reward to ones worth ``aim``.

    The result is inf if the largest reward and the best next state are not worth as much.
    """
    low = max(reward, aim - values.max())
    high = min(1.0, aim - (law * values).sum())
    if low > 1.0:
        return inf
    ratio = (5.0**0.5 - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left = _cost(law, reward, values, aim, left)
    at_right = _cost(law, reward, values, aim, right)
    for _ in range(_BISECTIONS):  # golden sections: the cost is convex
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = _cost(law, reward, values, aim, left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = _cost(law, reward, values, aim, right)
    at_ends = min(_cost(law, reward, values, aim, low), _cost(law, reward, values, aim, high))
    return min(at_left, at_right, at_ends)


@kernel
def _cost(law: Floats, reward: float, values: Floats, aim: float, mean: float) -> float:
    """Return the least divergence of a law and a mean reward that is ``mean``."""
    return bernoulli_divergence(reward, mean) + _cost_of_move(law, values, aim - mean)


@kernel
def bernoulli_divergence(p: float, q: float) -> float:
    """Return kl(p, q), the divergence between two coins."""
    total = 0.0
    for chance, other in ((p, q), (1.0 - p, 1.0 - q)):
        if chance > 0.0:
            total += chance * log(chance / other) if other > 0.0 else inf
    return total


@kernel
def _cost_of_move(law: Floats, values: Floats, mean: float) -> float:
    """Return the least KL(law, q) over laws q that expect at least ``mean`` of the values."""
    excess = values - mean
    if (law * excess).sum() >= 0.0:
        return 0.0
    top = excess.max()
    if top <= 0.0:
        return inf
    low, high = 0.0, 1.0 / top
    for _ in range(_BISECTIONS):
        z = (low + high) / 2.0
        if (law * excess / (1.0 - z * excess)).sum() < 0.0:
            low = z
        else:
            high = z
    return float((law * np.log1p(-low * excess)).sum())

"""Confidence sets that hold at all times without a scale, as in UCRL3."""

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.compiled import kernel
from romdp.data.counts import Counts
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Floats, Plan
from romdp.planning.bounds import lower_end, radii, upper_end
from romdp.planning.confidence import checked
from romdp.planning.iteration import gather, outcomes, precision_at, support_value_iteration


class Intervals(NamedTuple):
    """Lower and upper ends: of mean rewards (S, A), and of the chances of moves (S, A, S)."""

    lowest_rewards: Floats
    highest_rewards: Floats
    lowest_chances: Floats
    highest_chances: Floats


@dataclass(frozen=True, slots=True)
class TimeUniform:
    """Intervals around every mean reward and every chance that hold at all times, unscaled (UCRL3).

    With chance at least ``1 - delta`` the truth lies inside at every step of an endless run. The
    sets are those of UCRL3 (Bourel, Maillard and Talebi 2020, "Tightening exploration in upper
    confidence reinforcement learning"), and so is the way to plan in them; see the notes.

    Notes
    -----
    Let p be the mean of n samples in [0, 1] whose true mean is x: indicators of one next state, or
    rewards. Each of these fails with chance at most d over all n together:

    1. *Sub-Gaussian.* ``(p - x)^2 <= 2 v(x) (1 + 1/n) log(sqrt(n + 1) / d) / n``, on either side.
       The variance proxy is ``v(x) = (1/2 - x) / log(1/x - 1)`` (Kearns and Saul 1998), or
       ``x (1 - x)`` where that is enough: if ``x <= 1/2`` for ``p < x``, if ``x >= 1/2`` for
       ``p > x`` (Berend and Kontorovich 2013). The rest is Laplace's method: the martingale
       ``exp(z sum(X - x) - n z^2 v / 2)`` is averaged over a Gaussian z.
    2. *Bernstein.* ``|p - x| <= sqrt(2 x (1 - x) l / n) + l / (3 n)``, on either side, with
       ``l = eta log(log(eta n) log(eta^2 n) / (log(eta)^2 d))`` and ``eta = 1.12``: time is peeled
       into stretches that grow by the factor eta, and the k-th may fail with chance
       ``d / (k (k + 1))``.
    3. *Empirical Bernstein*, for rewards: ``|p - x| <= sqrt(2 V l / n) + 3 l / n``, where V is the
       empirical variance (Audibert, Munos and Szepesvari 2009, with l from the same peeling; it
       takes three of the bounds above).
    4. *Never and always.* If all n samples were 0 then ``x <= 1 - d^(1/n)``, and likewise at 1.
       (The chance of n zeros is ``(1 - x)^n``; once it is below d it stays there.)

    The bounds are solved for x and the intervals intersected. Rewards in [0, 1] need not be 0 or 1:
    the moment generating function of an indicator with the same mean is no smaller. A pair has 6
    such bounds for each next state and 9 for its reward, so ``d = delta / (S A (6 S + 9))``.

    The plan is extended value iteration on these intervals, but each pair moves only to states it
    has seen, to the best state, and to as many others, best first, as needed for what is left out
    to be worth little: at most ``10 max N^(-2/3)`` spans of the values for each state seen, and
    at most what is left in (UCRL3's near-optimistic supports).

    Examples
    --------
    >>> counts = Counts([[40], [90]], [[[30, 10]], [[0, 90]]], [[10], [80]], [[10], [80]])
    >>> found = TimeUniform().intervals(counts, t=131, delta=0.05)
    >>> found.highest_chances[:, 0].round(3)
    array([[0.981, 0.58 ],
           [0.072, 1.   ]])
    >>> TimeUniform().plan(counts, t=131, delta=0.05).converged
    True
    """

    def intervals(
        self, counts: Counts, t: int, delta: float, *, n_observations: int | None = None
    ) -> Intervals:
        """Return all intervals; they depend neither on ``t`` nor on ``n_observations``."""
        doubt = doubt_per_bound(counts, t, delta)
        n_states, n_actions = counts.visits.shape
        matrix: Any = counts.transitions
        moves = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        shape = (n_states, n_actions, n_states)
        lows, highs = chance_ends(np.ascontiguousarray(moves.reshape(shape)), doubt)
        n, sums, squares = counts.visits, counts.reward_sums, counts.reward_squares
        highest = highest_rewards(n, sums, squares, doubt)
        # The smallest reward r is the largest loss 1 - r.
        lowest = 1.0 - highest_rewards(n, n - sums, n - 2.0 * sums + squares, doubt)
        return Intervals(lowest, highest, lows, highs)

    def plan(
        self,
        counts: Counts,
        t: int,
        delta: float,
        *,
        start: ArrayLike | None = None,
        n_observations: int | None = None,
        objective: Objective = AVERAGE,
    ) -> Plan:
        """Return the best plan within the set at step ``t``, to the precision ``1 / sqrt(t)``."""
        doubt = doubt_per_bound(counts, t, delta, objective)
        sums, squares = counts.reward_sums, counts.reward_squares
        rewards = highest_rewards(counts.visits, sums, squares, doubt)
        arrivals = gather(outcomes(counts, objective), objective=objective)
        precision = precision_at(t, objective)
        return support_value_iteration(
            arrivals, rewards, doubt, precision, start=start, objective=objective
        )


def doubt_per_bound(counts: Counts, t: int, delta: float, objective: Objective = AVERAGE) -> float:
    """Return log(1 / d), where d is the chance that one of the bounds may fail."""
    _, delta = checked(t, delta)
    n_states, n_actions = counts.visits.shape
    n_outcomes = n_states + (0 if objective.is_average else 1)
    return log(n_states * n_actions * (6 * n_outcomes + 9) / delta)


@kernel
def highest_rewards(
    visits: NDArray[np.int64], sums: Floats, squares: Floats, doubt: float
) -> Floats:
    """Return the largest plausible mean reward of every pair."""
    highs = np.ones(visits.shape)
    for s in range(visits.shape[0]):
        for a in range(visits.shape[1]):
            n = float(visits[s, a])
            if n > 0.0:
                mean = sums[s, a] / n
                allowed = radii(n, doubt)
                variance = max(0.0, squares[s, a] / n - mean * mean)
                width = np.sqrt(2.0 * variance * allowed.peeled) + 3.0 * allowed.peeled
                highs[s, a] = min(mean + width, upper_end(mean, allowed))
    return highs


@kernel
def chance_ends(moves: NDArray[np.int64], doubt: float) -> tuple[Floats, Floats]:
    """Return the smallest and the largest plausible chance of every move."""
    lows, highs = np.zeros(moves.shape), np.ones(moves.shape)
    for s in range(moves.shape[0]):
        for a in range(moves.shape[1]):
            n = float(moves[s, a].sum())
            if n > 0.0:
                allowed = radii(n, doubt)
                for following in range(moves.shape[2]):
                    p = moves[s, a, following] / n
                    lows[s, a, following] = lower_end(p, allowed)
                    highs[s, a, following] = upper_end(p, allowed)
    return lows, highs

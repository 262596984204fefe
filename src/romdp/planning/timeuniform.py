"""Confidence sets that hold at all times without a scale, as in UCRL3."""

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.validation import how_many, level, takes
from romdp.data.counts import Counts
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Plan
from romdp.planning.bounds import ends, highest_mean, probability_radii
from romdp.planning.iteration import by_arrival, outcomes, precision_at, support_value_iteration


class Intervals(NamedTuple):
    """Lower and upper ends: of mean rewards (S, A), and of the probabilities of moves (S, A, S)."""

    lowest_rewards: Floats
    highest_rewards: Floats
    lowest_probabilities: Floats
    highest_probabilities: Floats


@dataclass(frozen=True, slots=True)
class TimeUniform:
    """Intervals around all mean rewards and probabilities that hold at all times, without a scale.

    With probability at least ``1 - delta`` the truth lies inside at every step of an endless run.
    The form of the sets and the way to plan in them are UCRL3's (Bourel, Maillard and Talebi 2020,
    "Tightening exploration in upper confidence reinforcement learning"). The bounds are narrower
    than UCRL3's wherever both are valid; see the notes.

    Notes
    -----
    Let p be the mean of n samples in [0, 1] whose true mean is x: indicators of one next state, or
    rewards. Each of these fails with probability at most d over all n together:

    1. *Mixture.* For every q the product of ``(q / x)^X ((1 - q) / (1 - x))^(1 - X)`` over the
       samples X is a supermartingale that begins at 1: of indicators a likelihood ratio, of other
       rewards no larger, since it is convex in X. So is its average over a prior of q, which
       therefore exceeds ``1 / d`` at any time with probability at most d (Ville). The prior is that
       of Krichevsky and Trofimov, Beta(1/2, 1/2), with the weight w, beside weights w of end
       points:

       - ``n kl(p, x) <= log(1 / (d w)) + log(pi n / 2) / 2 + c``, where kl is the divergence of
         two coins, and c = 1/8 is enough for all whole numbers of ones, c = 1/2 for all sums;
       - if all samples were 0, ``x <= 1 - (d w)^(1/n)``, and likewise at 1.

       For a probability, w = 1/2 lies on 0 and 1/2 on the rest. For a reward, 1/3 lies on either
       end.
    2. *One next state.* If a pair has led to the same state n times, the probability of that state
       is at least ``d^(1/(n-1))``. (A state of probability x contradicts this from the least n on
       for which ``x^(n-1) < d``. It gets so far with probability ``x^n < d x``, and over all states
       that is d.)
    3. *Empirical Bernstein*, for rewards: ``|p - x| <= sqrt(2 V l / n) + 3 l / n``, where V is the
       empirical variance and ``l = eta log(log(eta n) log(eta^2 n) / (log(eta)^2 d))`` with
       ``eta = 1.12`` (Audibert, Munos and Szepesvari 2009; time is peeled into stretches that grow
       by the factor eta). It takes three bounds of level d.

    A pair has the level ``delta / (S A)``: 0.6 of it for bound 2, 0.2 for the mixtures of the
    probabilities, divided equally among the S next states, 0.15 for that of the reward and 0.05 for
    bound 3. The ends of a probability solve the mixture's inequality with kl replaced by a
    lower bound that makes it quadratic and is at most a few percent too wide.

    The plan is extended value iteration on these intervals, but each pair moves only to states it
    has seen, to the best state, and to as many others, best first, as needed for what is left out
    to be worth little: at most ``10 max N^(-2/3)`` spans of the values for each state seen, and
    at most what is left in (UCRL3's near-optimistic supports).

    Examples
    --------
    >>> counts = Counts([[40], [90]], [[[30, 10]], [[0, 90]]], [[10], [80]], [[10], [80]])
    >>> found = TimeUniform().intervals(counts, t=131, delta=0.05)
    >>> found.highest_probabilities[:, 0].round(3)
    array([[0.959, 0.583],
           [0.072, 1.   ]])
    >>> TimeUniform().plan(counts, t=131, delta=0.05).converged
    True
    """

    @takes(counts=Counts, t=how_many, delta=level)
    def intervals(
        self, counts: Counts, t: int, delta: float, *, n_observations: int | None = None
    ) -> Intervals:
        """Return all intervals; they depend neither on ``t`` nor on ``n_observations``."""
        doubt = doubt_per_pair(counts, delta)
        n_states, n_actions = counts.visits.shape
        matrix: Any = counts.transitions
        moves = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        shape = (n_states, n_actions, n_states)
        lows, highs = probability_ends(np.ascontiguousarray(moves.reshape(shape)), doubt)
        n, sums, squares = counts.visits, counts.reward_sums, counts.reward_squares
        highest = highest_rewards(n, sums, squares, doubt)
        # The smallest reward r is the largest loss 1 - r.
        lowest = 1.0 - highest_rewards(n, n - sums, n - 2.0 * sums + squares, doubt)
        return Intervals(lowest, highest, lows, highs)

    @takes(counts=Counts, t=how_many, delta=level, objective=Objective)
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
        doubt = doubt_per_pair(counts, delta)
        sums, squares = counts.reward_sums, counts.reward_squares
        rewards = highest_rewards(counts.visits, sums, squares, doubt)
        arrivals = by_arrival(outcomes(counts, objective), objective=objective)
        precision = precision_at(t, objective)
        return support_value_iteration(
            arrivals, rewards, doubt, precision, start=start, objective=objective
        )


def doubt_per_pair(counts: Counts, delta: float) -> float:
    """Return log(1 / d), where d is the probability that any bound on one pair may fail."""
    n_states, n_actions = counts.visits.shape
    return log(n_states * n_actions / delta)


@kernel
def highest_rewards(visits: Ints, sums: Floats, squares: Floats, doubt: float) -> Floats:
    """Return the largest plausible mean reward of every pair."""
    highs = np.ones(visits.shape)
    for s in range(visits.shape[0]):
        for a in range(visits.shape[1]):
            n = float(visits[s, a])
            if n > 0.0:
                highs[s, a] = highest_mean(n, sums[s, a], squares[s, a], doubt)
    return highs


@kernel
def probability_ends(moves: Ints, doubt: float) -> tuple[Floats, Floats]:
    """Return the smallest and the largest plausible probability of every move."""
    lows, highs = np.zeros(moves.shape), np.ones(moves.shape)
    for s in range(moves.shape[0]):
        for a in range(moves.shape[1]):
            n = float(moves[s, a].sum())
            if n > 0.0:
                allowed = probability_radii(n, moves.shape[2], doubt)
                for following in range(moves.shape[2]):
                    low, high = ends(moves[s, a, following] / n, allowed)
                    lows[s, a, following], highs[s, a, following] = low, high
    return lows, highs

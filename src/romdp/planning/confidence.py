"""Confidence sets: how far the truth may be from the counts, and the best plan within that.

A set answers one question, `plan`: given the counts, what would be best if the world were the
best one that the counts allow? Each does so in the shape that its inequality gives it, so that a
planner can swap one for another. Throughout, S and A are the numbers of states (groups) and
actions of the counts, t is the number of the current step (the first is 1), N(s, a) the number of
visits of a pair for rewards and of its transitions for transition laws (these differ where a step
was cut off before its next state was seen), and log the natural logarithm.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice, how_many, level, real_number, takes, whole_number
from romdp.data.counts import Counts
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Plan
from romdp.planning.iteration import (
    by_arrival,
    extended_value_iteration,
    interval_value_iteration,
    outcomes,
    precision_at,
)

_VACUOUS = 2.0  # no two laws are farther apart than this


class ConfidenceSet(Protocol):
    """What a planner that is optimistic asks of its confidence set."""

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
        """Return the best plan within the set at step ``t``, to the precision ``1 / sqrt(t)``.

        ``delta`` is the probability that the truth may lie outside, ``start`` the values of an
        earlier plan, ``n_observations`` the number of observations behind the groups that were
        counted. Under another ``objective`` than the average the end of an episode is one more
        outcome.
        """
        ...


class Widths(NamedTuple):
    """Half widths of rewards and L1 widths of transition laws, both (n_states, n_actions)."""

    rewards: Floats
    transitions: Floats


class IntervalWidths(NamedTuple):
    """Half widths of rewards, and of a probability p: ``slopes * sqrt(p (1 - p)) + offsets``."""

    rewards: Floats
    slopes: Floats
    offsets: Floats


@dataclass(frozen=True, slots=True)
class Hoeffding:
    """Intervals around mean rewards and L1 balls around transition laws.

    With ``constants="paper"`` (``eq:confidence1``; the 28 contains the union bound over time)::

        d_r = scale * sqrt(28 log(2 S A t / delta) / max(1, N(s, a)))
        d_p = scale * sqrt(28 S log(2 A t / delta) / max(1, N(s, a)))

    and with ``constants="jaksch"`` (UCRL2: Jaksch, Ortner and Auer 2010, equations 3 and 4)::

        d_r = scale * sqrt(7 log(2 S A t / delta) / (2 max(1, N(s, a))))
        d_p = scale * sqrt(14 S log(2 A t / delta) / max(1, N(s, a)))

    Parameters
    ----------
    scale : float, optional
        Factor on all widths; below 1 nothing is guaranteed any more, and learning is faster.
    constants : {"paper", "jaksch"}, optional
        Which of the two.
    reward_states : {"groups", "observations"}, optional
        What S counts in d_r: groups, as in the paper's appendix, or observations, as in its main
        text. The latter needs ``n_observations`` where widths are asked for.

    Examples
    --------
    >>> counts = Counts([[4], [9]], [[[3, 1]], [[0, 9]]], [[1], [8]], [[1], [8]])
    >>> Hoeffding(scale=0.1).widths(counts, t=14, delta=0.05).transitions.round(3)
    array([[0.941],
           [0.627]])
    >>> Hoeffding(scale=0.1).plan(counts, t=14, delta=0.05).converged
    True
    """

    scale: float = 1.0
    constants: Literal["paper", "jaksch"] = "paper"
    reward_states: Literal["groups", "observations"] = "groups"

    def __post_init__(self) -> None:
        real_number(self.scale, "scale", 0.0)
        choice(self.constants, "constants", ("paper", "jaksch"))
        choice(self.reward_states, "reward_states", ("groups", "observations"))

    @takes(counts=Counts, t=how_many, delta=level)
    def widths(
        self, counts: Counts, t: int, delta: float, *, n_observations: int | None = None
    ) -> Widths:
        """Return d_r and d_p of every pair."""
        for_rewards, for_transitions = self._numerators(counts, t, delta, n_observations)
        return Widths(
            _shrunk(for_rewards, counts.visits), _shrunk(for_transitions, _departures(counts))
        )

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
        for_rewards, for_transitions = self._numerators(counts, t, delta, n_observations, objective)
        # A pair has no more transitions than visits: where the width after as many visits leaves
        # everything open, the row need not even be read.
        known = _shrunk(for_transitions, counts.visits) < _VACUOUS
        arrivals = by_arrival(outcomes(counts, objective), known, objective)
        widths = _shrunk(for_transitions, arrivals.totals)
        rewards = _optimistic(counts, _shrunk(for_rewards, counts.visits))
        precision = precision_at(t, objective)
        return extended_value_iteration(
            arrivals, rewards, widths, precision, start=start, objective=objective
        )

    def _numerators(
        self,
        counts: Counts,
        t: int,
        delta: float,
        n_observations: int | None,
        objective: Objective = AVERAGE,
    ) -> tuple[float, float]:
        """Return the widths of a pair that was visited once."""
        n_states, n_actions = counts.visits.shape
        reward_states = n_states
        if self.reward_states == "observations":
            if n_observations is None:
                raise InvalidInputError(
                    'reward_states="observations" needs the number of observations behind the '
                    "groups: pass n_observations"
                )
            reward_states = whole_number(n_observations, "n_observations", n_states)
        on_rewards, on_transitions = (28.0, 28.0) if self.constants == "paper" else (3.5, 14.0)
        of_rewards = log(2.0 * reward_states * n_actions * t / delta)
        n_outcomes = n_states + (0 if objective.is_average else 1)
        of_transitions = n_outcomes * log(2.0 * n_actions * t / delta)
        return (
            self.scale * sqrt(on_rewards * of_rewards),
            self.scale * sqrt(on_transitions * of_transitions),
        )


@dataclass(frozen=True, slots=True)
class Bernstein:
    """Empirical Bernstein intervals around every probability and every mean reward (UCRL2B).

    With ``L = log(6 S A max(1, N(s, a)) / delta)`` (Fruit, Pirotta and Lazaric 2020)::

        |r - r_hat| <= scale * (2 sqrt(V L / max(1, N)) + 6 L / max(1, N))
        |p - p_hat| <= scale * (2 sqrt(p_hat (1 - p_hat) L / max(1, N)) + 6 L / max(1, N))

    for each pair and, below, each next state; V is the empirical variance of the pair's rewards.

    Parameters
    ----------
    scale : float, optional
        Factor on all widths; below 1 nothing is guaranteed any more, and learning is faster.

    Notes
    -----
    Audibert, Munos and Szepesvari (2009): the mean of n samples in [0, 1] with empirical variance V
    is off by more than ``sqrt(2 V l / n) + 3 l / n`` with probability at most ``3 exp(-l)``. Allow
    ``delta / (12 S S A n n)`` for each of the S S A probabilities and each n, then
    ``l = log(36 S S A n n / delta) <= 2 L``, which gives the widths above, and the sum over
    everything is below ``delta / 7``; the rewards need no more. They hold for all t at once.

    Examples
    --------
    >>> counts = Counts([[4], [9]], [[[3, 1]], [[0, 9]]], [[1], [8]], [[1], [8]])
    >>> Bernstein(scale=0.01).widths(counts, t=14, delta=0.05).offsets.round(4)
    array([[0.103 ],
           [0.0512]])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        real_number(self.scale, "scale", 0.0)

    @takes(counts=Counts, t=how_many, delta=level)
    def widths(
        self, counts: Counts, t: int, delta: float, *, n_observations: int | None = None
    ) -> IntervalWidths:
        """Return the half widths of rewards, and the slopes and offsets of the probabilities' ones.

        They depend neither on ``t`` nor on ``n_observations``.
        """
        return IntervalWidths(
            self._reward_widths(counts, delta),
            *self._slopes_and_offsets(_departures(counts), delta),
        )

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
        arrivals = by_arrival(outcomes(counts, objective), objective=objective)
        slopes, offsets = self._slopes_and_offsets(arrivals.totals, delta)
        rewards = _optimistic(counts, self._reward_widths(counts, delta))
        precision = precision_at(t, objective)
        return interval_value_iteration(
            arrivals, rewards, slopes, offsets, precision, start=start, objective=objective
        )

    def _reward_widths(self, counts: Counts, delta: float) -> Floats:
        slopes, offsets = self._slopes_and_offsets(counts.visits, delta)
        visits = np.maximum(1, counts.visits)
        variance = counts.reward_squares / visits - (counts.reward_sums / visits) ** 2
        widths: Floats = slopes * np.sqrt(np.maximum(variance, 0.0)) + offsets
        return widths

    def _slopes_and_offsets(self, samples: ArrayLike, delta: float) -> tuple[Floats, Floats]:
        """Return what multiplies the standard deviation, and what is added."""
        n = np.maximum(1.0, samples)
        share = np.log(6.0 * n.size * n / delta) / n
        return 2.0 * self.scale * np.sqrt(share), 6.0 * self.scale * share


@kernel
def _shrunk(width: float, samples: NDArray[Any]) -> Floats:
    """Divide the width of one sample by the roots of the numbers of samples, if any."""
    n_states, n_actions = samples.shape
    widths = np.empty((n_states, n_actions))
    for s in range(n_states):
        for a in range(n_actions):
            widths[s, a] = width / np.sqrt(max(1.0, float(samples[s, a])))
    return widths


def _departures(counts: Counts) -> Floats:
    """Count the transitions of every pair."""
    shape = counts.visits.shape
    sums: Floats = np.asarray(counts.transitions.sum(axis=-1), np.float64).reshape(shape)
    return sums


def _optimistic(counts: Counts, widths: Floats) -> Floats:
    """Return the largest plausible mean rewards; they lie in [0, 1]."""
    return _raised(counts.reward_sums, counts.visits, widths)


@kernel
def _raised(sums: Floats, visits: NDArray[Any], widths: Floats) -> Floats:
    n_states, n_actions = sums.shape
    rewards = np.empty((n_states, n_actions))
    for s in range(n_states):
        for a in range(n_actions):
            mean = sums[s, a] / max(1.0, float(visits[s, a]))
            rewards[s, a] = min(1.0, mean + widths[s, a])
    return rewards

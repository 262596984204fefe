"""When to think again? The rules say how long an epoch may be; `Budget` then ends it."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from romdp.core.arrays import Ints
from romdp.core.validation import check_fields, flag, real_number, whole_number
from romdp.data.budget import FOREVER
from romdp.data.counts import Counts

SLACK = 1.0 / 128.0  # visits that an epoch lets pass, for each pair that is still surprising


class Stopping(Protocol):
    """What every stopping rule looks like.

    ``eager`` says whether a used-up budget ends the epoch at once, or only when the epoch
    would exceed it. A rule may also have ``spare(counts)``: how many such visits it lets pass.
    """

    @property
    def eager(self) -> bool:
        """Whether the epoch ends as soon as a budget is used up."""
        ...

    def budget(self, visits: Ints) -> Ints:
        """How often each (group, action) may be visited in an epoch."""
        ...

    def unseen_budget(self, visits: int) -> int:
        """How often observations without a group, met ``visits`` times so far, may be met."""
        ...

    def longest(self, last_length: int) -> int:
        """How many steps an epoch may have after one of ``last_length``."""
        ...


@dataclass(frozen=True)
class Doubling:
    """An epoch ends when the count of some (group, action) has doubled.

    Parameters
    ----------
    grow
        None: nothing else ends it. A number: the epoch is also at most that many steps longer
        than the one before. ``grow=1`` is the rule of TSDE (Ouyang et al. 2017), which
        posterior sampling needs: the epoch ends when ``N_t(s, a) > 2 N_k(s, a)`` or
        ``t > t_k + T_(k-1)``, where N_k are the counts and t_k the step at its start and
        T_(k-1) the length of the one before (T_0 = 1).
    growth
        A factor smaller than 2 ends epochs sooner: when some count has grown by that factor.
    power
        A smaller one than 1 ends epochs sooner: when some count N has grown by N to this power.
        With 1/2 there are still only of the order of sqrt(steps) epochs; see `Doubling.frequent`.
    slack
        An epoch lets some visits pass that would end it: this many for each pair tried so far that
        is still surprising. Where a great many were tried and any of them may lead anywhere, one
        more visit hardly changes the plan. Where moves are certain it may change all of it.
    eager
        True: it ends as soon as ``v(s, a) = max(1, N_k(s, a))`` for some pair, v being the
        visits inside the epoch (Algorithm `alg:sm.ucrl` of the paper). False: it ends when a
        pair is about to be visited more often than that (UCRL2, Jaksch et al. 2010).
    unseen
        How often observations without a group may be met in an epoch; None: their common
        count may double, like any other. ``unseen=1`` draws a new action at each of them, which
        explores uniformly while nothing is grouped; with ``unseen=0`` none can be met without
        thinking again.

    Examples
    --------
    >>> Doubling().budget(np.array([[0, 3]])).tolist()
    [[1, 3]]
    >>> Doubling(grow=1).longest(7)
    8
    >>> Doubling(power=0.5).budget(np.array([[0, 100]])).tolist()
    [[1, 10]]
    >>> Doubling(growth=1.25).budget(np.array([[0, 100]])).tolist()
    [[1, 25]]
    """

    grow: int | None = None
    eager: bool = True
    unseen: int | None = None
    power: float = 1.0
    growth: float = 2.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        real_number(self.power, "power", 0, 1, open_low=True)
        real_number(self.growth, "growth", 1, 2, open_low=True)
        real_number(self.slack, "slack", 0, 1)
        check_fields(self, grow=(None, whole_number), eager=flag, unseen=(None, whole_number))

    @classmethod
    def frequent(cls) -> Self:
        """Return the rule of `LCPSRL`, and of the oracle that it is measured by.

        TSDE's two conditions, the first one stricter: no pair is visited more than
        1 + sqrt(N_k(s, a)) times in an epoch. By TSDE's own rule, ``Doubling(grow=1)``, epochs are
        a thousand steps long after a million: a wrong draw is followed for long, and a best action
        that failed in its first few tries waits long for the draw that tries it again. Regret is
        a fifth to a third lower in most worlds (docs/results/posterior.md), with twice the epochs.

        With thousands of pairs nearly every step tries one for the first time and would end the
        epoch. So it lets one such visit pass for every 128 pairs that were tried, and fewer the
        more seldom a pair that is tried again leads to somewhere new.
        """
        return cls(grow=1, power=0.5, slack=SLACK)

    def budget(self, visits: Ints) -> Ints:
        """Return how often each (group, action) may be visited in this epoch."""
        more = visits
        if (self.power, self.growth) != (1.0, 2.0):
            more = ((self.growth - 1.0) * visits**self.power).astype(np.int64)
        return np.maximum(1, more) if self.grow is None else more + 1

    def unseen_budget(self, visits: int) -> int:
        """Return how often observations without a group may be met in this epoch."""
        return int(self.budget(np.array(visits))) if self.unseen is None else self.unseen

    def longest(self, last_length: int) -> int:
        """Return how many steps this epoch may have."""
        return FOREVER if self.grow is None else last_length + self.grow

    def spare(self, counts: Counts) -> int:
        """Return how many of the visits that would end this epoch are let pass."""
        tried = int(np.count_nonzero(counts.visits))
        if self.slack * tried < 1.0:
            return 0
        moves: Any = counts.transitions
        kinds = int(np.count_nonzero(moves) if isinstance(moves, np.ndarray) else moves.nnz)
        again = int(counts.visits.sum()) - tried
        surprises = max(kinds - tried, 0) / max(again, 1)  # tries that led to somewhere new
        return int(self.slack * tried * min(surprises, 1.0))


def spare_of(stopping: Stopping, counts: Counts) -> int:
    """Return how many visits a rule lets pass that would end an epoch: none if it does not say."""
    rule: Any = stopping
    return int(rule.spare(counts)) if hasattr(rule, "spare") else 0

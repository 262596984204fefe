"""Worlds that may lie behind a log, drawn so that they agree with it.

Three things differ from draw to draw: which observations belong to a hidden state (one that may not
is a state of its own in some draws), where each action leads (Dirichlet), what it pays (normal).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import bicgstab, splu

from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.transitions import group_sparse
from romdp.exact.objectives import Objective
from romdp.logs.model.surprises import Surprises
from romdp.logs.parting import doubts
from romdp.planning.belief import Belief

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AVERAGE = 1.0 - 1e-6  # a discount so close to one that it gives the average per step
_FOR_EVER = 0.999  # the discount where the question is whether the unknown is ever met
_DENSE = 0.01  # share of a matrix that is not zero, from which on it is solved as an array
_MANY, _PRODUCTS = 200, 100  # states from which on products are tried first, and how many
_NEGLIGIBLE = 1e-3  # less doubt than this counts as none


def discount_of(objective: str | float) -> float:
    """Return the discount that stands for an objective."""
    return min(_AVERAGE, Objective.parse(objective).rate)


@dataclass(frozen=True, eq=False)
class World:
    """A world that agrees with a log.

    Attributes
    ----------
    moves : ndarray, shape (n_states * n_actions, n_states), or sparse
        Where pairs lead; what is missing from one is the probability that the episode ends.
    rewards : ndarray, shape (n_states, n_actions)
        Mean rewards in their own units.
    starts : ndarray, shape (n_states,)
        Where episodes begin.
    discount : float
        The weight of the next step.
    restarts : bool
        Whether another episode begins where one ends.
    unknown : ndarray of bool, shape (n_states, n_actions)
        Pairs of which the log says nothing.
    paid : ndarray, shape (n_states, n_actions)
        Mean rewards as shares of their range.
    strange : float
        The probability that an episode begins with an observation that was never seen.
    lowest : float
        The lowest reward of the log.
    """

    moves: Any
    rewards: Floats
    starts: Floats
    discount: float
    restarts: bool
    unknown: NDArray[np.bool_]
    paid: Floats | None = None
    strange: float = 0.0
    lowest: float = 0.0

    def values(self, policy: Floats, rewards: Floats | None = None) -> Floats:
        """Return the discounted sum from every state under a policy (probabilities by state)."""
        earned = (policy * (self.rewards if rewards is None else rewards)).sum(axis=1)
        matrix = self._chain(policy)
        lost = self.discount * (1.0 - np.asarray(matrix.sum(axis=1)).ravel())
        right = np.column_stack([earned, np.maximum(0.0, lost)]) if self.restarts else earned
        found = _solve(matrix, self.discount, right)
        if not self.restarts:
            return found
        # An end leads to the starts: a correction of rank one.
        plain, again = found.T
        before = self.starts @ plain / max(1e-300, 1.0 - self.starts @ again)
        return np.asarray(plain + again * before)

    def _chain(self, policy: Floats) -> Any:
        n_states, n_actions = policy.shape
        if isinstance(self.moves, np.ndarray):
            return np.einsum("sa,sat->st", policy, self.moves.reshape(n_states, n_actions, -1))
        table = self.moves.tocoo()
        weight = policy.ravel()[table.row] * table.data
        used = weight > 0
        cells = (table.row[used] // n_actions, table.col[used])
        return scipy.sparse.csr_array((weight[used], cells), (n_states, n_states))

    def chain_with_restarts(self, policy: Floats) -> Floats:
        """Return the transition matrix under a policy, where ends lead to the starts."""
        matrix = self._chain(policy)
        dense: Floats = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        lost = np.maximum(0.0, 1.0 - dense.sum(axis=1))
        whole = dense + np.outer(lost, self.starts)
        return np.asarray(whole / whole.sum(axis=1, keepdims=True))

    def value(self, policy: Floats) -> float:
        """Return what a policy earns: per step for the average, else from the starts.

        Nobody knows what to do at a start that was never seen, so it counts as paying the lowest
        reward and leading to the worst start that is known.
        """
        values = self.values(policy)
        total = float(self.starts @ values)
        if self.discount == _AVERAGE:
            return total * (1.0 - self.discount)
        if self.strange == 0.0:
            return total
        worst = self.lowest + self.discount * float(values[self.starts > 0].min())
        return total + self.strange * (min(worst, total) - total)

    def risk_of_unknown(self, policy: Floats) -> float:
        """Return the probability that a pair of which nothing is known is ever chosen."""
        chosen = (policy * self.unknown).sum(axis=1)
        if not chosen.any():
            return 0.0
        goes = np.repeat(chosen == 0, policy.shape[1]).astype(np.float64)[:, None]
        moves = (
            self.moves * goes if isinstance(self.moves, np.ndarray) else self.moves.multiply(goes)
        )
        until = replace(self, moves=moves, discount=min(self.discount, _FOR_EVER), restarts=False)
        return float(self.starts @ until.values(policy, chosen[:, None] * np.ones(policy.shape)))


def _solve(matrix: Any, discount: float, right: Floats) -> Floats:
    """Solve ``x = right + discount * matrix @ x``, exactly but for rounding.

    Several hundred states that lead to many others take a hundred milliseconds as an array. Where
    episodes end after a few steps, some twenty products with the sparse matrix do the same.
    """
    n_states = len(right)
    if not isinstance(matrix, np.ndarray):
        system = scipy.sparse.eye_array(n_states, format="csr") - discount * matrix
        if matrix.nnz <= _DENSE * n_states**2:
            return np.asarray(splu(system.tocsc()).solve(right))
        if n_states >= _MANY and right.ndim == 1:
            found, failed = bicgstab(system, right, rtol=1e-13, atol=0.0, maxiter=_PRODUCTS)
            if not failed:
                return np.asarray(found)
        matrix = matrix.toarray()
    return np.linalg.solve(np.eye(n_states) - discount * matrix, right)


class _Grouped(NamedTuple):
    """What the log says about the states of one grouping."""

    counts: Counts
    starts: Floats
    origin: Ints
    surprises: Surprises


class Draws:
    """Draws worlds that agree with a log.

    Parameters
    ----------
    counts
        Counts of the observations, with their ends and starts; rewards are in [0, 1].
    partition
        The hidden states.
    reward_range
        The rewards that stand for 0 and 1.
    objective
        "average", "episodic" or a discount.
    certainty
        The probability of each observation's state, as far as the method tells.
    borrow
        Whether a pair is taken to pay what others pay, and to lead where other actions of its state
        lead, the more so the less it was tried. That is right where a policy is sought. A policy
        that is given was chosen for pairs that do well, and borrowing would make them look worse.
    """

    def __init__(
        self,
        counts: Counts,
        partition: Partition,
        reward_range: tuple[float, float],
        objective: str | float,
        certainty: Floats | None = None,
        *,
        borrow: bool = True,
    ) -> None:
        self.counts, self.partition, self.borrow = counts.sparse(), partition, borrow
        self.discount = discount_of(objective)
        self.average = objective == "average"
        self.low, high = reward_range
        self.span = high - self.low if high > self.low else 1.0
        # Without ends nothing begins again, and as a rule the average does not depend on the start.
        self.anywhere = (self.average and not counts.has_ends) or not counts.starts.any()
        self.starts = counts.visits.sum(axis=1) if self.anywhere else counts.starts
        self.doubt = doubts(counts, partition, certainty)
        self.doubtful = np.flatnonzero((self.doubt > _NEGLIGIBLE) & (partition.labels >= 0))
        self._states = self._group(partition.labels, None)

    @property
    def belief(self) -> Belief:
        """What is believed of the pairs of the hidden states."""
        return self._states.surprises.belief

    def best_guess(self) -> World:
        """Return the most likely world."""
        return self._world(self._states, None)

    def draw(self, rng: np.random.Generator, *, regroup: bool = True) -> tuple[World, Ints]:
        """Draw a world, and the hidden state behind each of its states."""
        grouped = self._states
        apart = self.doubtful[rng.random(len(self.doubtful)) < self.doubt[self.doubtful]]
        if regroup and len(apart):
            labels = self.partition.labels.copy()
            labels[apart] = self.partition.n_clusters + np.arange(len(apart))
            grouped = self._group(labels, self._states.surprises)
        return self._world(grouped, rng), grouped.origin

    def _group(self, labels: Ints, fitted: Surprises | None) -> _Grouped:
        states, n_actions = Partition(labels), self.counts.n_actions
        args = (self.counts.matrix(), states.labels, states.n_clusters, n_actions)
        counts = self.counts.group(states, group_sparse(*args, keep_sparse=True))
        placed = states.labels >= 0
        origin = np.empty(states.n_clusters, np.int64)
        origin[states.labels[placed]] = self.partition.labels[placed]
        starts = np.bincount(states.labels[placed], self.starts[placed]).astype(np.float64)
        return _Grouped(counts, starts, origin, Surprises(counts, fitted, borrow=self.borrow))

    def _world(self, found: _Grouped, rng: np.random.Generator | None) -> World:
        n_states, visits, starts = found.counts.n_observations, found.counts.visits, found.starts
        outcomes = found.surprises.draw(rng)
        if rng is not None:
            starts = rng.standard_gamma(np.maximum(starts, 1e-9)) * (starts > 0)
        starts = starts / starts.sum()
        totals = np.asarray(outcomes.sum(axis=1)).ravel()
        per_try = 1.0 / np.where(totals > 0, totals, 1.0)
        laws: Any
        if isinstance(outcomes, np.ndarray):
            laws = (outcomes * per_try[:, None])[:, :n_states]
        else:
            row = np.repeat(np.arange(len(totals)), np.diff(outcomes.indptr))
            shares, goes = outcomes.data * per_try[row], outcomes.indices < n_states
            upto = np.searchsorted(row[goes], np.arange(len(totals) + 1))
            laws = scipy.sparse.csr_array(
                (shares[goes], outcomes.indices[goes], upto), (len(totals), n_states)
            )
        paid = self._mean_rewards(found.surprises.belief, rng)
        means, unknown = np.where(visits > 0, paid, 0.0), found.surprises.tries == 0
        if unknown.any():
            laws, means = _guess_unknown(laws, means, unknown, visits, rng)
        means = self.low + self.span * means
        once, episodes = np.count_nonzero(self.starts == 1), self.starts.sum()
        strange = 0.0
        if once and not self.anywhere:  # the next is new as often as one was seen once
            strange = once / episodes if rng is None else rng.beta(once, episodes - once + 1.0)
        return World(
            laws, means, starts, self.discount, self.average, unknown, paid, strange, self.low
        )

    def relearn(self, world: World, rng: np.random.Generator) -> World:
        """Return what the most likely world would be if as many steps were made in this one."""
        counts, (n_states, n_actions) = self._states.counts, self._states.counts.visits.shape
        assert world.paid is not None
        tries = self._states.surprises.tries
        led = _steps(world.moves, tries.ravel(), rng)
        sums, squares = self.belief.rewards.pay(counts, world.paid, rng)
        again = Counts.from_parts(
            counts.visits,
            scipy.sparse.csr_array(led[:, :n_states]),
            sums,
            squares,
            led[:, [n_states]].toarray().reshape(n_states, n_actions),
            counts.starts,
        )
        surprises = Surprises(again, self._states.surprises, borrow=self.borrow)
        found = self._states._replace(counts=again, surprises=surprises)
        return replace(self._world(found, None), starts=world.starts, strange=world.strange)

    def _mean_rewards(self, belief: Belief, rng: np.random.Generator | None) -> Floats:
        """Return the expected mean reward of every pair, or draw it."""
        counts, expected = belief.counts, belief.mean_rewards()
        drawn = expected
        if rng is not None:
            drawn = belief.rewards.draw(counts, rng)
        if not self.borrow:
            drawn = np.where(counts.visits > 0, counts.reward_means + drawn - expected, drawn)
        return np.clip(drawn, 0.0, 1.0)


def _steps(moves: Any, tries: Floats, rng: np.random.Generator) -> Any:
    """Make so many steps from every pair and count where they led; the end is the last column."""
    ending = np.maximum(0.0, 1.0 - np.asarray(moves.sum(axis=1)).reshape(-1, 1))
    parts: list[Any] = [scipy.sparse.csr_array(moves), scipy.sparse.csr_array(ending)]
    law = scipy.sparse.csr_array(scipy.sparse.hstack(parts))
    upto = np.append(0.0, np.cumsum(law.data))
    first, last = upto[law.indptr[:-1]], upto[law.indptr[1:]]
    rows = np.repeat(np.arange(len(tries)), tries.astype(np.int64))
    at = first[rows] + rng.random(len(rows)) * (last - first)[rows]
    cells = np.searchsorted(upto, at, side="right") - 1
    cells = np.clip(cells, law.indptr[rows], law.indptr[rows + 1] - 1)
    law.data = np.bincount(cells, minlength=len(law.data))
    law.eliminate_zeros()
    return law


def _guess_unknown(
    laws: Any,
    means: Floats,
    unknown: NDArray[np.bool_],
    visits: Ints,
    rng: np.random.Generator | None,
) -> tuple[Any, Floats]:
    """Let pairs of which nothing is known move and pay as others do.

    In the most likely world they do the worst instead: they stay, and pay the least.
    """
    rows = np.flatnonzero(unknown.ravel())
    known = np.flatnonzero(~unknown.ravel())
    n_states, n_actions = means.shape
    targets, paid = rows // n_actions, np.zeros(len(rows))
    if rng is not None and len(known):
        other = rng.choice(known, len(rows))
        goes = rng.random(len(rows)) >= np.asarray(laws[other, other // n_actions]).ravel()
        arrivals = visits.sum(axis=1) / visits.sum()
        targets = np.where(goes, rng.choice(n_states, len(rows), p=arrivals), targets)
        paid = means.ravel()[other]
    means = means.copy()
    means.ravel()[rows] = np.where(visits.ravel()[rows] > 0, means.ravel()[rows], paid)
    if isinstance(laws, np.ndarray):
        laws = laws.copy()
        laws[rows, targets] += 1.0
        return laws, means
    extra = scipy.sparse.csr_array((np.ones(len(rows)), (rows, targets)), laws.shape)
    return scipy.sparse.csr_array(laws + extra), means

"""Plans in which pairs that were never tried promise something, instead of being drawn.

What may an untried pair lead to? A draw from the prior says: to anywhere. In a world of many states
that is as good as never the place where the reward is, and once a large reward is known it is too
good to be true. A plan needs less than that: whether to try it.

- *Promises.* An untried pair is worth the best value that tried pairs reach, somewhere. Nobody has
  earned more. Of two such pairs the one promises a little more in whose state less was tried.
- *When they are kept.* Where something that was tried comes close to the promise, untried pairs
  could not be worth much more, and are left out: whoever explores goes on to where nothing is known
  instead of trying all that lies on the way. There is one exception: where all that was tried is
  equally good, trying one more costs nothing.
- *Hope.* Promises lead nowhere while nothing is worth looking for: while most states pay, for
  something that was tried there, as much as was ever paid anywhere, and ends cannot be chosen. Only
  what was never seen could be better then, so untried pairs promise more than all that was paid,
  and the nearest of them is tried.
- *What tried pairs pay* is drawn, but at most halfway from what is expected to the most that was
  paid. Otherwise, of the many pairs on the way to one that was never tried, some draw would nearly
  always lure the agent away.
- *Surprises.* A pair that was tried may lead to somewhere new too. How much better or worse than
  usual that is, is drawn from how much the outcomes of one pair differ where several were seen.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.data.counts import Counts
from romdp.exact.objectives import Objective
from romdp.planning.backup import Plan
from romdp.planning.rows import SparseRows, discounted_iteration

_SWEEPS = 100  # of value iteration; the next plan goes on where this one ends
_CLOSE = 0.02  # values that differ by less than this part of them are equally good
_PATIENT = 1e-3  # part of the discount that is left where only reaching a promise counts
_USUAL = 0.5  # of the states: in most of them
_ALIKE = 1e-9  # rewards that differ by less than this part of them are the same


def promising_plan(
    counts: Counts,
    moves: Any,
    laws: Any,
    rewards: Floats,
    means: Floats,
    precision: float,
    goal: Objective,
    start: Floats | None,
    rng: np.random.Generator,
) -> Plan:
    """Plan in a drawn world, with promises instead of draws for pairs that were never tried.

    Parameters
    ----------
    counts
        What was seen.
    moves : sparse array, shape (n_states * n_actions, n_states + 1)
        What the steps of each pair led to (`Counts.outcomes`).
    laws : sparse array or `SparseRows`, shape (n_states * n_actions, n_states + 1)
        Transitions drawn by `draw_sparse`: in each row those that were seen come first.
    rewards, means : shape (n_states, n_actions)
        The mean rewards that were drawn, and those that are expected.
    precision, goal, start
        As for `discounted_iteration`.
    rng
        Draws the surprises.
    """
    tried = (np.diff(moves.indptr) > 0).reshape(counts.visits.shape)
    met = tried.any(axis=1)
    shares, probabilities, surprise = _divide(moves.indptr, moves.data, laws.indptr, laws.data)
    frequencies = SparseRows(moves.indptr, moves.indices, shares)
    usual = SparseRows(moves.indptr, moves.indices, probabilities)

    def solve(
        laws: SparseRows, paid: Floats, promised: Floats, goal: Objective, start: Floats | None
    ) -> Plan:
        paid = np.where(tried, paid, promised[:, None] + goal.zero_reward)
        return discounted_iteration(laws, paid, precision, goal, start=start, max_sweeps=_SWEEPS)

    well = _paid_well(counts)
    most = float(well[tried].max())
    known = solve(frequencies, well, np.where(met, -np.inf, 0.0), goal, None).values
    best = float(known[met].max())
    paid = counts.reward_sums / np.maximum(counts.visits, 1)
    hope = _hope(paid, tried, frequencies, most, goal)
    if hope > 0.0:  # unless what pays the most leads to what pays less
        less = solve(frequencies, paid - most + goal.zero_reward, np.zeros(met.size), goal, None)
        hope *= float(np.mean(less.values[met] >= -_ALIKE * hope) > _USUAL)
    hope /= 1.0 - goal.rate
    promise = best + hope - _CLOSE * abs(best) * tried.mean(axis=1)

    rewards = np.minimum(rewards, (means + most) / 2)
    if start is not None:
        start = np.minimum(start, best + hope)
        values = np.append(start, 0.0)
        more = _surprises(*frequencies, values, surprise, rng.random(surprise.size))
        rewards = rewards + goal.rate * more.reshape(tried.shape)
    plan = solve(usual, rewards, promise, goal, start)
    if hope > 0.0 or tried[met].all():
        return replace(plan, is_stuck=hope > 0.0 and bool(tried[met].all()))

    after = _expected(*usual, np.append(plan.values, 0.0)).reshape(tried.shape)
    gains = np.where(tried, rewards - goal.zero_reward + goal.rate * after, -np.inf)
    highest, close = gains.max(axis=1), _CLOSE * abs(best)
    mean = gains.mean(axis=1, where=tried | ~met[:, None])
    kept = np.where((highest < promise - close) | (mean >= highest - close), promise, -np.inf)
    # A known way that leads round in circles comes that close only because of the promise at its
    # own start. If values rise from what is known, nothing is added to it on such a way.
    patient = replace(goal, discount=1.0 - _PATIENT * (1.0 - goal.rate))
    reached = solve(usual, rewards, kept, patient, known).values
    kept = np.where(reached < np.minimum(promise - close, (known + promise) / 2), promise, kept)
    policy = solve(usual, rewards, kept, goal, plan.values).policy
    venture = (kept > -np.inf) & met & ~tried.all(axis=1)
    return replace(plan, policy=np.where(venture, (~tried).argmax(axis=1), policy))


def _hope(paid: Floats, tried: Any, frequencies: SparseRows, most: float, goal: Objective) -> float:
    """Return how much more than ever may be paid, if most states pay the most; else 0."""
    least, met = float(paid[tried].min()), tried.any(axis=1)
    tie = _ALIKE * max(abs(least), abs(most))
    offered = np.where(tried, paid, -np.inf).max(axis=1)[met] >= most - tie
    ends = _expected(*frequencies, np.eye(1, met.size + 1, met.size)[0]).reshape(tried.shape)
    some, all_of = np.where(tried, ends, 0.0).max(axis=1), np.where(tried, ends, 1.0).min(axis=1)
    away = abs(most - goal.zero_reward)  # if not 0, to end is better or worse than to go on
    if offered.mean() <= _USUAL or (away > tie and ((some > 0.0) & (all_of < 1.0)).any()):
        return 0.0
    return most - least if most - least > tie else away or 1.0


def _paid_well(counts: Counts) -> Floats:
    """Return what each pair pays when it pays well."""
    n, sums, squares = np.maximum(counts.visits, 1), counts.reward_sums, counts.reward_squares
    well = sums / n + np.sqrt(np.maximum(squares / n - (sums / n) ** 2, 0.0))
    # Of 0 and x, paid by chance, it is x: nothing better was seen.
    return np.where(sums > 0.0, np.minimum(well, squares / np.where(sums > 0.0, sums, 1.0)), well)


@kernel
def _divide(
    starts: NDArray[np.integer], counts: Ints, law_starts: NDArray[np.integer], law: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the frequencies of transitions seen, their drawn probabilities, and the rest.

    Rows of both sum to one. The rest is the drawn mass of all transitions that were not seen.
    """
    n_rows = starts.size - 1
    shares, probabilities, rest = np.empty(counts.size), np.empty(counts.size), np.zeros(n_rows)
    for row in range(n_rows):
        first, kinds = starts[row], starts[row + 1] - starts[row]
        begin = law_starts[row]
        total, drawn = 0.0, 0.0
        for i in range(kinds):
            total += counts[first + i]
            drawn += law[begin + i]
        for i in range(kinds):
            shares[first + i] = counts[first + i] / total
            probabilities[first + i] = law[begin + i] / (drawn if drawn > 0.0 else 1.0)
        for i in range(begin + kinds, law_starts[row + 1]):
            rest[row] += law[i]
    return shares, probabilities, rest


@kernel
def _expected(
    starts: NDArray[np.integer], columns: NDArray[np.integer], probabilities: Floats, values: Floats
) -> Floats:
    """Return the expected value after each pair."""
    expected = np.zeros(starts.size - 1)
    for row in range(expected.size):
        for k in range(starts[row], starts[row + 1]):
            expected[row] += probabilities[k] * values[columns[k]]
    return expected


@kernel
def _surprises(
    starts: NDArray[np.integer],
    columns: NDArray[np.integer],
    frequencies: Floats,
    values: Floats,
    surprise: Floats,
    uniform: Floats,
) -> Floats:
    """Return what the unseen outcomes of each pair add to its value, given a uniform draw for each.

    It is drawn from how the outcomes of pairs that had several differ from what they expect.
    """
    expected = _expected(starts, columns, frequencies, values)
    differences, probabilities = np.empty(columns.size), np.empty(columns.size)
    size, total = 0, 0.0
    for row in range(expected.size):
        if starts[row + 1] - starts[row] > 1:
            for k in range(starts[row], starts[row + 1]):
                total += frequencies[k]
                differences[size], probabilities[size] = values[columns[k]] - expected[row], total
                size += 1
    added = np.zeros(expected.size)
    if size > 0:
        for row in range(expected.size):
            if starts[row + 1] > starts[row]:
                drawn = np.searchsorted(probabilities[:size], total * uniform[row])
                added[row] = surprise[row] * differences[min(drawn, size - 1)]
    return added

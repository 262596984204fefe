"""Plans in which pairs that were never tried promise nearly as much as the best that is known.

What may an untried pair lead to? A draw from the prior says: to anywhere. In a world of many states
that is as good as never the place where the reward is, and once a large reward is known it is too
good to be true. A plan needs less than that: whether to try it.

- *What it promises* is the best value that tried pairs reach, somewhere. Nobody has earned more. Of
  two such pairs the one promises a little more in whose state less was tried.
- *When it is tried.* Where tried pairs come close to the promise, it could not be worth much more
  than what is known, and the known way is taken: it may lead to a state that needs exploring more.
  There is one exception: where all that was tried is equally good, trying one more costs nothing.
- *What tried pairs pay* is drawn, but at most halfway from what is expected to the most that was
  paid. Otherwise, of the many pairs on the way to one that was never tried, some draw would nearly
  always lure the agent away.
- *Bad luck.* The right pair may have failed at its only try. Where all that was tried falls far
  short of the promise, what was tried least is tried again if that costs next to nothing, until
  it was tried often enough: a number of times that grows with the logarithm of the steps.
- *Surprises.* A pair that was tried may lead to somewhere new too. How much better or worse than
  usual that is, is drawn from how much the outcomes of one pair differ where several were seen.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.data.counts import Counts
from romdp.exact.objectives import Objective
from romdp.planning.backup import Floats, Plan
from romdp.planning.rows import SparseRows, discounted_iteration

_SWEEPS = 100  # of value iteration; the next plan goes on where this one ends
_CLOSE = 0.02  # values that differ by less than this part of them are equally good
_FAR = 0.75  # part of the promise that is missing where all that was tried falls far short of it
_CHEAP = 0.1  # part of what is missing that one more try may cost there
_LESS = 0.02  # of the promise is lost by a state as its actions are tried


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
    enough: float,
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
    enough
        Tries after which a pair is believed to be as bad as it seems.
    """
    shape = counts.visits.shape
    tried = (np.diff(moves.indptr) > 0).reshape(shape)
    shares, chances, surprise = _divide(moves.indptr, moves.data, laws.indptr, laws.data)
    frequencies = SparseRows(moves.indptr, moves.indices, shares)
    usual = SparseRows(moves.indptr, moves.indices, chances)
    well = _paid_well(counts)
    best = _best_known(well, frequencies, tried, precision, goal)
    promise = best - _LESS * abs(best) * tried.mean(axis=1)

    rewards = np.minimum(rewards, (means + well[tried].max()) / 2)
    begin = None if start is None else np.minimum(start, best)
    if begin is not None:
        values = np.append(begin, 0.0)
        more = _surprises(*frequencies, values, surprise, rng.random(surprise.size))
        rewards = rewards + goal.rate * more.reshape(shape)
    rewards = np.where(tried, rewards, promise[:, None] + goal.zero_reward)
    plan = discounted_iteration(usual, rewards, precision, goal, start=begin, max_sweeps=_SWEEPS)

    after = _expected(*usual, np.append(plan.values, 0.0)).reshape(shape)
    values = rewards - goal.zero_reward + goal.rate * after
    known = np.where(tried, values, -np.inf)
    met = tried.any(axis=1)
    partly = met & ~tried.all(axis=1)
    most = np.where(met, known.max(axis=1), 0.0)
    mean = np.where(tried, values, 0.0).sum(axis=1) / np.maximum(tried.sum(axis=1), 1)
    close = _CLOSE * np.maximum(abs(best), np.abs(most))
    venture = (most < promise - close) | (mean >= most - close)
    choice = np.where(venture, (~tried).argmax(axis=1), known.argmax(axis=1))
    policy = np.where(partly, choice, plan.policy)
    missing = np.maximum(promise - most, 0.0)
    cheap = most[:, None] - known <= _CHEAP * missing[:, None]
    doubted = cheap & (counts.visits < enough) & (missing >= _FAR * np.abs(promise))[:, None]
    least = np.where(doubted, counts.visits, np.iinfo(np.int64).max).argmin(axis=1)
    return replace(plan, policy=np.where(doubted.any(axis=1) & ~partly, least, policy))


def _paid_well(counts: Counts) -> Floats:
    """Return what each pair pays when it pays well."""
    n = np.maximum(counts.visits, 1)
    means = counts.reward_sums / n
    well = means + np.sqrt(np.maximum(counts.reward_squares / n - means**2, 0.0))
    gains = counts.reward_sums > 0.0
    # Of 0 and x, paid by chance, this is x: nothing better was seen.
    paid = counts.reward_squares / np.where(gains, counts.reward_sums, 1.0)
    return np.where(gains, np.minimum(well, paid), well)


def _best_known(
    well: Floats, frequencies: SparseRows, tried: Any, precision: float, goal: Objective
) -> float:
    """Return the best value that tried pairs reach; each pays what it does when it pays well."""
    met = tried.any(axis=1)
    well = np.where(tried, well, np.where(met, -np.inf, goal.zero_reward)[:, None])
    known = discounted_iteration(frequencies, well, precision, goal, max_sweeps=_SWEEPS)
    return float(known.values[met].max())


@kernel
def _divide(
    starts: NDArray[np.integer],
    counts: NDArray[np.int64],
    law_starts: NDArray[np.integer],
    law: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return the frequencies of the transitions seen, their drawn chances, and the rest of those.

    Rows of both sum to one. The rest is the drawn mass of all transitions that were not seen.
    """
    n_rows = starts.size - 1
    shares, chances, rest = np.empty(counts.size), np.empty(counts.size), np.zeros(n_rows)
    for row in range(n_rows):
        first, kinds = starts[row], starts[row + 1] - starts[row]
        begin = law_starts[row]
        total, drawn = 0.0, 0.0
        for i in range(kinds):
            total += counts[first + i]
            drawn += law[begin + i]
        for i in range(kinds):
            shares[first + i] = counts[first + i] / total
            chances[first + i] = law[begin + i] / (drawn if drawn > 0.0 else 1.0)
        for i in range(begin + kinds, law_starts[row + 1]):
            rest[row] += law[i]
    return shares, chances, rest


@kernel
def _expected(
    starts: NDArray[np.integer], columns: NDArray[np.integer], chances: Floats, values: Floats
) -> Floats:
    """Return the expected value after each pair."""
    expected = np.zeros(starts.size - 1)
    for row in range(expected.size):
        for k in range(starts[row], starts[row + 1]):
            expected[row] += chances[k] * values[columns[k]]
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
    differences, chances = np.empty(columns.size), np.empty(columns.size)
    size, total = 0, 0.0
    for row in range(expected.size):
        if starts[row + 1] - starts[row] > 1:
            for k in range(starts[row], starts[row + 1]):
                total += frequencies[k]
                differences[size], chances[size] = values[columns[k]] - expected[row], total
                size += 1
    added = np.zeros(expected.size)
    if size > 0:
        for row in range(expected.size):
            if starts[row + 1] > starts[row]:
                drawn = np.searchsorted(chances[:size], total * uniform[row])
                added[row] = surprise[row] * differences[min(drawn, size - 1)]
    return added

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
- *Surprises.* A pair that was tried may lead to somewhere new too. How much better or worse than
  usual that is, is drawn from how much the outcomes of one pair differ where several were seen.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from romdp.data.counts import Counts
from romdp.exact.objectives import Objective
from romdp.planning.backup import Floats, Plan
from romdp.planning.iteration import outcomes
from romdp.planning.rows import discounted_iteration

_SWEEPS = 100  # of value iteration; the next plan goes on where this one ends
_CLOSE = 0.02  # values that differ by less than this part of them are equally good
_LESS = 0.02  # of the promise is lost by a state as its actions are tried


def promising_plan(
    counts: Counts,
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
        What was seen, sparse.
    laws : sparse array, shape (n_states * n_actions, n_states + 1)
        Transitions drawn by `draw_sparse`: in each row those that were seen come first.
    rewards, means : shape (n_states, n_actions)
        The mean rewards that were drawn, and those that are expected.
    precision, goal, start
        As for `discounted_iteration`.
    rng
        Draws the surprises.
    """
    moves: Any = outcomes(counts, goal)
    kinds = np.diff(moves.indptr)
    shape = counts.visits.shape
    tried = (kinds > 0).reshape(shape)
    frequencies = _divided(moves.data, moves)
    well = _paid_well(counts)
    best = _best_known(well, frequencies, tried, precision, goal)
    promise = best - _LESS * abs(best) * tried.mean(axis=1)

    rewards = np.minimum(rewards, (means + well[tried].max()) / 2)
    usual, surprise = _part(laws, kinds)
    begin = None if start is None else np.minimum(start, best)
    if begin is not None:
        values = np.append(begin, 0.0)
        rewards = rewards + goal.rate * _surprises(frequencies, values, surprise, rng, shape)
    rewards = np.where(tried, rewards, promise[:, None] + goal.zero_reward)
    plan = discounted_iteration(usual, rewards, precision, goal, start=begin, max_sweeps=_SWEEPS)

    partly = tried.any(axis=1) & ~tried.all(axis=1)
    if not partly.any():
        return plan
    after = (usual @ np.append(plan.values, 0.0)).reshape(shape)
    values = rewards - goal.zero_reward + goal.rate * after
    known = np.where(tried, values, -np.inf)
    most = np.where(partly, known.max(axis=1), 0.0)
    mean = np.where(tried, values, 0.0).sum(axis=1) / np.maximum(tried.sum(axis=1), 1)
    close = _CLOSE * np.maximum(abs(best), np.abs(most))
    venture = (most < promise - close) | (mean >= most - close)
    choice = np.where(venture, (~tried).argmax(axis=1), known.argmax(axis=1))
    policy = np.where(partly, choice, plan.policy)
    return replace(plan, policy=policy)


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
    well: Floats, frequencies: Any, tried: Any, precision: float, goal: Objective
) -> float:
    """Return the best value that tried pairs reach; each pays what it does when it pays well."""
    met = tried.any(axis=1)
    well = np.where(tried, well, np.where(met, -np.inf, goal.zero_reward)[:, None])
    known = discounted_iteration(frequencies, well, precision, goal, max_sweeps=_SWEEPS)
    return float(known.values[met].max())


def _divided(data: Any, rows: Any) -> Any:
    """Return sparse rows with these entries, each row divided by its sum."""
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    sums = np.bincount(row, data, rows.shape[0])
    shares = data / np.where(sums > 0.0, sums, 1.0)[row]
    return scipy.sparse.csr_array((shares, rows.indices, rows.indptr), rows.shape)


def _part(laws: Any, kinds: Any) -> tuple[Any, Floats]:
    """Part drawn laws into those on the transitions seen, and the mass of all others."""
    row = np.repeat(np.arange(laws.shape[0]), np.diff(laws.indptr))
    seen = np.arange(len(row)) - laws.indptr[row] < kinds[row]
    surprise: Any = np.bincount(row, np.where(seen, 0.0, laws.data), laws.shape[0])
    return _divided(np.where(seen, laws.data, 0.0), laws), surprise


def _surprises(
    frequencies: Any,
    values: Floats,
    surprise: Floats,
    rng: np.random.Generator,
    shape: tuple[int, ...],
) -> Floats:
    """Draw what the unseen outcomes of each pair add to its value."""
    each = np.diff(frequencies.indptr)
    differences = values[frequencies.indices] - np.repeat(frequencies @ values, each)
    several = np.repeat(each > 1, each)
    if not several.any():
        return np.zeros(shape)
    chances = np.cumsum(frequencies.data[several])
    drawn = np.searchsorted(chances, chances[-1] * rng.random(surprise.size))
    pool = differences[several]
    added: Floats = surprise * pool[np.minimum(drawn, pool.size - 1)]
    return added.reshape(shape)

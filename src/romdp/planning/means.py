"""The plan by the mean of what was seen: what an agent knows, without exploring."""

from typing import Any

import numpy as np
import scipy.sparse

from romdp.core.arrays import Floats, Ints
from romdp.data.counts import Counts
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Plan
from romdp.planning.iteration import outcomes, value_iteration
from romdp.planning.rows import discounted_iteration

_PRECISION = 1e-5  # of the gain
_EXACT = 0.01  # of sums: relative to the largest reward
_WORSE = 1e-6  # what an untried action earns less than a tried one, relative to all rewards
_FREQUENT = 32  # places that a state where nothing was tried is expected to lead to
_MAX_SWEEPS = 20_000
_LARGE = 2**22  # entries of transitions from which they are kept as sparse rows


def mean_plan(
    counts: Counts,
    objective: Objective = AVERAGE,
    start: Floats | None = None,
    rewards: Floats | None = None,
    weights: Floats | None = None,
) -> Plan:
    """Plan as if the mean of what is believed were the truth.

    An action that was never tried is as good as the one that was tried most in that state, and a
    little worse, so that it is never chosen. A state where no action was tried earns the mean of
    all rewards and leads to where steps lead most often.

    Parameters
    ----------
    counts
        What was seen.
    objective
        What is maximised.
    start
        Values of an earlier plan.
    rewards : shape (n_states, n_actions), optional
        The mean rewards, instead of those of the counts.
    weights : shape (n_states * n_actions,), optional
        Weight of the Dirichlet prior of each pair, shared evenly by all places: what was seen once
        is not certain yet, and where falling ends all, an action that went well once is not the
        best one. Under the average and under a horizon, worlds of more than four million entries
        are planned without it.

    Examples
    --------
    >>> counts = Counts([[4, 0], [9, 9]], [[[0, 4], [0, 0]], [[0, 9], [9, 0]]],
    ...                 [[0, 0], [9, 1]], [[0, 0], [9, 1]])
    >>> mean_plan(counts).policy
    array([0, 0])
    """
    n_states, n_actions = counts.visits.shape
    visits = counts.visits.ravel()
    means = (counts.reward_means if rewards is None else rewards).ravel()
    moves: Any = outcomes(counts.sparse(), objective)
    known = np.asarray(moves.sum(axis=1)).ravel() > 0
    tried = means[visits > 0]
    spread = float(np.ptp(tried)) if tried.size else 0.0

    most = np.where(known, visits, 0).reshape(n_states, n_actions)
    favourite = np.repeat(np.arange(n_states) * n_actions + most.argmax(axis=1), n_actions)
    pairs = np.arange(visits.size)
    source = np.where(known, pairs, favourite)
    laws = moves[source]
    expected = means[source] - np.where(known, 0.0, _WORSE * spread)

    lost = np.flatnonzero(most.max(axis=1) == 0)
    if lost.size:
        cells = (lost[:, None] * n_actions + np.arange(n_actions)).ravel()
        expected[cells] = tried.mean() if tried.size else 0.0
        laws = laws + _usual_laws(moves, lost, n_actions)
    precision = _PRECISION
    if not objective.is_average:
        largest = float(np.abs(expected - objective.zero_reward).max())
        precision = max(_EXACT * (1.0 - objective.rate), 1e-12) * (largest or 1.0)
    weight = None if weights is None else weights[source]
    if weight is not None and not objective.is_average and objective.horizon is None:
        n = np.asarray(laws.sum(axis=1), np.float64).ravel()
        seen = scipy.sparse.csr_array(
            (laws.data / np.repeat(n + weight, np.diff(laws.indptr)), laws.indices, laws.indptr),
            laws.shape,
        )
        return discounted_iteration(
            seen,
            expected.reshape(n_states, n_actions),
            precision,
            objective,
            start=start,
            max_sweeps=_MAX_SWEEPS,
            anywhere=weight / (n + weight),
        )
    if weight is not None and np.prod(laws.shape) < _LARGE:
        laws = (laws.toarray() + weight[:, None] / laws.shape[1]).reshape(n_states, n_actions, -1)
    return value_iteration(
        laws,
        expected.reshape(n_states, n_actions),
        precision,
        start=start,
        max_sweeps=_MAX_SWEEPS,
        objective=objective,
    )


def _usual_laws(
    moves: Any, lost: Ints, n_actions: int
) -> "scipy.sparse.csr_array[np.float64, tuple[int, int]]":
    """Let all pairs of the ``lost`` states lead to where steps lead most often.

    A state that nothing led to stays where it is: nobody will ask about it.
    """
    arrivals: Floats = np.asarray(moves.sum(axis=0), np.float64).ravel()
    frequent = np.argsort(-arrivals, kind="stable")[:_FREQUENT]
    frequent = frequent[arrivals[frequent] > 0]
    met = lost[arrivals[lost] > 0]
    alone = lost[arrivals[lost] == 0]

    def cells(states: Ints) -> Ints:
        return (states[:, None] * n_actions + np.arange(n_actions)).ravel()

    rows = np.concatenate((np.repeat(cells(met), frequent.size), cells(alone)))
    columns = np.concatenate((np.tile(frequent, met.size * n_actions), np.repeat(alone, n_actions)))
    weights = np.concatenate(
        (np.tile(arrivals[frequent], met.size * n_actions), np.ones(alone.size * n_actions))
    )
    return scipy.sparse.csr_array((weights, (rows, columns)), shape=moves.shape)

"""Discounted value iteration of one sparse model, in place.

Extended value iteration must walk the states in the order of their values. One model needs no
order: each state is backed up from the newest values of the others (Gauss-Seidel), which takes
about half as many sweeps, each of a fraction of the time. Posterior sampling plans every few steps.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats
from romdp.core.compiled import kernel
from romdp.core.validation import freeze
from romdp.exact.objectives import Objective
from romdp.planning.backup import Integers, Plan

_NEARLY_AVERAGE = 0.995
_NOWHERE = np.empty(0)
_TIE = 1e-12  # actions this close are equally good: rounding must not choose between them


class SparseRows(NamedTuple):
    """Sparse rows as SciPy keeps them; its checks take longer than a sweep."""

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    data: NDArray[Any]

    def to_scipy(self, n_columns: int) -> "scipy.sparse.csr_array[Any, tuple[int, int]]":
        """Return them as an array of SciPy."""
        shape = (self.indptr.size - 1, n_columns)
        return scipy.sparse.csr_array((self.data, self.indices, self.indptr), shape=shape)


def discounted_iteration(
    laws: Any,
    rewards: Floats,
    precision: float,
    objective: Objective,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = 100_000,
    anywhere: Floats = _NOWHERE,
) -> Plan:
    """Find the best policy of one model under a discount.

    Parameters
    ----------
    laws : sparse array or `SparseRows`, shape (S * A, S + 1)
        Rows that sum to one; the last column is the end of the episode. For the average there is
        no such column.
    rewards, precision, start, max_sweeps
        As for `romdp.planning.value_iteration`.
    anywhere : shape (S * A,), optional
        The probability of each pair to lead to any of the columns, all equally likely. The rows
        then sum to one minus this.
    objective
        Not one with a horizon. The average is taken as a discount of 0.995: a model that was drawn
        for many states may have parts that cannot reach each other and then has no single gain.

    Examples
    --------
    >>> import scipy.sparse
    >>> laws = scipy.sparse.csr_array(np.array([[0.5, 0.5]]))
    >>> goal = Objective("discounted", 0.8)
    >>> discounted_iteration(laws, np.array([[3.0]]), 1e-9, goal).values.round(6)
    array([5.])
    """
    n_states, average = len(rewards), objective.is_average
    discount = _NEARLY_AVERAGE if average else objective.rate
    values = np.zeros(n_states + 1)
    if start is not None:
        values[:n_states] = start
    policy = np.empty(n_states, np.int64)
    low, high, sweeps = _iterate(
        laws.indptr,
        laws.indices,
        laws.data,
        rewards if average else rewards - objective.zero_reward,
        values,
        policy,
        discount,
        not average,
        precision,
        max_sweeps,
        anywhere,
    )
    found = values[:n_states]
    return Plan(
        policy=freeze(policy),
        gain=(1.0 - discount) * float(found.mean()) if average else np.nan,
        span=float(values.max() - values.min()),
        sweeps=sweeps,
        values=freeze(found),
        converged=high - low < precision,
        gap=high - low,
    )


@kernel
def _iterate(
    starts: NDArray[np.integer],
    columns: NDArray[np.integer],
    probabilities: Floats,
    rewards: Floats,
    values: Floats,
    policy: Integers,
    discount: float,
    ends: bool,
    precision: float,
    max_sweeps: int,
    anywhere: Floats,
) -> tuple[float, float, int]:
    """Sweep until the values hardly change; the last entry of the values, the end, never does.

    Every other sweep goes backwards, the first one too: states are numbered as they were met, and
    what is met late on a way is what the states before it wait for.
    """
    n_states, n_actions = rewards.shape
    n_columns = n_states + (1 if ends else 0)
    everywhere = values[:n_states].sum()
    size = 0.0
    for reward in rewards.flat:
        if abs(reward) < np.inf:
            size = max(size, abs(reward))
    totals = np.empty(n_actions)
    sweeps = 0
    low, high = -np.inf, np.inf
    while sweeps < max_sweeps and not high - low < precision:
        low, high = (0.0, 0.0) if ends else (np.inf, -np.inf)
        for i in range(n_states):
            state = n_states - 1 - i if sweeps % 2 == 0 else i
            best = -np.inf
            for action in range(n_actions):
                row = state * n_actions + action
                total = 0.0
                for k in range(starts[row], starts[row + 1]):
                    total += probabilities[k] * values[columns[k]]
                if anywhere.size > 0:
                    total += anywhere[row] * everywhere / n_columns
                totals[action] = rewards[state, action] + discount * total
                best = max(best, totals[action])
            low, high = min(low, best - values[state]), max(high, best - values[state])
            everywhere += best - values[state]
            values[state] = best
            enough = best - _TIE * max(size, abs(best))
            for action in range(n_actions - 1, -1, -1):
                if totals[action] >= enough:
                    policy[state] = action
        sweeps += 1
    return low, high, sweeps

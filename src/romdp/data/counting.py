"""The kernels that count: one step at a time, wherever it comes from.

The compiled simulator and a recorder in somebody's own loop both count here. Arrays are flat: a
cell is ``observation * n_actions + action``.
"""

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.data.tally import add


@kernel
def count_step(
    cell: int,
    reward: float,
    next_owner: int,
    n_owners: int,
    visits: NDArray[np.int64],
    sums: NDArray[np.float64],
    squares: NDArray[np.float64],
    keys: NDArray[np.int64] | None,
    pairs: NDArray[np.int64],
    journal: NDArray[np.int64],
) -> None:
    """Count a visit of ``cell`` (owner * n_actions + action), its reward and its successor.

    A negative ``next_owner`` is unknown: the step counts its reward and no transition.
    """
    visits[cell] += 1
    sums[cell] += reward
    squares[cell] += reward * reward
    if next_owner >= 0:
        add(keys, pairs, journal, cell * n_owners + next_owner)


@kernel
def owner_of(owners: NDArray[np.int64] | None, observation: int) -> int:
    """Return the group that an observation is counted under: itself unless there are ``owners``."""
    if owners is None:
        return observation
    return owners[observation] if observation >= 0 else observation


@kernel
def count_triple(
    previous: int,
    observation: int,
    next_observation: int,
    groups: NDArray[np.int64] | None,
    n_groups: int,
    keys: NDArray[np.int64] | None,
    triples: NDArray[np.int64],
    journal: NDArray[np.int64],
) -> int:
    """Count (previous group, group, next group); returns the previous group of the next step.

    ``groups`` is None while nobody watches triples; the kernel is then empty. A negative
    ``previous`` or ``next_observation`` is unknown, and a negative group is that of an
    observation without one: neither makes a triple.
    """
    if groups is None:
        return -1
    if next_observation < 0:
        return -1
    middle: int = groups[observation]
    following: int = groups[next_observation]
    if previous >= 0 and middle >= 0 and following >= 0:
        add(keys, triples, journal, (previous * n_groups + middle) * n_groups + following)
    return middle

"""The compiled loops behind the counting of logs, and how a transition becomes one number."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.data.tally import add, is_full
from romdp.logs.reading.names import Floats, Ints

OBSERVATION_BITS, ACTION_BITS = 24, 15
"""A transition is one key: observation, action and next observation side by side."""


@kernel
def link(
    observations: Ints,
    actions: Ints,
    episodes: Ints,
    first: Ints,
    last: Ints,
    keys: Ints,
    counts: Ints,
    used: Ints,
    start: int,
) -> int:
    """Count where each row's predecessor led, until the table is full; return where it stopped."""
    for i in range(start, observations.size):
        if is_full(keys, used):
            return i
        episode = episodes[i]
        before = last[episode]
        if before >= 0:
            add(keys, counts, used, (before << OBSERVATION_BITS) | observations[i])
        else:
            first[episode] = observations[i]
        last[episode] = (observations[i] << ACTION_BITS) | actions[i]
    return observations.size


@kernel
def count_rewards(
    observations: Ints,
    actions: Ints,
    rewards: Floats,
    shift: float,
    visits: Ints,
    sums: Floats,
    squares: Floats,
) -> None:
    """Count the pairs and add up what they paid, less the shift."""
    for i in range(observations.size):
        o, a = observations[i], actions[i]
        reward = rewards[i] - shift
        visits[o, a] += 1
        sums[o, a] += reward
        squares[o, a] += reward * reward


@kernel
def out_of_order(
    who: Ints, order: NDArray[Any], begun: NDArray[np.bool_], first: Any, last: Any
) -> int:
    """Return the first row that does not come after its predecessor, or -1."""
    for i in range(who.size):
        w = who[i]
        if begun[w]:
            if not order[i] > last[w]:
                return i
        else:
            begun[w] = True
            first[w] = order[i]
        last[w] = order[i]
    return -1


@kernel
def mark_ends(whose: Ints, terminated: NDArray[np.bool_], over: NDArray[np.bool_]) -> int:
    """Note which episodes are over; return the first row that comes after an end, or -1."""
    for i in range(whose.size):
        if over[whose[i]]:
            return i
        over[whose[i]] = terminated[i]
    return -1


def renamed(keys: Ints, observations: Ints, actions: Ints) -> Ints:
    """Translate keys to the numbers of another stretch."""
    seen, done = unpacked(keys >> OBSERVATION_BITS)
    rows = (observations[seen] << ACTION_BITS) | actions[done]
    new: Ints = (rows << OBSERVATION_BITS) | observations[keys & (2**OBSERVATION_BITS - 1)]
    return new


def unpacked(rows: Ints) -> tuple[Ints, Ints]:
    """Return observation and action of rows as `Episodes.last` keeps them."""
    return rows >> ACTION_BITS, rows & (2**ACTION_BITS - 1)

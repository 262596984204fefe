"""What states and actions are worth under the model's objective, and how sure that is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.randomness import generator
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.logs.model.draws import Draws, World
from romdp.logs.model.trial import departures, follow

Floats = NDArray[np.float64]

_DRAWS = 100


class Values(NamedTuple):
    """Values of pairs and of states with their standard deviations, in units of the reward."""

    q_values: Floats
    values: Floats
    q_errors: Floats
    value_errors: Floats


def worth(world: World, policy: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return what each pair and each state is worth if a policy is followed from there on.

    For the average objective: relative to what the states are worth on average, ``share`` being how
    often each is visited.
    """
    values = world.values(policy)
    after = (world.moves @ values).reshape(policy.shape)
    offset = 0.0
    if world.restarts:
        lost = 1.0 - np.asarray(world.moves.sum(axis=1)).reshape(policy.shape)
        after = after + np.maximum(0.0, lost) * (world.starts @ values)
        offset = float(share @ values)
    return world.rewards + world.discount * after - offset, values - offset


def find_values(
    counts: Counts, reward_range: tuple[float, float] | None, objective: str | float
) -> Values:
    """Value the best policy among what was tried; see `LatentModel.q_values`."""
    if reward_range is None:
        pairs = np.full(counts.visits.shape, np.nan)
        return Values(pairs, pairs[:, 0], pairs, pairs[:, 0])
    draws = Draws(counts, Partition.singletons(len(counts.visits)), reward_range, objective)
    share = counts.visits.sum(axis=1) / max(1, counts.n_steps)
    guess = draws.best_guess()
    tried: NDArray[np.bool_] = np.asarray(counts.visits > 0)
    any_of_them = np.where(tried.any(axis=1, keepdims=True), tried, True)
    usual = any_of_them / any_of_them.sum(axis=1, keepdims=True)
    policy = follow(usual, departures(guess, usual, tried))
    rng = generator(0)
    drawn = [worth(draws.draw(rng, regroup=False)[0], policy, share) for _ in range(_DRAWS)]
    errors = (np.std(np.stack(found), axis=0) for found in zip(*drawn, strict=True))
    return Values(*(freeze(x) for x in (*worth(guess, policy, share), *errors)))

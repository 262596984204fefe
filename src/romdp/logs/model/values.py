"""What states and actions are worth under the model's objective, and how sure that is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.randomness import generator
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.logs.model.draws import Draws, World
from romdp.logs.model.trial import departures, follow, worth

Floats = NDArray[np.float64]

_DRAWS = 100


class Values(NamedTuple):
    """Values of pairs and of states with their standard deviations, in units of the reward.

    ``reward_errors`` are those of the mean rewards of pairs.
    """

    q_values: Floats
    values: Floats
    q_errors: Floats
    value_errors: Floats
    reward_errors: Floats


def find_values(
    counts: Counts, reward_range: tuple[float, float] | None, objective: str | float
) -> Values:
    """Value the best policy among what was tried; see `LatentModel.q_values`."""
    if reward_range is None:
        pairs = np.full(counts.visits.shape, np.nan)
        return Values(pairs, pairs[:, 0], pairs, pairs[:, 0], pairs)
    draws = Draws(counts, Partition.singletons(len(counts.visits)), reward_range, objective)
    share = counts.visits.sum(axis=1) / max(1, counts.n_steps)
    guess = draws.best_guess()
    tried: NDArray[np.bool_] = np.asarray(counts.visits > 0)
    any_of_them = np.where(tried.any(axis=1, keepdims=True), tried, True)
    usual = any_of_them / any_of_them.sum(axis=1, keepdims=True)
    policy = follow(usual, departures(guess, usual, tried))
    rng = generator(0)

    def valued(world: World) -> tuple[Floats, Floats]:
        pairs, states = worth(world, policy)  # for the average: relative to all states
        offset = float(share @ states) if world.restarts else 0.0
        return pairs - offset, states - offset

    worlds = (draws.draw(rng, regroup=False)[0] for _ in range(_DRAWS))
    drawn = [(*valued(world), world.rewards) for world in worlds]
    errors = (np.std(np.stack(found), axis=0) for found in zip(*drawn, strict=True))
    return Values(*(freeze(x) for x in (*valued(guess), *errors)))

"""The genie: places each observation knowing the true model and all other labels.

It uses the truth, so it belongs to benchmarks only. What it does not know is how often the
observation is shown by the state it is tried in; that is fitted, as it carries no information.
"""

import numpy as np
from numpy.typing import NDArray

import romdp


def genie_labels(world: romdp.ROMDP, counts: romdp.Counts) -> NDArray[np.int64]:
    """Return the genie's label of every observation, given Bernoulli rewards."""
    size, actions, states = world.n_observations, world.n_actions, world.n_states
    moves = counts.matrix().astype(np.float64)
    member = np.eye(states)[world.labels]
    law = np.log(np.maximum(world.transition, 1e-300))
    loops = np.stack([moves[a::actions].diagonal() for a in range(actions)], axis=1)
    own = np.stack([law[x, :, x] for x in range(states)])  # both ends of a loop move with the label
    leads = (moves @ member).reshape(size, actions, states)
    comes = np.zeros((size, states, actions))
    taken = np.zeros((states, actions))
    for a in range(actions):
        rows = moves[a::actions]
        comes[:, :, a] = rows.T @ member
        taken[:, a] = member.T @ np.asarray(rows.sum(axis=1)).ravel()
    arrivals = comes.sum(axis=(1, 2))
    leads -= loops[:, :, None] * member[:, None, :]
    comes -= member[:, :, None] * loops[:, None, :]
    value = np.einsum("yat,xat->yx", leads, law) + np.einsum("ysa,sax->yx", comes, law)
    value += loops @ own.T
    value -= arrivals[:, None] * np.log(np.einsum("sa,sax->x", taken, world.transition))
    paid, unpaid = counts.reward_sums, counts.visits - counts.reward_sums
    means = np.clip(world.reward, 1e-300, 1 - 1e-16)
    value += paid @ np.log(means).T + unpaid @ np.log1p(-means).T
    return value.argmax(axis=1)


def misplaced(world: romdp.ROMDP, counts: romdp.Counts) -> int:
    """Count the observations met at least once that the genie places wrongly."""
    met = (counts.visits.sum(axis=1) > 0) | (np.asarray(counts.matrix().sum(axis=0)).ravel() > 0)
    return int(np.count_nonzero(met & (genie_labels(world, counts) != world.labels)))

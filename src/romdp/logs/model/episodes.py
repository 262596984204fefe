"""The steps of a log by episode, weighted by how a policy would have decided."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.data.trajectory import Trajectory
from romdp.logs.comparing import ALPHAS, highest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Episodes:
    """The steps of a log by episode, and sums over them.

    Parameters
    ----------
    seen
        The steps.
    discount
        The weight of the next reward in the sum of an episode.
    """

    def __init__(self, seen: Trajectory, discount: float = 1.0) -> None:
        self.lengths = seen.lengths
        self.starts = np.cumsum(seen.lengths) - seen.lengths
        self.last = self.starts + self.lengths - 1
        self.whose = np.repeat(np.arange(seen.n_episodes), seen.lengths)
        self.step: Ints = np.arange(seen.n_steps) - self.starts[self.whose]
        self.worth = np.asarray(np.power(discount, self.step), np.float64)

    def add_up(self, values: Floats) -> Floats:
        """Add up what the steps of each episode are worth."""
        totals: Floats = np.add.reduceat(self.worth * values, self.starts)
        return totals

    def products(self, ratio: Floats) -> Floats:
        """Multiply ratios from the start of the episode up to each step."""
        with np.errstate(divide="ignore"):
            logs = np.log(ratio)
        finite = np.where(np.isfinite(logs), logs, 0.0)
        before = np.cumsum(finite) - finite
        zeros = np.cumsum(ratio == 0)
        at = self.starts[self.whose]
        none = zeros - zeros[at] + (ratio[at] == 0) == 0
        weights: Floats = np.where(none, np.exp(before + finite - before[at]), 0.0)
        return weights

    def normalised(self, weights: Floats) -> Floats:
        """Divide weights by their mean over all episodes at the same step.

        An episode that is over keeps the weight that it had at its end.
        """
        last = np.bincount(self.step[self.last], weights[self.last])
        over = np.append(0.0, np.cumsum(last)[:-1])
        mean = (np.bincount(self.step, weights) + over) / len(self.lengths)
        found: Floats = weights / np.maximum(mean, 1e-300)[self.step]
        return found

    def effective(self, weights: Floats) -> float:
        """Say how many equally weighted episodes there are."""
        w = weights[self.last]
        return float(w.sum() ** 2 / max(1e-300, float((w**2).sum())))

    def doubly_robust(self, weights: Floats, rewards: Floats, q: Floats, v: Floats) -> Floats:
        """Estimate the sum of every episode: the model's, corrected by what it did not foresee."""
        before = np.ones(len(weights))
        before[1:] = weights[:-1]
        before[self.starts] = 1.0
        return self.add_up(weights * (rewards - q) + before * v)


def choices(visits: Ints, labels: Ints, inverse: Any = None) -> Floats:
    """Estimate the probability of each action at each observation.

    Parameters
    ----------
    visits
        How often each action was chosen at each observation.
    labels
        The hidden state of every observation, -1 for none.
    inverse
        The sums of 1 / propensity, where propensities are known: a probability is then the visits
        divided by that sum.

    Notes
    -----
    What was done at an observation is drawn towards what was done in its state, and that towards
    what is done everywhere. The first weight is the one under which each choice is foreseen best by
    all the others; a logger that does something else at each observation is thus taken as it is.
    """
    n = visits.astype(np.float64)
    if inverse is not None:
        n = np.divide(n, inverse, out=np.zeros(n.shape), where=inverse > 0)
        n[n.sum(axis=1) == 0] = 1.0
        return np.asarray(n / n.sum(axis=1, keepdims=True))
    usual = n.sum(axis=0) / max(1.0, n.sum())
    own = np.where(labels >= 0, labels, labels.max() + 1 + np.arange(len(labels)))
    by_state = np.zeros((own.max() + 1, n.shape[1]))
    np.add.at(by_state, own, n)
    totals, sizes = by_state.sum(axis=1)[own], n.sum(axis=1)
    row, action = np.nonzero(n)
    chosen = n[row, action]
    others = (by_state[own[row], action] - 1.0 + usual[action]) / totals[row]

    def foreseen(weight: float) -> float:
        law = (chosen - 1.0 + weight * others) / (sizes[row] - 1.0 + weight)
        return float(chosen @ np.log(law))

    weight = highest(foreseen, ALPHAS)
    state = (by_state[own] + usual) / (totals + 1.0)[:, None]
    found: Floats = (n + weight * state) / (sizes + weight)[:, None]
    return found

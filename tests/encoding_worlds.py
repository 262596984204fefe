"""Small worlds of vectors: hidden chains shown through noise."""

from dataclasses import dataclass

import numpy as np

from romdp.encoding.encoder import make_steps


@dataclass
class Seen:
    vectors: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray

    @property
    def steps(self):
        return make_steps(self.vectors, self.actions, self.rewards)


def chain(n=4000, n_states=4, n_noise=0, spread=0.2, seed=0, rotate=False):
    """Action 0 stays, action 1 moves on; the reward tells the last state; noise has a memory."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros(n, np.int64), rng.integers(2, size=n)
    for t in range(n - 1):
        states[t + 1] = (states[t] + (actions[t] if rng.random() < 0.9 else 2)) % n_states
    rewards = (rng.random(n) < np.where(states == n_states - 1, 0.8, 0.2)).astype(float)
    shown = np.eye(n_states)[states] + spread * rng.standard_normal((n, n_states))
    noise = np.zeros((n, n_noise))
    for t in range(1, n):
        noise[t] = 0.9 * noise[t - 1] + rng.standard_normal(n_noise)
    vectors = np.hstack([shown, noise])
    if rotate:
        vectors = vectors @ np.linalg.qr(rng.standard_normal((vectors.shape[1],) * 2))[0]
    return Seen(vectors, states, actions, rewards)


def accuracy(found, truth):
    """Share of rows right under the best one-to-one matching; surplus states are wrong."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((found.max() + 1, truth.max() + 1))
    np.add.at(table, (found, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(truth)

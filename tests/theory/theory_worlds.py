"""Small worlds that the tests of the theory share, and plain recomputations."""

import numpy as np

from romdp import ROMDP

TRANSITION = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.7, 0.3]]])
REWARD = np.array([[0.0, 0.5], [1.0, 0.2]])
EMISSION = np.array([[0.6, 0.0, 0.4, 0.0], [0.0, 0.25, 0.0, 0.75]])


def tiny():
    """Two hidden states, two actions, four observations."""
    return ROMDP(TRANSITION, REWARD, EMISSION)


def draw(seed, n_states=3, n_actions=2, n_observations=8):
    """Draw a world with Dirichlet rows; every hidden state has an observation."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n_observations) % n_states)
    weights = rng.random(n_observations) + 0.1
    return ROMDP.from_labels(
        rng.dirichlet(np.ones(n_states), (n_states, n_actions)),
        rng.random((n_states, n_actions)),
        labels,
        weights / np.bincount(labels, weights)[labels],
    )


def one_way():
    """Ergodic and of full rank; under (0, 0, 1) states 0 and 1 are both reached from 2 alone."""
    transition = np.zeros((3, 2, 3))
    transition[0] = [[0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]
    transition[1] = [[0.0, 0.0, 1.0], [0.2, 0.5, 0.3]]
    transition[2] = [[0.5, 0.3, 0.2], [0.4, 0.6, 0.0]]
    return ROMDP.from_labels(transition, np.zeros((3, 2)), [0, 0, 1, 1, 2, 2])


def deterministic_rows(actions, n_actions):
    return np.eye(n_actions)[actions]


def views_by_enumeration(world, rows, action):
    """V_1, V_2, V_3, omega and K_23 from the law of all triples of observations."""
    emission, moves = world.emission, world.transition
    n_states, n_observations = emission.shape
    chain = np.einsum("xy,ya,xaz->xz", emission, rows, moves)
    law = np.linalg.matrix_power(chain, 4096)[0]
    joint = np.zeros((n_observations, n_observations, n_observations, n_states))
    for y1 in range(n_observations):
        for y2 in range(n_observations):
            for y3 in range(n_observations):
                x1, x2 = world.labels[y1], world.labels[y2]
                before = law[x1] * emission[x1, y1]
                step = rows[y1] @ moves[x1, :, x2] * emission[x2, y2] * rows[y2, action]
                after = moves[x2, action, world.labels[y3]] * emission[world.labels[y3], y3]
                joint[y1, y2, y3, x2] = before * step * after
    weight = joint.sum(axis=(0, 1, 2))
    states = np.flatnonzero(weight > 0)
    given = joint[..., states] / weight[states]
    first, second, third = (
        given.sum(axis=tuple(a for a in range(3) if a != view)) for view in range(3)
    )
    pairs = joint.sum(axis=(0, 3)) / weight.sum()
    return first, second, third, weight[states] / weight.sum(), pairs


def smallest_singular_value(matrix, rank):
    return np.linalg.svd(matrix, compute_uv=False)[rank - 1]

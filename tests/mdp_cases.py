"""MDPs that several tests share."""

import itertools

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings


def sparse_mdp(rng, n_states, n_actions, density, whole_rewards):
    """Draw an MDP with random supports; with whole rewards many actions tie."""
    shape = (n_states, n_actions, n_states)
    weights = rng.integers(1, 4, shape) * (rng.random(shape) < density)
    weights = weights.astype(float)
    lucky = rng.integers(n_states, size=shape[:2])
    weights[np.arange(n_states)[:, None], np.arange(n_actions), lucky] += 1
    reward = rng.integers(0, 2, shape[:2]) if whole_rewards else rng.random(shape[:2])
    return weights / weights.sum(axis=2, keepdims=True), reward.astype(float)


PROPERTY = settings(max_examples=80, deadline=None)  # compiling takes a while the first time
MDPS = st.builds(
    lambda seed, n_states, n_actions, density, whole: sparse_mdp(
        np.random.default_rng(seed), n_states, n_actions, density, whole
    ),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    st.booleans(),
)


def all_policies(transition):
    n_states, n_actions, _ = transition.shape
    for actions in itertools.product(range(n_actions), repeat=n_states):
        yield np.array(actions), transition[np.arange(n_states), actions]


def river(n_states, left=0.005, sure_left=False):
    """Swim left with the stream or right against it; right is better and far away."""
    transition = np.zeros((n_states, 2, n_states))
    for x in range(n_states):
        down, up = max(x - 1, 0), min(x + 1, n_states - 1)
        for action, (p_down, p_stay) in enumerate([(0.9, 0.05), (0.05, 0.6)]):
            transition[x, action, down] += p_down
            transition[x, action, x] += p_stay
            transition[x, action, up] += 1 - p_down - p_stay
    if sure_left:
        transition[:, 0] = 0.0
        transition[np.arange(n_states), 0, np.maximum(np.arange(n_states) - 1, 0)] = 1.0
    reward = np.zeros((n_states, 2))
    reward[0, 0], reward[-1, 1] = left, 1.0
    return transition, reward

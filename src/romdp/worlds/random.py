"""Random worlds: the paper's ROMDPs, MDPs without hidden structure, deterministic ROMDPs."""

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, generator
from romdp.core.validation import check_memory, real_number, whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP

_HIDDEN, _DEALING, _EMISSION = range(3)  # streams: what Y changes must not touch the hidden MDP


def random_romdp(
    n_states: int = 5,
    n_actions: int = 4,
    n_observations: int = 30,
    seed: Seed = 0,
    *,
    concentration: float = 1.0,
    emission_concentration: float = 3.0,
    reward_bias: float = 0.5,
    reward_law: str = "bernoulli",
) -> ROMDP:
    """Draw a ROMDP as in the paper's experiments.

    Parameters
    ----------
    n_states, n_actions, n_observations
        The sizes X, A and Y; Y >= X. The same (n_states, n_actions, seed) gives the same
        hidden MDP whatever n_observations is, so that figures over Y compare like with like.
    seed
        The same arguments give the same world.
    concentration
        The parameter of the Dirichlet distribution of each transition row; small values make
        transitions nearly deterministic.
    emission_concentration
        The parameter of the Dirichlet distribution of each state's observation probabilities. The
        paper does not say which it used. At 1 some observations are so rare (one in 10^4 visits
        or less) that an optimistic agent on the observations chases them forever; at 3 this is
        rare.
    reward_bias
        In [0, 1]. A reward mean is ``bias[x] + u[x, a]`` with the state's bias uniform on
        [0, reward_bias] and u uniform on [0, 1 - reward_bias]: "uniform reward with
        different bias".
    reward_law
        How rewards fall around their mean; see `MDP`.

    Examples
    --------
    >>> small = random_romdp(n_observations=10, seed=3)
    >>> large = random_romdp(n_observations=100, seed=3)
    >>> small.hidden == large.hidden
    True
    """
    transition, reward = _random_model(n_states, n_actions, seed, concentration, reward_bias)
    labels = _deal(len(reward), n_observations, seed)
    conc = real_number(emission_concentration, "emission_concentration", 0, open_low=True)
    weights = generator(seed, _EMISSION).standard_gamma(conc, labels.size)
    weights = np.maximum(weights, np.finfo(np.float64).tiny)  # a tiny concentration underflows
    chance = weights / np.bincount(labels, weights)[labels]
    chance = np.maximum(chance, 1e-12)
    chance = chance / np.bincount(labels, chance)[labels]
    return ROMDP.from_labels(transition, reward, labels, chance, reward_law)


def random_mdp(
    n_states: int = 30,
    n_actions: int = 4,
    seed: Seed = 0,
    *,
    concentration: float = 1.0,
    reward_bias: float = 0.5,
    reward_law: str = "bernoulli",
) -> MDP:
    """Draw an MDP with no hidden structure, from the same distributions as `random_romdp`."""
    transition, reward = _random_model(n_states, n_actions, seed, concentration, reward_bias)
    return MDP(transition, reward, reward_law)


def deterministic_romdp(
    n_states: int = 5,
    n_actions: int = 3,
    n_observations: int = 20,
    seed: Seed = 0,
    *,
    reward_law: str = "bernoulli",
) -> ROMDP:
    """Draw a ROMDP whose hidden transitions are deterministic (the appendix `Aux:deter`).

    Action 0 walks a random cycle through all hidden states, so that every state can be reached
    from every other; each other action leads to a state drawn at random. Reward means are
    uniform; observations are dealt out as in `random_romdp` and are equally likely in their state.
    """
    size = whole_number(n_states, "n_states", 1)
    actions = whole_number(n_actions, "n_actions", 1)
    check_memory("a transition table", size, actions, size)
    rng = generator(seed, _HIDDEN)
    cycle = rng.permutation(size)
    target = rng.integers(size, size=(size, actions))
    target[cycle, 0] = np.roll(cycle, -1)
    transition = np.eye(size)[target]
    reward = rng.random((size, actions))
    labels = _deal(size, n_observations, seed)
    return ROMDP.from_labels(transition, reward, labels, reward_law=reward_law)


def _random_model(
    n_states: int, n_actions: int, seed: Seed, concentration: float, reward_bias: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    size = whole_number(n_states, "n_states", 1)
    actions = whole_number(n_actions, "n_actions", 1)
    alpha = real_number(concentration, "concentration", 0, open_low=True)
    spread = real_number(reward_bias, "reward_bias", 0, 1)
    check_memory("a transition table", size, actions, size)
    rng = generator(seed, _HIDDEN)
    transition = rng.dirichlet(np.full(size, alpha), (size, actions))
    bias = spread * rng.random(size)
    reward = bias[:, None] + (1.0 - spread) * rng.random((size, actions))
    return transition, reward


def _deal(n_states: int, n_observations: int, seed: Seed) -> NDArray[np.int64]:
    """Deal observations to states at random, at least one to each."""
    count = whole_number(n_observations, "n_observations", 1)
    if count < n_states:
        raise InvalidInputError(
            f"n_observations is {count}, fewer than the {n_states} hidden states; every "
            "hidden state needs an observation of its own"
        )
    check_memory("a list of observations", count)
    rng = generator(seed, _DEALING)
    labels = np.concatenate([np.arange(n_states), rng.integers(n_states, size=count - n_states)])
    return rng.permutation(labels)

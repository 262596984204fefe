"""How sure the best action of a hidden state is, and what the others would lose."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from romdp.exact.chains import classes, gain_and_bias, stationary_law
from romdp.logs.model.latent import LatentModel

Floats = NDArray[np.float64]


class Choices(NamedTuple):
    """What the fitted model says about the actions of every state.

    Attributes
    ----------
    losses : ndarray, shape (n_states, n_actions)
        What one use of an action in place of the best one loses in the long run, in the reward's
        own units; NaN where it was never tried, or the policy has no single long-run gain.
    sure : ndarray, shape (n_states,)
        Chance that the best action beats the one that comes closest; NaN where no other was tried.
    future : ndarray, shape (n_states,)
        Share of time in each state if the policy is followed; NaN where that depends on the start.
    """

    losses: Floats
    sure: Floats
    future: Floats


def choices(model: LatentModel) -> Choices:
    """Compare the actions of every state.

    An action is worth ``q(s, a) = r(s, a) + sum_x p(x | s, a) h(x)`` with the bias ``h`` of the
    recommended policy. Both parts are means over visits, so that ``q`` has a standard error; the
    chance that one action beats another is the normal one for the difference of two such means.
    The grouping and ``h`` are taken as given. A pair's variance counts the largest possible one
    as a visit more, so that a few equal rewards do not look like certainty.
    """
    n_states = model.n_states
    states = np.arange(n_states)
    empty = np.full(n_states, np.nan)
    laws, rewards, policy = model.mdp.transition, model.mdp.reward, model.policy
    followed = laws[states, policy]
    tried = model.counts.visits > 0
    if model.reward_range is None or len(classes(followed).recurrent) != 1:
        return Choices(np.full(tried.shape, np.nan), empty, empty)
    bias = gain_and_bias(followed, rewards[states, policy])[1]
    visits = np.maximum(1, model.counts.visits)
    ahead = laws @ bias
    worth = rewards + ahead
    of_rewards = model.counts.reward_squares / visits - rewards**2
    of_moves = laws @ bias**2 - ahead**2
    largest = (1.0 + np.ptp(bias) ** 2) / 4.0
    spread = (visits * np.maximum(0.0, of_rewards + of_moves) + largest) / (visits + 1)
    errors = spread / visits
    lead = worth[states, policy][:, None] - worth
    chance = ndtr(lead / np.sqrt(errors[states, policy][:, None] + errors))
    rivals = tried.copy()
    rivals[states, policy] = False
    sure = np.where(rivals.any(axis=1), np.where(rivals, chance, 1.0).min(axis=1), np.nan)
    low, high = model.reward_range
    losses = np.where(tried, np.maximum(0.0, lead) * (high - low), np.nan)
    return Choices(losses, sure, stationary_law(followed))

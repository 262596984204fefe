"""From counts of groups to a small MDP, its best policy, and what is certain about it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.exact.chains import gain_and_bias
from romdp.exact.mdp import MDP
from romdp.exact.solvers import policy_iteration
from romdp.planning.confidence import Hoeffding
from romdp.planning.robust import WorstCase, robust_value_iteration

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Estimate(NamedTuple):
    """The most likely MDP, and a policy that is best in it among what was tried."""

    mdp: MDP
    policy: Ints
    gains: Floats  # of the policy, from every state


def estimate(counts: Counts, plan: Ints | None = None) -> Estimate:
    """Estimate the MDP between groups; rewards are in [0, 1].

    The policy is ``plan``, or by default the one that is best on average.

    The end of an episode leads to where episodes begin, and so does a pair that was tried without
    anybody seeing where it led. A pair that was never tried is entered as the worst that could be:
    it stays where it is and pays the lowest reward, so that no policy rests on it.
    """
    visits, transitions = counts.visits, counts.dense().restarted()
    n_states = len(visits)
    totals = transitions.sum(axis=2, keepdims=True)
    restart = counts.starts if counts.starts.any() else visits.sum(axis=1)
    restart = (restart if restart.sum() else np.ones(n_states)) / max(restart.sum(), 1)
    laws = np.where(totals > 0, transitions / np.maximum(totals, 1), restart)
    never = (visits == 0) & (totals[:, :, 0] == 0)
    never[never.all(axis=1)] = False  # nobody ever acted there: an end, then a restart
    laws[never] = np.eye(n_states)[np.nonzero(never)[0]]
    rewards = np.clip(counts.reward_means, 0.0, 1.0)
    policy = plan
    if policy is None:
        policy = policy_iteration(laws, np.where(never, -1.0, rewards)).policy
    states = np.arange(n_states)
    gains = gain_and_bias(laws[states, policy], rewards[states, policy])[0]
    return Estimate(MDP(laws, rewards), freeze(policy), freeze(gains))


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What the widths leave open; gains are in [0, 1].

    Attributes
    ----------
    reward_widths, transition_widths : ndarray, shape (n_states, n_actions)
        Half widths of mean rewards, L1 widths of transition laws.
    optimistic_gain : float
        The best policy's gain in the best MDP inside the widths.
    pessimistic : WorstCase
        The recommended policy in the worst MDP inside the widths.
    cautious : WorstCase
        The policy that is worth most in its worst MDP.
    """

    reward_widths: Floats
    transition_widths: Floats
    optimistic_gain: float
    pessimistic: WorstCase
    cautious: WorstCase


def gain_bounds(counts: Counts, found: Estimate, confidence: Hoeffding, delta: float) -> Bounds:
    """Compute what the confidence set of the counts leaves open."""
    t = max(1, counts.n_steps)
    widths = confidence.widths(counts, t, delta)
    lowest = np.maximum(0.0, found.mdp.reward - widths.rewards)
    unknown = np.where(counts.visits == 0, 2.0, widths.transitions)
    balls = np.minimum(2.0, unknown)
    laws = found.mdp.transition
    return Bounds(
        reward_widths=widths.rewards,
        transition_widths=widths.transitions,
        optimistic_gain=min(1.0, confidence.plan(counts, t, delta).gain),
        pessimistic=robust_value_iteration(laws, lowest, balls, found.policy),
        cautious=robust_value_iteration(laws, lowest, balls),
    )

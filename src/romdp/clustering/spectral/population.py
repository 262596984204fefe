"""Exact views and moments of a known world under a policy.

THIS MODULE USES THE TRUTH (hidden transitions and emissions). No learner may call it: it serves
the bound ``"theory"`` of `Spectral`, which says so in its output, and the tests.
"""

from dataclasses import dataclass

import numpy as np

from romdp.clustering.spectral.moments import Moments
from romdp.core.arrays import Floats, Ints
from romdp.data.partition import Partition
from romdp.exact.chains import Mixing, mixing, stationary_law
from romdp.exact.romdp import ROMDP


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """The multi-view model of one action (``eq:v2toO`` and the text around it).

    Attributes
    ----------
    states : ndarray of int64
        The hidden states where the action is taken.
    chance : ndarray
        ``omega[i] = P(x_2 = states[i] | a_2 = l)``.
    first, second, third : ndarray, shape (Y, n)
        V_1, V_2, V_3: the law of each view given the state in the middle and the action.
    mixing : Mixing
        How fast the hidden chain mixes under the policy.
    """

    states: Ints
    chance: Floats
    first: Floats
    second: Floats
    third: Floats
    mixing: Mixing

    def grouped(self, partition: Partition) -> "Views":
        """Return the views of groups of observations; those without a group are left out."""
        placed = partition.labels >= 0
        member = np.zeros((partition.n_clusters, partition.n_observations))
        member[partition.labels[placed], np.flatnonzero(placed)] = 1.0
        first, second, third = (member @ v for v in (self.first, self.second, self.third))
        return Views(self.states, self.chance, first, second, third, self.mixing)

    def moments(self) -> Moments:
        """Return the exact moments: an infinite number of samples."""
        joint = np.einsum("i,ai,bi,ci->bac", self.chance, self.first, self.second, self.third)
        second, first, third = np.nonzero(joint)
        views = [np.unique(column, return_inverse=True) for column in (first, second, third)]
        return Moments(
            (views[0][0], views[1][0], views[2][0]),
            (views[0][1], views[1][1], views[2][1]),
            joint[second, first, third],
            np.inf,
        )


def exact_views(world: ROMDP, policy: Floats, action: int) -> Views:
    """Compute the views of an action from a world and a policy, shape (Y, A)."""
    emission, transition = world.emission, world.transition
    taken = emission @ policy  # P(a | x)
    chain = np.einsum("xa,xaz->xz", taken, transition)
    law = stationary_law(chain)
    joint = law * taken[:, action]
    states = np.flatnonzero(joint > 0)
    reach = np.einsum("ya,yaz->yz", policy, transition[world.labels])[:, states]
    before = law[world.labels] * world.observation_chance  # P(y_1)
    return Views(
        states,
        joint[states] / joint.sum(),
        before[:, None] * reach / law[states],
        policy[:, action, None] * emission.T[:, states] / taken[states, action],
        (transition[states, action] @ emission).T,
        mixing(chain),
    )

"""Exact MDPs: a checked, frozen model and what follows from it."""

import os
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import StructureError
from romdp.core.formats import Format, fact, real
from romdp.core.validation import (
    Frozen,
    choice,
    freeze,
    laws,
    real_array,
    rectangular,
    refuse,
    whole_array,
)
from romdp.exact import chains, hitting, solvers
from romdp.exact.chains import Mixing
from romdp.exact.objectives import Objective, ObjectiveLike

REWARD_LAWS = ("bernoulli", "uniform", "beta", "deterministic")
"""How a reward is drawn around its mean.

``bernoulli``: 1 with chance ``mean``, else 0. ``uniform``: uniform on the widest interval around
the mean inside [0, 1]. ``beta``: Beta(2 mean, 2 (1 - mean)). ``deterministic``: always the mean.
"""

FORMAT = Format(
    "mdp",
    1,
    transition=real("states actions states"),
    reward=real("states actions"),
    reward_law=fact(str),
)

_SAME_GAIN = 1e-9
_RAREST = 1e-12  # rarer transitions are lost in the rounding of the optimality equations
_CERTAIN = 1e-6  # only where biases exceed some 1e9 is a solution less exact than this


def _one_gain(gain: Floats, laws: Floats, what: str) -> float:
    """Return the gain that all states share, or name two that differ."""
    low, high = int(gain.argmin()), int(gain.argmax())
    if gain[high] - gain[low] > _SAME_GAIN:
        rarest = laws.min(where=laws > 0, initial=1.0)
        if rarest < _RAREST:
            raise StructureError(
                f"{what} cannot be told to the precision of 64-bit floats: a transition has "
                f"probability {rarest:g}, so it matters only after some {1 / rarest:.0e} steps. "
                f"Without such transitions it is {gain[high]:.6g} from state {high} and "
                f"{gain[low]:.6g} from state {low}; set probabilities below {_RAREST:g} to zero if "
                "that is meant"
            )
        raise StructureError(
            f"{what} depends on the start state: it is {gain[high]:.6g} from state {high} and "
            f"{gain[low]:.6g} from state {low}, so there is no single number"
        )
    return float(gain[high])


class MDP(Frozen):
    """A finite MDP whose transition probabilities and mean rewards are known.

    Parameters
    ----------
    transition
        (S, A, S) array: ``transition[x, a, x2]`` is the probability of going from x to x2 under a.
    reward
        (S, A) mean rewards in [0, 1].
    reward_law
        One of `REWARD_LAWS`: how a reward is drawn around its mean.

    Notes
    -----
    Arrays are checked, copied and made read-only; an MDP never changes. Nothing is solved before
    it is asked for, and solutions are kept.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]], [[0.0, 0.5], [1.0, 0.25]])
    >>> mdp
    MDP(n_states=2, n_actions=2, reward_law='bernoulli')
    >>> mdp.gain, mdp.optimal_policy
    (0.75, array([1, 0]))
    """

    transition: Floats
    reward: Floats
    reward_law: str

    def __init__(
        self, transition: ArrayLike, reward: ArrayLike, reward_law: str = "bernoulli"
    ) -> None:
        shape = ("n_states", "n_actions", "n_states")
        moves = laws(real_array(transition, "transition", shape), "transition")
        means = real_array(reward, "reward", moves.shape[:2]) + 0.0
        must = "rewards must lie in [0, 1]. Rescale them with (reward - low) / (high - low)"
        refuse((means < 0) | (means > 1), "reward", means, must)
        own = self.__dict__  # the one place that sets attributes
        own["transition"] = freeze(moves)
        own["reward"] = freeze(means)
        own["reward_law"] = choice(reward_law, "reward_law", REWARD_LAWS)

    def __repr__(self) -> str:
        return (
            f"MDP(n_states={self.n_states}, n_actions={self.n_actions}, "
            f"reward_law={self.reward_law!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MDP):
            return NotImplemented
        return (
            self.reward_law == other.reward_law
            and np.array_equal(self.transition, other.transition)
            and np.array_equal(self.reward, other.reward)
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return MDP, (self.transition, self.reward, self.reward_law)

    @cached_property
    def _hash(self) -> int:
        return hash((self.reward_law, self.transition.tobytes(), self.reward.tobytes()))

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return len(self.reward)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.reward[0])

    @cached_property
    def _solution(self) -> solvers.Solution:
        solution = solvers.policy_iteration(self.transition, self.reward)
        if not solution.residual <= _CERTAIN:
            raise StructureError(
                f"the best policy cannot be told from others: the optimality equations hold only "
                f"up to {solution.residual:.1g}. Some transitions are so rare that they matter "
                "only after some 1e9 steps or more; set such probabilities to zero"
            )
        return solution

    @cached_property
    def gain(self) -> float:
        """The largest long-run average reward of any policy.

        Raises
        ------
        StructureError
            If it depends on the start state.
        """
        return _one_gain(self._solution.gain, self.transition, "the optimal gain")

    @cached_property
    def bias(self) -> Floats:
        """(S,) bias of the optimal policy, its head start over the gain from each state."""
        return freeze(self._solution.bias)

    @cached_property
    def optimal_policy(self) -> Ints:
        """(S,) actions of a policy with the largest gain from every state."""
        return freeze(self._solution.policy)

    def chain(self, policy: ArrayLike) -> tuple[Floats, Floats]:
        """Return the (S, S) transition matrix and the (S,) mean rewards under a policy.

        Parameters
        ----------
        policy
            (S,) actions, or (S, A) probabilities of the actions in each state.
        """
        if rectangular(policy, "policy").ndim == 2:
            rows = laws(real_array(policy, "policy", self.reward.shape), "policy")
            matrix = np.einsum("xa,xay->xy", rows, self.transition)
            return matrix, np.einsum("xa,xa->x", rows, self.reward)
        actions = whole_array(policy, "policy", (self.n_states,), 0, self.n_actions - 1)
        states = np.arange(self.n_states)
        return self.transition[states, actions], self.reward[states, actions]

    def policy_gain(self, policy: ArrayLike) -> float:
        """Return the long-run average reward of a policy (as in `chain`).

        Raises
        ------
        StructureError
            If it depends on the start state.
        """
        laws, rewards = self.chain(policy)
        gain = chains.gain_and_bias(laws, rewards)[0]
        return _one_gain(gain, laws, "the gain of this policy")

    def values(
        self,
        objective: ObjectiveLike,
        policy: ArrayLike | None = None,
        *,
        ending: ArrayLike | None = None,
    ) -> Floats:
        """Return what the best policy, or a given one, is worth from every state, exactly.

        Parameters
        ----------
        objective
            ``"average"``, ``"episodic"``, ``"episodic:H"``, a discount, or an `Objective`.
        policy
            (S,) actions; under a horizon of H steps also (H, S). None: the best policy.
        ending
            (S, A) probabilities that a step of each pair ends the episode. Otherwise the step moves
            by ``transition``. None: episodes do not end. The average objective does not read it.

        Returns
        -------
        ndarray, shape (S,), or (H, S) under a horizon
            The average reward from each state, or the expected sum of rewards to come.

        Examples
        --------
        >>> mdp = MDP([[[1.0]]], [[1.0]])
        >>> mdp.values(0.9), mdp.values(0.9, ending=[[0.5]]).round(4)
        (array([10.]), array([1.8182]))
        """
        return self._solve(objective, policy, ending)[0]

    def best_policy(self, objective: ObjectiveLike, *, ending: ArrayLike | None = None) -> Ints:
        """Return a policy that is worth most under an objective.

        The arguments are those of `values`. The result has shape (S,), or (H, S) under a horizon:
        row h is for step h of an episode.
        """
        return self._solve(objective, None, ending)[1]

    def _solve(
        self, objective: ObjectiveLike, policy: ArrayLike | None, ending: ArrayLike | None
    ) -> tuple[Floats, Ints]:
        goal = Objective.parse(objective)
        if goal.is_average:
            if policy is None:
                return self._solution.gain.copy(), self._solution.policy.copy()
            return chains.gain_and_bias(*self.chain(policy))[0], np.asarray(policy)
        ends = np.zeros(self.reward.shape)
        if ending is not None:
            ends = real_array(ending, "ending", self.reward.shape)
            must = "it must be a probability in [0, 1]"
            refuse((ends < 0) | (ends > 1), "ending", ends, must)
        rewards = self.reward - goal.zero_reward
        horizon, given = goal.horizon, None
        if policy is not None:
            shape = rectangular(policy, "policy").shape
            rows = (self.n_states,) if horizon is None or len(shape) < 2 else (horizon, shape[1])
            given = whole_array(policy, "policy", rows, 0, self.n_actions - 1)
        if horizon is not None:
            if given is not None:
                given = np.broadcast_to(given, (horizon, self.n_states))
            return solvers.backward_induction(self.transition, rewards, horizon, ends, given)
        if given is None:
            return solvers.discounted_iteration(self.transition, rewards, goal.rate, ends)
        return solvers.discounted_values(self.transition, rewards, goal.rate, ends, given), given

    def stationary(self, policy: ArrayLike) -> Floats:
        """Return the (S,) long-run share of time in each state under a policy.

        Raises
        ------
        StructureError
            If it depends on the start state.
        """
        return chains.stationary_law(self.chain(policy)[0])

    def mixing(self, policy: ArrayLike) -> Mixing:
        """Bound how fast a policy's chain forgets its start; see `romdp.exact.chains.mixing`."""
        return chains.mixing(self.chain(policy)[0])

    @cached_property
    def _diameter(self) -> float:
        if self.n_states == 1:
            return 0.0
        times = hitting.hitting_times(self.transition)
        return float(times[~np.eye(self.n_states, dtype=bool)].max())

    def diameter(self) -> float:
        """Return the diameter: the longest of the shortest expected ways between two states.

        It is inf if some state cannot surely be reached from another, and 0 for one state.
        """
        return self._diameter

    @cached_property
    def _return_time(self) -> float:
        return float(np.diag(hitting.hitting_times(self.transition, longest=True)).max())

    def return_time(self) -> float:
        """Return tau_M of ``cor:regret``: the longest expected return to any state, any policy.

        It is inf if some policy may leave a state forever.
        """
        return self._return_time

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the MDP to an ``.npz`` file."""
        FORMAT.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; the result equals what was saved, bit by bit."""
        return FORMAT.load(path, cls)

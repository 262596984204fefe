"""The worst of the spectral constants over policies, action by action."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from romdp.core.errors import StructureError
from romdp.exact.chains import Mixing
from romdp.exact.romdp import ROMDP
from romdp.theory.concentration import (
    condition_factor,
    enough_samples,
    error_constant,
    rank_samples,
)
from romdp.theory.magnitude import Magnitude
from romdp.theory.views import (
    View,
    Views,
    action_share,
    hidden_policy_views,
    mixing_speed,
    policy_rows,
    views,
)


@dataclass(frozen=True, slots=True)
class OpenConstants:
    """What the paper leaves open: delta, C_1 and the rank threshold's g and epsilon."""

    delta: float
    c1: float
    g: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class ActionConstants:
    """One action, each quantity the worst over the policies considered.

    Attributes
    ----------
    omega, sigma_first, sigma_second, sigma_third, sigma_pairs
        The smallest of each attribute of `View`.
    error_constant, condition_factor, enough_samples, rank_samples
        The largest of each function in `romdp.theory.concentration`: C_O, Theta, N-bar and N_0.
    needed
        The largest N-bar + N_0: the samples from which the spectral step can be trusted.
    missing_rank
        The largest X^(l) minus the rank of V_1; where it is not 0 the method cannot work.
    """

    omega: float
    sigma_first: float
    sigma_second: float
    sigma_third: float
    sigma_pairs: float
    error_constant: Magnitude
    condition_factor: Magnitude
    enough_samples: Magnitude
    rank_samples: Magnitude
    needed: Magnitude
    missing_rank: int


@dataclass(frozen=True, slots=True)
class PolicyConstants:
    """The constants of a set of policies.

    Attributes
    ----------
    policies
        Which policies they are, in words.
    share
        alpha_p.
    mixing
        The slowest; None if some chain never settles.
    actions
        None for an action that is never taken.
    """

    policies: str
    share: float
    mixing: Mixing | None
    actions: tuple[ActionConstants | None, ...]

    @property
    def error_constant(self) -> Magnitude:
        """The largest C_O over actions: C_2."""
        return max(action.error_constant for action in self.actions if action)

    @property
    def needed(self) -> Magnitude:
        """The largest N-bar + N_0 over actions."""
        return max(action.needed for action in self.actions if action)


def worst(
    world: ROMDP,
    policy: ArrayLike | str | None,
    choices: OpenConstants,
    ergodic: bool,
    max_policies: int,
) -> PolicyConstants:
    """Take the worst over a given policy, or over all deterministic ones of the hidden states.

    Where these are too many, or some are not ergodic, the uniform policy stands in for them.
    alpha_p is O_min unless a policy is given: one that takes an action at the rarest observation
    of a state only.
    """
    everything = float(world.observation_chance.min())
    if policy is not None:
        rows = policy_rows(world, policy)
        words = f"the {policy} policy" if isinstance(policy, str) else "the given policy"
        return _collect(world, words, action_share(world, rows), choices, [views(world, rows)])
    log_count = world.n_states * math.log(world.n_actions)
    if ergodic and log_count <= math.log(max_policies) + 1e-9:
        words = f"all {world.n_actions**world.n_states:,} policies of the hidden states"
        return _collect(world, words, everything, choices, hidden_policy_views(world))
    why = f"A^X = 10^{log_count / math.log(10):.1f} are too many" if ergodic else "not all ergodic"
    rows = policy_rows(world, "uniform")
    words = f"the uniform policy only ({why})"
    try:
        found = [views(world, rows)]
    except StructureError:
        found = []
    return _collect(world, words, everything, choices, found)


def _collect(
    world: ROMDP, policies: str, share: float, choices: OpenConstants, found: Iterable[Views]
) -> PolicyConstants:
    worst: list[ActionConstants | None] = [None] * world.n_actions
    slowest: Mixing | None = None
    settles = True
    for policy in found:
        for action, view in enumerate(policy):
            if view is not None:
                new = _constants(view, world.n_observations, choices)
                old = worst[action]
                worst[action] = new if old is None else _worse(old, new)
        mixing = next(view.mixing for view in policy if view is not None)
        settles = settles and mixing is not None
        slowest = max((slowest, mixing), key=lambda m: -math.inf if m is None else mixing_speed(m))
    if not any(worst):
        nothing = View(world.n_states, 0.0, 0.0, 0.0, 0.0, 0.0, None, 0)
        worst = [_constants(nothing, world.n_observations, choices)] * world.n_actions
        settles = False
    return PolicyConstants(policies, share, slowest if settles else None, tuple(worst))


def _constants(view: View, n_observations: int, choices: OpenConstants) -> ActionConstants:
    delta = choices.delta
    enough = enough_samples(view, n_observations, delta, choices.c1)
    rank = rank_samples(view, n_observations, delta, choices.g, choices.epsilon)
    return ActionConstants(
        omega=view.omega,
        sigma_first=view.sigma_first,
        sigma_second=view.sigma_second,
        sigma_third=view.sigma_third,
        sigma_pairs=view.sigma_pairs,
        error_constant=error_constant(view, n_observations, delta),
        condition_factor=condition_factor(view, choices.c1),
        enough_samples=enough,
        rank_samples=rank,
        needed=enough + rank,
        missing_rank=view.n_states - view.rank_first,
    )


def _worse(one: ActionConstants, other: ActionConstants) -> ActionConstants:
    """Return the worse of each quantity: the smaller omega or sigma, the larger of all others."""
    worse = {
        name: (min if name.startswith(("omega", "sigma")) else max)(
            getattr(one, name), getattr(other, name)
        )
        for name in ActionConstants.__slots__
    }
    return ActionConstants(**worse)

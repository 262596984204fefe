"""How well the spectral step knows V_2: ``lem:concentration``, ``lem:decomp`` and ``sec:rank``.

Throughout, nu is the number of samples of an action, omega, sigma and G / (1 - theta) are those of
its `View`, Y is the number of observations and log the natural logarithm.

`worst` takes the worst of these constants over policies, action by action.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from romdp.core.errors import StructureError
from romdp.exact.chains import Mixing
from romdp.exact.romdp import ROMDP
from romdp.theory.table import Magnitude
from romdp.theory.views import (
    View,
    Views,
    action_share,
    hidden_policy_views,
    mixing_speed,
    policy_rows,
    views,
)

_ROOT = math.sqrt(2)


def triple_log(n_observations: int, delta: float) -> float:
    """Return log(2 Y^(3/2) / delta), the price of a bound on third moments."""
    return math.log(2) + 1.5 * math.log(n_observations) - math.log(delta)


def pair_error(speed: float, n_observations: int, samples: float, delta: float) -> float:
    """Return how far K_{p,q} may be off in spectral norm (``eq:perterbationM_2``, first half).

    ``G / (1 - theta) (1 + 1 / sqrt(2 nu)) sqrt(8 log(2 Y / delta) / nu)``: the printed formula with
    c = 1 / nu, as the text after it says. ``speed`` is G / (1 - theta).
    """
    return _moment_error(speed, math.log(2 * n_observations) - math.log(delta), samples)


def triple_error(speed: float, n_observations: int, samples: float, delta: float) -> float:
    """Return how far a third moment may be off in spectral norm (the second half).

    As `pair_error`, with log(2 Y^(3/2) / delta). The bound is on the moment of the views, before
    they are made symmetric; the norm is that of the tensor unfolded into a matrix.
    """
    return _moment_error(speed, triple_log(n_observations, delta), samples)


def _moment_error(speed: float, price: float, samples: float) -> float:
    if math.isinf(samples):
        return 0.0
    return speed * (1 + 1 / math.sqrt(2 * samples)) * math.sqrt(8 * price / samples)


def decomposition_error(view: View, n_observations: int, samples: float, delta: float) -> Magnitude:
    """Return the epsilon-tilde of ``lem:concentration``.

    With ``e = G (2 sqrt(2) + 1) / (1 - theta) * sqrt(log(2 Y^(3/2) / delta) / nu)``::

        epsilon = 2 sqrt(2) e / (sqrt(omega) sigma)^3 + 64 e / (sigma^2 omega^(3/2))
    """
    e = Magnitude.of(triple_log(n_observations, delta) / samples).sqrt()
    e = e * view.speed * (2 * _ROOT + 1)
    omega, sigma = Magnitude.of(view.omega), Magnitude.of(view.sigma)
    return 2 * _ROOT * e / (omega.sqrt() * sigma) ** 3 + 64 * e / (sigma**2 * omega**1.5)


def concentration_bound(view: View, n_observations: int, samples: float, delta: float) -> Magnitude:
    """Return B_O^(l) of ``eq:epst1``: how far a column of V_2 may be off (Euclidean length).

    ``G (4 sqrt(2) + 2) / (sqrt(omega) (1 - theta)) * sqrt(log(4 Y / delta) / nu)
    + 8 epsilon / omega``, with epsilon of `decomposition_error`.
    """
    pairs = Magnitude.of((math.log(4 * n_observations) - math.log(delta)) / samples).sqrt()
    omega = Magnitude.of(view.omega)
    first = pairs * view.speed * (4 * _ROOT + 2) / omega.sqrt()
    return first + 8 * decomposition_error(view, n_observations, samples, delta) / omega


def error_constant(view: View, n_observations: int, delta: float) -> Magnitude:
    """Return C_O^(l), the constant for which ``eq:factor`` and ``eq:epst1`` agree.

    ``C_O = B_O sqrt(nu / log(2 Y^(3/2) / delta))``: it depends neither on nu nor, but for a ratio
    of logarithms near one, on Y and delta directly. The largest of them is the C_2 of
    ``lem:decomp``, which the paper does not give.
    """
    unit = Magnitude.of(triple_log(n_observations, delta)).sqrt()
    return concentration_bound(view, n_observations, 1, delta) / unit


def error_bound(
    constant: Magnitude | float, n_observations: int, samples: float, delta: float
) -> Magnitude:
    """Return B_O of ``lem:decomp`` (``eq:BO``): C_2 sqrt(log(2 Y^(3/2) / delta) / nu)."""
    return constant * Magnitude.of(triple_log(n_observations, delta) / samples).sqrt()


def condition_factor(view: View, c1: float) -> Magnitude:
    """Return Theta^(l) of ``eq:nl.condition1``; the paper does not give C_1.

    ``max(16 X^(1/3) / (C_1^(2/3) omega^(1/3)), 4, 2 sqrt(2) X / (C_1^2 omega sigma^2))`` with
    X = X^(l), the number of hidden states where the action is taken.
    """
    omega, sigma = Magnitude.of(view.omega), Magnitude.of(view.sigma)
    constant = Magnitude.of(c1)
    cubic = 16 * (view.n_states / omega) ** (1 / 3) / constant ** (2 / 3)
    direct = 2 * _ROOT * view.n_states / (constant**2 * omega * sigma**2)
    return max(cubic, Magnitude.of(4), direct)


def enough_samples(view: View, n_observations: int, delta: float, c1: float) -> Magnitude:
    """Return N-bar of ``eq:nl.condition1``: the samples from which ``lem:concentration`` holds.

    ``(4 / (omega sigma^2))^2 log(2 Y^(3/2) / delta) Theta``, for one policy; the paper takes the
    largest over policies.
    """
    scale = 4 / (Magnitude.of(view.omega) * Magnitude.of(view.sigma) ** 2)
    return scale**2 * triple_log(n_observations, delta) * condition_factor(view, c1)


def rank_samples(
    view: View, n_observations: int, delta: float, g: float, epsilon: float
) -> Magnitude:
    """Return N_0^(l) of ``sec:rank``: the samples from which the rank is read off rightly.

    The threshold ``g / nu^(1/2 - epsilon)`` must lie between the error of K_{2,3}
    (``eq:perterbationM_2`` with c = 1 / nu),
    ``G / (1 - theta) (1 + 1 / sqrt(2 nu)) sqrt(8 log(2 Y / delta) / nu)``, and ``sigma_r / 2``
    (``eq:rankcondition``). Both hold from N_0 on. The paper leaves g and epsilon open.
    """
    noise = math.log(8 * (math.log(2 * n_observations) - math.log(delta))) / 2
    excess = Magnitude.of(view.speed).log + noise - math.log(g)

    def needed(log_samples: float) -> float:
        return (excess + math.log1p(math.exp(-log_samples / 2) / _ROOT)) / epsilon

    if math.isinf(excess):
        return Magnitude(math.inf)
    low = max(0.0, excess / epsilon)
    high = max(0.0, needed(low))  # what is needed falls as samples rise
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) > middle else (low, middle)
    above_noise = Magnitude(high)
    below_signal = (2 * g / Magnitude.of(view.sigma_pairs)) ** (1 / (0.5 - epsilon))
    return max(above_noise, below_signal)


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
    max_policies: int = 1024,
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

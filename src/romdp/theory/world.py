"""All constants and bounds of the paper for one world."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.assumptions import Assumptions
from romdp.mdp import MDP
from romdp.romdp import ROMDP, as_romdp
from romdp.theory.magnitude import Magnitude, Number
from romdp.theory.rates import (
    all_found,
    epoch_length,
    epoch_length_solved,
    epochs_until,
    first_grouped,
    last_grouped,
    samples_to_group,
    samples_to_group_solved,
    separating_samples,
    separating_steps,
    steps_until,
)
from romdp.theory.regret import corollary_bound, pomdp_bound, pomdp_diameter, ucrl_bound
from romdp.theory.spectral import error_bound
from romdp.theory.table import Row, Scalar, Table
from romdp.theory.views import contraction_of_all, mixing_speed
from romdp.theory.worst import Choices, Worst, worst
from romdp.validation import real_number, whole_number


@dataclass(frozen=True)
class _Facts:
    """What the rows are computed from."""

    world: ROMDP
    assumed: Assumptions
    worst: Worst
    choices: Choices
    steps: int
    c2: Magnitude
    c2_note: str
    pomdp_diameter: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.world.n_states, self.world.n_actions, self.world.n_observations

    @property
    def n_groups(self) -> int:
        """What is left after the spectral step (``lem:partial.cluster``)."""
        n_states, n_actions, n_observations = self.sizes
        return min(n_states * n_actions, n_observations)


@dataclass(frozen=True)
class Needs:
    """What one observation needs to be grouped, as printed in ``app:clustering.rate``.

    Attributes
    ----------
    samples, length, epochs, steps
        N-bar(y), nu-bar(y), K-bar(y), and 4 A Y nu-bar(y).
    """

    samples: Magnitude
    length: Magnitude
    epochs: Magnitude
    steps: Magnitude


@dataclass(frozen=True)
class Theory(Table):
    """The answer of `bounds`; prints as a table.

    ``theory["N_last"]`` is the value of one row; `needs` answers for a single observation and
    `regret` for other numbers of steps.
    """

    _facts: _Facts = field(repr=False, compare=False)

    def needs(self, observation: int) -> Needs:
        """Return what it takes to group one observation."""
        world = self._facts.world
        y = whole_number(observation, "observation", 0, world.n_observations - 1)
        return _needs(self._facts, float(world.observation_chance[y]))

    def regret(self, steps: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Return every regret bound at the given numbers of steps; inf where no float is enough."""
        grid = np.atleast_1d(np.asarray(steps, np.float64))
        by_step = [_regret(self._facts, float(n)) for n in grid]
        return {name: np.array([float(b[name]) for b in by_step]) for name in by_step[0]}


def bounds(
    world: ROMDP | MDP,
    delta: float = 0.05,
    steps: int = 1_000_000,
    *,
    policy: ArrayLike | str | None = None,
    c1: float = 1.0,
    c2: float | None = None,
    g: float = 1.0,
    epsilon: float = 0.25,
    max_policies: int = 1024,
) -> Theory:
    """Compute the paper's constants and bounds for a world.

    Parameters
    ----------
    world
        It is read with its hidden states: nothing here is for learners.
    delta
        The chance that a bound may fail.
    steps
        N, in regret bounds and in the logarithms of N_r and N_p.
    policy
        The policy behind alpha_p, mixing and the spectral constants: (Y,) actions, (Y, A) rows,
        ``"uniform"`` or ``"optimal"``. By default the worst over all deterministic policies of
        the hidden states is taken; policies of the observations may be worse still.
    c1
        C_1 of ``lem:concentration``, which the paper does not give.
    c2
        C_2 of ``lem:decomp``; by default the largest C_O that ``lem:concentration`` gives.
    g, epsilon
        Of the rank threshold g / nu^(1/2 - epsilon) (``sec:rank``), which the paper leaves open.
    max_policies
        If there are more, the uniform policy stands in for all of them.

    Examples
    --------
    >>> world = ROMDP(
    ...     transition=[[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.7, 0.3]]],
    ...     reward=[[0.0, 0.5], [1.0, 0.2]],
    ...     emission=[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
    ... )
    >>> theory = bounds(world, delta=0.1)
    >>> theory["tau_M"], theory["alpha_p"]
    (7.0, 0.5)
    >>> theory["N_last (4 A Y nu)"] > theory["N_first (4 A Y nu)"]
    True
    """
    world = as_romdp(world)
    choices = Choices(
        delta=real_number(delta, "delta", 0, 1, open_low=True, open_high=True),
        c1=real_number(c1, "c1", 0, open_low=True),
        g=real_number(g, "g", 0, open_low=True),
        epsilon=real_number(epsilon, "epsilon", 0, 0.5, open_low=True, open_high=True),
    )
    steps = whole_number(steps, "steps", 1)
    max_policies = whole_number(max_policies, "max_policies", 1)
    assumed = world.assumptions()
    found = worst(world, policy, choices, assumed.ergodic is not False, max_policies)
    if c2 is None:
        constant, note = found.error_constant, "the largest C_O"
    else:
        constant, note = Magnitude.of(real_number(c2, "c2", 0, open_low=True)), "assumed"
    facts = _Facts(
        world, assumed, found, choices, steps, constant, note, pomdp_diameter(world.transition)
    )
    rows = (*_world_rows(facts), *_spectral_rows(facts), *_rate_rows(facts), *_regret_rows(facts))
    title = (
        f"Theory of {world!r}, delta = {delta:g}, N = {steps:,} steps. "
        f"Policies: {found.policies}."
    )
    return Theory(title, rows, facts)


def _world_rows(facts: _Facts) -> list[Row]:
    row = partial(Row, "The world")
    assumed, given = facts.assumed, facts.worst
    n_states, n_actions, n_observations = facts.sizes
    slow = given.mixing
    everywhere = contraction_of_all(facts.world)
    return [
        row("X", n_states, "", "hidden states"),
        row("A", n_actions, "", "actions"),
        row("Y", n_observations, "", "observations"),
        row("O_min", assumed.smallest_emission, "", "smallest emission probability"),
        row("alpha_p", given.share, "eq:prob.action", "smallest P(a | x) where a is taken"),
        row("tau_M", assumed.return_time, "cor:regret", "longest expected return, any policy"),
        row("D_X", assumed.hidden_diameter, "", "diameter of the hidden MDP"),
        row("D_Y", assumed.observable_diameter, "", "diameter of the observable MDP"),
        row("D_pomdp", facts.pomdp_diameter, "Aux:deter", "diameter over (state, action)"),
        row("gamma_r", assumed.reward_gap, "cor:regret", "reward gap, worst action"),
        row("gamma_r (best)", assumed.reward_gap_best, "eq:rcluss", "reward gap, best action"),
        row("gamma_p", assumed.transition_gap, "cor:regret", "transition gap, worst action"),
        row("gamma_p (best)", assumed.transition_gap_best, "eq:rcluss", "the same, best action"),
        row("theta (all policies)", everywhere, "lem:decomp", "with G = 1; useless if 1"),
        row("G", slow.geometric_ergodicity if slow else None, "lem:decomp", "slowest policy"),
        row("theta", slow.contraction if slow else None, "lem:decomp", "slowest policy"),
        row("G / (1 - theta)", mixing_speed(slow), "lem:decomp", "slowest policy"),
    ]


def _spectral_rows(facts: _Facts) -> list[Row]:
    row = partial(Row, "The spectral step, one number for each action")
    choices, lemma = facts.choices, "lem:concentration"
    n_observations = facts.world.n_observations

    def each(name: str) -> tuple[Scalar, ...]:
        return tuple(getattr(action, name) if action else None for action in facts.worst.actions)

    at_most = error_bound(facts.c2, n_observations, facts.steps, choices.delta)
    errors = tuple(
        error_bound(action.error_constant, n_observations, facts.steps, choices.delta)
        if action
        else None
        for action in facts.worst.actions
    )
    return [
        row("omega_min", each("omega"), lemma, "smallest P(x | a)"),
        row("sigma_min(V_1)", each("sigma_first"), lemma, "smallest non-zero singular value"),
        row("sigma_min(V_2)", each("sigma_second"), lemma),
        row("sigma_min(V_3)", each("sigma_third"), lemma),
        row("sigma_r(K_23)", each("sigma_pairs"), "eq:rankcondition"),
        row("Theta", each("condition_factor"), "eq:nl.condition1", f"C_1 = {choices.c1:g} assumed"),
        row("N_bar", each("enough_samples"), "eq:nl.condition1", f"C_1 = {choices.c1:g} assumed"),
        row(
            "N_0",
            each("rank_samples"),
            "sec:rank",
            f"g = {choices.g:g}, epsilon = {choices.epsilon:g} assumed",
        ),
        row("C_O", each("error_constant"), "eq:epst1"),
        row("B_O^(l)", errors, "eq:epst1", "if all N samples had this action"),
        row("C_2", facts.c2, "lem:decomp", facts.c2_note),
        row("B_O", at_most, "eq:BO", "with C_2 and N samples; above 1 it says nothing"),
    ]


def _needs(facts: _Facts, chance: float) -> Needs:
    return _epochs_and_steps(facts, samples_to_group(facts.c2, chance, facts.choices.delta))


def _epochs_and_steps(facts: _Facts, samples: Number) -> Needs:
    n_states, n_actions, n_observations = facts.sizes
    tau, alpha = facts.assumed.return_time, facts.worst.share
    length = epoch_length(samples, tau, alpha, n_states, n_actions, facts.choices.delta)
    return Needs(
        Magnitude.of(samples),
        length,
        epochs_until(length, n_actions, n_observations),
        steps_until(length, n_actions, n_observations),
    )


def _solved_steps(facts: _Facts, chance: float) -> Magnitude:
    n_states, n_actions, n_observations = facts.sizes
    tau, alpha, delta = facts.assumed.return_time, facts.worst.share, facts.choices.delta
    samples = samples_to_group_solved(facts.c2, chance, n_observations, delta)
    length = epoch_length_solved(samples, tau, alpha, n_states, n_actions, delta)
    return steps_until(length, n_actions, n_observations)


def _last(facts: _Facts) -> Magnitude:
    _, n_actions, n_observations = facts.sizes
    assumed = facts.assumed
    return last_grouped(
        facts.c2,
        assumed.return_time,
        assumed.smallest_emission,
        n_actions,
        n_observations,
        facts.choices.delta,
    )


def _found(facts: _Facts, gap: float) -> Magnitude:
    _, n_actions, n_observations = facts.sizes
    tau, delta = facts.assumed.return_time, facts.choices.delta
    return all_found(gap, tau, _last(facts), facts.n_groups, n_actions, n_observations, delta)


def _gap(facts: _Facts) -> float:
    """Return gamma of ``cor:regret``, the larger of the two gaps, over the worst action."""
    return max(facts.assumed.reward_gap, facts.assumed.transition_gap)


def _rate_rows(facts: _Facts) -> list[Row]:
    row = partial(Row, "Until observations are grouped, in steps unless said otherwise")
    _, n_actions, n_observations = facts.sizes
    assumed, delta = facts.assumed, facts.choices.delta
    tau = assumed.return_time
    smallest = assumed.smallest_emission
    largest = float(facts.world.observation_chance.max())
    rate, merge = "app:clustering.rate", "app:further.clustering"
    first, last = _needs(facts, largest), _needs(facts, smallest)
    start = _epochs_and_steps(facts, facts.worst.needed)
    printed = first_grouped(facts.c2, tau, smallest, largest, n_actions, n_observations, delta)
    rows = [
        row("N_first", printed, "eq:firstlast", "C_2 unsquared, as printed"),
        row("N_last", _last(facts), "eq:firstlast", "C_2 unsquared, as printed"),
        row("N_bar(y) first", first.samples, rate, "samples for the likeliest observation"),
        row("N_bar(y) last", last.samples, rate, "samples for the rarest observation"),
        row("nu_bar(y) first", first.length, "eq:v.condition", "length of an epoch"),
        row("nu_bar(y) last", last.length, "eq:v.condition", "length of an epoch"),
        row("K_first", first.epochs, rate, "epochs; of y_first (the paper slips to y_last)"),
        row("K_last", last.epochs, rate, "epochs"),
        row("N_first (4 A Y nu)", first.steps, rate, "the appendix's form"),
        row("N_last (4 A Y nu)", last.steps, rate, "the appendix's form"),
        row("nu_bar_sm", start.length, rate, "epoch with N_bar + N_0 samples"),
        row("K_sm", start.epochs, rate, "epochs until the spectral step works"),
        row("N_sm", start.steps, rate, "steps until the spectral step works"),
        row("N_first (valid)", max(first.steps, start.steps), rate, "not before N_sm"),
        row("N_last (valid)", max(last.steps, start.steps), rate, "not before N_sm"),
        row("N_first (solved)", _solved_steps(facts, largest), rate, "slips of the paper mended"),
        row("N_last (solved)", _solved_steps(facts, smallest), rate, "slips of the paper mended"),
    ]
    for n_groups, which in ((n_observations, "S = Y"), (facts.n_groups, "S = min(X A, Y)")):
        r56, r112, p112 = _separation(facts, n_groups)
        epochs = n_actions * n_observations * Magnitude.of(max(0.0, min(r56, p112).log))
        rows += [
            row(f"N_r (56), {which}", r56, merge, "by rewards, factor 56 of N^r_a"),
            row(f"N_r (112), {which}", r112, "eq:rcluss", "by rewards, factor 112"),
            row(f"N_p (112), {which}", p112, merge, "by transitions, factor 112 S"),
            row(f"K_r,p, {which}", epochs, merge, "epochs A Y log(min(N_r, N_p))"),
        ]
    best = max(assumed.reward_gap_best, assumed.transition_gap_best)
    return [
        *rows,
        row("N_X", _found(facts, _gap(facts)), "cor:regret", "S = min(X A, Y), worst action's gap"),
        row("N_X (best)", _found(facts, best), "cor:regret", "the same, best action's gap"),
    ]


def _separation(facts: _Facts, n_groups: int) -> tuple[Magnitude, Magnitude, Magnitude]:
    """Return N_r with 56 and with 112, and N_p with 112 S; each pair uses its best action."""
    _, n_actions, n_observations = facts.sizes
    assumed, delta = facts.assumed, facts.choices.delta

    def steps(factor: float, gap: float) -> Magnitude:
        samples = separating_samples(factor, gap, n_groups, n_actions, facts.steps, delta)
        tau, alpha = assumed.return_time, facts.worst.share
        return separating_steps(samples, tau, alpha, n_actions, n_observations, delta)

    by_reward, by_move = assumed.reward_gap_best, assumed.transition_gap_best
    return steps(56, by_reward), steps(112, by_reward), steps(112 * n_groups, by_move)


def _regret(facts: _Facts, steps: float) -> dict[str, Magnitude]:
    n_states, n_actions, n_observations = facts.sizes
    assumed, delta = facts.assumed, facts.choices.delta
    diameters = (assumed.hidden_diameter, assumed.observable_diameter)
    sizes = (n_states, n_observations)
    found = _found(facts, _gap(facts))
    return {
        "SL-UCRL": corollary_bound(found, diameters, sizes, n_actions, steps, delta),
        "UCRL2 on observations": ucrl_bound(diameters[1], sizes[1], n_actions, steps, delta),
        "UCRL2 on hidden states": ucrl_bound(diameters[0], sizes[0], n_actions, steps, delta),
        "POMDP": pomdp_bound(facts.pomdp_diameter, n_states, n_actions, n_observations, steps),
        "anything": Magnitude.of(steps),
    }


def _regret_rows(facts: _Facts) -> list[Row]:
    words = {
        "SL-UCRL": ("cor:regret", "with N_X above"),
        "UCRL2 on observations": ("cor:regret", "34 D_Y Y sqrt(A N log(N / delta))"),
        "UCRL2 on hidden states": ("cor:regret", "34 D_X X sqrt(A N log(N / delta))"),
        "POMDP": ("Aux:deter", "D_pomdp X^(3/2) sqrt(A Y N), no constants, no logarithms"),
        "anything": ("", "rewards lie in [0, 1]"),
    }
    heading = f"Regret after N = {facts.steps:,} steps, at most"
    values = _regret(facts, facts.steps)
    return [Row(heading, name, values[name], *text) for name, text in words.items()]

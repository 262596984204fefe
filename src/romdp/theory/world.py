"""All constants and bounds of the paper for one world, as a table."""

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats
from romdp.core.validation import real_array, real_number, rectangular, refuse, whole_number
from romdp.exact.assumptions import Assumptions
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.theory.concentration import OpenConstants, PolicyConstants, error_bound, worst
from romdp.theory.rates import Rates
from romdp.theory.regret import corollary_bound, pomdp_bound, pomdp_diameter, ucrl_bound
from romdp.theory.table import Magnitude, Number, Row, Scalar, Table
from romdp.theory.views import contraction_of_all, mixing_speed

_SPECTRAL = "The spectral step, one number for each action"
_RATES = "Until observations are grouped, in steps unless said otherwise"


@dataclass(frozen=True)
class Needs:
    """What it takes to group an observation, as printed in ``app:clustering.rate``.

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
class Facts:
    """A world, what the paper assumes about it, the spectral constants, and what was chosen."""

    world: ROMDP
    assumed: Assumptions
    worst: PolicyConstants
    choices: OpenConstants
    steps: int
    c2: Magnitude
    c2_note: str
    pomdp_diameter: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        """X, A and Y."""
        return self.world.n_states, self.world.n_actions, self.world.n_observations

    @property
    def n_groups(self) -> int:
        """What is left after the spectral step: X A at most (``lem:partial.cluster``)."""
        n_states, n_actions, n_observations = self.sizes
        return min(n_states * n_actions, n_observations)

    @property
    def gap(self) -> float:
        """The gamma of ``cor:regret``: the larger of the two gaps, each of its worst action."""
        return max(self.assumed.reward_gap, self.assumed.transition_gap)

    @property
    def gap_best(self) -> float:
        """The same with each pair of states under its best action, as in the appendix."""
        return max(self.assumed.reward_gap_best, self.assumed.transition_gap_best)

    @cached_property
    def rates(self) -> Rates:
        """The formulas of the appendices, for this world."""
        tau, alpha = self.assumed.return_time, self.worst.share
        return Rates(self.c2, tau, alpha, *self.sizes, self.choices.delta)

    @property
    def likeliest(self) -> float:
        """The largest probability of an observation in its state."""
        return float(self.world.observation_chance.max())

    def needs(self, samples: Number) -> Needs:
        """Return what it takes to collect that many samples in one epoch."""
        length = self.rates.epoch_length(samples)
        epochs, steps = self.rates.epochs_until(length), self.rates.steps_until(length)
        return Needs(Magnitude.of(samples), length, epochs, steps)

    def separation(self, n_groups: int) -> tuple[Magnitude, Magnitude, Magnitude]:
        """Return N_r with 56 and with 112, and N_p with 112 S; each pair uses its best action."""

        def steps(factor: float, gap: float) -> Magnitude:
            samples = self.rates.separating_samples(factor, gap, n_groups, self.steps)
            return self.rates.separating_steps(samples)

        by_reward, by_move = self.assumed.reward_gap_best, self.assumed.transition_gap_best
        return steps(56, by_reward), steps(112, by_reward), steps(112 * n_groups, by_move)

    def found(self, gap: float) -> Magnitude:
        """Return N_X of ``cor:regret``."""
        last = self.rates.last_grouped(self.assumed.smallest_emission)
        return self.rates.all_found(gap, last, self.n_groups)

    def regret(self, steps: float) -> dict[str, Magnitude]:
        """Return every bound on the regret after that many steps."""
        n_states, n_actions, n_observations = self.sizes
        assumed, delta = self.assumed, self.choices.delta
        narrow, wide = assumed.hidden_diameter, assumed.observable_diameter
        found, sizes = self.found(self.gap), (n_states, n_observations)
        return {
            "SL-UCRL": corollary_bound(found, (narrow, wide), sizes, n_actions, steps, delta),
            "UCRL2 on observations": ucrl_bound(wide, n_observations, n_actions, steps, delta),
            "UCRL2 on hidden states": ucrl_bound(narrow, n_states, n_actions, steps, delta),
            "POMDP": pomdp_bound(self.pomdp_diameter, n_states, n_actions, n_observations, steps),
            "anything": Magnitude.of(steps),
        }


@dataclass(frozen=True)
class Theory(Table):
    """The answer of `bounds`; prints as a table.

    ``theory["N_last"]`` is the value of one row; `needs` answers for a single observation and
    `regret` for other numbers of steps.
    """

    _facts: Facts = field(repr=False, compare=False)

    def needs(self, observation: int) -> Needs:
        """Return what it takes to group one observation."""
        world = self._facts.world
        y = whole_number(observation, "observation", 0, world.n_observations - 1)
        facts = self._facts
        return facts.needs(facts.rates.samples_to_group(float(world.observation_chance[y])))

    def regret(self, steps: ArrayLike) -> dict[str, Floats]:
        """Return every regret bound at the given numbers of steps; inf where no float is enough.

        ``steps`` is one number or a list; the bounds come under the names of their rows.
        """
        grid = real_array(np.atleast_1d(rectangular(steps, "steps")), "steps", ("n",))
        refuse(grid < 1, "steps", grid, "pass 1 or more")
        by_step = [self._facts.regret(n) for n in grid.tolist()]
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
) -> Theory:
    """Compute the paper's constants and bounds for a world.

    Parameters
    ----------
    world
        It is read with its hidden states: nothing here is for learners.
    delta
        The probability that a bound may fail.
    steps
        N, in regret bounds and in the logarithms of N_r and N_p.
    policy
        The policy behind alpha_p, mixing and the spectral constants: (Y,) actions, (Y, A) rows,
        ``"uniform"`` or ``"optimal"``. By default the worst over all deterministic policies of
        the hidden states is taken; policies of the observations may be worse still. Where these are
        more than 1,024, the uniform policy stands in for all of them.
    c1
        C_1 of ``lem:concentration``, which the paper does not give.
    c2
        C_2 of ``lem:decomp``; by default the largest C_O that ``lem:concentration`` gives.
    g, epsilon
        The g and epsilon of the rank threshold g / nu^(1/2 - epsilon) (``sec:rank``), which the
        paper leaves open.

    Examples
    --------
    >>> world = ROMDP(
    ...     transition=[[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.7, 0.3]]],
    ...     reward=[[0.0, 0.5], [1.0, 0.2]],
    ...     emission=[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
    ... )
    >>> theory = bounds(world, delta=0.1)
    >>> theory["tau_M"], theory["alpha_p"]
    (8.0, 0.5)
    >>> theory["N_last (4 A Y nu)"] > theory["N_first (4 A Y nu)"]
    True
    """
    world = as_romdp(world)
    choices = OpenConstants(
        delta=real_number(delta, "delta", 0, 1, open_low=True, open_high=True),
        c1=real_number(c1, "c1", 0, open_low=True),
        g=real_number(g, "g", 0, open_low=True),
        epsilon=real_number(epsilon, "epsilon", 0, 0.5, open_low=True, open_high=True),
    )
    steps = whole_number(steps, "steps", 1)
    assumed = world.assumptions()
    found = worst(world, policy, choices, assumed.ergodic is not False)
    if c2 is None:
        constant, note = found.error_constant, "the largest C_O"
    else:
        constant, note = Magnitude.of(real_number(c2, "c2", 0, open_low=True)), "assumed"
    facts = Facts(
        world, assumed, found, choices, steps, constant, note, pomdp_diameter(world.transition)
    )
    title = (
        f"Theory of {world!r}, delta = {delta:g}, N = {steps:,} steps. Policies: {found.policies}."
    )
    rows = (
        *_world_rows(facts),
        *_spectral_rows(facts),
        *_rate_rows(facts),
        *_separation_rows(facts),
        *_regret_rows(facts),
    )
    return Theory(title, rows, facts)


def _world_rows(facts: Facts) -> list[Row]:
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


def _spectral_rows(facts: Facts) -> list[Row]:
    row = partial(Row, _SPECTRAL)
    choices, lemma, condition = facts.choices, "lem:concentration", "eq:nl.condition1"
    decomposition = "lem:tensor.decomposition"
    actions = facts.worst.actions
    first, threshold = (
        f"C_1 = {choices.c1:g} assumed",
        "g = {0.g:g}, epsilon = {0.epsilon:g} assumed",
    )

    def each(name: str) -> tuple[Scalar, ...]:
        return tuple(getattr(action, name) if action else None for action in actions)

    def error(constant: Magnitude) -> Magnitude:
        return error_bound(constant, facts.world.n_observations, facts.steps, choices.delta)

    errors = tuple(error(action.error_constant) if action else None for action in actions)
    return [
        row("omega_min", each("omega"), lemma, "smallest P(x | a)"),
        row("X^(l) - rank(V_1)", each("missing_rank"), decomposition, "the method needs 0"),
        row("sigma_min(V_1)", each("sigma_first"), lemma, "0 if the rank is not full"),
        row("sigma_min(V_2)", each("sigma_second"), lemma),
        row("sigma_min(V_3)", each("sigma_third"), lemma),
        row("sigma_r(K_23)", each("sigma_pairs"), "eq:rankcondition"),
        row("Theta", each("condition_factor"), condition, first),
        row("N_bar", each("enough_samples"), condition, first),
        row("N_0", each("rank_samples"), "sec:rank", threshold.format(choices)),
        row("C_O", each("error_constant"), "eq:epst1"),
        row("B_O^(l)", errors, "eq:epst1", "if all N samples had this action"),
        row("C_2", facts.c2, "lem:decomp", facts.c2_note),
        row("B_O", error(facts.c2), "eq:BO", "with C_2 and N samples; above 1 it says nothing"),
    ]


def _rate_rows(facts: Facts) -> list[Row]:
    row, rate = partial(Row, _RATES), "app:clustering.rate"
    smallest, largest, rates = facts.assumed.smallest_emission, facts.likeliest, facts.rates
    first, last = (facts.needs(rates.samples_to_group(f)) for f in (largest, smallest))
    start = facts.needs(facts.worst.needed)
    solved_first, solved_last = (
        rates.steps_until(rates.epoch_length_solved(rates.samples_to_group_solved(f)))
        for f in (largest, smallest)
    )
    printed, mended = "C_2 unsquared, as printed", "slips of the paper mended"
    return [
        row("N_first", rates.first_grouped(smallest, largest), "eq:firstlast", printed),
        row("N_last", rates.last_grouped(smallest), "eq:firstlast", printed),
        row("N_bar(y) first", first.samples, rate, "samples for the likeliest observation"),
        row("N_bar(y) last", last.samples, rate, "samples for the rarest observation"),
        row("nu_bar(y) first", first.length, "eq:v.condition", "length of an epoch"),
        row("nu_bar(y) last", last.length, "eq:v.condition", "length of an epoch"),
        row("K_first", first.epochs, rate, "epochs; for y_first (printed: y_last)"),
        row("K_last", last.epochs, rate, "epochs"),
        row("N_first (4 A Y nu)", first.steps, rate, "the appendix's form"),
        row("N_last (4 A Y nu)", last.steps, rate, "the appendix's form"),
        row("nu_bar_sm", start.length, rate, "epoch with N_bar + N_0 samples"),
        row("K_sm", start.epochs, rate, "epochs until the spectral step works"),
        row("N_sm", start.steps, rate, "steps until the spectral step works"),
        row("N_first (valid)", max(first.steps, start.steps), rate, "not before N_sm"),
        row("N_last (valid)", max(last.steps, start.steps), rate, "not before N_sm"),
        row("N_first (solved)", solved_first, rate, mended),
        row("N_last (solved)", solved_last, rate, mended),
    ]


def _separation_rows(facts: Facts) -> list[Row]:
    row, merge = partial(Row, _RATES), "app:further.clustering"
    _, n_actions, n_observations = facts.sizes
    rows = []
    for n_groups, which in ((n_observations, "S = Y"), (facts.n_groups, "S = min(X A, Y)")):
        r56, r112, p112 = facts.separation(n_groups)
        epochs = n_actions * n_observations * Magnitude.of(max(0.0, min(r56, p112).log))
        rows += [
            row(f"N_r (56), {which}", r56, merge, "by rewards, factor 56 of N^r_a"),
            row(f"N_r (112), {which}", r112, "eq:rcluss", "by rewards, factor 112"),
            row(f"N_p (112), {which}", p112, merge, "by transitions, factor 112 S"),
            row(f"K_r,p, {which}", epochs, merge, "epochs A Y log(min(N_r, N_p)), with 56"),
        ]
    found, best = facts.found(facts.gap), facts.found(facts.gap_best)
    return [
        *rows,
        row("N_X", found, "cor:regret", "S = min(X A, Y), gap of the worst action"),
        row("N_X (best)", best, "cor:regret", "the same, gap of the best action"),
    ]


def _regret_rows(facts: Facts) -> list[Row]:
    words = {
        "SL-UCRL": ("cor:regret", "with N_X above"),
        "UCRL2 on observations": ("cor:regret", "34 D_Y Y sqrt(A N log(N / delta))"),
        "UCRL2 on hidden states": ("cor:regret", "34 D_X X sqrt(A N log(N / delta))"),
        "POMDP": ("Aux:deter", "D_pomdp X^(3/2) sqrt(A Y N), no constants, no logarithms"),
        "anything": ("", "rewards lie in [0, 1]"),
    }
    heading = f"Regret after N = {facts.steps:,} steps, at most"
    values = facts.regret(facts.steps)
    return [Row(heading, name, values[name], *text) for name, text in words.items()]

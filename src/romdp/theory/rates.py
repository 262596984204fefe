"""How long until observations are grouped: ``app:clustering.rate``, ``app:further.clustering``.

Symbols: f is the chance of an observation in its hidden state, tau is tau_M, alpha is alpha_p, C is
C_2, S the number of auxiliary states. Formulas stand as printed; where the paper's own derivation
gives something else there is a second function with the ending ``_solved``.
"""

import math

from romdp.theory.concentration import triple_log
from romdp.theory.table import Magnitude, Number


def samples_to_group(constant: Number, chance: float, delta: float) -> Magnitude:
    """Return N-bar(y) as printed: 4 C log(1 / delta) / f^2.

    ``eq:clustering.condition`` asks for f >= 2 C sqrt(log(1 / delta) / nu), which has C squared as
    its solution, and writes log(1 / delta) where ``eq:BO`` has log(2 Y^(3/2) / delta); see
    `samples_to_group_solved`.
    """
    return 4 * Magnitude.of(constant) * -math.log(delta) / Magnitude.of(chance) ** 2


def samples_to_group_solved(
    constant: Number, chance: float, n_observations: int, delta: float
) -> Magnitude:
    """Return the samples with 2 B_O = f: 4 C^2 log(2 Y^(3/2) / delta) / f^2 (``eq:BO``)."""
    ratio = Magnitude.of(constant) / chance
    return 4 * ratio**2 * triple_log(n_observations, delta)


def epoch_length(
    samples: Number, tau: float, alpha: float, n_states: int, n_actions: int, delta: float
) -> Magnitude:
    """Return nu-bar(y) of ``eq:v.condition``: (4 tau / alpha) (N-bar(y) + log(X A / delta)).

    The inequality before it asks for more, up to twice as much: see `epoch_length_solved`.
    """
    price = math.log(n_states * n_actions) - math.log(delta)
    return 4 * Magnitude.of(tau) / alpha * (Magnitude.of(samples) + price)


def epoch_length_solved(
    samples: Number, tau: float, alpha: float, n_states: int, n_actions: int, delta: float
) -> Magnitude:
    """Return the solution of the inequality that ``eq:v.condition`` simplifies.

    nu alpha / (4 tau) - sqrt(nu alpha L / (2 tau)) >= N-bar(y) with L = log(X A / delta) holds from
    ``(sqrt(2 tau L / alpha) + sqrt(2 tau L / alpha + 4 tau N-bar(y) / alpha))^2`` on.
    """
    unit = 2 * Magnitude.of(tau) / alpha
    slack = unit * (math.log(n_states * n_actions) - math.log(delta))
    return (slack.sqrt() + (slack + 2 * unit * samples).sqrt()) ** 2


def epochs_until(length: Magnitude, n_actions: int, n_observations: int) -> Magnitude:
    """Return K-bar(y): A Y log2(nu-bar) + 1 epochs until one is as long as nu-bar."""
    return n_actions * n_observations * Magnitude.of(max(0.0, length.log / math.log(2))) + 1


def steps_until(length: Magnitude, n_actions: int, n_observations: int) -> Magnitude:
    """Return 4 A Y nu-bar: the steps in that many epochs (N_first, N_last of the appendix)."""
    return 4 * n_actions * n_observations * length


def first_grouped(
    constant: Number,
    tau: float,
    smallest: float,
    largest: float,
    n_actions: int,
    n_observations: int,
    delta: float,
) -> Magnitude:
    """Return N_first of ``eq:firstlast``: (A Y tau / O_min) C log(1 / delta) / max f^2."""
    scale = n_actions * n_observations * Magnitude.of(tau) / smallest
    return scale * constant * -math.log(delta) / Magnitude.of(largest) ** 2


def last_grouped(
    constant: Number, tau: float, smallest: float, n_actions: int, n_observations: int, delta: float
) -> Magnitude:
    """Return N_last of ``eq:firstlast``: (A Y tau / O_min^3) C log(1 / delta)."""
    return first_grouped(constant, tau, smallest, smallest, n_actions, n_observations, delta)


def separating_samples(
    factor: float, gap: float, n_groups: int, n_actions: int, steps: float, delta: float
) -> Magnitude:
    """Return the visits after which two states with a gap are told apart.

    ``factor log(2 S A N / delta) / gap^2``. For rewards the appendix has the factor 112 in
    ``eq:rcluss`` and 56 in N^r_a (only 112 follows from the widths); for transitions 112 S. All
    of them make the gap as large as the two widths together; since the estimates may be off by
    as much, a sure separation would take four times as many.
    """
    price = math.log(2 * n_groups * n_actions * steps) - math.log(delta)
    return factor * Magnitude.of(price) / Magnitude.of(gap) ** 2


def separating_steps(
    samples: Number, tau: float, alpha: float, n_actions: int, n_observations: int, delta: float
) -> Magnitude:
    """Return N_r or N_p of ``app:further.clustering``: (4 tau / alpha) (N_a + log(Y A / delta))."""
    price = math.log(n_observations * n_actions) - math.log(delta)
    return 4 * Magnitude.of(tau) / alpha * (Magnitude.of(samples) + price)


def all_found(
    gap: float,
    tau: float,
    last: Magnitude,
    n_groups: int,
    n_actions: int,
    n_observations: int,
    delta: float,
) -> Magnitude:
    """Return N_X of ``cor:regret``: the steps until the hidden states are found.

    ``min(A Y^2 tau / gap^2 log(1 / delta), max(A S^2 tau / gap^2 log(1 / delta), N_last))``. The
    appendix has an additional 1 / alpha_p and constants, which the corollary drops.
    """
    unit = n_actions * Magnitude.of(tau) / Magnitude.of(gap) ** 2 * -math.log(delta)
    return min(unit * n_observations**2, max(unit * n_groups**2, last))

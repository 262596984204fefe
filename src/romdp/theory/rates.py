"""How long until observations are grouped: ``app:clustering.rate``, ``app:further.clustering``."""

import math
from dataclasses import dataclass

from romdp.theory.concentration import triple_log
from romdp.theory.table import Magnitude, Number


@dataclass(frozen=True, slots=True)
class Rates:
    """The formulas of the two appendices for one world.

    They stand as printed; where the paper's own derivation gives something else there is a second
    method with the ending ``_solved``.

    Attributes
    ----------
    constant
        C, which is C_2 of ``lem:decomp``.
    tau
        tau_M.
    alpha
        alpha_p.
    n_states, n_actions, n_observations
        X, A and Y.
    delta
        The probability that a bound may fail.
    """

    constant: Number
    tau: float
    alpha: float
    n_states: int
    n_actions: int
    n_observations: int
    delta: float

    @property
    def _price(self) -> float:
        """The number log(1 / delta), also where 1 / delta is beyond the floats."""
        return -math.log(self.delta)

    def samples_to_group(self, probability: float) -> Magnitude:
        """Return N-bar(y) as printed: 4 C log(1 / delta) / f^2.

        f is the probability of the observation in its hidden state. ``eq:clustering.condition``
        asks for f >= 2 C sqrt(log(1 / delta) / nu), which has C squared as its solution, and writes
        log(1 / delta) where ``eq:BO`` has log(2 Y^(3/2) / delta); see `samples_to_group_solved`.
        """
        return 4 * Magnitude.of(self.constant) * self._price / Magnitude.of(probability) ** 2

    def samples_to_group_solved(self, probability: float) -> Magnitude:
        """Return the samples with 2 B_O = f: 4 C^2 log(2 Y^(3/2) / delta) / f^2 (``eq:BO``)."""
        ratio = Magnitude.of(self.constant) / probability
        return 4 * ratio**2 * triple_log(self.n_observations, self.delta)

    def epoch_length(self, samples: Number) -> Magnitude:
        """Return nu-bar(y) of ``eq:v.condition``: (4 tau / alpha) (N-bar(y) + log(X A / delta)).

        The inequality before it asks for more, up to twice as much: see `epoch_length_solved`.
        """
        price = math.log(self.n_states * self.n_actions) + self._price
        return 4 * Magnitude.of(self.tau) / self.alpha * (Magnitude.of(samples) + price)

    def epoch_length_solved(self, samples: Number) -> Magnitude:
        """Return the solution of the inequality that ``eq:v.condition`` simplifies.

        nu alpha / (4 tau) - sqrt(nu alpha L / (2 tau)) >= N-bar(y) with L = log(X A / delta) holds
        from ``(sqrt(2 tau L / alpha) + sqrt(2 tau L / alpha + 4 tau N-bar(y) / alpha))^2`` on.
        """
        unit = 2 * Magnitude.of(self.tau) / self.alpha
        slack = unit * (math.log(self.n_states * self.n_actions) + self._price)
        return (slack.sqrt() + (slack + 2 * unit * samples).sqrt()) ** 2

    def epochs_until(self, length: Magnitude) -> Magnitude:
        """Return K-bar(y): A Y log2(nu-bar) + 1 epochs until one is as long as nu-bar."""
        doublings = Magnitude.of(max(0.0, length.log / math.log(2)))
        return self.n_actions * self.n_observations * doublings + 1

    def steps_until(self, length: Magnitude) -> Magnitude:
        """Return 4 A Y nu-bar: the steps in that many epochs (N_first, N_last of the appendix)."""
        return 4 * self.n_actions * self.n_observations * length

    def first_grouped(self, smallest: float, largest: float) -> Magnitude:
        """Return N_first of ``eq:firstlast``: (A Y tau / O_min) C log(1 / delta) / max f^2.

        ``smallest`` and ``largest`` are O_min and max f.
        """
        scale = self.n_actions * self.n_observations * Magnitude.of(self.tau) / smallest
        return scale * self.constant * self._price / Magnitude.of(largest) ** 2

    def last_grouped(self, smallest: float) -> Magnitude:
        """Return N_last of ``eq:firstlast``: (A Y tau / O_min^3) C log(1 / delta)."""
        return self.first_grouped(smallest, smallest)

    def separating_samples(
        self, factor: float, gap: float, n_groups: int, steps: float
    ) -> Magnitude:
        """Return the visits after which two states with a gap are told apart.

        ``factor log(2 S A N / delta) / gap^2``, where S is the number of auxiliary states. For
        rewards the appendix has the factor 112 in ``eq:rcluss`` and 56 in N^r_a (only 112 follows
        from the widths); for transitions 112 S. All of them make the gap as large as the two widths
        together; since the estimates may be off by as much, a sure separation would take four times
        as many.
        """
        price = math.log(2 * n_groups * self.n_actions * steps) + self._price
        return factor * Magnitude.of(price) / Magnitude.of(gap) ** 2

    def separating_steps(self, samples: Number) -> Magnitude:
        """Return N_r or N_p of ``app:further.clustering``.

        ``(4 tau / alpha) (N_a + log(Y A / delta))``.
        """
        price = math.log(self.n_observations * self.n_actions) + self._price
        return 4 * Magnitude.of(self.tau) / self.alpha * (Magnitude.of(samples) + price)

    def all_found(self, gap: float, last: Magnitude, n_groups: int) -> Magnitude:
        """Return N_X of ``cor:regret``: the steps until the hidden states are found.

        ``min(A Y^2 tau / gap^2 log(1 / delta), max(A S^2 tau / gap^2 log(1 / delta), N_last))``.
        The appendix has an additional 1 / alpha_p and constants, which the corollary drops.
        """
        unit = self.n_actions * Magnitude.of(self.tau) / Magnitude.of(gap) ** 2 * self._price
        return min(unit * self.n_observations**2, max(unit * n_groups**2, last))

"""What is known of a world, put together, and the formulas of the paper applied to it."""

from dataclasses import dataclass

from romdp.exact.assumptions import Assumptions
from romdp.exact.romdp import ROMDP
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
from romdp.theory.regret import corollary_bound, pomdp_bound, ucrl_bound
from romdp.theory.worst import Choices, Worst


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
    """A world, what the paper assumes of it, the spectral constants, and what was chosen."""

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

    def needs(self, chance: float) -> Needs:
        """Return what it takes to group an observation of the given chance in its state."""
        return self.needs_of_samples(samples_to_group(self.c2, chance, self.choices.delta))

    def needs_of_samples(self, samples: Number) -> Needs:
        """Return what it takes to collect that many samples in one epoch."""
        n_states, n_actions, n_observations = self.sizes
        tau, alpha = self.assumed.return_time, self.worst.share
        length = epoch_length(samples, tau, alpha, n_states, n_actions, self.choices.delta)
        return Needs(
            Magnitude.of(samples),
            length,
            epochs_until(length, n_actions, n_observations),
            steps_until(length, n_actions, n_observations),
        )

    def solved_steps(self, chance: float) -> Magnitude:
        """Return the steps until an observation is grouped, with the paper's slips mended."""
        n_states, n_actions, n_observations = self.sizes
        tau, alpha, delta = self.assumed.return_time, self.worst.share, self.choices.delta
        samples = samples_to_group_solved(self.c2, chance, n_observations, delta)
        length = epoch_length_solved(samples, tau, alpha, n_states, n_actions, delta)
        return steps_until(length, n_actions, n_observations)

    def first(self) -> Magnitude:
        """Return N_first of ``eq:firstlast``."""
        _, n_actions, n_observations = self.sizes
        return first_grouped(
            self.c2,
            self.assumed.return_time,
            self.assumed.smallest_emission,
            float(self.world.observation_chance.max()),
            n_actions,
            n_observations,
            self.choices.delta,
        )

    def last(self) -> Magnitude:
        """Return N_last of ``eq:firstlast``."""
        _, n_actions, n_observations = self.sizes
        tau, smallest = self.assumed.return_time, self.assumed.smallest_emission
        return last_grouped(self.c2, tau, smallest, n_actions, n_observations, self.choices.delta)

    def separation(self, n_groups: int) -> tuple[Magnitude, Magnitude, Magnitude]:
        """Return N_r with 56 and with 112, and N_p with 112 S; each pair uses its best action."""
        _, n_actions, n_observations = self.sizes
        assumed, delta = self.assumed, self.choices.delta

        def steps(factor: float, gap: float) -> Magnitude:
            samples = separating_samples(factor, gap, n_groups, n_actions, self.steps, delta)
            tau, alpha = assumed.return_time, self.worst.share
            return separating_steps(samples, tau, alpha, n_actions, n_observations, delta)

        by_reward, by_move = assumed.reward_gap_best, assumed.transition_gap_best
        return steps(56, by_reward), steps(112, by_reward), steps(112 * n_groups, by_move)

    def found(self, gap: float) -> Magnitude:
        """Return N_X of ``cor:regret``."""
        _, n_actions, n_observations = self.sizes
        tau, delta = self.assumed.return_time, self.choices.delta
        return all_found(gap, tau, self.last(), self.n_groups, n_actions, n_observations, delta)

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

"""All constants and bounds of the paper for one world."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import entry, first_index, real_array, real_number, whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.theory.facts import Facts, Needs, all_rows
from romdp.theory.magnitude import Magnitude
from romdp.theory.regret import pomdp_diameter
from romdp.theory.table import Table
from romdp.theory.worst import OpenConstants, worst


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
        return self._facts.needs(float(world.observation_chance[y]))

    def regret(self, steps: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Return every regret bound at the given numbers of steps; inf where no float is enough.

        ``steps`` is one number or a list; the bounds come under the names of their rows.
        """
        grid = real_array(np.atleast_1d(steps), "steps", ("n",))
        if (grid < 1).any():
            index = first_index(grid < 1)
            raise InvalidInputError(f"{entry('steps', index)} is {grid[index]:g}; pass 1 or more")
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
        The g and epsilon of the rank threshold g / nu^(1/2 - epsilon) (``sec:rank``), which the
        paper leaves open.
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
    max_policies = whole_number(max_policies, "max_policies", 1)
    assumed = world.assumptions()
    found = worst(world, policy, choices, assumed.ergodic is not False, max_policies)
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
    return Theory(title, all_rows(facts), facts)

"""When an epoch ends: the one rule that the compiled loop and every stepped loop follow.

An epoch begins with a budget: so many visits of each (group, action), and so many steps. Each
step spends one of each, and the epoch is over when what the next step needs has run out. A few
visits may be spare: they are used before that ends it.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from romdp.core.arrays import Ints
from romdp.core.compiled import kernel

FOREVER = int(np.iinfo(np.int64).max)
"""A number of steps or visits that is never used up."""


@kernel
def is_spent(visits: Ints, cell: int, spare: int) -> bool:
    """Say whether a cell has no visits left, so that the epoch ends before the next one."""
    spent: bool = visits[cell] <= 0 and spare <= 0
    return spent


@kernel
def spend(visits: Ints, cell: int, eager: bool, spare: int) -> int:
    """Spend one visit of a cell; returns what is spare then, -1 if this ends the epoch at once."""
    visits[cell] -= 1
    left = visits[cell]
    if left > 0 or (left == 0 and not eager):
        return spare
    if spare > 0:
        return spare - 1
    return -1 if eager else 0


class Budget:
    """What is left of an epoch.

    Parameters
    ----------
    labels
        The group of every observation; -1 for those without one, which share one cell.
    table
        The action that the epoch takes at every observation, or a function that returns it when
        it is asked for: a loop in Python need not spell it out.
    visits
        How many visits are left to every cell: one per (group, action), then the shared one.
    steps
        How many steps are left.
    eager
        True: the epoch ends as soon as some cell is used up. False: it ends when an observation
        is met whose cell is used up.
    n_groups
        How many groups there are, if known.
    spare
        How many visits that would end the epoch do not.

    Examples
    --------
    >>> labels, table = np.array([0, 0, -1]), np.array([1, 1, 0])
    >>> budget = Budget(labels, table, np.array([1, 2, 1]), steps=10, eager=False)
    >>> budget.spend(0, 1)
    >>> budget.spend(1, 1)
    >>> [budget.is_over(observation) for observation in range(3)]
    [True, True, False]
    """

    def __init__(
        self,
        labels: Ints,
        table: Ints | Callable[[], Ints],
        visits: Ints,
        steps: int = FOREVER,
        eager: bool = True,
        n_groups: int | None = None,
        spare: int = 0,
    ) -> None:
        if n_groups is None:
            n_groups = int(labels.max(initial=-1)) + 1
        self._n_actions = (visits.size - 1) // n_groups if n_groups else 0
        self._labels, self._table = labels, table
        self.visits = visits
        self.steps = steps
        self.eager = eager
        self.spare = spare

    @cached_property
    def cells(self) -> Ints:
        """The cell that a visit of each observation spends."""
        table = self._table() if callable(self._table) else self._table
        shared = self.visits.size - 1
        return np.where(self._labels < 0, shared, self._labels * self._n_actions + table)

    @classmethod
    def none(cls, n_observations: int) -> "Budget":
        """Return the budget of an agent that has not begun: it must think before it acts."""
        nobody = np.full(n_observations, -1, np.int64)
        return cls(nobody, nobody, np.zeros(1, np.int64), steps=0)

    def is_over(self, observation: int, action: int | None = None) -> bool:
        """Say whether the epoch is over when ``observation`` is met.

        ``action`` is what will be done there, if that is not what the table says.
        """
        if self.steps <= 0:
            return True
        cell = self.cells[observation] if action is None else self._cell(observation, action)
        # As `is_spent`; a call of a kernel takes longer.
        return bool(self.visits[cell] <= 0 and self.spare <= 0)

    def spend(self, observation: int, action: int) -> None:
        """Spend a step and a visit, of whichever action was taken."""
        cell = self._cell(observation, action)
        spare = spend(self.visits, cell, self.eager, self.spare)
        self.spare = max(spare, 0)
        self.steps = 0 if spare < 0 else self.steps - 1

    def _cell(self, observation: int, action: int) -> int:
        group = int(self._labels[observation])
        return group * self._n_actions + action if group >= 0 else self.visits.size - 1

    def use_steps(self, number: int, *, ended: bool) -> None:
        """Spend steps whose visits are spent already; ``ended``: the epoch ends with them."""
        self.steps = 0 if ended else self.steps - number

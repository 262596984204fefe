"""Exact rich-observation MDPs: few hidden states, many observations, each of one hidden state."""

import os
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.core.formats import Format, fact, index, real
from romdp.core.validation import (
    SUM_TOLERANCE,
    Frozen,
    check,
    divisors,
    first_index,
    freeze,
    laws,
    real_array,
    takes,
    whole_array,
)
from romdp.exact.assumptions import Assumptions, find_assumptions
from romdp.exact.mdp import MDP

FORMAT = Format(
    "romdp world",
    1,
    transition=real("states actions states"),
    reward=real("states actions"),
    labels=index("observations", of="states"),
    observation_chance=real("observations"),
    initial=real("states"),
    reward_law=fact(str),
)

_LARGEST_OBSERVABLE = 2**26  # entries of a (Y, A, Y) array: 512 MiB


class ROMDP(Frozen):
    """A rich-observation MDP.

    Parameters
    ----------
    transition
        ``transition[x, a, x2]``: probability of hidden state x2 after action a in x.
    reward
        ``reward[x, a]``: mean reward, in [0, 1].
    emission
        ``emission[x, y]``: probability that hidden state x shows observation y. Every
        observation is shown by exactly one hidden state; the probabilities may be unequal.
    reward_law
        How rewards fall around their mean: ``"bernoulli"``, ``"uniform"``, ``"beta"`` or
        ``"deterministic"`` (see `MDP`).
    initial
        The distribution of the first hidden state; uniform by default.

    Notes
    -----
    Arrays are checked, copied and frozen. Memory is X * A * X + Y: the emission matrix is kept
    as one label and one probability per observation, and nothing of size Y x Y is ever made
    unless you ask for `observable`.

    Examples
    --------
    >>> world = ROMDP(
    ...     transition=[[[0.9, 0.1]], [[0.4, 0.6]]],
    ...     reward=[[0.0], [1.0]],
    ...     emission=[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
    ... )
    >>> world.labels.tolist()
    [0, 0, 1]
    >>> round(world.hidden.gain, 6), round(world.observable.gain, 6)
    (0.2, 0.2)
    """

    transition: Floats
    reward: Floats
    reward_law: str
    labels: Ints
    observation_chance: Floats
    initial: Floats
    hidden: MDP

    def __init__(
        self,
        transition: ArrayLike,
        reward: ArrayLike,
        emission: ArrayLike,
        reward_law: str = "bernoulli",
        initial: ArrayLike | None = None,
    ) -> None:
        hidden = MDP(transition, reward, reward_law)
        matrix = laws(
            real_array(emission, "emission", (hidden.n_states, "n_observations")), "emission"
        )
        shown_by = (matrix > 0).sum(axis=0)
        if (shown_by != 1).any():
            y = int(first_index(shown_by != 1)[0])
            states = np.flatnonzero(matrix[:, y] > 0).tolist()
            found = f"by hidden states {states}" if states else "by no hidden state"
            raise InvalidInputError(
                f"observation {y} is shown {found}; each observation belongs to exactly one: "
                f"emission[:, {y}] must have one positive entry"
            )
        labels = matrix.argmax(axis=0)
        self._set(hidden, labels, matrix[labels, np.arange(labels.size)], initial)

    @classmethod
    def from_labels(
        cls,
        transition: ArrayLike,
        reward: ArrayLike,
        labels: ArrayLike,
        observation_chance: ArrayLike | None = None,
        reward_law: str = "bernoulli",
        initial: ArrayLike | None = None,
    ) -> Self:
        """Make a world from the hidden state of each observation, without an X x Y matrix.

        Parameters
        ----------
        transition, reward, reward_law, initial
            As for `ROMDP`.
        labels
            The hidden state of every observation; every hidden state must have one.
        observation_chance
            The probability of each observation in its hidden state; equal by default.
        """
        hidden = MDP(transition, reward, reward_law)
        label = whole_array(labels, "labels", ("n_observations",), 0, hidden.n_states - 1)
        sizes = np.bincount(label, minlength=hidden.n_states)
        if (sizes == 0).any():
            x = int(np.argmin(sizes))
            raise InvalidInputError(f"hidden state {x} has no observation in labels")
        if observation_chance is None:
            chance = 1.0 / sizes[label]
        else:
            chance = real_array(observation_chance, "observation_chance", (label.size,))
            if (chance <= 0).any():
                y = int(np.argmax(chance <= 0))
                raise InvalidInputError(
                    f"observation_chance[{y}] is {chance[y]:g}; it must be positive"
                )
            sums = np.bincount(label, chance, hidden.n_states).astype(np.float64, copy=False)
            if (off := np.abs(sums - 1.0) > SUM_TOLERANCE).any():
                x = int(np.argmax(off))
                raise InvalidInputError(
                    f"observation_chance of hidden state {x} sums to {sums[x]:.10g}, not to 1"
                )
            chance = chance / divisors(sums, sizes)[label]
        world = cls.__new__(cls)
        world._set(hidden, label, chance, initial)
        return world

    @classmethod
    @takes(mdp=MDP)
    def from_mdp(cls, mdp: MDP) -> Self:
        """Make the ROMDP whose observations are the states of an MDP."""
        return cls.from_labels(
            mdp.transition, mdp.reward, np.arange(mdp.n_states), reward_law=mdp.reward_law
        )

    def _set(self, hidden: MDP, labels: Ints, chance: Floats, initial: ArrayLike | None) -> None:
        size = hidden.n_states
        law = (
            np.full(size, 1.0 / size)
            if initial is None
            else laws(real_array(initial, "initial", (size,)), "initial")
        )
        self.__dict__.update(
            hidden=hidden,
            transition=hidden.transition,
            reward=hidden.reward,
            reward_law=hidden.reward_law,
            labels=freeze(labels.astype(np.int64)),
            observation_chance=freeze(chance),
            initial=freeze(law),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        model = (self.transition, self.reward, self.labels, self.observation_chance)
        return type(self).from_labels, (*model, self.reward_law, self.initial)

    @property
    def n_states(self) -> int:
        """Number of hidden states X."""
        return self.hidden.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return self.hidden.n_actions

    @property
    def n_observations(self) -> int:
        """Number of observations Y."""
        return self.labels.size

    @cached_property
    def emission(self) -> Floats:
        """The emission matrix, shape (X, Y)."""
        matrix = np.zeros((self.n_states, self.n_observations))
        matrix[self.labels, np.arange(self.n_observations)] = self.observation_chance
        return freeze(matrix)

    @cached_property
    def observable(self) -> MDP:
        """The MDP on the observations; it has the hidden one's gain and Y * A * Y entries."""
        size, actions = self.n_observations, self.n_actions
        if size * actions * size > _LARGEST_OBSERVABLE:
            raise TooLargeError(
                f"the observable MDP of {size} observations and {actions} actions has "
                f"{size * actions * size:.3g} transition entries; ask world.hidden, which "
                "has the same gain, or world.assumptions() for its diameter"
            )
        transition = self.transition[self.labels][:, :, self.labels] * self.observation_chance
        return MDP(transition, self.reward[self.labels], self.reward_law)

    def assumptions(self) -> Assumptions:
        """Answer for the paper's assumptions and constants; prints as a table.

        Cost grows with X, not with Y: a fraction of a second at X = 50.
        """
        return find_assumptions(self.hidden, self.labels, self.observation_chance)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the world to an ``.npz`` file, completely or not at all."""
        FORMAT.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a world that `save` wrote; a damaged or foreign file is a `StorageError`."""
        return FORMAT.load(path, cls.from_labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ROMDP):
            return NotImplemented
        return (
            self.hidden == other.hidden
            and np.array_equal(self.labels, other.labels)
            and np.array_equal(self.observation_chance, other.observation_chance)
            and np.array_equal(self.initial, other.initial)
        )

    def __hash__(self) -> int:
        return hash((self.hidden, self.labels.tobytes(), self.observation_chance.tobytes()))

    def __repr__(self) -> str:
        return (
            f"ROMDP(n_states={self.n_states}, n_actions={self.n_actions}, "
            f"n_observations={self.n_observations}, reward_law={self.reward_law!r})"
        )


def as_romdp(world: object) -> ROMDP:
    """Return a ROMDP as it is and an MDP as the ROMDP whose observations are its states."""
    check(world, "world", ROMDP, MDP)
    return ROMDP.from_mdp(world) if isinstance(world, MDP) else world  # type: ignore[return-value]

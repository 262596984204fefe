"""What was seen: observations, actions, rewards, and where episodes end."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.storage import read_arrays, reading, write_arrays
from romdp.core.validation import (
    LARGEST_REWARD,
    check,
    freeze,
    real_array,
    rectangular,
    whole_array,
    whole_number,
)
from romdp.data.vectors import are_vectors, vector_array

UNKNOWN, END = -1, -2
"""What a step led to where that is no observation: nobody knows; the end of its episode."""

_KIND, _VERSION = "trajectory", 1
_LARGEST = 2**62  # of an observation or action, so that adding one never overflows


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Trajectory:
    """Steps in the order in which they were taken, in one or several episodes.

    Inside an episode the step ``t`` leads from ``observations[t]`` to ``observations[t + 1]``;
    the last step of an episode leads to its end if it terminated, else to its final observation,
    if that is known: a step that was cut counts its reward and no transition.

    Parameters
    ----------
    observations, actions : array_like of int, shape (n_steps,)
        What was seen, and what was then done. Observations may also be vectors, shape
        (n_steps, d): ``vectors`` then holds them, and each row is an observation of its own.
    rewards : array_like, shape (n_steps,), optional
        What each step paid: any finite numbers.
    lengths : array_like of int, shape (n_episodes,), optional
        Number of steps of each episode, at least one; by default all steps are one episode.
    final_observations : array_like of int, shape (n_episodes,), optional
        What each episode's last step led to, -1 for unknown; by default all are unknown. Where an
        episode terminated nothing follows, and this is not looked at.
    terminated : array_like of bool, shape (n_episodes,), optional
        Whether each episode came to an end, or was only cut (truncated, or still going on); by
        default none did.
    n_observations, n_actions : int, optional
        How many there are, those never seen included; by default the largest seen plus one.

    Examples
    --------
    >>> seen = Trajectory([0, 1, 0, 2], [0, 0, 1, 0], lengths=[3, 1], final_observations=[2, -1])
    >>> seen
    Trajectory(4 steps, 2 episodes, 3 observations, 2 actions, no rewards)
    >>> seen.next_observations
    array([ 1,  0,  2, -1])
    """

    observations: Ints
    actions: Ints
    rewards: Floats | None
    lengths: Ints
    final_observations: Ints
    terminated: Bools
    n_observations: int
    n_actions: int
    vectors: NDArray[Any] | None

    def __init__(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        final_observations: ArrayLike | None = None,
        *,
        terminated: ArrayLike | None = None,
        n_observations: int | None = None,
        n_actions: int | None = None,
    ) -> None:
        last_observation = _last("n_observations", n_observations)
        last_action = _last("n_actions", n_actions)
        vectors = None
        if are_vectors(observations):
            vectors = vector_array(observations, "observations")
            observations = np.arange(len(vectors))
            if n_observations is not None or final_observations is not None:
                raise InvalidInputError(
                    "observations are vectors, each an observation of its own; leave out "
                    "n_observations and final_observations"
                )
        seen = whole_array(observations, "observations", ("n_steps",), 0, last_observation)
        n_steps = len(seen)
        _check_length(actions, "actions", n_steps)
        taken = whole_array(actions, "actions", (n_steps,), 0, last_action)
        paid = None
        if rewards is not None:
            _check_length(rewards, "rewards", n_steps)
            paid = real_array(rewards, "rewards", (n_steps,), LARGEST_REWARD)
        lasted = np.array([n_steps])
        if lengths is not None:
            lasted = whole_array(lengths, "lengths", ("n_episodes",), 1, n_steps)
            if lasted.sum() != n_steps:
                raise InvalidInputError(
                    f"lengths sums to {lasted.sum()}, but there are {n_steps} steps; "
                    "give the number of steps of every episode"
                )
        final = np.full(len(lasted), -1)
        if final_observations is not None:
            name = "final_observations"
            final = whole_array(final_observations, name, (len(lasted),), -1, last_observation)
        ended = np.zeros(len(lasted), np.bool_)
        if terminated is not None:
            ended = rectangular(terminated, "terminated")
            if ended.shape != lasted.shape or ended.dtype != np.bool_:
                raise InvalidInputError(
                    f"terminated has shape {ended.shape} and {ended.dtype} entries; pass True or "
                    f"False for each of the {len(lasted)} episodes"
                )
        self._with(
            observations=seen,
            actions=taken,
            rewards=paid,
            lengths=lasted,
            final_observations=final,
            terminated=ended,
            n_observations=int(n_observations or max(seen.max(), final.max()) + 1),
            n_actions=int(n_actions or taken.max() + 1),
            vectors=vectors,
        )

    def _with(self, **fields: Any) -> "Trajectory":
        """Fill fields with checked values, and return this; arrays become read-only."""
        for name, value in fields.items():
            kept = freeze(value) if isinstance(value, np.ndarray) else value
            object.__setattr__(self, name, kept)
        return self

    def _fields(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @property
    def n_steps(self) -> int:
        """Number of steps, over all episodes."""
        return len(self.observations)

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @cached_property
    def starts(self) -> Ints:
        """The index of each episode's first step."""
        return freeze(np.cumsum(self.lengths) - self.lengths)

    @cached_property
    def next_observations(self) -> Ints:
        """What each step led to; `UNKNOWN` (-1) or `END` (-2) where that is no observation."""
        following = np.empty(self.n_steps, np.int64)
        following[:-1] = self.observations[1:]
        last = np.where(self.terminated, END, self.final_observations)
        following[self.starts + self.lengths - 1] = last
        return freeze(following)

    @cached_property
    def ages(self) -> Ints:
        """How many steps of the episode were over at each step."""
        return freeze(np.arange(self.n_steps) - np.repeat(self.starts, self.lengths))

    @property
    def first_observations(self) -> Ints:
        """What episodes began with, as far as their first steps are among these."""
        first: Ints = self.observations[self.starts[self.ages[self.starts] == 0]]
        return first

    @property
    def pays_alike(self) -> bool:
        """Whether all rewards were the same, or there are none."""
        return self.rewards is None or bool(self.rewards.min() == self.rewards.max())

    def changed(self, **fields: Any) -> "Trajectory":
        """Return the same steps with some fields in place of their own, which are not checked."""
        if "ages" in vars(self) and "lengths" not in fields:
            fields["ages"] = self.ages
        return object.__new__(Trajectory)._with(**self._fields() | fields)

    def part(self, start: int, stop: int) -> "Trajectory":
        """Return some steps in a row; episodes are cut where it begins and ends.

        Examples
        --------
        >>> Trajectory([5, 6, 7, 8], [0, 1, 0, 1], lengths=[3, 1]).part(1, 2).next_observations
        array([7])
        """
        ends = self.starts + self.lengths
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(self.starts, stop, "left"))
        pieces, steps = slice(first, last), slice(start, stop)
        lengths = np.minimum(ends[pieces], stop) - np.maximum(self.starts[pieces], start)
        final, over = self.final_observations[pieces].copy(), self.terminated[pieces].copy()
        if ends[last - 1] > stop:  # the last episode goes on
            over[-1] = False
            final[-1] = UNKNOWN if self.vectors is not None else self.observations[stop]
        own: dict[str, Any] = {"observations": self.observations[steps]}
        if self.vectors is not None:
            size = stop - start
            own = {"observations": np.arange(size), "n_observations": size}
            own["vectors"] = self.vectors[steps]
        return self.changed(
            **own,
            actions=self.actions[steps],
            rewards=None if self.rewards is None else self.rewards[steps],
            lengths=lengths,
            final_observations=final,
            terminated=over,
            ages=self.ages[steps],
        )

    def encoded(self, codes: Ints, n_codes: int) -> "Trajectory":
        """Return the same steps with the code of each row in place of its vector."""
        return self.changed(
            observations=codes,
            final_observations=np.full(self.n_episodes, UNKNOWN),
            n_observations=n_codes,
            vectors=None,
        )

    def triples(
        self,
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """List what came before, at and after every inner step.

        Returns
        -------
        previous, middle, action, next : ndarray of int64
            ``action`` was taken at ``middle``. A step is left out if it is the first of its
            episode or if what it led to is unknown.

        Examples
        --------
        >>> [column.tolist() for column in Trajectory([5, 6, 7], [0, 1, 0]).triples()]
        [[5], [6], [1], [7]]
        """
        inner = self.next_observations >= 0
        inner[self.starts] = False
        at = np.flatnonzero(inner)
        return (
            self.observations[at - 1],
            self.observations[at],
            self.actions[at],
            self.next_observations[at],
        )

    def episodes(self) -> "Iterator[Trajectory]":
        """Walk through the episodes, each a trajectory of its own that shares the arrays."""
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield self.part(start, start + length)

    @classmethod
    def concatenate(cls, trajectories: "Sequence[Trajectory]") -> "Trajectory":
        """Put trajectories one after the other; each keeps its episodes to itself.

        All of them or none must have rewards. The sizes are the largest ones.

        Examples
        --------
        >>> Trajectory.concatenate([Trajectory([0, 1], [0, 0]), Trajectory([2], [1])])
        Trajectory(3 steps, 2 episodes, 3 observations, 2 actions, no rewards)
        """
        check(trajectories, "trajectories", list, tuple)
        parts = list(trajectories)
        for i, part in enumerate(parts):
            check(part, f"trajectories[{i}]", Trajectory)
        if not parts:
            raise InvalidInputError("there is nothing to concatenate; pass at least one trajectory")
        rewards = [part.rewards for part in parts if part.rewards is not None]
        if rewards and len(rewards) < len(parts):
            bare = next(i for i, part in enumerate(parts) if part.rewards is None)
            raise InvalidInputError(
                f"trajectories[{bare}] has no rewards but others do; all or none must have them"
            )
        vectors = [part.vectors for part in parts if part.vectors is not None]
        if vectors and (len(vectors) < len(parts) or len({one.shape[1] for one in vectors}) > 1):
            raise InvalidInputError(
                "all trajectories must have vectors of the same length, or none"
            )
        names = ("observations", "actions", "lengths", "final_observations", "terminated")
        joined = {name: np.concatenate([getattr(one, name) for one in parts]) for name in names}
        size = max(part.n_observations for part in parts)
        if vectors:  # each row is an observation of its own
            size = len(joined["actions"])
            joined["observations"] = np.arange(size)
            joined["final_observations"] = np.full(len(joined["lengths"]), UNKNOWN)
        return object.__new__(cls)._with(
            **joined,
            rewards=np.concatenate(rewards) if rewards else None,
            n_observations=size,
            n_actions=max(part.n_actions for part in parts),
            vectors=np.concatenate(vectors) if vectors else None,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trajectory to one ``.npz`` file."""
        arrays: dict[str, NDArray[Any]] = {
            "observations": self.observations if self.vectors is None else self.vectors,
            "actions": self.actions,
            "lengths": self.lengths,
        }
        if self.rewards is not None:
            arrays["rewards"] = self.rewards
        if self.terminated.any():
            arrays["terminated"] = self.terminated
        facts = {"n_actions": self.n_actions}
        if self.vectors is None:
            arrays["final_observations"] = self.final_observations
            facts["n_observations"] = self.n_observations
        write_arrays(path, _KIND, _VERSION, arrays, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trajectory":
        """Read what `save` wrote."""
        arrays, facts = read_arrays(path, _KIND, _VERSION)
        with reading(path):
            return cls(**facts, **arrays)  # type: ignore[arg-type]  # it checks them

    def __len__(self) -> int:
        return self.n_steps

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        mine, theirs = self._fields(), other._fields()
        return all(
            (mine[name] is None) == (theirs[name] is None)
            and np.array_equal(mine[name], theirs[name])
            for name in mine
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, and too long to hash

    def __repr__(self) -> str:
        seen = f"{self.n_observations:,} observations"
        if self.vectors is not None:
            seen = f"vectors of {self.vectors.shape[1]} numbers"
        return (
            f"Trajectory({self.n_steps:,} steps, {self.n_episodes:,} "
            f"episode{'' if self.n_episodes == 1 else 's'}, {seen}, "
            f"{self.n_actions} actions, {'no' if self.rewards is None else 'with'} rewards)"
        )


def _last(name: str, size: int | None) -> int:
    """Return the largest number allowed when ``size`` things are numbered from zero."""
    return _LARGEST if size is None else whole_number(size, name, 1, _LARGEST) - 1


def _check_length(values: ArrayLike, name: str, n_steps: int) -> None:
    """Say which of the arrays of steps is too short, rather than what shape it has."""
    try:
        length = len(values)  # type: ignore[arg-type]
    except TypeError:
        return  # not a sequence: the check of the array itself says so
    if length != n_steps:
        raise InvalidInputError(
            f"{name} has {length} entries and observations {n_steps}; there must be one per step"
        )

"""Histories in, hidden states out: the machine of a model that remembers, by the log's names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Ints
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.validation import whole_array
from romdp.data.trajectory import Trajectory
from romdp.encoding.memory import Memory, outcomes
from romdp.logs.reading.closing import LogRows
from romdp.logs.reading.columns import Place, names

_LONGEST = 5  # observations that are shown of a history
_STARTS, _GOES_ON, _THEN = "start", "...", " > "


@dataclass(frozen=True, eq=False)
class StateMemory:
    """A machine over what a log calls its observations and actions.

    Attributes
    ----------
    machine : Memory
        The state after each step, given the state before, the action and what is seen.
    names, actions : tuple
        What its numbers of observations and actions stand for.
    histories : tuple of str
        For each state the observations that mostly come before it, as far as that tells it from
        other states; these are the ``observation_names`` of the model.
    """

    machine: Memory
    names: tuple[Any, ...]
    actions: tuple[Any, ...]
    histories: tuple[str, ...]

    @classmethod
    def of(cls, machine: Memory, rows: LogRows) -> "StateMemory":
        """Put the names of the rows that a machine was learned from to it."""
        found = _histories(machine, rows.seen, rows.observation_names)
        return cls(machine, rows.observation_names, rows.action_names, found)

    def states(
        self,
        names: Sequence[Any],
        actions: Sequence[Any] | None = None,
        lengths: ArrayLike | None = None,
    ) -> Ints:
        """Return the state after each observation, -1 where the log did not have it.

        ``lengths`` are those of the episodes, by default one; without ``actions`` it is not known
        what was done.
        """
        n = len(names)
        shown, done = _numbers(self.names, names), None
        if actions is not None:
            if len(actions) != n:
                raise InvalidInputError(
                    f"there are {n} observations and {len(actions)} actions; pass what was done at "
                    "each observation"
                )
            done = _numbers(self.actions, actions)
        begins = np.arange(n) == 0
        if lengths is not None:
            sizes = whole_array(lengths, "lengths", ("n_episodes",), 1, max(n, 1))
            if sizes.sum() != n:
                raise InvalidInputError(
                    f"lengths sums to {sizes.sum()}, but there are {n} observations; give the "
                    "number of observations of every episode"
                )
            begins[np.cumsum(sizes)[:-1]] = True
        return np.where(shown < 0, -1, self.machine.run(shown, done, begins))

    @classmethod
    def read(
        cls,
        machine: Memory,
        names: tuple[Any, ...],
        actions: tuple[Any, ...],
        histories: tuple[str, ...],
    ) -> "StateMemory":
        """Check that a machine from a file belongs to such names."""
        sizes = machine.n_observations, machine.n_actions, machine.n_states
        if sizes != (len(names), len(actions), len(histories)):
            raise StorageError("the memory is damaged: it is not that of the model's names")
        return cls(machine, names, actions, histories)

    def numbered(self, rows: LogRows) -> Trajectory:
        """Return what rows hold in the numbers of the machine, -1 for what it does not know."""
        o = np.append(_numbers(self.names, rows.observation_names), -1)
        return rows.seen.changed(
            observations=o[rows.seen.observations],
            actions=_numbers(self.actions, rows.action_names)[rows.seen.actions],
            final_observations=o[rows.seen.final_observations],
            n_observations=len(self.names),
            n_actions=len(self.actions),
        )

    def score(self, rows: LogRows, known: NDArray[np.bool_]) -> float:
        """Return the mean log probability of what followed steps of which it is known."""
        seen = self.numbered(rows)
        after = outcomes(seen)[known]
        states = self.machine.run_over(seen)[known]
        return float(self.machine.log_probabilities(states, seen.actions[known], after).mean())

    def remembered(self, rows: LogRows) -> LogRows:
        """Return rows with the state after each of them in place of what was seen."""
        found = self.machine.over(self.numbered(rows))
        known = found.changed(n_actions=rows.seen.n_actions, actions=rows.seen.actions)
        return replace(rows, seen=known, observation_names=self.histories, memory=self)


class Walks:
    """The states of episodes under way, in a table that is read batch by batch.

    Parameters
    ----------
    memory
        Histories to states.
    episode, action
        The columns that say whose row it is and what was done; None where the log had none.
    """

    def __init__(self, memory: StateMemory, episode: str | None, action: str | None) -> None:
        self._memory, self._episode, self._action = memory, episode, action
        self._at: dict[Any, tuple[int, int]] = {}  # the state of each episode, and what was done

    def states(self, batch: Any, shown: Ints, place: Place) -> Ints:
        """Return the state at each row of a batch, -1 where what is seen is not known."""
        there = batch.schema.names
        if self._episode is not None and self._episode not in there:
            raise InvalidInputError(
                f"{place.label} has no column {self._episode!r}; states look back, so that it must "
                "tell whose row each is"
            )
        whose: list[Any] = [None] * len(shown)
        done = np.full(len(shown), -1)
        if self._episode is not None:
            coded = names(batch, [self._episode], place)
            found = coded.names()
            whose = [found[code] for code in coded.codes]
        if self._action in there:
            coded = names(batch, [str(self._action)], place)
            done = _numbers(self._memory.actions, coded.names())[coded.codes]
        states = np.empty(len(shown), np.int64)
        for row, (key, action, o) in enumerate(
            zip(whose, done.tolist(), shown.tolist(), strict=True)
        ):
            states[row] = self._memory.machine.step(*self._at.get(key, (-1, -1)), o)
            self._at[key] = int(states[row]), action
        return np.where(shown < 0, -1, states)


def _numbers(own: Sequence[Any], names: Sequence[Any]) -> Ints:
    place: Mapping[Any, int] = {name: i for i, name in enumerate(own)}
    return np.array([place.get(name, -1) for name in names], np.int64)


def _histories(machine: Memory, seen: Trajectory, names: Sequence[Any]) -> tuple[str, ...]:
    """Say what mostly comes before each state: the shortest history that is no other state's."""
    states = machine.run_over(seen)
    first = len(names)  # stands for the start
    before, code = seen.observations, seen.observations
    columns: list[NDArray[np.int64]] = [before]
    found: list[str] = [""] * machine.n_states
    open_states = np.ones(machine.n_states, np.bool_)
    for depth in range(_LONGEST):
        pairs = states * (int(code.max()) + 1) + code
        _, steps, often = np.unique(pairs, return_index=True, return_counts=True)
        order = np.lexsort((-often, states[steps]))
        whose, top = np.unique(states[steps][order], return_index=True)
        typical = steps[order][top]
        texts = {}
        for state, at in zip(whose.tolist(), typical.tolist(), strict=True):
            shown = [int(column[at]) for column in columns[::-1]]
            starts = seen.ages[at] <= depth
            words = [str(names[o]) for o in shown if o != first]
            texts[state] = _THEN.join([_STARTS if starts else _GOES_ON, *words])
        for state, text in texts.items():
            if open_states[state]:
                found[state] = text
        open_states = np.array([found.count(text) > 1 for text in found])
        if not open_states.any():
            break
        before = np.append(first, before[:-1])
        before[seen.starts] = first
        columns.append(before)
        code = np.unique(code * (first + 1) + before, return_inverse=True)[1].ravel()
    return tuple(
        text if found[:i].count(text) == 0 else f"{text} ({found[:i].count(text) + 1})"
        for i, text in enumerate(found)
    )

"""Memory: a machine whose next state depends on its state, the action and what is then seen.

`Memory` runs over a log or step by step; `romdp.clustering.histories` learns one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.formats import Format, index, real, whole
from romdp.core.validation import freeze, shown, whole_number
from romdp.data.trajectory import END, Trajectory

_PSEUDO_STEP = (
    1.0  # steps that each law is believed to have seen before, spread as all outcomes are
)
_HALF = 0.5  # pseudo-count of an outcome, so that one that was never seen is possible

MEMORY = Format(
    "memory",
    n_actions=whole("", 1),
    visits=whole("states", 0),
    letters=whole("observations", -1),
    shares=real("observations", 0, 1),
    defaults=index("defaults", of="states"),
    keys=whole("codes", 0),
    targets=index("codes", of="states"),
    law_keys=whole("outcomes", 0),
    law_counts=whole("outcomes", 1),
    gain=real(finite=False),
    error=real(finite=False),
    curve=real("* 2"),
)


def check_memory(memory: int | str) -> int | None:
    """Check what somebody asks for: how many states back a state may look, None for "auto"."""
    if isinstance(memory, str):
        if memory != "auto":
            raise InvalidInputError(
                f'memory is {shown(memory)}; pass a whole number from 0 on, or "auto"'
            )
        return None
    return whole_number(memory, "memory", 0)


@dataclass(frozen=True, eq=False, repr=False)
class Memory:
    """A state machine over observations: ``state' = f(state, action, observation)``.

    Observations and actions are numbered from 0, and so are states. Before the first observation of
    an episode the machine is in no state, written -1. Observations that are always alike share a
    *letter*, which is what the machine reads. A *code* is what f is asked about; one that was never
    met leads to the state that its letter led to most.

    Attributes
    ----------
    n_actions : int
        Number of actions.
    letters : ndarray of int64, shape (n_observations,)
        The letter of each observation; -1 for one that was never seen.
    shares : ndarray of float, shape (n_observations,)
        The probability of each observation where its letter is seen.
    keys, targets : ndarray of int64
        Codes that were met, in order, as ``((state + 1) * n_ways + action) * n_letters + letter``,
        and where they lead. If there are several actions, there is one more way: not to know what
        was done.
    defaults : ndarray of int64, shape (n_letters + 1,)
        Where each letter leads most; the last entry is for what was never seen.
    law_keys, law_counts : ndarray of int64
        What followed each state, as ``(state * n_actions + action) * (n_letters + 1) + letter``,
        where the last one is the end of the episode; and how often.
    visits : ndarray of int64, shape (n_states,)
        How many steps of the log were in each state.
    gain, error : float
        By how much held-out steps are predicted better than without memory, in nats per step, and
        its standard error; NaN where that was not measured.
    curve : ndarray of float, shape (n_tried, 2)
        Numbers of states that were tried, and how held-out steps were predicted with so many, in
        nats per step, their rewards included.

    Examples
    --------
    >>> machine = Memory.of([0, 1, 1, 1], Trajectory([0, 1, 1, 1], [0, 0, 0, 0]))
    >>> machine.run([0, 1, 1])
    array([0, 1, 1])
    """

    n_actions: int
    letters: Ints
    shares: Floats
    keys: Ints
    targets: Ints
    defaults: Ints
    law_keys: Ints
    law_counts: Ints
    visits: Ints
    gain: float = float("nan")
    error: float = float("nan")
    curve: Floats = field(default_factory=lambda: np.zeros((0, 2)))

    @classmethod
    def of(
        cls,
        states: ArrayLike,
        seen: Trajectory,
        counted: Bools | None = None,
        letters: Ints | None = None,
    ) -> "Memory":
        """Make the machine that follows a sequence of states as well as a machine can.

        Where the same code led to several states, the most frequent one is taken; laws are then
        counted along the machine's own states.

        Parameters
        ----------
        states
            The state of each step of ``seen``.
        seen
            What was observed and done.
        counted
            The steps to learn from; by default all.
        letters
            The letter of each observation; by default each is its own.
        """
        given = np.asarray(states, np.int64)
        used = np.ones(seen.n_steps, np.bool_) if counted is None else counted
        if letters is None:
            letters = np.arange(seen.n_observations)
        alphabet = int(letters.max()) + 1
        often = np.bincount(seen.observations[used], minlength=len(letters)) + _HALF
        mass = np.bincount(np.maximum(letters, 0), often * (letters >= 0), alphabet)
        shares = np.where(letters >= 0, often / mass[letters], 1 / len(letters))
        seen = seen.changed(
            observations=letters[seen.observations],
            final_observations=_spelled(seen.final_observations, letters),
            n_observations=alphabet,
        )
        used = used & (seen.observations >= 0)
        before, did = shifted(given, seen, -1), shifted(seen.actions, seen, 0)
        ways = _ways(seen.n_actions)
        codes = [((before + 1) * ways + a) * alphabet + seen.observations for a in (did, ways - 1)]
        keys, targets = _most_frequent(
            np.concatenate([code[used] for code in codes]), np.tile(given[used], 2)
        )
        names, tops = _most_frequent(seen.observations[used], given[used])
        defaults = np.full(alphabet + 1, np.bincount(given[used]).argmax())
        defaults[names] = tops
        found = np.empty(seen.n_steps, np.int64)
        begins = _begins(seen)
        _run(seen.observations, seen.actions, begins, ways, keys, targets, defaults, found)
        # States that the machine never reaches are left out.
        reached, found = np.unique(found, return_inverse=True)
        number = np.full(int(given.max()) + 1, -1)
        number[reached] = np.arange(len(reached))
        before, rest = np.divmod(keys, ways * alphabet)
        renamed = np.append(number, -1)[before - 1]
        kept = ((before == 0) | (renamed >= 0)) & (number[targets] >= 0)
        keys = ((renamed + 1) * ways * alphabet + rest)[kept]
        order = np.argsort(keys)
        top = int(np.bincount(found).argmax())
        defaults = np.where(number[defaults] >= 0, number[defaults], top)
        after = outcomes(seen)
        known = used & (after >= 0)
        laws = (found * seen.n_actions + seen.actions) * (alphabet + 1) + after
        law_keys, law_counts = np.unique(laws[known], return_counts=True)
        visits = np.bincount(found[used], minlength=len(reached))
        arrays = keys[order], number[targets][kept][order], defaults, law_keys, law_counts, visits
        return cls(seen.n_actions, freeze(letters.copy()), freeze(shares), *map(freeze, arrays))

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.visits)

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return len(self.letters)

    @property
    def n_letters(self) -> int:
        """Number of letters."""
        return len(self.defaults) - 1

    def step(self, state: int, action: int, observation: int) -> int:
        """Return the state after an observation; before the first one the state is -1."""
        n, ways = self.n_letters, _ways(self.n_actions)
        letter = int(self.letters[observation]) if 0 <= observation < self.n_observations else -1
        did = action if state >= 0 and 0 <= action < self.n_actions else ways - 1
        for way in (did, ways - 1) if letter >= 0 else ():
            key = ((state + 1) * ways + way) * n + letter
            at = int(np.searchsorted(self.keys, key))
            if at < len(self.keys) and self.keys[at] == key:
                return int(self.targets[at])
        return int(self.defaults[letter])

    def run(
        self, observations: ArrayLike, actions: ArrayLike | None = None, begins: Any = None
    ) -> Ints:
        """Return the state after each observation of a sequence.

        Parameters
        ----------
        observations
            In order; -1 for one that was never seen.
        actions
            What was done at each of them; -1 where that is not known, by default everywhere.
        begins
            Whether an episode begins there; by default only at the first.
        """
        shown = _spelled(np.asarray(observations, np.int64), self.letters)
        done = np.full(len(shown), -1) if actions is None else np.asarray(actions, np.int64)
        new = np.arange(len(shown)) == 0 if begins is None else np.asarray(begins, np.bool_)
        found = np.empty(len(shown), np.int64)
        _run(shown, done, new, _ways(self.n_actions), self.keys, self.targets, self.defaults, found)
        return found

    def run_over(self, seen: Trajectory) -> Ints:
        """Return the state at each step of a trajectory."""
        return self.run(seen.observations, seen.actions, _begins(seen))

    def over(self, seen: Trajectory) -> Trajectory:
        """Return the same steps with the state after each in place of what was seen."""
        states, final = self.run_over(seen), seen.final_observations.copy()
        last = seen.starts + seen.lengths - 1
        for i in np.flatnonzero(final >= 0).tolist():
            at = last[i]
            final[i] = self.step(int(states[at]), int(seen.actions[at]), int(final[i]))
        return seen.changed(
            observations=states, final_observations=final, n_observations=self.n_states
        )

    @cached_property
    def _spread(self) -> Floats:
        """How often each letter follows, and the end, whatever the state."""
        n = self.n_letters + 1
        counts = np.bincount(self.law_keys % n, self.law_counts, n) + _HALF
        return np.asarray(counts / counts.sum())

    @cached_property
    def _totals(self) -> Floats:
        rows = self.law_keys // (self.n_letters + 1)
        return np.bincount(rows, self.law_counts, self.n_states * self.n_actions).astype(np.float64)

    def log_probabilities(self, states: Ints, actions: Ints, after: Ints) -> Floats:
        """Return the log probability of what followed each state and action.

        That is an observation, -1 for one that was never seen, or ``n_observations`` for the end.
        What is not known of an action, -1, is what is known of all.
        """
        n = self.n_letters
        letters = np.append(self.letters, [n, -1])[after]
        shares = np.log(np.append(self.shares, [1.0, 1.0 / self.n_observations])[after])
        rows = states * self.n_actions + actions
        keys = rows * (n + 1) + letters
        at = np.searchsorted(self.law_keys, keys)
        met = np.append(self.law_keys, -1)[at] == keys
        known = (actions >= 0) & (letters >= 0)
        counts = np.where(met & known, np.append(self.law_counts, 0)[at], 0)
        totals = np.where(actions >= 0, self._totals[rows], 0)
        share = np.where(letters >= 0, self._spread[letters], self._spread.min())
        return np.asarray(
            np.log((counts + _PSEUDO_STEP * share) / (totals + _PSEUDO_STEP)) + shares
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for a file."""
        return MEMORY.pack(self)[0]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what `arrays` returned; what does not fit together is a `StorageError`."""
        found = MEMORY.read(arrays)
        n, states, n_actions = len(found["defaults"]) - 1, len(found["visits"]), found["n_actions"]
        if not states or not n or found["letters"].max(initial=-1) >= n:
            raise StorageError("the memory is damaged: its parts are of different sizes")
        sizes = (
            ("keys", (states + 1) * n * _ways(n_actions)),
            ("law_keys", states * (n + 1) * n_actions),
        )
        for name, size in sizes:
            keys = found[name]
            if (np.diff(keys) <= 0).any() or keys.max(initial=-1) >= size:
                raise StorageError(f"the memory is damaged: {name} are out of order or too large")
        for array in found.values():
            if isinstance(array, np.ndarray):
                freeze(array)
        return cls(**found)

    def __repr__(self) -> str:
        return (
            f"Memory({self.n_states} states of {self.n_observations:,} observations and "
            f"{self.n_actions} actions, {len(self.keys):,} codes)"
        )


def shifted(values: Ints, seen: Trajectory, first: int) -> Ints:
    """Return what was one step before; ``first`` at the first step of an episode."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[seen.starts] = first
    return before


def outcomes(seen: Trajectory) -> Ints:
    """Return what followed each step: ``n_observations`` is the end, -1 unknown."""
    return np.where(seen.next_observations == END, seen.n_observations, seen.next_observations)


def _ways(n_actions: int) -> int:
    """Return how many ways there are from a state: its actions, and not to know which it was."""
    return n_actions + (n_actions > 1)


def _begins(seen: Trajectory) -> Bools:
    begins = np.zeros(seen.n_steps, np.bool_)
    begins[seen.starts] = True
    return begins


def _spelled(observations: Ints, letters: Ints) -> Ints:
    """Return the letters of observations, -1 for what is not known."""
    known = (observations >= 0) & (observations < len(letters))
    return np.where(known, letters[np.where(known, observations, 0)], -1)


def _most_frequent(codes: Ints, states: Ints) -> tuple[Ints, Ints]:
    """Return the codes that occur, and the state that each is found with most."""
    n = int(states.max()) + 1
    pairs, count = np.unique(codes * n + states, return_counts=True)
    order = np.lexsort((-count, pairs // n))
    keys, first = np.unique(pairs[order] // n, return_index=True)
    return keys, pairs[order][first] % n


@kernel
def _run(
    shown: Ints,
    done: Ints,
    begins: Bools,
    ways: int,
    keys: Ints,
    targets: Ints,
    defaults: Ints,
    found: Ints,
) -> None:
    """Run the machine over a sequence of letters, of which -1 is unknown (`_spelled`)."""
    n = defaults.size - 1
    state, did = -1, ways - 1
    for t in range(shown.size):
        if begins[t]:
            state, did = -1, ways - 1
        o = shown[t]
        following = defaults[o] if o >= 0 else defaults[n]
        for way in (did, ways - 1):
            key = ((state + 1) * ways + way) * n + o
            at = np.searchsorted(keys, key)
            if o >= 0 and at < keys.size and keys[at] == key:
                following = targets[at]
                break
        state = following
        did = done[t] if 0 <= done[t] < ways else ways - 1
        found[t] = state

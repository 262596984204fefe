"""What an agent has seen, counted as it happens: the mutable side of `Counts` and `Triples`.

The compiled loop and the stepped loops write into the same flat arrays, so memory depends on
what can be (or was) seen, never on the number of steps.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.core.validation import freeze
from romdp.data.counting import gather
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.tally import DENSE_LIMIT, Tally, add
from romdp.data.triples import Triples


@kernel
def count_step(
    cell: int,
    reward: float,
    next_unit: int,
    n_units: int,
    visits: NDArray[np.int64],
    sums: NDArray[np.float64],
    squares: NDArray[np.float64],
    keys: NDArray[np.int64] | None,
    pairs: NDArray[np.int64],
    used: NDArray[np.int64],
) -> None:
    """Count a visit of ``cell`` (unit * n_actions + action), its reward and its successor.

    A negative ``next_unit`` is unknown: the step counts its reward and no transition.
    """
    visits[cell] += 1
    sums[cell] += reward
    squares[cell] += reward * reward
    if next_unit >= 0:
        add(keys, pairs, used, cell * n_units + next_unit)


@kernel
def unit_of(units: NDArray[np.int64] | None, observation: int) -> int:
    """Return what an observation is counted as: itself unless there are ``units``."""
    if units is None:
        return observation
    return units[observation] if observation >= 0 else -1


@kernel
def count_triple(
    previous: int,
    observation: int,
    next_observation: int,
    symbol: NDArray[np.int64] | None,
    n_symbols: int,
    keys: NDArray[np.int64] | None,
    triples: NDArray[np.int64],
    used: NDArray[np.int64],
) -> int:
    """Count (previous symbol, symbol, next symbol); returns the previous symbol of the next step.

    ``symbol`` is None while nobody watches triples; the kernel is then empty. A negative
    ``previous`` or ``next_observation`` is unknown, a negative symbol is that of an observation
    without a group: neither makes a triple.
    """
    if symbol is None:
        return -1
    if next_observation < 0:
        return -1
    middle: int = symbol[observation]
    following: int = symbol[next_observation]
    if previous >= 0 and middle >= 0 and following >= 0:
        add(keys, triples, used, (previous * n_symbols + middle) * n_symbols + following)
    return middle


@kernel
def _group_keys(
    keys: NDArray[np.int64],
    counts: NDArray[np.int64],
    labels: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add keys and their counts, such as those of a hash table, to transitions of groups."""
    n_units, n_actions = labels.size, out.shape[1]
    for slot in range(keys.size):
        if counts[slot] > 0:
            cell, following = divmod(keys[slot], n_units)
            unit, action = divmod(cell, n_actions)
            if labels[unit] >= 0 and labels[following] >= 0:
                out[labels[unit], action, labels[following]] += counts[slot]


class HashedCounts(Counts):
    """Counts whose transitions stay in the hash table until somebody asks for them.

    An agent plans on groups at every epoch and looks at observations far less often: to add
    the table up to groups costs one pass over it, to sort it into rows many times that.
    """

    _tally: Tally

    @classmethod
    def of_tally(
        cls,
        n_units: int,
        n_actions: int,
        visits: NDArray[np.int64],
        tally: Tally,
        reward_sums: NDArray[np.float64],
        reward_squares: NDArray[np.float64],
    ) -> Self:
        """Look at the arrays of a recorder; nothing is copied."""
        counts = object.__new__(cls)
        shape = (n_units, n_actions)
        for name, array in (
            ("visits", visits),
            ("reward_sums", reward_sums),
            ("reward_squares", reward_squares),
        ):
            object.__setattr__(counts, name, freeze(array.reshape(shape).view()))
        object.__setattr__(counts, "_tally", tally)
        return counts

    def __getattr__(self, name: str) -> Any:
        if name != "transitions":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        keys, count = self._tally.items(ordered=False)
        rows, columns = np.divmod(keys, self.n_observations)
        matrix = gather(rows, columns, count, (self.visits.size, self.n_observations))
        object.__setattr__(self, "transitions", matrix)
        return matrix

    @property
    def is_sparse(self) -> bool:
        """Whether the transitions are a sparse matrix: always."""
        return True

    def group(self, partition: Partition) -> Counts:
        """Count groups instead of observations; see `Counts.group`."""
        size, actions = partition.n_clusters, self.n_actions
        keys = self._tally.keys
        if keys is None or partition.is_identity or size * actions * size > DENSE_LIMIT:
            return super().group(partition)
        transitions = np.zeros((size, actions, size), np.int64)
        _group_keys(keys, self._tally.counts, partition.labels, transitions)
        return self.group_with(partition, transitions)


_NOTED = 2**12  # steps of an epoch up to which groups are counted from where they were


class Recorder:
    """Pair counts of all steps and, while they are watched, triple counts of the present epoch.

    What is counted is a unit: an observation, or after `keep_largest` a group of them.

    Parameters
    ----------
    n_observations, n_actions
        The sizes; they fix which keys exist, not how much memory is taken.
    """

    def __init__(self, n_observations: int, n_actions: int) -> None:
        self.n_observations = n_observations
        self.n_actions = n_actions
        self.n_units = n_observations
        self.units: NDArray[np.int64] | None = None  # of each observation; None: itself
        cells = n_observations * n_actions
        self.visits = np.zeros(cells, np.int64)
        self.reward_sums = np.zeros(cells, np.float64)
        self.reward_squares = np.zeros(cells, np.float64)
        self.pairs = Tally(cells * n_observations)
        self._grouped: tuple[Partition, NDArray[np.int64]] | None = None  # transitions of groups
        self.symbol: NDArray[np.int64] | None = None
        self.symbol_action = np.empty(0, np.int64)
        self.triples_tally = Tally(0)
        self.last = np.full(1, -1, np.int64)  # the symbol before the present one; -1: none

    @property
    def n_symbols(self) -> int:
        """How many symbols the watched triples are made of; 0 while none are watched."""
        return self.symbol_action.size

    def watch_triples(self, symbol: NDArray[np.int64], symbol_action: NDArray[np.int64]) -> None:
        """Start the triple counts of an epoch anew.

        Parameters
        ----------
        symbol
            The symbol of every observation: the observation itself or its group.
        symbol_action
            The action that the epoch's policy takes at each symbol; it is the middle action.
        """
        n_keys = symbol_action.size**3
        if self.triples_tally.n_keys == n_keys:
            self.triples_tally.clear()
        else:
            self.triples_tally = Tally(n_keys)
        self.symbol, self.symbol_action = symbol, symbol_action
        self.last.fill(-1)

    def make_room(self) -> None:
        """Grow whatever table is full."""
        self.pairs.make_room()
        self.triples_tally.make_room()

    def record(self, observation: int, action: int, reward: float, next_observation: int) -> None:
        """Count one step; ``next_observation`` is -1 where the step leads nowhere known."""
        self.make_room()
        pairs, triples = self.pairs, self.triples_tally
        count_step(
            unit_of(self.units, observation) * self.n_actions + action,
            float(reward),
            unit_of(self.units, next_observation),
            self.n_units,
            self.visits,
            self.reward_sums,
            self.reward_squares,
            pairs.keys,
            pairs.counts,
            pairs.used,
        )
        self.last[0] = count_triple(
            self.last[0],
            observation,
            next_observation,
            self.symbol,
            self.n_symbols,
            triples.keys,
            triples.counts,
            triples.used,
        )

    @property
    def counts(self) -> Counts:
        """The pair counts so far: a live view, until the next step, not a copy."""
        cells = (self.n_units, self.n_actions, self.visits)
        rewards = (self.reward_sums, self.reward_squares)
        if self.pairs.is_dense:
            return Counts.from_cells(*cells, self.pairs.counts, *rewards)
        return HashedCounts.of_tally(*cells, self.pairs, *rewards)

    def group(self, partition: Partition) -> Counts:
        """Count groups instead of observations, like ``counts.group(partition)``.

        While the grouping stays the same, only the steps since the last call are added to what
        was counted then; an agent asks at every epoch, and a pass over all counts would be most
        of its time where observations are many.
        """
        counts, noted, known = self.counts, self.pairs.noted(), self._grouped
        if known is not None and noted is not None and known[0] == partition:
            transitions = known[1].copy()
            _group_keys(noted, np.ones_like(noted), partition.labels, transitions)
            grouped = counts.group_with(partition, transitions)
        else:
            grouped = counts.group(partition)
        self._grouped = None
        if isinstance(grouped.transitions, np.ndarray) and not partition.is_identity:
            self._grouped = (partition, grouped.transitions)
            if noted is None:
                self.pairs.take_notes(_NOTED)
        return grouped

    @property
    def triples(self) -> Triples:
        """The triple counts since `watch_triples`, in symbols."""
        size = self.n_symbols
        keys, count = self.triples_tally.items()
        rest, following = np.divmod(keys, size)
        previous, middle = np.divmod(rest, size)
        return Triples(
            previous=previous,
            middle=middle,
            action=self.symbol_action[middle],
            next=following,
            count=count,
            n_observations=size,
            n_actions=self.n_actions,
        )

    def keep_largest(self, grouping: Partition) -> None:
        """Count groups from now on, keeping of each the history of one branch.

        Every group of ``grouping`` must be a union of present units. A new unit goes on with
        the counts of the unit in it that has the most visits; those of the others are
        forgotten, and what led to any of them leads to the group. Memory is then that of the
        groups, not of the observations.
        """
        size, actions = grouping.n_clusters, self.n_actions
        present = np.arange(self.n_observations) if self.units is None else self.units
        group = np.empty(self.n_units, np.int64)
        group[present] = grouping.labels
        visits = self.visits.reshape(-1, actions)
        by_visits = np.argsort(visits.sum(axis=1), kind="stable")
        kept = np.empty(size, np.int64)
        kept[group[by_visits]] = by_visits  # the last one written has the most visits

        moved = self.counts.matrix()[(kept[:, None] * actions + np.arange(actions)).ravel()]
        rows = np.repeat(np.arange(size * actions), np.diff(moved.indptr))
        keys, where = np.unique(rows * size + group[moved.indices], return_inverse=True)
        count = np.zeros(keys.size, np.int64)
        np.add.at(count, where, moved.data)

        self.pairs = Tally.from_items(size * actions * size, keys, count)
        self.visits = visits[kept].ravel()
        self.reward_sums = self.reward_sums.reshape(-1, actions)[kept].ravel()
        self.reward_squares = self.reward_squares.reshape(-1, actions)[kept].ravel()
        self.units, self.n_units = grouping.labels, size
        self._grouped = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold, copied: later steps do not change it."""
        pair_keys, pair_counts = self.pairs.items()
        triple_keys, triple_counts = self.triples_tally.items()
        arrays: dict[str, NDArray[Any]] = {
            "visits": self.visits.copy(),
            "reward_sums": self.reward_sums.copy(),
            "reward_squares": self.reward_squares.copy(),
            "pair_keys": pair_keys,
            "pair_counts": pair_counts,
            "symbol_action": self.symbol_action.copy(),
            "triple_keys": triple_keys,
            "triple_counts": triple_counts,
            "last": self.last.copy(),
        }
        for name in ("symbol", "units"):
            if (array := getattr(self, name)) is not None:
                arrays[name] = array.copy()
        return arrays

    @classmethod
    def from_arrays(
        cls, n_observations: int, n_actions: int, arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Rebuild a recorder from `arrays`."""
        recorder = cls(n_observations, n_actions)
        for name in ("visits", "reward_sums", "reward_squares", "symbol_action", "last"):
            setattr(recorder, name, arrays[name].copy())
        for name in ("symbol", "units"):
            if name in arrays:
                setattr(recorder, name, arrays[name].copy())
        recorder.n_units = recorder.visits.size // n_actions
        recorder.pairs = Tally.from_items(
            recorder.visits.size * recorder.n_units, arrays["pair_keys"], arrays["pair_counts"]
        )
        recorder.triples_tally = Tally.from_items(
            recorder.n_symbols**3, arrays["triple_keys"], arrays["triple_counts"]
        )
        return recorder

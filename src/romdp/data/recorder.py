"""What an agent has seen, counted as it happens: the mutable side of `Counts` and `Triples`.

The compiled loop and the stepped loops write into the same flat arrays, so memory depends on
what can be (or was) seen, never on the number of steps.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Bools, Ints
from romdp.core.formats import Format, index, optional, real, whole
from romdp.core.validation import LARGEST_REWARD, check_memory, freeze
from romdp.data.counts import LARGEST, PER_PAIR, Counts
from romdp.data.partition import Partition
from romdp.data.tally import Tally, count_step, count_triple, owner_of
from romdp.data.trajectory import END, Trajectory
from romdp.data.transitions import (
    Transitions,
    add_up,
    check_groups,
    group_keys,
    group_observations,
    group_pairs,
    is_large,
    keys_of_groups,
    places_of_groups,
    sparse_rows,
)
from romdp.data.triples import Triples


class HashedCounts(Counts):
    """Counts whose transitions stay in a hash table until somebody asks for them.

    An agent plans on groups at every epoch and looks at observations far less often: to add
    the table up to groups costs one pass over it, to sort it into rows many times that.
    """

    _tally: Tally
    _recorder: "Recorder"

    @classmethod
    def of_recorder(cls, recorder: "Recorder") -> Self:
        """Look at the arrays of a recorder; nothing is copied."""
        counts = object.__new__(cls)
        for name in PER_PAIR:
            view = getattr(recorder, name).reshape(-1, recorder.n_actions).view()
            object.__setattr__(counts, name, freeze(view))
        object.__setattr__(counts, "starts", freeze(recorder.starts.view()))
        object.__setattr__(counts, "_tally", recorder.pairs)
        object.__setattr__(counts, "_recorder", recorder)
        return counts

    def __getattr__(self, name: str) -> Any:
        if name != "transitions":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        keys, count = self._tally.items(ordered=False)
        rows, columns = np.divmod(keys, self.n_observations)
        matrix = sparse_rows(rows, columns, count, (self.visits.size, self.n_observations))
        object.__setattr__(self, "transitions", matrix)
        return matrix

    @property
    def is_sparse(self) -> bool:
        """Whether the transitions are a sparse matrix: always."""
        return True

    def met(self) -> Ints:
        """List the observations that were visited or reached."""
        end = self._recorder.n_met
        met: Bools = np.asarray(self.visits[:end].any(axis=1))
        met[self._tally.items(ordered=False)[0] % self.n_observations] = True
        return np.flatnonzero(met)

    def restrict(self, chosen: Ints) -> Counts:
        """Keep some of the observations that were met, renumbered; the others cost nothing."""
        size, n_actions = len(chosen), self.n_actions
        labels = np.full(self._recorder.n_met, -1)
        labels[chosen] = np.arange(size)
        keys, count = self._tally.items(ordered=False)
        places = np.divmod(keys, self.n_observations)
        rows, target, kept = places_of_groups(*places, labels, n_actions)
        matrix = sparse_rows(rows, target, count[kept], (size * n_actions, size))
        small = not is_large(size, n_actions)
        transitions = matrix.toarray().reshape(size, n_actions, size) if small else matrix
        kept_rows = {name: array[chosen] for name, array in self._plain().items()}
        return Counts.from_parts(transitions=transitions, **kept_rows)

    def group_transitions(self, partition: Partition) -> Transitions:
        """Add the transitions up to those of groups."""
        size, keys = partition.n_clusters, self._tally.keys
        if keys is None or is_large(size, self.n_actions):
            return super().group_transitions(partition)
        transitions = np.zeros((size, self.n_actions, size), np.int64)
        group_keys(keys, self._tally.counts, partition.labels, transitions)
        return transitions


_FORMAT = Format(
    "recorder",
    owners=optional(index("observations", of="observations")),
    visits=whole("pairs", 0, LARGEST),
    reward_sums=real("pairs"),
    reward_squares=real("pairs", 0),
    ends=whole("pairs", 0, LARGEST),
    starts=whole("*", 0, LARGEST),
    triple_actions=index("looked_at", of="actions"),
    triple_groups=optional(index("observations", of="looked_at", none=True)),
    pair_keys=whole("met", 0),
    pair_counts=whole("met", 1, LARGEST),
    triple_keys=whole("triples", 0),
    triple_counts=whole("triples", 1, LARGEST),
    last=index("1", of="looked_at", none=True),
)
_FEW = 2**15  # transitions of groups up to which an array is faster
_NOTED = 2**12  # steps of an epoch up to which groups are counted from where they were


class Recorder:
    """Pair counts of all steps and, while they are watched, triple counts of the present epoch.

    Every observation is counted under its own number, or after `merge_keeping_largest` under the
    group that owns it.

    Parameters
    ----------
    n_observations, n_actions
        The sizes; they fix which keys exist, not how much memory is taken.
    """

    def __init__(self, n_observations: int, n_actions: int) -> None:
        check_memory("counts (n_observations x n_actions)", n_observations, n_actions, copies=6)
        self.n_observations = n_observations
        self.n_actions = n_actions
        self.n_owners = n_observations
        self.owners: Ints | None = None  # None: every observation owns itself
        cells = n_observations * n_actions
        self.visits = np.zeros(cells, np.int64)
        self.reward_sums = np.zeros(cells, np.float64)
        self.reward_squares = np.zeros(cells, np.float64)
        self.pairs = Tally(cells * n_observations)
        self.ends = np.zeros(cells, np.int64)  # steps of each cell that ended an episode
        self.starts = np.zeros(n_observations, np.int64)
        self.has_ends = False
        self._grouped: tuple[Partition, Ints | Tally] | None = None  # of groups
        self.n_met = 0  # no observation from this one on was met in `record`
        self.triple_groups: Ints | None = None  # None: nobody watches triples
        self.triple_actions = np.empty(0, np.int64)
        self.triples_tally = Tally(0)
        self.last = np.full(1, -1, np.int64)  # the group before the present one; -1: none

    @property
    def n_triple_groups(self) -> int:
        """How many groups the watched triples are made of; 0 while none are watched."""
        return self.triple_actions.size

    def watch_triples(self, groups: Ints, actions: Ints) -> None:
        """Start the triple counts of an epoch afresh.

        Parameters
        ----------
        groups
            The group of every observation.
        actions
            The action that the epoch's policy takes in each group; it is the middle action.
        """
        n_keys = actions.size**3
        if self.triples_tally.n_keys == n_keys:
            self.triples_tally.clear()
        else:
            self.triples_tally = Tally(n_keys)
        self.triple_groups, self.triple_actions = groups, actions
        self.last.fill(-1)

    def make_room(self) -> None:
        """Grow whatever table is full."""
        self.pairs.make_room()
        self.triples_tally.make_room()

    def begin(self, observation: int) -> None:
        """Count that an episode begins with an observation."""
        self.starts[observation if self.owners is None else self.owners[observation]] += 1
        self.n_met = max(self.n_met, observation + 1)

    def record(self, observation: int, action: int, reward: float, following: int) -> None:
        """Count one step; ``following`` is what it led to, or `END` or `UNKNOWN`."""
        if observation >= self.n_met or following >= self.n_met:
            self.n_met = max(observation, following) + 1
        self.pairs.make_room()
        source, target = observation, following
        if self.owners is not None:  # a call of a kernel takes as long as counting
            source = owner_of(self.owners, observation)
            target = owner_of(self.owners, following)
        cell, pairs = source * self.n_actions + action, self.pairs
        if following == END:
            self.ends[cell] += 1
            self.has_ends = True
        count_step(
            cell,
            float(reward),
            target,
            self.n_owners,
            self.visits,
            self.reward_sums,
            self.reward_squares,
            pairs.keys,
            pairs.counts,
            pairs.journal,
        )
        if self.triple_groups is not None:
            triples = self.triples_tally
            triples.make_room()
            self.last[0] = count_triple(
                self.last[0],
                observation,
                following,
                self.triple_groups,
                self.n_triple_groups,
                triples.keys,
                triples.counts,
                triples.journal,
            )

    def record_all(self, seen: Trajectory) -> None:
        """Count many steps, as `record` does one after the other, while no triples are watched."""
        assert self.owners is None
        assert self.triple_groups is None
        following = seen.next_observations
        over, moved = following == END, following >= 0
        cells = seen.observations * self.n_actions + seen.actions
        np.add.at(self.visits, cells, 1)
        if seen.rewards is not None:
            np.add.at(self.reward_sums, cells, seen.rewards)
            np.add.at(self.reward_squares, cells, seen.rewards**2)
        np.add.at(self.ends, cells[over], 1)
        np.add.at(self.starts, seen.first_observations, 1)
        self.has_ends = self.has_ends or bool(over.any())
        self.n_met = max(self.n_met, int(seen.observations.max()) + 1, int(following.max()) + 1)
        self.pairs.add(cells[moved] * self.n_owners + following[moved])

    @property
    def n_visited(self) -> int | None:
        """How many observations were acted on; None where groups are counted."""
        if self.owners is not None:
            return None
        return int(self.visits.reshape(-1, self.n_actions).any(axis=1).sum())

    @property
    def counts(self) -> Counts:
        """The pair counts so far: a live view, until the next step, not a copy."""
        if not self.pairs.is_dense:
            return HashedCounts.of_recorder(self)
        return Counts.from_cells(
            self.n_owners,
            self.n_actions,
            self.visits,
            self.pairs.counts,
            self.reward_sums,
            self.reward_squares,
            self.ends,
            self.starts,
        )

    def group(self, partition: Partition, *, sparse: bool = False) -> Counts:
        """Count groups instead of observations, like ``counts.group(partition)``.

        While the grouping stays the same, only the steps since the last call are added to what
        was counted then; an agent asks at every epoch, and a pass over all counts would be most
        of its time where observations are many. ``sparse`` keeps the transitions of many groups
        sparse, so that the cost is that of the transitions that were seen.
        """
        check_groups(partition, self.n_owners)
        large = partition.n_clusters**2 * self.n_actions > _FEW
        if partition.is_identity and not (sparse and large and self.pairs.is_dense):
            return self.counts
        noted, known = self.pairs.noted(), self._grouped
        if noted is None:
            self.pairs.take_notes(_NOTED)
        goes_on = known is not None and noted is not None and partition is known[0]
        if sparse and large:
            tally = known[1] if known is not None and goes_on else None
            if not isinstance(tally, Tally):
                tally = self._tally_of_groups(partition)
            elif noted is not None:
                size, labels = partition.n_clusters, partition.labels
                tally.add(keys_of_groups(noted, labels, size, self.n_actions)[0])
            self._grouped = (partition, tally)
            keys, count = tally.items(ordered=False)
            rows, columns = np.divmod(keys, partition.n_clusters)
            shape = (partition.n_clusters * self.n_actions, partition.n_clusters)
            return self._group_rest(partition, sparse_rows(rows, columns, count, shape))
        goes_on = goes_on or (known is not None and noted is not None and partition == known[0])
        if known is not None and noted is not None and goes_on and isinstance(known[1], np.ndarray):
            transitions = known[1].copy()
            group_keys(noted, np.ones_like(noted), partition.labels, transitions)
            self._grouped = (partition, transitions)
            return self._group_rest(partition, transitions)
        grouped = self._group_rest(partition, self.counts.group_transitions(partition))
        self._grouped = None
        if isinstance(grouped.transitions, np.ndarray):
            self._grouped = (partition, grouped.transitions)
        return grouped

    def _tally_of_groups(self, partition: Partition) -> Tally:
        """Count the transitions of groups from those of all observations."""
        keys, count = self.pairs.items(ordered=False)
        size = partition.n_clusters
        mapped, kept = keys_of_groups(keys, partition.labels, size, self.n_actions)
        return Tally.from_items(size * size * self.n_actions, *add_up(mapped, count[kept]), True)

    def _group_rest(self, partition: Partition, transitions: Transitions) -> Counts:
        """Add the transitions of groups to all else that is counted of them.

        Observations beyond the last that was met are not looked at.
        """
        size, actions, met = partition.n_clusters, self.n_actions, self.n_met
        labels = partition.labels[:met]
        grouped = {
            name: group_pairs(getattr(self, name).reshape(-1, actions)[:met], labels, size)
            for name in PER_PAIR
        }
        starts = group_observations(self.starts[:met], labels, size)
        return Counts.from_parts(transitions=transitions, starts=starts, **grouped)

    @property
    def triples(self) -> Triples:
        """The triple counts since `watch_triples`, between groups."""
        size = self.n_triple_groups
        keys, count = self.triples_tally.items()
        rest, following = np.divmod(keys, size)
        previous, middle = np.divmod(rest, size)
        return Triples(
            previous=previous,
            middle=middle,
            action=self.triple_actions[middle],
            next=following,
            count=count,
            n_observations=size,
            n_actions=self.n_actions,
        )

    def merge_keeping_largest(self, grouping: Partition) -> None:
        """Count groups from now on; each keeps the history of one of the owners it is made of.

        Every group of ``grouping`` must be a union of present owners. It goes on with the counts
        of the owner that has the most visits. Those of the others are forgotten, and what led to
        any of them leads to the group. Memory is then that of the groups, not of the
        observations.
        """
        size, actions = grouping.n_clusters, self.n_actions
        present = np.arange(self.n_observations) if self.owners is None else self.owners
        group = np.empty(self.n_owners, np.int64)
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

        starts, self.starts = self.starts, np.zeros(size, np.int64)
        np.add.at(self.starts, group, starts)
        self.ends = self.ends.reshape(-1, actions)[kept].ravel()
        self.pairs = Tally.from_items(size * actions * size, keys, count)
        self.visits = visits[kept].ravel()
        self.reward_sums = self.reward_sums.reshape(-1, actions)[kept].ravel()
        self.reward_squares = self.reward_squares.reshape(-1, actions)[kept].ravel()
        self.owners, self.n_owners = grouping.labels, size
        self._grouped = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold, copied: later steps do not change it."""
        pair_keys, pair_counts = self.pairs.items()
        triple_keys, triple_counts = self.triples_tally.items()
        tallies = {
            "pair_keys": pair_keys,
            "pair_counts": pair_counts,
            "triple_keys": triple_keys,
            "triple_counts": triple_counts,
        }
        return _FORMAT.pack(vars(self) | tallies)[0]

    @classmethod
    def from_arrays(
        cls, n_observations: int, n_actions: int, arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Rebuild a recorder from `arrays`; what does not fit together is a `StorageError`."""
        found = _FORMAT.read(arrays, observations=n_observations, actions=n_actions)
        owners, looked_at = found["owners"], found["triple_actions"].size
        n_owners = n_observations if owners is None else int(owners.max()) + 1
        cells, visits, keys = n_owners * n_actions, found["visits"], found["pair_keys"]
        if len(visits) != cells or len(found["starts"]) != n_owners:
            raise _FORMAT.damaged(f"it is not of {n_owners} observations and {n_actions} actions")
        if looked_at and found["triple_groups"] is None:
            raise _FORMAT.damaged("triple_groups is missing")
        for name, size in (("pair_keys", cells * n_owners), ("triple_keys", looked_at**3)):
            if (np.diff(found[name]) <= 0).any() or found[name].max(initial=-1) >= size:
                raise _FORMAT.damaged(f"{name} is not in ascending order below {size}")
        left = np.bincount(keys // n_owners, found["pair_counts"], cells) + found["ends"]
        if (left > visits).any():
            raise _FORMAT.damaged("more transitions and ends than visits")
        most = LARGEST_REWARD * visits
        sums, squares = found["reward_sums"], found["reward_squares"]
        if (abs(sums) > most).any() or (squares > LARGEST_REWARD * most).any():
            raise _FORMAT.damaged("rewards without visits, or of a size that no reward can have")

        recorder = cls(n_observations, n_actions)
        for name in (*PER_PAIR, "owners", "starts", "triple_groups", "triple_actions", "last"):
            setattr(recorder, name, found[name])
        recorder.n_owners = n_owners
        recorder.pairs = Tally.from_items(cells * n_owners, keys, found["pair_counts"])
        triples = found["triple_keys"], found["triple_counts"]
        recorder.triples_tally = Tally.from_items(looked_at**3, *triples)
        recorder.has_ends = bool(found["ends"].any())
        acted = np.flatnonzero(visits.reshape(n_owners, -1).any(axis=1) | (recorder.starts > 0))
        last_met = max(acted.max(initial=-1), (keys % n_owners).max(initial=-1))
        recorder.n_met = n_observations if owners is not None else int(last_met) + 1
        return recorder

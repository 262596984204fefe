"""Counts of a stretch of a log, which add up with those of the next stretch.

Rows come in order; those of different episodes may be interleaved. Most episodes are counted at
once: every row closes the row before it of the same episode. A few, chosen by a digest of their
names, are kept row by row as held-out episodes; if they become too many, some of them are counted
after all. What is counted and what is held out thus depends on the log alone, not on batches,
files or workers.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.data.tally import Tally
from romdp.data.transitions import add_up
from romdp.logs.reading.columns import Columns, Place, flags, numbers, ordered, propensities
from romdp.logs.reading.episodes import (
    ACTION_BITS,
    OBSERVATION_BITS,
    Episodes,
    Orders,
    Pairs,
    link,
    mark_ends,
    renamed,
    unpacked,
)
from romdp.logs.reading.names import Floats, Ints, Names, coded, digests, mix

BLOCK = 100
"""Without an episode column, this many rows in a row are held out or counted together."""

AFTER_THE_END = "this episode terminated in an earlier row; give what follows an episode of its own"
"""What is wrong with a row that comes after the end of its episode."""

_ALL_KEYS = 2**63 - 1


class Batch(NamedTuple):
    """A batch as arrays."""

    seen: Ints
    done: Ints
    paid: Floats
    whose: Ints | None  # numbers of episodes; None without an episode column
    order: NDArray[Any] | None
    terminated: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log is counted; the same for all of its stretches.

    Attributes
    ----------
    columns
        Which column is what.
    seed
        Decides which episodes are held out.
    holdout
        The share of episodes to hold out, at most.
    most_held
        The number of rows to hold out, at most.
    max_observations, max_actions
        How many different ones there may be.
    """

    columns: Columns
    seed: int = 0
    holdout: float = 0.2
    most_held: int = 2_000_000
    max_observations: int = 1_000_000
    max_actions: int = 10_000

    @property
    def keeps_all(self) -> bool:
        """Whether no row is counted and all are kept."""
        return self.most_held >= 2**62

    @property
    def has_episodes(self) -> bool:
        """Whether the log is made of episodes, named or told apart by their ends."""
        return self.columns.episode is not None or self.columns.terminated is not None


class Partial:
    """Counts of a stretch of a log; see the module."""

    def __init__(self, settings: LogSettings, label: str = "the log") -> None:
        columns = settings.columns
        self.settings = settings
        self.label = label
        self.observations = Names(columns.observation, settings.max_observations, "observation")
        self.actions = Names(columns.action or "", settings.max_actions, "action")
        self.episodes = Episodes()
        self.limit = int(settings.holdout * 2.0**63)  # episodes that rank below are held out
        self.n_rows = 0
        self.n_held = 0
        self.pairs = Pairs()
        self._held: list[tuple[Ints, Ints, Floats, Ints]] = []
        self._tally: Tally | None = Tally(_ALL_KEYS)
        self._keys, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._orders = Orders(str(columns.order))
        self._seed_word = mix(np.array([settings.seed]))[0]
        self._inverse: Floats | None = None if columns.propensity is None else np.zeros((0, 0))
        self.chances: list[Floats] = []  # propensities of all rows, if all rows are kept
        self._n_ended = 0
        self._last_rewards: list[tuple[Ints, Ints, Floats]] = []  # of the steps that ended episodes

    # ---------------------------------------------------------------- rows in

    def take(self, batch: Any, place: Place, row: int) -> None:
        """Count a batch.

        Parameters
        ----------
        batch
            An Arrow record batch.
        place
            Where it lies, for messages.
        row
            How many rows of the whole log come before.
        """
        if batch.num_rows == 0:
            return
        rows = self.read(batch, place)
        whose = self._blocks(row, batch.num_rows) if rows.whose is None else rows.whose
        if rows.order is not None:
            who = whose if self.settings.columns.episode is not None else np.zeros_like(whose)
            self._orders.check(who, rows.order, max(1, len(self.episodes)), place)
        late = self.mark_ends(whose, rows.terminated)
        if late >= 0:
            raise place.error(late, str(self.settings.columns.terminated), AFTER_THE_END)
        self.absorb(rows.seen, rows.done, rows.paid, whose)

    def read(self, batch: Any, place: Place) -> Batch:
        """Check a batch and turn names into numbers."""
        columns = self.settings.columns
        seen = self.observations.encode(coded(batch, columns.observation, place))
        done = np.zeros(len(seen), np.int64)
        if columns.action is not None:
            done = self.actions.encode(coded(batch, columns.action, place))
        paid = np.zeros(len(seen))
        if columns.reward is not None:
            paid = numbers(batch, columns.reward, place)
            self.pairs.note(paid)
        whose = None
        if columns.episode is not None:
            found = coded(batch, columns.episode, place)
            table = np.zeros(len(found.values), np.int64)
            table[found.used] = self.episodes.number(digests(found))
            whose = table[found.codes]
        order = None if columns.order is None else ordered(batch, columns.order, place)
        terminated = None
        if columns.terminated is not None:
            terminated = flags(batch, columns.terminated, place)
            if whose is None:
                whose = self._told_apart(terminated)
            self._last_rewards.append((seen[terminated], done[terminated], paid[terminated]))
        if columns.propensity is not None:
            chances = propensities(batch, columns.propensity, place)
            self._note_propensities(seen, done, chances)
            if self.settings.keeps_all:
                self.chances.append(chances)
        return Batch(seen, done, paid, whose, order, terminated)

    def _told_apart(self, terminated: NDArray[np.bool_]) -> Ints:
        """Give numbers to episodes without names: each begins after the end of the last."""
        before = self._n_ended + np.cumsum(terminated) - terminated
        self._n_ended = int(before[-1]) + int(terminated[-1])
        here = np.arange(before[0], before[-1] + 1)
        numbers: Ints = self.episodes.number(mix(here))[before - before[0]]
        return numbers

    def last_rewards(self) -> tuple[Ints, Ints, Floats]:
        """Return observation, action and reward of every row that ended its episode."""
        if not self._last_rewards:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        seen, done, paid = (np.concatenate(part) for part in zip(*self._last_rewards, strict=True))
        return seen, done, paid

    def _note_propensities(self, seen: Ints, done: Ints, chances: Floats) -> None:
        assert self._inverse is not None
        self._inverse = self.inverse_propensities
        assert self._inverse is not None
        np.add.at(self._inverse, (seen, done), 1.0 / chances)

    @property
    def inverse_propensities(self) -> Floats | None:
        """Sums of 1 / propensity of all pairs so far, if the log tells propensities."""
        if self._inverse is None or self._inverse.shape == self.sizes:
            return self._inverse
        wide = np.zeros(self.sizes)
        wide[: len(self._inverse), : self._inverse.shape[1]] = self._inverse
        return wide

    def mark_ends(self, whose: Ints, terminated: NDArray[np.bool_] | None) -> int:
        """Note which episodes are over; return the first row that comes after an end, or -1.

        Without episodes there is nothing to note: the row after an end is the restart.
        """
        if terminated is None:
            return -1
        return mark_ends(whose, terminated, self.episodes.over)

    def absorb(self, seen: Ints, done: Ints, paid: Floats, whose: Ints | None) -> None:
        """Count rows, or hold them out; without episodes, they are the next rows of the log."""
        if whose is None:
            whose = self._blocks(self.n_rows, len(seen))
        self.n_rows += len(seen)
        held = self._is_held(whose)
        if held.any():
            self._hold(seen[held], done[held], paid[held], whose[held])
            kept = ~held
            seen, done, paid, whose = seen[kept], done[kept], paid[kept], whose[kept]
        self._count(seen, done, paid, whose)
        self._lower_limit()

    def _blocks(self, row: int, n_rows: int) -> Ints:
        """Return the block of every row of a log without episodes."""
        blocks = np.arange(row, row + n_rows) // BLOCK
        here = np.arange(blocks[0], blocks[-1] + 1)
        numbers: Ints = self.episodes.number(mix(here))[blocks - blocks[0]]
        return numbers

    def _is_held(self, whose: Ints) -> NDArray[np.bool_]:
        """Say which rows belong to episodes that are held out."""
        return mix(self.episodes.digests[whose] ^ self._seed_word) < self.limit

    def _hold(self, seen: Ints, done: Ints, paid: Floats, whose: Ints) -> None:
        self._held.append((seen, done, paid, whose))
        self.n_held += len(seen)

    def _count(self, seen: Ints, done: Ints, paid: Floats, whose: Ints) -> None:
        """Count rows of episodes that are not held out."""
        self.pairs.make_room(*self.sizes)
        tally, episodes = self._tally, self.episodes
        assert tally is not None
        at = 0
        while at < len(seen):
            assert tally.keys is not None
            at = link(
                seen,
                done,
                whose,
                episodes.first,
                episodes.last,
                tally.keys,
                tally.counts,
                tally.journal,
                at,
            )
            tally.make_room()
        self.pairs.add(seen, done, paid)

    def _lower_limit(self) -> None:
        """Hold fewer episodes out, each time half of them, until their rows are few enough."""
        while self.n_held > self.settings.most_held:
            self._demote(self.limit // 2)

    def _demote(self, limit: int) -> None:
        """Count the held-out episodes that a lower limit does not hold out."""
        if limit >= self.limit:
            return
        self.limit = limit
        held, self._held, self.n_held = self.held_rows(), [], 0
        stay = self._is_held(held[3])
        if stay.any():
            self._hold(held[0][stay], held[1][stay], held[2][stay], held[3][stay])
        gone = ~stay
        self._reopen()
        self._count(held[0][gone], held[1][gone], held[2][gone], held[3][gone])

    # ---------------------------------------------------------------- what came of it

    def held_rows(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Return observation, action, reward and episode of every row held out, in order."""
        if not self._held:
            return (*(np.empty(0, np.int64),) * 2, np.empty(0), np.empty(0, np.int64))
        seen, done, paid, whose = (np.concatenate(part) for part in zip(*self._held, strict=True))
        return seen, done, paid, whose

    def transitions(self) -> tuple[Ints, Ints]:
        """Return the keys of the transitions counted, ascending, and how often each came."""
        if self._tally is not None:
            self._keys, self._counts = self._tally.items()
            self._tally = None
        return self._keys, self._counts

    def _reopen(self) -> None:
        if self._tally is None:
            self._tally = Tally.from_items(_ALL_KEYS, self._keys, self._counts)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of observations and of actions so far."""
        return len(self.observations), max(1, len(self.actions))

    # ---------------------------------------------------------------- the next stretch

    def join(self, other: "Partial") -> "Partial":
        """Add the counts of the stretch that follows; it is used up."""
        limit = min(self.limit, other.limit)
        self._demote(limit)
        other._demote(limit)
        observations = self.observations.add(other.observations.names)
        actions = self.actions.add(other.actions.names)
        if not len(actions):
            actions = np.zeros(1, np.int64)
        episodes = self.episodes.number(other.episodes.digests)
        who = episodes if self.settings.columns.episode is not None else np.zeros(1, np.int64)
        self._orders.join(other._orders, who, other.label)
        self._join_ends(other, episodes)
        self._join_transitions(other, observations, actions, episodes)
        self.pairs.make_room(*self.sizes)
        self.pairs.join(other.pairs, observations, actions)
        for seen, done, paid, whose in other._held:
            self._hold(observations[seen], actions[done], paid, episodes[whose])
        self.n_rows += other.n_rows
        self._last_rewards += [
            (observations[seen], actions[done], paid) for seen, done, paid in other._last_rewards
        ]
        self.chances += other.chances
        theirs = other.inverse_propensities
        if theirs is not None:
            self._inverse = self.inverse_propensities
            assert self._inverse is not None
            self._inverse[np.ix_(observations, actions)] += theirs
        self._lower_limit()
        return self

    def _join_ends(self, other: "Partial", episodes: Ints) -> None:
        over = self.episodes.over
        if over[episodes].any():
            raise InvalidInputError(
                f"an episode goes on in {other.label}, column "
                f"{self.settings.columns.terminated!r}: {AFTER_THE_END}"
            )
        over[episodes] = other.episodes.over[: len(episodes)]

    def _join_transitions(
        self, other: "Partial", observations: Ints, actions: Ints, episodes: Ints
    ) -> None:
        mine, own = self.transitions(), self.episodes
        theirs, counts = other.transitions()
        first = other.episodes.first[: len(episodes)]
        last = other.episodes.last[: len(episodes)]
        counted = np.flatnonzero(last >= 0)
        known = own.last[episodes[counted]] >= 0
        met = counted[known]
        bridges = (own.last[episodes[met]] << OBSERVATION_BITS) | observations[first[met]]
        self._keys, self._counts = add_up(
            np.concatenate([mine[0], renamed(theirs, observations, actions), bridges]),
            np.concatenate([mine[1], counts, np.ones(len(bridges), np.int64)]),
        )
        new = counted[~known]
        own.first[episodes[new]] = observations[first[new]]
        seen, done = unpacked(last[counted])
        own.last[episodes[counted]] = (observations[seen] << ACTION_BITS) | actions[done]

"""The end of a log: close all episodes and turn what was kept into counts."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice
from romdp.data.counts import Counts
from romdp.data.tally import DENSE_LIMIT
from romdp.data.trajectory import END, UNKNOWN, Trajectory
from romdp.data.transitions import sparse_rows
from romdp.encoding.decoder import StateDecoder
from romdp.logs.reading.names import Floats, Ints, mix, numbered
from romdp.logs.reading.stretches import (
    A_BITS,
    BLOCK,
    ENDED,
    O_BITS,
    Stretch,
    scale,
    share_limit,
)

if TYPE_CHECKING:
    from romdp.logs.remembering import StateMemory

_MOST_PAIRS = 2**28  # each of three arrays then takes 2 GiB

ENDS = ("truncated", "terminated", "restart")
"""What the last row of an episode may lead to: nobody knows; its end; its end, and then another
episode, so that the average over all of them counts."""


def check_ends(ends: str, column: str | None) -> None:
    """Check what the last row of an episode leads to; a column may tell it, too."""
    choice(ends, "ends", ENDS)
    if ends != "truncated" and column is not None:
        raise InvalidInputError(f"column {column!r} tells how episodes end; leave ends out")


@dataclass(frozen=True)
class LogCounts:
    """What is kept of a log.

    Attributes
    ----------
    counts : Counts
        Counts of the episodes that are not held out, with their ends and starts; rewards are
        scaled to [0, 1].
    held_out : Trajectory or None
        The held-out episodes, rewards scaled alike; None if there are none.
    observation_names, action_names : tuple
        What the numbers stand for.
    reward_range : tuple of float, or None
        The smallest and the largest reward, in their own units; None without rewards.
    n_rows, n_episodes : int
        How many there were, the held-out ones included.
    inverse_propensities : ndarray or None
        Sums of 1 / propensity over all rows, if the log has a column of propensities.
    decoder : StateDecoder or None
        For vectors: from a vector to its hidden state, which is what was counted.
    memory : StateMemory or None
        If states look back: from histories to states, which are what was counted.
    propensities : ndarray or None
        Those of the steps that are held out, if the log has a column of them.
    """

    counts: Counts
    held_out: Trajectory | None
    observation_names: tuple[Any, ...]
    action_names: tuple[Any, ...]
    reward_range: tuple[float, float] | None
    n_rows: int
    n_episodes: int
    inverse_propensities: Floats | None = None
    decoder: StateDecoder | None = None
    memory: "StateMemory | None" = None
    propensities: Floats | None = None

    @property
    def in_episodes(self) -> bool:
        """Whether there are several episodes, and not blocks of one."""
        return self.n_episodes > 1

    def decided(self) -> "LogCounts":
        """Take every row for an episode of its own that is over: decisions one by one."""
        counts, held = self.counts, self.held_out
        if held is not None:
            held = held.changed(terminated=np.ones(held.n_episodes, np.bool_))
        over = Counts.from_parts(
            counts.visits,
            counts.transitions,
            counts.reward_sums,
            counts.reward_squares,
            counts.visits,
            counts.starts,
        )
        return replace(self, counts=over, held_out=held)

    @property
    def total(self) -> Counts:
        """Counts of all episodes."""
        if self.held_out is None:
            return self.counts
        return self.counts + Counts.from_trajectory(self.held_out, sparse=self.counts.is_sparse)

    def hold_out(self, share: float, rng: np.random.Generator) -> tuple[Counts, Trajectory | None]:
        """Hold out only a share of the episodes that are held out, and count the rest."""
        if self.held_out is None:
            return self.counts, None
        chosen = rng.random(self.held_out.n_episodes) < share
        held, rest = (some_episodes(self.held_out, which) for which in (chosen, ~chosen))
        if rest is None:
            return self.counts, held
        return self.counts + Counts.from_trajectory(rest, sparse=self.counts.is_sparse), held


@dataclass(frozen=True)
class LogRows:
    """The rows of a log, one episode after the other.

    Attributes
    ----------
    seen : Trajectory
        What was seen, done and paid; rewards are scaled to [0, 1].
    observation_names, action_names, reward_range, n_episodes, decoder, memory
        As in `LogCounts`; vectors are numbered by row.
    propensities : ndarray or None
        Those of the rows, if the log has a column of them.
    """

    seen: Trajectory
    observation_names: tuple[Any, ...]
    action_names: tuple[Any, ...]
    reward_range: tuple[float, float] | None
    n_episodes: int
    propensities: Floats | None = None
    decoder: StateDecoder | None = None
    memory: "StateMemory | None" = None

    @classmethod
    def of_trajectory(cls, seen: Trajectory, ends: str = "truncated") -> "LogRows":
        """Read a trajectory like a log whose names are the numbers."""
        if choice(ends, "ends", ENDS) != "truncated":
            if seen.terminated.any():
                raise InvalidInputError("the trajectory tells how episodes end; leave ends out")
            seen = seen.changed(terminated=np.ones(seen.n_episodes, np.bool_))
        names, actions = range(seen.n_observations), range(seen.n_actions)
        reward_range = None
        if seen.rewards is not None:
            reward_range = (float(seen.rewards.min()), float(seen.rewards.max()))
            low, span = scale(reward_range)
            seen = seen.changed(rewards=np.clip((seen.rewards - low) / span, 0.0, 1.0))
        return cls(seen, tuple(names), tuple(actions), reward_range, seen.n_episodes)

    def decoded(self, decoder: StateDecoder) -> "LogRows":
        """Put the hidden states that a decoder knows in place of vectors."""
        assert self.seen.vectors is not None
        found, codes = np.unique(decoder.predict(self.seen.vectors), return_inverse=True)
        seen = self.seen.encoded(codes, len(found))
        return replace(self, seen=seen, observation_names=tuple(found.tolist()), decoder=decoder)

    def in_blocks(self) -> "LogRows":
        """Cut one long episode into blocks of rows, each of which goes on with the next."""
        seen = self.seen
        if seen.n_episodes > 1:
            return self
        begins = np.arange(0, seen.n_steps, BLOCK)
        blocks = seen.changed(
            lengths=np.diff(begins, append=seen.n_steps),
            final_observations=np.append(seen.observations[begins[1:]], seen.final_observations),
            terminated=np.append(np.zeros(len(begins) - 1, np.bool_), seen.terminated),
            ages=seen.ages,
        )
        return replace(self, seen=blocks)

    def decided(self) -> "LogRows":
        """Take every row for an episode of its own that is over: decisions one by one."""
        return replace(
            self, seen=self.seen.changed(terminated=np.ones(self.seen.n_episodes, np.bool_))
        )

    def count(self, holdout: float = 0.2, most_held: int = 2_000_000, seed: int = 0) -> LogCounts:
        """Count all episodes but a share of them, which is held out."""
        seen = self.in_blocks().seen
        rank = mix(mix(np.arange(seen.n_episodes)) ^ mix(np.array([seed])))
        limit = share_limit(holdout)
        while seen.lengths[rank < limit].sum() > most_held:
            limit //= 2
        counted, held_out = (some_episodes(seen, part) for part in (rank >= limit, rank < limit))
        sizes = seen.n_observations, seen.n_actions
        inverse = None
        if self.propensities is not None:
            inverse = np.zeros(sizes)
            np.add.at(inverse, (seen.observations, seen.actions), 1 / self.propensities)
        return LogCounts(
            Counts.zeros(*sizes) if counted is None else Counts.from_trajectory(counted),
            held_out,
            self.observation_names,
            self.action_names,
            self.reward_range,
            seen.n_steps,
            self.n_episodes,
            inverse,
            self.decoder,
            self.memory,
            None
            if self.propensities is None
            else self.propensities[np.repeat(rank < limit, seen.lengths)],
        )


def some_episodes(seen: Trajectory, chosen: NDArray[np.bool_]) -> Trajectory | None:
    """Return some episodes alone."""
    if not chosen.any():
        return None
    rows = np.repeat(chosen, seen.lengths)
    return seen.changed(
        observations=seen.observations[rows],
        actions=seen.actions[rows],
        rewards=None if seen.rewards is None else seen.rewards[rows],
        lengths=seen.lengths[chosen],
        final_observations=seen.final_observations[chosen],
        terminated=seen.terminated[chosen],
        ages=seen.ages[rows],
    )


def close(stretch: Stretch, ends: str) -> None:
    """Count or keep the last row of every episode, too."""
    last = stretch.last[: len(stretch.chains)]
    over = np.full(len(last), ends != "truncated")
    if stretch.settings.columns.terminated is not None:
        over = last["over"]
    last["next"] = np.where(over, END, UNKNOWN)
    stretch.put(last)


def kept_rows(stretch: Stretch, as_text: bool) -> LogRows | None:
    """Return the rows that were kept of a log that was closed, as episodes; None if there are none.

    ``as_text`` says that names which are all whole numbers were read as text.
    """
    steps, settings = np.concatenate(stretch.kept), stretch.settings
    if not len(steps):
        return None
    steps = steps[np.lexsort((steps["age"], steps["chain"]))]
    begins = np.append(True, (np.diff(steps["chain"]) != 0) | (np.diff(steps["age"]) != 1))
    if not (settings.has_episodes or settings.keep_all):
        begins |= steps["age"] % BLOCK == 0
    at = np.flatnonzero(begins)
    final = steps["next"][np.append(at[1:], len(steps)) - 1]
    paid, lengths = stretch.scaled(steps["r"]), np.diff(at, append=len(steps))
    actions, (a,) = numbered([stretch.actions.names or [0]], as_text)
    names, (o,) = numbered([stretch.observations.names], as_text)
    more: dict[str, Any] = {"n_actions": len(actions), "terminated": final == END}
    if settings.are_vectors:
        shown = np.concatenate(stretch.vectors)[steps["o"]]
        names = list(range(len(shown)))
    else:
        shown = o[steps["o"]]
        final = np.append(o, UNKNOWN)[np.maximum(final, UNKNOWN)]
        more |= {"n_observations": len(names), "final_observations": final}
    seen = Trajectory(shown, a[steps["a"]], paid, lengths, **more)
    return LogRows(
        seen.changed(ages=steps["age"].copy()),
        tuple(names),
        tuple(actions),
        stretch.reward_range,
        len(stretch.chains),
        None if settings.columns.propensity is None else steps["p"].copy(),
    )


def finish(stretch: Stretch, as_text: bool) -> LogCounts:
    """Turn what was kept of a log that was closed into counts."""
    names, (o,) = numbered([stretch.observations.names], as_text)
    actions, (a,) = numbered([stretch.actions.names or [0]], as_text)
    n_observations, n_actions = sizes = len(names), len(actions)
    if n_observations * n_actions > _MOST_PAIRS:
        raise InvalidInputError(
            f"{n_observations:,} observations with {n_actions:,} actions are more than "
            f"{_MOST_PAIRS:,} pairs; make the observations or the actions coarser"
        )
    pairs = stretch.pairs.by_number()
    cells = o[pairs >> A_BITS] * n_actions + a[pairs & (2**A_BITS - 1)]
    table = np.zeros((n_observations * n_actions, 4))
    table[cells] = stretch.sums()
    keys, count = stretch.moves.items(ordered=False)
    after = np.append(o, END)[np.minimum(keys & ENDED, len(o))]
    first = stretch.first[: len(stretch.chains)]
    counted = o[first["o"][(first["rank"] >= stretch.limit) & (first["o"] >= 0)]]
    starts = np.bincount(counted, minlength=n_observations)
    moves = np.stack([cells[keys >> O_BITS], after, count])
    counts = count_cells(sizes, table[:, :3], moves, starts)
    rows = kept_rows(stretch, as_text)
    held = None if rows is None else rows.seen
    inverse = None
    if stretch.settings.columns.propensity is not None:
        inverse = table[:, 3].reshape(sizes)
        if rows is not None and rows.propensities is not None:
            at = rows.seen.observations, rows.seen.actions
            np.add.at(inverse, at, 1 / rows.propensities)
    return LogCounts(
        counts,
        held,
        tuple(names),
        tuple(actions),
        stretch.reward_range,
        counts.n_steps + (0 if held is None else held.n_steps),
        len(stretch.chains),
        inverse,
        propensities=None if rows is None else rows.propensities,
    )


def count_cells(sizes: tuple[int, int], table: Floats, moves: Ints, starts: Ints) -> Counts:
    """Make counts of what is known of cells.

    Parameters
    ----------
    sizes
        How many observations and actions there are.
    table
        One row per cell, ``observation * n_actions + action``: visits, sums of rewards in [0, 1],
        and of their squares.
    moves
        Cell, what it led to (or `END`), and how often, in three rows.
    starts
        How many episodes began with each observation.
    """
    cells, after, count = moves
    known, over = after >= 0, after == END
    visits, paid, squares = (np.ascontiguousarray(x).reshape(sizes) for x in table.T)
    counts = Counts.from_parts(
        visits.astype(np.int64),
        sparse_rows(cells[known], after[known], count[known], (len(table), sizes[0])),
        paid,
        squares,
        np.bincount(cells[over], count[over], len(table)).astype(np.int64).reshape(sizes),
        starts,
    )
    return counts.dense() if sizes[0] * len(table) <= DENSE_LIMIT else counts

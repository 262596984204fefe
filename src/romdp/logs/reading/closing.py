"""The end of a log: close all episodes and turn what was kept into counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import freeze, real_number
from romdp.data.counts import Counts
from romdp.data.tally import DENSE_LIMIT
from romdp.data.trajectory import Trajectory
from romdp.data.transitions import sparse_rows
from romdp.logs.reading.joining import moves_of, refuse_wrong, renumbered, stacked
from romdp.logs.reading.names import Floats, Ints, mix
from romdp.logs.reading.stretches import BLOCK, LogSettings, Stretch, Table, scale

_MOST_PAIRS = 2**28  # each of three arrays then takes 2 GiB

ENDS = ("truncated", "restart")
"""What follows the last row of an episode: nothing that is known, or another episode's first."""


@dataclass(frozen=True)
class LogCounts:
    """What is kept of a log.

    Attributes
    ----------
    counts : Counts
        Counts of the episodes that are not held out; rewards are scaled to [0, 1].
    held_out : Trajectory or None
        The held-out episodes, rewards scaled alike; None if there are none.
    starts : ndarray of int64, one for each observation
        How many episodes began with each observation.
    observation_names, action_names : tuple
        What the numbers stand for.
    reward_range : tuple of float, or None
        The smallest and the largest reward, in their own units; None without rewards.
    n_rows, n_episodes : int
        How many there were, the held-out ones included.
    ends : Counts or None
        The steps that ended an episode for good, held-out ones included, counted once more: their
        visits, and the restarts that their transitions lead to. None if no such step is known.
    inverse_propensities : ndarray or None
        Sums of 1 / propensity over all rows, if the log has a column of propensities.
    propensities : ndarray or None
        Those of the rows of ``held_out``.
    """

    counts: Counts
    held_out: Trajectory | None
    starts: Ints
    observation_names: tuple[Any, ...]
    action_names: tuple[Any, ...]
    reward_range: tuple[float, float] | None
    n_rows: int
    n_episodes: int
    ends: Counts | None = None
    inverse_propensities: Floats | None = None
    propensities: Floats | None = None

    @property
    def total(self) -> Counts:
        """Counts of all episodes."""
        if self.held_out is None:
            return self.counts
        return self.counts + Counts.from_trajectory(self.held_out, sparse=self.counts.is_sparse)


def finish(
    log: Stretch, settings: LogSettings, ends: str = "truncated", *, as_numbers: bool = False
) -> LogCounts:
    """Close all episodes of a log and turn what is kept of it into counts.

    ``as_numbers`` says that names which are all whole numbers were read as text.
    """
    observation_names, observations = _sorted(log.observations, as_numbers)
    action_names, actions = _sorted(log.actions, as_numbers)
    sizes = len(observation_names), len(action_names)
    if sizes[0] * sizes[1] > _MOST_PAIRS:
        raise InvalidInputError(
            f"{sizes[0]:,} observations with {sizes[1]:,} actions are more than {_MOST_PAIRS:,} "
            "pairs; make the observations or the actions coarser"
        )
    moves, pairs, episodes, held = (
        renumbered(table, observations, actions)
        for table in (log.moves, log.pairs, log.episodes, log.held)
    )
    has_rewards = settings.columns.reward is not None
    low, span = scale(log.reward_range)
    if not settings.has_episodes:  # blocks of one long episode, which each continue the last
        each = np.arange(len(episodes["e"]))
        refuse_wrong(episodes, each[:-1], each[1:], log.places, settings)

    following = _successors(episodes, settings, ends)
    known = following >= 0
    x = np.clip((episodes["paid"] - low) / span, 0.0, 1.0)
    last = {
        **moves_of(episodes["seen"], episodes["done"], following), "paid": x, "squares": x * x
    }  # fmt: skip
    counted = known & (episodes["e"] >= log.limit)
    if counted.any():
        moves = stacked(moves, {name: values[counted] for name, values in last.items()})
    counts = count_cells(sizes, pairs, moves)
    counted_ends = None
    if settings.has_episodes and known.any():
        last = {name: values[known] for name, values in last.items()}
        counted_ends = count_cells(sizes, last, last)
    inverse = None
    if settings.columns.propensity is not None:
        inverse = np.zeros(sizes)
        np.add.at(inverse, (pairs["o"], pairs["a"]), pairs["inverse"])

    by_name = np.argsort(episodes["e"])
    whose = by_name[np.searchsorted(episodes["e"], held["e"], sorter=by_name)]
    order = np.argsort(whose, kind="stable")
    held_out = None
    if len(order):
        used, lengths = np.unique(whose, return_counts=True)
        paid = np.clip((held["r"][order] - low) / span, 0.0, 1.0)
        held_out = Trajectory(
            held["o"][order],
            held["a"][order],
            paid if has_rewards else None,
            lengths,
            following[used],
            n_observations=sizes[0],
            n_actions=sizes[1],
        )
    starts = episodes["first"] if settings.has_episodes else episodes["first"][:1]
    return LogCounts(
        counts=counts.dense() if sizes[0] * counts.visits.size <= DENSE_LIMIT else counts,
        held_out=held_out,
        starts=freeze(np.bincount(starts, minlength=sizes[0])),
        observation_names=observation_names,
        action_names=action_names,
        reward_range=log.reward_range if has_rewards else None,
        n_rows=log.n_rows,
        n_episodes=len(episodes["e"]) if settings.has_episodes else 1,
        ends=counted_ends,
        inverse_propensities=None if inverse is None else freeze(inverse),
        propensities=None if inverse is None else freeze(held["p"][order]),
    )


def count_cells(sizes: tuple[int, int], pairs: Table, moves: Table) -> Counts:
    """Add up what is known of pairs, and how often transitions came (see `Stretch`)."""
    n_observations, n_actions = sizes
    n_cells = n_observations * n_actions
    cells = pairs["o"] * n_actions + pairs["a"]
    visits = np.bincount(cells, pairs["n"], n_cells).astype(np.int64)
    # Rewards are from [0, 1], and so are means, but for rounding.
    sums: list[Floats] = [
        np.minimum(np.maximum(np.bincount(cells, pairs[name], n_cells), 0.0), visits)
        for name in ("paid", "squares")
    ]
    left = moves["o"] * n_actions + moves["a"]
    transitions = sparse_rows(left, moves["next"], moves["n"], (n_cells, n_observations))
    paid, squares = (x.reshape(sizes) for x in sums)
    return Counts.from_parts(visits.reshape(sizes), transitions, paid, squares, None)


def _successors(episodes: Table, settings: LogSettings, ends: str) -> Ints:
    """Return what the last row of every episode led to, -1 where nobody knows.

    The last episode restarts as the first did.
    """
    n_episodes = len(episodes["first"])
    ended = np.full(n_episodes, ends == "restart")
    if not settings.has_episodes:  # blocks of one long episode
        ended = np.arange(n_episodes) < n_episodes - 1
    elif settings.columns.terminated is not None:
        ended = episodes["over"]
    if n_episodes < 2:
        return np.full(n_episodes, -1)
    return np.where(ended, np.roll(episodes["first"], -1), -1)


def _sorted(names: list[Any], as_numbers: bool) -> tuple[tuple[Any, ...], Ints]:
    """Sort the names, so that numbers do not depend on the order of rows; return new numbers."""
    if as_numbers and all(_is_whole(name) for name in names if isinstance(name, str)):
        names = [int(name) for name in names]
    order = sorted(range(len(names)), key=names.__getitem__)
    new = np.empty(len(names), np.int64)
    new[order] = np.arange(len(names))
    return tuple(names[i] for i in order), new


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text


def split_trajectory(
    seen: Trajectory, *, holdout: float = 0.2, most_held: int = 2_000_000, seed: int = 0
) -> LogCounts:
    """Count a trajectory like a log whose names are the numbers.

    One episode is cut into stretches of 100 steps, some of which are held out. An episode that
    terminated restarts as ``final_observations`` say, or else as the next one begins.
    """
    real_number(holdout, "holdout", 0.0, 1.0, open_high=True)
    rewards = None
    reward_range = None
    if seen.rewards is not None:
        reward_range = (float(seen.rewards.min()), float(seen.rewards.max()))
        start, span = scale(reward_range)
        rewards = np.clip((seen.rewards - start) / span, 0.0, 1.0)
    lengths, final = seen.lengths, seen.final_observations
    if seen.n_episodes > 1:
        restarts = np.roll(seen.observations[seen.starts], -1)
        final = np.where(seen.terminated & (final < 0), restarts, final)
    ends = _ends(seen, rewards, final)
    if seen.n_episodes == 1:
        begins = np.arange(0, seen.n_steps, BLOCK)
        lengths = np.diff(begins, append=seen.n_steps)
        final = np.append(seen.observations[begins[1:]], final)
    word = mix(np.array([seed]))[0]
    rank = mix(mix(np.arange(len(lengths))) ^ word)
    limit = int(holdout * 2.0**63)
    while lengths[rank < limit].sum() > most_held:
        limit //= 2
    held = rank < limit
    parts = [
        _episodes(seen, rewards, lengths, final, chosen) if chosen.any() else None
        for chosen in (~held, held)
    ]
    counts = (
        Counts.zeros(seen.n_observations, seen.n_actions)
        if parts[0] is None
        else Counts.from_trajectory(parts[0])
    )
    return LogCounts(
        counts=counts,
        held_out=parts[1],
        starts=freeze(np.bincount(seen.observations[seen.starts], minlength=seen.n_observations)),
        observation_names=tuple(range(seen.n_observations)),
        action_names=tuple(range(seen.n_actions)),
        reward_range=reward_range,
        n_rows=seen.n_steps,
        n_episodes=seen.n_episodes,
        ends=ends,
    )


def _ends(seen: Trajectory, rewards: Floats | None, final: Ints) -> Counts | None:
    """Count the steps that ended an episode for good, as leading to the restart."""
    ended = seen.terminated & (final >= 0)
    if not ended.any():
        return None
    last = (seen.starts + seen.lengths - 1)[ended]
    steps = Trajectory(
        seen.observations[last],
        seen.actions[last],
        None if rewards is None else rewards[last],
        np.ones(len(last), np.int64),
        final[ended],
        n_observations=seen.n_observations,
        n_actions=seen.n_actions,
    )
    return Counts.from_trajectory(steps, sparse=True)


def _episodes(
    seen: Trajectory,
    rewards: Floats | None,
    lengths: Ints,
    final: Ints,
    chosen: NDArray[np.bool_],
) -> Trajectory:
    rows = np.repeat(chosen, lengths)
    return Trajectory(
        seen.observations[rows],
        seen.actions[rows],
        None if rewards is None else rewards[rows],
        lengths[chosen],
        final[chosen],
        n_observations=seen.n_observations,
        n_actions=seen.n_actions,
    )

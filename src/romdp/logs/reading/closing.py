"""The end of a log: close all episodes and turn what was gathered into counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import freeze, real_number
from romdp.data.counts import Counts
from romdp.data.tally import DENSE_LIMIT
from romdp.data.trajectory import Trajectory
from romdp.data.transitions import add_up
from romdp.logs.reading.episodes import ACTION_BITS, OBSERVATION_BITS, renamed, unpacked
from romdp.logs.reading.names import Floats, Ints, mix
from romdp.logs.reading.partial import BLOCK, Partial

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
        Those of the rows of ``held_out``, if all rows were kept.
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


def finish(partial: Partial, ends: str = "truncated", *, as_numbers: bool = False) -> LogCounts:
    """Close all episodes and turn what was gathered into counts.

    ``as_numbers`` says that names which are all whole numbers were read as text.
    """
    settings = partial.settings
    if partial.n_rows == 0:
        raise InvalidInputError(f"{partial.label} holds no rows; there is nothing to learn from")
    observation_names, new_observation = _sorted(partial.observations.names, as_numbers)
    action_names, new_action = _sorted(partial.actions.names or [0], as_numbers)
    n_observations, n_actions = len(observation_names), len(action_names)
    reward_range = (
        None if settings.columns.reward is None else (partial.pairs.lowest, partial.pairs.highest)
    )
    low, span = _scale(reward_range)

    seen, done, paid, whose = partial.held_rows()
    order = np.argsort(whose, kind="stable")
    seen, done, paid, whose = seen[order], done[order], paid[order], whose[order]
    held, begins = np.unique(whose, return_index=True)
    first = partial.episodes.first[: len(partial.episodes)].copy()
    first[held] = seen[begins]
    following = _successors(first, _ended(partial, ends))

    last = partial.episodes.last[: len(first)].copy()
    finals = np.append(begins[1:], len(seen))[: len(held)] - 1
    last[held] = (seen[finals] << ACTION_BITS) | done[finals]
    counted_ends: Counts | None = None
    if settings.has_episodes:
        seen_last, done_last, paid_last = partial.last_rewards()
        rewards = (new_observation[seen_last], new_action[done_last], (paid_last - low) / span)
        counted_ends = _count_ends(last, following, new_observation, new_action, n_actions, rewards)
    keys, counts = _closed(partial, following)
    keys = renamed(keys, new_observation, new_action)
    at, acts = unpacked(keys >> OBSERVATION_BITS)
    keys = (at * n_actions + acts) * n_observations + (keys & (2**OBSERVATION_BITS - 1))
    at_old = np.ix_(np.argsort(new_observation), np.argsort(new_action))
    visits, sums, squares = partial.pairs.arrays(*partial.sizes)
    visits, sums, squares = visits[at_old], sums[at_old], squares[at_old]
    shift = partial.pairs.shift - low
    unit_sums = (sums + shift * visits) / span
    unit_squares = (squares + 2.0 * shift * sums + shift * shift * visits) / span**2
    counted = Counts.from_cells(
        n_observations,
        n_actions,
        np.ascontiguousarray(visits).reshape(-1),
        (keys, counts),
        _inside(unit_sums, visits).reshape(-1),
        _inside(unit_squares, visits).reshape(-1),
    )
    if n_observations * n_observations * n_actions <= DENSE_LIMIT:
        counted = counted.dense()
    held_out = None
    if len(held):
        held_out = Trajectory(
            new_observation[seen],
            new_action[done],
            None if reward_range is None else np.clip((paid - low) / span, 0.0, 1.0),
            np.diff(begins, append=len(seen)),
            np.append(new_observation, -1)[following[held]],
            n_observations=n_observations,
            n_actions=n_actions,
        )
    starts = first if settings.has_episodes else first[:1]
    inverse = partial.inverse_propensities
    return LogCounts(
        counts=counted,
        held_out=held_out,
        starts=freeze(np.bincount(new_observation[starts], minlength=n_observations)),
        observation_names=observation_names,
        action_names=action_names,
        reward_range=reward_range,
        n_rows=partial.n_rows,
        n_episodes=len(partial.episodes) if settings.has_episodes else 1,
        ends=counted_ends,
        propensities=np.concatenate(partial.chances)[order] if partial.chances else None,
        inverse_propensities=None if inverse is None else freeze(inverse[at_old]),
    )


def _scale(reward_range: tuple[float, float] | None) -> tuple[float, float]:
    """Return what to subtract from rewards and what to divide them by."""
    if reward_range is None:
        return 0.0, 1.0
    low, high = reward_range
    if not np.isfinite(high - low) or high - low > 1e150:
        raise InvalidInputError(
            f"the rewards go from {low:g} to {high:g}, too far for floats; rescale them"
        )
    if 0 < high - low < 1e-150:
        raise InvalidInputError(
            f"the rewards differ by {high - low:g} at most, too little for floats to square; "
            "rescale them"
        )
    return low, high - low if high > low else 1.0


def _inside(values: Floats, visits: Ints) -> Floats:
    """Undo what rounding did: sums of numbers from [0, 1] lie between 0 and their number."""
    return np.ascontiguousarray(np.clip(values, 0.0, visits))


def _ended(partial: Partial, ends: str) -> NDArray[np.bool_]:
    """Say after which episodes the log goes on with the next one."""
    n_episodes = len(partial.episodes)
    columns = partial.settings.columns
    if not partial.settings.has_episodes:  # blocks of one long episode
        return np.arange(n_episodes) < n_episodes - 1
    if columns.terminated is not None:
        return partial.episodes.over[:n_episodes]
    return np.full(n_episodes, ends == "restart")


def _successors(first: Ints, ended: NDArray[np.bool_]) -> Ints:
    """Return what the last row of every episode led to, -1 where nobody knows.

    Episodes are numbered as they began; the last one restarts as the first did.
    """
    if len(first) < 2:
        return np.full(len(first), -1)
    return np.where(ended, np.roll(first, -1), -1)


def _closed(partial: Partial, following: Ints) -> tuple[Ints, Ints]:
    """Return the transitions counted, with those out of each episode's last row."""
    keys, counts = partial.transitions()
    last = partial.episodes.last[: len(following)]
    known = (last >= 0) & (following >= 0)
    if not known.any():
        return keys, counts
    ends = (last[known] << OBSERVATION_BITS) | following[known]
    return add_up(
        np.concatenate([keys, ends]),
        np.concatenate([counts, np.ones(len(ends), np.int64)]),
    )


def _count_ends(
    last: Ints,
    following: Ints,
    new_observation: Ints,
    new_action: Ints,
    n_actions: int,
    rewards: tuple[Ints, Ints, Floats],
) -> Counts | None:
    """Count the last rows of the episodes that ended for good; None if there are none."""
    ended = (last >= 0) & (following >= 0)
    if not ended.any():
        return None
    n_observations = len(new_observation)
    seen, done = unpacked(last[ended])
    cells = new_observation[seen] * n_actions + new_action[done]
    keys, counts = np.unique(
        cells * n_observations + new_observation[following[ended]], return_counts=True
    )
    size = n_observations * n_actions
    paying, paid = rewards[0] * n_actions + rewards[1], np.clip(rewards[2], 0.0, 1.0)
    return Counts.from_cells(
        n_observations,
        n_actions,
        np.bincount(cells, minlength=size),
        (keys, counts),
        np.bincount(paying, paid, size).astype(np.float64),
        np.bincount(paying, paid**2, size).astype(np.float64),
    )


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

    One episode is cut into stretches of 100 steps, some of which are held out.
    """
    real_number(holdout, "holdout", 0.0, 1.0, open_high=True)
    rewards = None
    reward_range = None
    if seen.rewards is not None:
        reward_range = (float(seen.rewards.min()), float(seen.rewards.max()))
        start, span = _scale(reward_range)
        rewards = np.clip((seen.rewards - start) / span, 0.0, 1.0)
    lengths, final = seen.lengths, seen.final_observations
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
    )


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

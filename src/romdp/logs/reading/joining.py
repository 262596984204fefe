"""Join the stretches of a log that a cluster counted: episodes may go on from one to the next."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from romdp.logs.reading.names import Ints
from romdp.logs.reading.stretches import (
    AFTER_THE_END,
    LogSettings,
    Places,
    Stretch,
    Table,
    disorder,
    scale,
)


def join(parts: Sequence[Stretch], settings: LogSettings) -> Stretch:
    """Make one stretch of those that follow each other."""
    if len(parts) == 1:
        return parts[0]
    observations, actions = settings.observations(), settings.actions()
    limit = min(part.limit for part in parts)
    while sum(int((part.held["e"] < limit).sum()) for part in parts) > settings.most_held:
        limit //= 2
    lows, highs = zip(*(part.reward_range for part in parts), strict=True)
    reward_range = (min(lows), max(highs))
    places, n_rows = Places([], []), 0
    tables: dict[str, list[Table]] = {"moves": [], "pairs": [], "episodes": [], "held": []}
    for part in parts:
        later = n_rows - part.places.first_rows[0]  # it may not have known the rows before it
        places.labels.extend(part.places.labels)
        places.first_rows.extend(row + later for row in part.places.first_rows)
        n_rows += part.n_rows
        lower = _with_fewer_held(part, limit)
        pairs = _rescaled(lower.pairs, part.reward_range, reward_range)
        episodes = {**part.episodes, "began": part.episodes["began"] + later}
        numbers = observations.add(part.observations), actions.add(part.actions)
        for name, table in zip(tables, (lower.moves, pairs, episodes, lower.held), strict=True):
            tables[name].append(renumbered(table, *numbers))
    moves, pairs, episodes, held = (stacked(*found) for found in tables.values())
    episodes, bridges = _linked(episodes, limit, places, settings)
    return Stretch(
        places,
        n_rows,
        observations.names,
        actions.names,
        reward_range,
        limit,
        stacked(moves, bridges),
        pairs,
        episodes,
        held,
    )


def stacked(*tables: Table) -> Table:
    """Put tables below each other; columns that the first does not have are left out."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def moves_of(seen: Ints, done: Ints, following: Ints) -> Table:
    """Return transitions that came once each; see `Stretch`."""
    return {"o": seen, "a": done, "next": following, "n": np.ones(len(seen), np.int64)}


def renumbered(table: Table, observations: Ints, actions: Ints) -> Table:
    """Translate the numbers of names to those of another numbering."""
    new = dict(table)
    for name in new.keys() & {"o", "next", "first", "seen"}:
        new[name] = observations[new[name]]
    for name in new.keys() & {"a", "done"}:
        new[name] = actions[new[name]]
    return new


def _with_fewer_held(part: Stretch, limit: int) -> Stretch:
    """Count the held-out episodes that a lower limit does not hold out."""
    gone = part.held["e"] >= limit
    rows = {name: values[gone] for name, values in part.held.items()}
    low, span = scale(part.reward_range)
    x = (rows["r"] - low) / span
    again = np.diff(rows["e"]) == 0
    one, none = np.ones(len(x), np.int64), np.zeros(len(x))  # propensities were all counted
    seen, done = rows["o"], rows["a"]
    pairs = {"o": seen, "a": done, "n": one, "paid": x, "squares": x * x, "inverse": none}
    return replace(
        part,
        moves=stacked(part.moves, moves_of(seen[:-1][again], done[:-1][again], seen[1:][again])),
        pairs=stacked(part.pairs, pairs),
        held={name: values[~gone] for name, values in part.held.items()},
    )


def _rescaled(pairs: Table, old: tuple[float, float], new: tuple[float, float]) -> Table:
    """Turn sums of rewards that were scaled to the range of a part into those of the whole's."""
    (low, span), (new_low, new_span) = scale(old), scale(new)
    ratio, move = span / new_span, (low - new_low) / new_span
    n, paid, squares = (pairs[name] for name in ("n", "paid", "squares"))
    return {
        **pairs,
        "paid": ratio * paid + move * n,
        "squares": ratio**2 * squares + 2 * ratio * move * paid + move**2 * n,
    }


def _linked(
    episodes: Table, limit: int, places: Places, settings: LogSettings
) -> tuple[Table, Table]:
    """Join episodes that go on in a later part; return them, and the transitions between parts."""
    order = np.argsort(episodes["e"], kind="stable")
    again = np.diff(episodes["e"][order]) == 0
    before, after = order[:-1][again], order[1:][again]
    refuse_wrong(episodes, before, after, places, settings)
    counted = episodes["e"][after] >= limit
    before, after = before[counted], after[counted]
    bridges = moves_of(episodes["seen"][before], episodes["done"][before], episodes["first"][after])
    first, last = order[np.append(True, ~again)], order[np.append(~again, True)]
    in_time = np.argsort(episodes["began"][first])
    rows = dict.fromkeys(("e", "began", "first", "since"), first[in_time])
    joined = {name: x[rows.get(name, last[in_time])] for name, x in episodes.items()}
    return joined, bridges


def refuse_wrong(
    episodes: Table, before: Any, after: Any, places: Places, settings: LogSettings
) -> None:
    """Refuse rows that go on with others, but come before them or after their end.

    Parameters
    ----------
    episodes
        Episodes, or parts of them; see `Stretch`.
    before, after
        Which of them go on with which.
    places
        Where their rows lie.
    settings
        How the log is counted.
    """
    columns = settings.columns
    late = np.zeros(len(after), np.bool_)
    if columns.episode is not None and columns.terminated is not None:
        late = episodes["over"][before]
    wrong = late
    if columns.order is not None:
        wrong = late | (episodes["since"][after] <= episodes["until"][before])
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(episodes["began"][after[at]])
        if late[at]:
            raise places.error(row, columns.terminated, AFTER_THE_END)
        same = episodes["since"][after[at]] == episodes["until"][before[at]]
        raise places.error(row, columns.order, disorder(bool(same)))

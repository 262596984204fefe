"""How well a model foresees a log, and whether the log still follows it."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.text import count
from romdp.data.trajectory import END, Trajectory
from romdp.logs.comparing import concentration, log_chance
from romdp.logs.model.evaluation import log_score
from romdp.logs.model.latent import LatentModel
from romdp.logs.reading.closing import LogCounts, LogRows
from romdp.logs.reading.columns import Columns, split_name
from romdp.logs.reading.counting import count_logs, read_rows
from romdp.logs.reading.sources import open_source

Floats = NDArray[np.float64]

_SURE = 3.0  # nats: nothing changed, and yet it seems so, in e^-3 = 5% of the logs
_READING = ("ends", "missing", "sort")
_ROLES = ("observation", "action", "episode", "order", "terminated")


@dataclass(frozen=True)
class Drift:
    """Whether a new log still follows a model.

    Attributes
    ----------
    changed : float
        The share of its steps at pairs of state and action that clearly lead or pay otherwise than
        the model says. Where nothing changed it is zero with 95% probability.
    n_steps : int
        Its steps at observations and under actions that the model knows.
    worst : tuple or None
        State and action of the pair that changed most clearly.
    """

    changed: float
    n_steps: int
    worst: tuple[int, Any] | None = None

    def __str__(self) -> str:
        steps = count(self.n_steps, "step")
        if self.worst is None:
            return f"it still follows the model ({steps} were compared)"
        state, action = self.worst
        return (
            f"it no longer follows the model: {self.changed:.1%} of {steps} are at states and "
            "under actions that clearly lead or pay otherwise, most clearly "
            f"{action!r} in state {state}; fit again with what is new"
        )


def score(model: LatentModel, log: Any, **columns: Any) -> float:
    """Return the mean log probability of what followed each step; see `LatentModel.score`."""
    if isinstance(log, Trajectory):
        return score_rows(model, LogRows.of_trajectory(log, **columns))
    pieces, named, reading = _named(model, open_source(log), _ROLES, columns)
    return score_rows(model, read_rows(pieces, named, **reading))


def drift(model: LatentModel, log: Any, **columns: Any) -> Drift:
    """Say whether a log follows a model; see `LatentModel.drift`."""
    if model.decoder is None and model.memory is None and not isinstance(log, Trajectory):
        pieces, named, reading = _named(model, open_source(log), (*_ROLES, "reward"), columns)
        return compare_counts(model, count_logs(pieces, named, holdout=0, **reading))
    if isinstance(log, Trajectory):
        rows = LogRows.of_trajectory(log, **columns)
    else:
        pieces, named, reading = _named(model, open_source(log), (*_ROLES, "reward"), columns)
        rows = read_rows(pieces, named, **reading)
    rows = _in_words(model, rows)
    return compare_counts(
        model, (rows if model.memory is None else model.memory.remembered(rows)).count(0)
    )


def compare_counts(model: LatentModel, log: LogCounts) -> Drift:
    """Compare what followed each pair of state and action with what the model was told.

    The evidence is the Bayes factor of one law for both against a law for each, of moves and of
    mean rewards; that it is below x has at most the probability x if nothing changed.
    """
    old, new = model.counts, log.total
    n_states, n_actions = old.visits.shape
    state = np.append(model.states_of(log.observation_names), n_states)
    known = {name: a for a, name in enumerate(model.action_names)}
    action = np.array([known.get(name, -1) for name in log.action_names])
    pair = np.where(
        (state[: new.n_observations, None] >= 0) & (action >= 0),
        state[: new.n_observations, None] * n_actions + action,
        -1,
    )
    n_pairs = n_states * n_actions

    def by_pair(values: Any) -> Any:
        return np.bincount(pair[pair >= 0], values[pair >= 0], n_pairs)

    outcomes: Any = new.sparse().outcomes()
    table = outcomes.tocoo()
    row, to, n = pair.ravel()[table.row], state[table.col], table.data
    usable = (row >= 0) & (to >= 0)
    usable &= (table.col < new.n_observations) | old.has_ends
    found = np.zeros((n_pairs, n_states + 1))
    np.add.at(found, (row[usable], to[usable]), n[usable])
    known_outcomes: Any = old.sparse().outcomes()
    before = known_outcomes.toarray().astype(np.float64)
    if before.shape[1] == n_states:
        before = np.hstack([before, np.zeros((n_pairs, 1))])
    both = (found.sum(axis=1) > 0) & (before.sum(axis=1) > 0)
    share = before.sum(axis=0) + 0.5
    weights = concentration(scipy.sparse.csr_array(before)) * share / share.sum()
    evidence: Floats = np.where(
        both, log_chance(found, weights + before) - log_chance(found, weights), 0.0
    )
    visits: Floats = by_pair(new.visits)
    if model.reward_range is not None and log.reward_range is not None:
        low, high = model.reward_range
        factor = ((log.reward_range[1] - log.reward_range[0]) or 1.0) / ((high - low) or 1.0)
        shift = (log.reward_range[0] - low) / ((high - low) or 1.0)
        sums = by_pair(shift * new.visits + factor * new.reward_sums)
        squares = by_pair(
            shift**2 * new.visits
            + 2 * shift * factor * new.reward_sums
            + factor**2 * new.reward_squares
        )
        evidence = evidence + paid_alike(
            (visits, sums, squares),
            (old.visits.ravel(), old.reward_sums.ravel(), old.reward_squares.ravel()),
        )
    clear = evidence < -(_SURE + math.log(max(1, int((visits > 0).sum()))))
    worst = divmod(int(np.argmin(evidence)), n_actions) if clear.any() else None
    return Drift(
        float(visits[clear].sum() / max(1.0, visits.sum())),
        int(visits.sum()),
        None if worst is None else (worst[0], model.action_names[worst[1]]),
    )


def paid_alike(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> Floats:
    """Return the log Bayes factor of one mean reward against two, pair by pair.

    Each side is visits, sums and sums of squares. Rewards vary in a pair as they did on both sides,
    and means vary between pairs.
    """
    (n, a, aa), (m, b, bb) = mine, theirs
    left = aa - a**2 / np.maximum(n, 1) + bb - b**2 / np.maximum(m, 1)
    free = np.maximum(0.0, n - 1) + np.maximum(0.0, m - 1)
    usual = max(1e-6, float(left.sum() / max(1.0, free.sum())))  # certain rewards vary by rounding
    within = (left + usual) / (free + 1.0)
    means = (a + b)[n + m > 0] / (n + m)[n + m > 0]
    noise = within * (1.0 / np.maximum(n, 1) + 1.0 / np.maximum(m, 1))
    wide = noise + 2.0 * float(np.var(means)) if len(means) else noise
    gap = a / np.maximum(n, 1) - b / np.maximum(m, 1)
    alike = 0.5 * (np.log(wide / noise) - gap**2 * (1.0 / noise - 1.0 / wide))
    return np.where((n > 0) & (m > 0), alike, 0.0)


def _named(
    model: LatentModel, pieces: Any, roles: tuple[str, ...], columns: dict[str, Any]
) -> tuple[Any, Columns, dict[str, Any]]:
    """Return the pieces of a log, its columns (by default the model's), and how to read it."""
    reading = {name: columns.pop(name) for name in _READING if name in columns}
    named = {role: columns.pop(role, model.columns.get(role)) for role in roles}
    if columns:
        raise InvalidInputError(
            f"there is no argument {next(iter(columns))!r}; there are "
            f"{', '.join((*roles, *_READING))}"
        )
    if named["observation"] is None:
        raise InvalidInputError("observation is missing: name the column that holds what was seen")
    if named["terminated"] is None and "ends" in model.settings:
        reading.setdefault("ends", model.settings["ends"])
    reading.setdefault("sort", model.settings.get("sort", False) and named["order"] is not None)
    named["observation"] = split_name(named["observation"], pieces)
    return pieces, Columns(**named), reading


def score_rows(model: LatentModel, rows: LogRows) -> float:
    """Return the same of rows that were read."""
    rows = _in_words(model, rows)
    following = rows.seen.next_observations
    known = following >= 0
    if model.counts.has_ends:
        known |= following == END
    if not known.any():
        raise InvalidInputError("no two steps are in a row, so there is nothing to predict")
    if model.memory is not None:
        return model.memory.score(rows, known)
    seen, done = (
        np.array([{name: i for i, name in enumerate(ours)}.get(x, -1) for x in theirs])
        for ours, theirs in (
            (model.observation_names, rows.observation_names),
            (model.action_names, rows.action_names),
        )
    )
    after = following[known]
    return log_score(
        model.counts,
        model.partition.labels,
        model.visits,
        seen[rows.seen.observations[known]],
        done[rows.seen.actions[known]],
        np.where(after == END, model.n_observations, seen[np.maximum(after, 0)]),
    )


def _in_words(model: LatentModel, rows: LogRows) -> LogRows:
    """Put names that the model knows in place of vectors."""
    if rows.seen.vectors is None:
        return rows
    if model.decoder is not None:
        return rows.decoded(model.decoder)
    numbers, _ = model.find(rows.seen.vectors, rows.seen.ages)
    met, codes = np.unique(numbers, return_inverse=True)
    names = tuple(model.observation_names[i] if i >= 0 else None for i in met)
    return replace(rows, seen=rows.seen.encoded(codes, len(met)), observation_names=names)

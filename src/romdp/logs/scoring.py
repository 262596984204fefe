"""How well a model foresees a log."""

from dataclasses import replace
from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import END, Trajectory
from romdp.logs.model.evaluation import log_score
from romdp.logs.model.latent import LatentModel
from romdp.logs.reading.closing import LogRows
from romdp.logs.reading.columns import Columns, split_name
from romdp.logs.reading.counting import read_rows
from romdp.logs.reading.sources import open_source

_READING = ("ends", "missing", "sort")
_ROLES = ("observation", "action", "episode", "order", "terminated")


def score(model: LatentModel, log: Any, **columns: Any) -> float:
    """Return the mean log probability of what followed each step; see `LatentModel.score`."""
    reading = {name: columns.pop(name) for name in _READING if name in columns}
    if isinstance(log, Trajectory):
        return score_rows(model, LogRows.of_trajectory(log, **reading))
    named = {role: columns.pop(role, model.columns.get(role)) for role in _ROLES}
    if columns:
        raise InvalidInputError(
            f"score() has no argument {next(iter(columns))!r}; it takes "
            f"{', '.join((*_ROLES, *_READING))}"
        )
    if named["observation"] is None:
        raise InvalidInputError("observation is missing: name the column that holds what was seen")
    if named["terminated"] is None and "ends" in model.settings:
        reading.setdefault("ends", model.settings["ends"])
    reading.setdefault("sort", model.settings.get("sort", False) and named["order"] is not None)
    pieces = open_source(log)
    named["observation"] = split_name(named["observation"], pieces)
    return score_rows(model, read_rows(pieces, Columns(**named), **reading))


def score_rows(model: LatentModel, rows: LogRows) -> float:
    """Return the same of rows that were read."""
    if rows.seen.vectors is not None and model.decoder is not None:
        rows = rows.decoded(model.decoder)
    elif rows.seen.vectors is not None:
        numbers, _ = model.find(rows.seen.vectors, rows.seen.ages)
        met, codes = np.unique(numbers, return_inverse=True)
        names = tuple(model.observation_names[i] if i >= 0 else None for i in met)
        rows = replace(rows, seen=rows.seen.encoded(codes, len(met)), observation_names=names)
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

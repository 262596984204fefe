"""A model for other tools: a data frame of observations, and a CASE expression of SQL."""

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from romdp.core.errors import InvalidInputError, MisuseError
from romdp.core.text import one_line
from romdp.core.validation import choice

if TYPE_CHECKING:
    import pandas

    from romdp.logs.model.latent import LatentModel


_COMMA = " || ',' || "
_PART = (
    """CASE WHEN {0} LIKE '%,%' OR {0} LIKE '%"%' """
    """THEN '"' || REPLACE({0}, '"', '""') || '"' ELSE {0} END"""
)
"""A part of a name of several columns, as a line of CSV has it."""


def to_frame(model: "LatentModel") -> "pandas.DataFrame":
    """Return a row per observation; see `LatentModel.to_frame`."""
    import pandas

    actions = np.append(np.array(model.action_names, object), [None])
    return pandas.DataFrame(
        {
            "observation": list(model.observation_names),
            "hidden_state": model.partition.labels,
            "certainty": model.certainty,
            "visits": model.visits,
            "act": actions[model.judged.asked],
        }
    )


def to_sql(model: "LatentModel", answer: str = "act") -> str:
    """Return a CASE expression; see `LatentModel.to_sql`."""
    choice(answer, "answer", ("act", "state"))
    column = model.columns.get("observation")
    if not model.named or model.memory is not None or column is None:
        raise MisuseError(
            "to_sql needs a model whose observations are names in a column of a log; where states "
            "look back or observations are vectors, use romdp.apply_model"
        )
    shown = _quoted(column)
    if "," in column:  # names of several columns are one name together
        texts = [f"COALESCE(CAST({_quoted(part)} AS VARCHAR), '')" for part in column.split(",")]
        shown = f"({_COMMA.join(_PART.format(text) for text in texts)})"
    numbers = model.judged.asked if answer == "act" else model.partition.labels
    lines = []
    for number in np.unique(numbers[numbers >= 0]).tolist():
        names = [model.observation_names[i] for i in np.flatnonzero(numbers == number)]
        found = model.action_names[number] if answer == "act" else number
        lines.append(f"  WHEN {_is_one_of(shown, names)} THEN {_literal(found)}")
    return "\n".join(["CASE", *lines, "  ELSE NULL", "END"]) if lines else "NULL"


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _is_one_of(shown: str, names: list[Any]) -> str:
    """Say in SQL that what was shown is one of these names."""
    there = [_literal(name) for name in names if name is not None]
    tests = [f"{shown} IN ({', '.join(there)})"] if there else []
    return " OR ".join(tests + [f"{shown} IS NULL"] * (None in names))


def _literal(value: Any) -> str:
    """Write a value as SQL does."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float | Decimal):
        return repr(value) if not isinstance(value, Decimal) else str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    for kind, word in (
        (datetime.datetime, "TIMESTAMP"),
        (datetime.date, "DATE"),
        (datetime.time, "TIME"),
    ):
        if isinstance(value, kind):
            return f"{word} '{value}'"
    raise InvalidInputError(f"{one_line(repr(value), 40)} cannot be written in SQL")

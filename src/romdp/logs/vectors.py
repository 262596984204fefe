"""Logs whose observations are vectors: the hidden states behind them take their place."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.clusterer import Clusterer
from romdp.clustering.vectors import find_states
from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import Trajectory
from romdp.data.vectors import are_vectors, vector_array, vector_rows
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.encoder import Encoder
from romdp.encoding.moments import Ints
from romdp.encoding.steps import ENDED, UNKNOWN, Steps, following_rows
from romdp.logs.reading.columns import Columns, Place
from romdp.logs.reading.names import simple_names
from romdp.logs.reading.pieces import BATCH_ROWS, Wanted
from romdp.logs.reading.sources import open_source

_FEWEST = 20  # steps of which it is known where they led
_MANY_IDS = 20  # different whole numbers in a column, from which on they may be ids
_SPARSE = 20  # ids of several columns are that sparse: so many numbers for each that occurs

Observation = str | Sequence[str] | None
"""The column of observations, or the columns of the numbers of a vector."""


def holds_vectors(data: Any, observation: Observation) -> bool:
    """Say whether the observations of a log are vectors."""
    if isinstance(data, Trajectory):
        return data.vectors is not None
    if observation is None or not isinstance(observation, str):
        return observation is not None
    if isinstance(data, Mapping):
        return observation in data and are_vectors(data[observation])
    if not _is_table(data):
        return False
    return any(_is_list(piece.types.get(observation)) for piece in open_source(data)[:1])


def decode_log(
    data: Any,
    observation: Observation,
    columns: Mapping[str, str | None],
    clusterer: Clusterer,
    rng: np.random.Generator,
    *,
    encoder: Encoder | None = None,
    sort: bool = False,
    ends: str = "truncated",
) -> tuple[Any, str | None, StateDecoder]:
    """Find the hidden states behind the vectors of a log and put them in their place.

    Parameters
    ----------
    data, observation
        As for `romdp.fit`.
    columns
        The names of the other columns: action, reward, episode, order, terminated, and what else
        is to be kept.
    clusterer
        Groups codes.
    rng
        Draws samples and starts.
    encoder
        Learns codes.
    sort, ends
        As for `romdp.fit`.

    Returns
    -------
    The log with states in place of vectors, the name of their column, and the decoder.
    """
    encoder = encoder or Encoder()
    if isinstance(data, Trajectory):
        assert data.vectors is not None
        following = following_rows(data.lengths, data.terminated)
        steps = Steps(data.vectors, data.actions, data.rewards, following, data.n_actions)
        decoder = _found(steps, clusterer, rng, encoder)
        log = Trajectory(
            decoder.predict(data.vectors),
            data.actions,
            data.rewards,
            data.lengths,
            terminated=data.terminated,
            n_actions=data.n_actions,
        )
        return log, None, decoder
    table, vectors, name = _read(data, observation, columns)
    if isinstance(observation, str):
        _warn_of_ids(vectors, [f"{observation}[{i}]" for i in range(vectors.shape[1])])
    else:
        _warn_of_constants(vectors, list(observation or ()))
        _warn_of_ids(vectors, list(observation or ()))
    order = _time_order(table, columns, sort)
    following = _following(table, columns, order, ends)
    actions = np.zeros(len(vectors), np.int64)
    if columns.get("action") is not None:
        actions = _codes(table, str(columns["action"]))
    rewards = None
    if columns.get("reward") is not None:
        rewards = _finite(table, str(columns["reward"]))[order]
    steps = Steps(vectors[order], actions[order], rewards, following, int(actions.max()) + 1)
    decoder = _found(steps, clusterer, rng, encoder)
    return table.append_column(name, [decoder.predict(vectors)]), name, decoder


def _found(
    steps: Steps, clusterer: Clusterer, rng: np.random.Generator, encoder: Encoder
) -> StateDecoder:
    known = int((steps.following >= 0).sum())
    if known < _FEWEST:
        raise InvalidInputError(
            f"fewer than {_FEWEST} steps lead to a vector that is known: too few to learn what the "
            "vectors show"
        )
    decoder = find_states(steps, clusterer, rng, encoder)
    alike = ("All vectors behave alike: there is one hidden state",) * (decoder.n_states == 1)
    for note in decoder.notes or alike:
        warnings.warn(note, UserWarning, stacklevel=4)
    return decoder


def place_vectors(
    data: Any,
    observation: Observation,
    columns: Mapping[str, str | None],
    decoder: StateDecoder,
) -> tuple[Any, str]:
    """Put the hidden states that a decoder knows in place of the vectors of a log.

    Returns the log with states in place of vectors and the name of their column.
    """
    table, vectors, name = _read(data, vector_columns(data, observation), columns)
    return table.append_column(name, [decoder.predict(vectors)]), name


def vector_columns(data: Any, observation: Observation) -> Observation:
    """Split a name such as ``"x,y"``, which models and commands use for several columns."""
    if not isinstance(observation, str) or "," not in observation:
        return observation
    if isinstance(data, Mapping):
        return observation if observation in data else observation.split(",")
    there = any(observation in piece.types for piece in open_source(data)[:1])
    return observation if there else observation.split(",")


def batch_vectors(batch: Any, column: Observation) -> NDArray[np.float64]:
    """Return the vectors of a batch of rows; a row with a missing number holds NaN."""
    if isinstance(column, str):
        values = batch.column(column)
        if not _is_list(values.type):
            return _numbers(batch, column)[:, None]
        rows = values.to_pylist()
        length = max((len(row) for row in rows if row is not None), default=0)
        empty = [float("nan")] * length
        filled = [
            empty if row is None else [float("nan") if x is None else x for x in row]
            for row in rows
        ]
        return np.asarray(vector_rows(filled, f"column {column!r}"), np.float64)
    return np.column_stack([_numbers(batch, part) for part in column or ()])


def _warn_of_constants(vectors: NDArray[Any], names: Sequence[str]) -> None:
    """Warn of columns that never vary; numbers of pictures may, and nobody named those."""
    for column, name in zip(vectors.T, names, strict=True):
        if (column == column[0]).all():
            text = f"column {name!r} is always {column[0]:g}: it tells nothing"
            warnings.warn(text, UserWarning, stacklevel=4)


def _warn_of_ids(vectors: NDArray[Any], names: Sequence[str]) -> None:
    """Warn of whole numbers that look like ids; bytes are colours."""
    if vectors.dtype.itemsize == 1:
        return
    for column, name in zip(vectors.T, names, strict=True):
        sparse = _SPARSE if len(names) > 1 else 0
        if np.ptp(column) < max(_MANY_IDS - 1, sparse * _MANY_IDS):
            continue
        if (column != np.floor(column)).any():
            continue
        n = len(np.unique(column))
        if n >= _MANY_IDS and np.ptp(column) >= sparse * n:
            text = (
                f"column {name!r} holds {n:,} different whole numbers, which are read as "
                "quantities; if they are ids, pass a column of them alone, by its name and not in "
                "a list: observation=NAME"
            )
            warnings.warn(text, UserWarning, stacklevel=4)


def _is_table(data: Any) -> bool:
    return not isinstance(data, Trajectory) and (
        isinstance(data, str | list | tuple)
        or hasattr(data, "__fspath__")
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(type(data), "columns")  # asking a lazy frame itself would read it
    )


def _is_list(arrow_type: Any) -> bool:
    import pyarrow as pa

    return arrow_type is not None and (
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
    )


def _read(
    data: Any, observation: Observation, columns: Mapping[str, str | None]
) -> tuple[Any, NDArray[Any], str]:
    """Read a log as a table without its vectors, the vectors, and a name for their column."""
    import pyarrow as pa

    others = [name for name in dict.fromkeys(columns.values()) if name is not None]
    if isinstance(observation, str):
        parts, name = [observation], observation
    else:
        parts = list(observation or ())
        name = ",".join(str(part) for part in parts)
        strange = [part for part in parts if not isinstance(part, str)]
        if strange or not parts:
            raise InvalidInputError(
                f"observation is {observation!r}; pass the names of the columns of numbers"
            )
        taken = [part for part in parts if part in others]
        if taken or len(set(parts)) < len(parts):
            raise InvalidInputError(
                f"column {taken[0] if taken else parts[0]!r} is named twice; each column is one "
                "number of the vector, or something else"
            )
    if isinstance(data, Mapping) and isinstance(observation, str):
        vectors = vector_array(data[observation], f"column {observation!r}", first_row=1)
        data = {key: data[key] for key in others if key in data}
        if not data:
            data = {"row": np.arange(len(vectors))}
        (piece,) = open_source(data)
        table = pa.Table.from_batches(list(piece.batches(Wanted((), (), None, tuple(data)), 2**20)))
        check_columns(others, piece.types, piece.label)
    else:
        pieces = open_source(data)
        batches = []
        for piece in pieces:
            check_columns([*parts, *others], piece.types, piece.label)
            numbers = tuple(parts) if not isinstance(observation, str) else ()
            other = tuple(parts) if isinstance(observation, str) else ()
            wanted = Wanted((), numbers, None, (*other, *others))
            batches += [batch for batch in piece.batches(wanted, BATCH_ROWS) if batch.num_rows]
        if not batches:
            raise InvalidInputError(
                f"{pieces[0].label} holds no rows; there is nothing to learn from"
            )
        table = pa.Table.from_batches(batches)
        if isinstance(observation, str):
            lists = table.column(observation).to_pylist()
            vectors = vector_array(lists, f"column {observation!r}", first_row=1)
        else:
            numbers_read = [_numbers(table, part) for part in parts]
            vectors = vector_array(np.column_stack(numbers_read), "the log", parts, first_row=1)
        table = table.select(others)
    if table.num_columns and table.num_rows != len(vectors):
        raise InvalidInputError(
            f"column {name!r} has {len(vectors):,} rows and the others {table.num_rows:,}"
        )
    return table, vectors, name


def check_columns(names: Sequence[str], types: Mapping[str, Any], label: str) -> None:
    """Refuse columns that are missing, or there twice."""
    for name in names:
        if types.get(name) is None:
            Columns(name).check(dict(types), label)  # says that it is missing, or there twice


def _numbers(table: Any, column: str) -> NDArray[np.float64]:
    import pyarrow as pa

    values = table.column(column)
    try:
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        array = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"column {column!r} holds {values.type}, which is no number: {error}"
        ) from error
    return np.asarray(array, np.float64)


def _finite(table: Any, column: str) -> NDArray[np.float64]:
    values = _numbers(table, column)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        text = "the value is missing" if np.isnan(values[row]) else "inf is not a finite number"
        raise Place("the log", 0).error(row, column, text)
    return values


def _codes(table: Any, column: str) -> Ints:
    """Return numbers for the different values of a column."""
    names = simple_names(table.column(column).combine_chunks(), column)
    coded = names.dictionary_encode()
    codes: Ints = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if (codes < 0).any():
        raise InvalidInputError(
            f"column {column!r} is missing in row {int(np.argmax(codes < 0)) + 1:,}"
        )
    return codes


def _time_order(table: Any, columns: Mapping[str, str | None], sort: bool) -> Ints:
    """Return the rows of one episode after the other, each in order of time."""
    n = table.num_rows
    keys: list[NDArray[Any]] = []
    if sort and columns.get("order") is not None:
        values = table.column(str(columns["order"])).to_numpy(zero_copy_only=False)
        keys.append(np.argsort(np.argsort(values, kind="stable"), kind="stable"))
    if columns.get("episode") is not None:
        keys.append(_codes(table, str(columns["episode"])))
    order: Ints = np.lexsort(keys) if keys else np.arange(n)
    return order


def _following(table: Any, columns: Mapping[str, str | None], order: Ints, ends: str) -> Ints:
    """Return the next row of each, in the given order."""
    following = np.arange(1, len(order) + 1)
    last = np.zeros(len(order), np.bool_)
    last[-1:] = True
    if columns.get("episode") is not None:
        episodes = _codes(table, str(columns["episode"]))[order]
        last[:-1] = episodes[1:] != episodes[:-1]
    following[last] = ENDED if ends == "restart" else UNKNOWN
    if columns.get("terminated") is not None:
        ended = _numbers(table, str(columns["terminated"]))[order] != 0
        following[ended] = ENDED
    return following

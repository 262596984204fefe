"""Add hidden states and recommended actions to a table, batch by batch."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.storage import check_output, write_atomic
from romdp.core.text import count, one_line
from romdp.core.validation import as_path, check, flag, function, how_many
from romdp.logs.matching import Matcher
from romdp.logs.model.files import names_column
from romdp.logs.model.latent import LatentModel
from romdp.logs.reading.columns import Columns, Place, kind_of, names, split_name, vectors
from romdp.logs.reading.names import simple_names
from romdp.logs.reading.sources import BATCH_ROWS, Piece, open_source
from romdp.logs.remembering import Walks
from romdp.logs.scoring import Drift, drift

ADDED = ("hidden_state", "margin", "recommended_action")
"""The columns that are added: the state, how sure it is (log odds), and what to do."""

OUTPUTS = (".parquet", ".csv", ".arrow")
"""The names of files that can be written end in one of these."""

_EXAMPLES = 5  # observations without a hidden state that are kept to be shown
_FORMULA = r"^[=+\-@\t\r]"  # what spreadsheets calculate when they open a CSV file
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_LONGEST = 40  # characters of each


class Applied(int):
    """The number of rows that `apply_model` wrote, and which of them have no hidden state.

    Attributes
    ----------
    n_unplaced : int
        Rows whose observation is missing, or not known to the model.
    examples : tuple
        Some observations of such rows, None for a missing one.
    drift : Drift or None
        Whether the table still follows the model; None if it does not hold what was done.
    """

    n_unplaced: int
    examples: tuple[Any, ...]
    drift: Drift | None

    def __new__(
        cls, n_rows: int, n_unplaced: int, examples: Sequence[Any], drift: Drift | None = None
    ) -> "Applied":
        """Make the number."""
        number = super().__new__(cls, n_rows)
        number.n_unplaced, number.examples = n_unplaced, tuple(examples)
        number.drift = drift
        return number

    def describe(self) -> str:
        """Say in words how many rows there are and how many have no hidden state."""
        text = f"{count(int(self), 'row')}, {self.n_unplaced:,} of them without a hidden state"
        follows = "" if self.drift is None else f"\n{self.drift}"
        if not self.n_unplaced:
            return text + follows
        shown = ", ".join(
            "a missing value" if name is None else one_line(repr(name), _LONGEST)
            for name in self.examples
        )
        more = ", ..." if len(self.examples) == _EXAMPLES else ""
        return f"{text}, since the model does not know their observation: {shown}{more}{follows}"


def apply_model(
    model: LatentModel,
    data: Any,
    out: str | os.PathLike[str],
    observation: str | None = None,
    *,
    batch_rows: int = BATCH_ROWS,
    safe_cells: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Applied:
    """Write a table with the columns `ADDED` beside its own; return its number of rows.

    Where an observation is missing, or the model does not know it, the three are empty: there
    is no guess. What is returned also says how many rows these are and, if the table tells what was
    done, whether it still follows the model. The file is written whole or not at all.

    Parameters
    ----------
    model
        What was learned.
    data
        As for `romdp.fit`. The text of CSV files is read as what the model's observations are:
        whole or real numbers, truth values, times.
    out
        A file that ends in .parquet, .csv or .arrow, and is none of those that are read.
    observation
        The column of observations, or of a model of vectors the columns of their numbers,
        ``"x,y,z"``; by default called as in the log that was learned from.
    batch_rows
        Rows to look at together.
    safe_cells
        Whether a text that a spreadsheet would take for a formula, since it begins with ``=``,
        ``+``, ``-`` or ``@`` and is no number, gets a ``'`` before it where a CSV file is written.
    progress
        Called with the number of rows of every batch that was written.
    """
    check(model, "model", LatentModel)
    check(observation, "observation", str, list, tuple, None)
    check(progress, "progress", None, function)
    flag(safe_cells, "safe_cells")
    batch_rows = how_many(batch_rows, "batch_rows")
    column = observation or model.columns.get("observation")
    if column is None:
        raise InvalidInputError("observation is missing: name the column that holds what was seen")
    target = as_path(out, "out")
    if target.suffix not in OUTPUTS:
        raise InvalidInputError(f"out is {str(target)!r}; it must end in {', '.join(OUTPUTS)}")
    real = check_output(target)
    pieces = open_source(data)
    for piece in pieces:
        path = getattr(piece, "path", None)
        if path is not None and real.exists() and os.path.samefile(path, real):
            raise InvalidInputError(f"{out} is one of the files to read; write to another")
    columns = Columns(split_name(column, pieces))
    there = _checked(model, pieces, columns)
    unplaced = _Unplaced()
    batches = _answers(model, pieces, columns, there, batch_rows, unplaced)
    if safe_cells and target.suffix == ".csv":
        batches = map(_without_formulas, batches)
    n_rows = 0

    def write(file: IO[bytes]) -> None:
        nonlocal n_rows
        first = next(batches, None)
        if first is None:
            raise InvalidInputError(f"{pieces[0].label} holds no rows")
        with closing(_writer(file, target.suffix, first.schema)) as writer:
            batch: Any = first
            while batch is not None:
                writer.write_batch(batch)
                n_rows += batch.num_rows
                if progress is not None:
                    progress(batch.num_rows)
                batch = next(batches, None)

    write_atomic(target, write)
    return Applied(n_rows, unplaced.n_rows, list(unplaced.names), _drift(model, pieces, columns))


def _drift(model: LatentModel, pieces: Sequence[Piece], columns: Columns) -> Drift | None:
    """Compare a table with the model if it tells what was done and when an episode ends."""
    roles = ("action", "reward", "episode", "terminated", "order")
    named = {role: model.columns.get(role) for role in roles}
    there = all(name is None or name in p.types for p in pieces for name in named.values())
    if model.memory is not None or not model.columns.get("action") or not there:
        return None
    if any(piece.is_stream for piece in pieces):
        return None
    try:
        return drift(model, pieces, observation=columns.shown, missing="drop", **named)
    except InvalidInputError:  # it holds something else there than a log does
        return None


class _Unplaced:
    """Counts rows without a hidden state and keeps some of their names."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.names: dict[Any, None] = {}

    def add(self, codes: NDArray[np.int64], names: Sequence[Any]) -> None:
        """Add rows, given by the places of their names."""
        self.n_rows += len(codes)
        for code in dict.fromkeys(codes.tolist()):
            if len(self.names) == _EXAMPLES:
                break
            self.names.setdefault(names[code])


def _checked(model: LatentModel, pieces: Sequence[Piece], columns: Columns) -> list[str]:
    """Check the files before anything is written; return the columns, the same in all."""
    known = model.observation_names if model.memory is None else model.memory.names
    of_model = kind_of(names_column(known).type)
    there = list(pieces[0].types)
    for piece in pieces:
        types, read = piece.types, columns.check(piece)
        vectors_there = columns.are_vectors(types)
        kind = kind_of(read[columns.parts[0]])
        if model.decoder is not None and not vectors_there:
            # A single column of numbers may be vectors of one number each.
            columns = Columns(columns.parts)
            vectors_there = columns.are_vectors(types)
        if vectors_there != (model.decoder is not None):
            learned = "names" if vectors_there else "vectors"
            raise InvalidInputError(
                f"column {columns.shown!r} of {piece.label} holds "
                f"{'vectors' if vectors_there else 'names'}, the model was learned from {learned}"
            )
        plain = model.decoder is None and len(columns.parts) == 1 and not piece.is_csv
        if plain and kind != of_model and of_model != "text":
            raise InvalidInputError(
                f"column {columns.shown!r} of {piece.label} holds {kind} values, the model knows "
                f"observations as {of_model} values; convert the column"
            )
        twice = [name for name, arrow_type in types.items() if arrow_type is None]
        if twice:
            raise InvalidInputError(
                f"{piece.label} has two columns called {twice[0]!r}; rename or drop one"
            )
        taken = [name for name in ADDED if name in types]
        if taken:
            raise InvalidInputError(
                f"{piece.label} has a column {taken[0]!r} already; rename or drop it first"
            )
        if list(types) != there:
            raise InvalidInputError(
                f"the columns of {piece.label} are not those of {pieces[0].label}; apply the "
                "model to each alone"
            )
    return there


def _answers(
    model: LatentModel,
    pieces: Sequence[Piece],
    columns: Columns,
    there: list[str],
    batch_rows: int,
    unplaced: _Unplaced,
) -> Iterator[Any]:
    import pyarrow as pa

    schema: Any = None
    memory = model.memory
    known = Matcher(model.observation_names if memory is None else memory.names)
    walks = None
    if memory is not None:
        walks = Walks(memory, model.columns.get("episode"), model.columns.get("action"))
    for piece in pieces:
        # Lines of a CSV file pass through as text, so that nothing in them changes.
        types = piece.types_read(there, ())
        for batch in piece.batches({name: types[name] for name in there}, batch_rows, coded=False):
            answer = _answer(model, batch, columns.parts, known, unplaced, walks)
            schema = answer.schema if schema is None else schema
            if answer.schema != schema:
                try:
                    answer = pa.Table.from_batches([answer]).cast(schema).combine_chunks()
                    answer = answer.to_batches()[0]
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise InvalidInputError(
                        f"the types of {piece.label} are not those of the files before: {error}"
                    ) from error
            if answer.num_rows:
                yield answer


def _answer(
    model: LatentModel,
    batch: Any,
    parts: Sequence[str],
    known: Matcher,
    unplaced: _Unplaced,
    walks: Walks | None = None,
) -> Any:
    """Add the three columns to a batch; a row whose observation is missing may get none."""
    import pyarrow as pa

    place = Place("the table", 0)
    if model.decoder is None:
        for part in parts:  # as plain text, or whatever it is, in the result too
            array, at = batch.column(part), batch.schema.get_field_index(part)
            if pa.types.is_dictionary(array.type):
                batch = batch.set_column(at, part, simple_names(array, part).dictionary_decode())
        found = names(batch, parts, place, "own")
        texts = found.names()
        numbers = np.array(known.find(texts), np.int64)[found.codes]
        if walks is not None:
            numbers = walks.states(batch, numbers, place)
        states = np.append(model.partition.labels, -1)[numbers]
        margins = np.append(model.log_odds, np.nan)[numbers]
        asked = np.append(model.judged.asked, -1)[numbers]
        unplaced.add(found.codes[states < 0], texts)
        return _extended(model, batch, states, margins, asked)
    shown = vectors(batch, parts, place)
    complete = np.isfinite(shown).all(axis=1)
    states, margins = np.full(len(shown), -1), np.full(len(shown), np.nan)
    asked = states.copy()
    if complete.any():
        codes, sure = model.decoder.decode(shown[complete])
        if walks is None:
            states[complete] = model.states_of(codes.tolist())
            asked[complete] = model.asked_of(codes.tolist())
        else:
            states[complete] = known.find(codes.tolist())
            states = walks.states(batch, states, place)
            asked = np.append(model.judged.asked, -1)[states]
        sure = np.clip(sure, 1e-9, 1 - 1e-9)
        margins[complete] = np.log(sure / (1 - sure))
    unplaced.add(np.zeros(int((~complete).sum()), np.int64), [None])
    return _extended(model, batch, states, margins, asked)


def _extended(
    model: LatentModel,
    batch: Any,
    states: NDArray[np.int64],
    margins: NDArray[np.float64],
    asked: NDArray[np.int64],
) -> Any:
    """Append the state of each row, -1 for none, how sure it is, and what to do differently."""
    import pyarrow as pa

    unknown = states < 0
    actions = names_column(model.action_names)
    chosen = actions.take(pa.array(np.maximum(asked, 0), mask=asked < 0))
    for name, values in zip(
        ADDED,
        (
            pa.array(states, mask=unknown),
            pa.array(margins, mask=unknown | np.isnan(margins)),
            chosen,
        ),
        strict=True,
    ):
        batch = batch.append_column(name, values)
    return batch


def _without_formulas(batch: Any) -> Any:
    """Put a quote before the texts of a batch that a spreadsheet would take for formulas."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(batch.schema):
        column = batch.column(at)
        if pa.types.is_dictionary(field.type):
            column = column.dictionary_decode()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            number = pc.match_substring_regex(column, _NUMBER)
            formula = pc.and_not(pc.match_substring_regex(column, _FORMULA), number)
            quoted = pc.binary_join_element_wise("'", column, "")
            column = pc.if_else(formula, quoted, column)
            batch = batch.set_column(at, field.name, column)
    return batch


def _writer(file: IO[bytes], suffix: str, schema: Any) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if suffix == ".parquet":
        return pq.ParquetWriter(file, schema)
    if suffix == ".csv":
        return pyarrow.csv.CSVWriter(file, schema)
    return pa.ipc.new_file(file, schema)

"""Run directories that version 0.1 wrote: four files per run, which nothing vouches for.

runs/ID.parquet            figures of a run
runs/ID.epochs.parquet     its epochs
runs/ID.groups.parquet     its groupings: a block of rows for each, one row per observation
runs/ID.json               facts
runs/ID.error.txt          only where a run failed
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from romdp.core.errors import StorageError
from romdp.core.storage import read_json
from romdp.experiments.directory import RunDirectory
from romdp.experiments.index import ENVIRONMENT, FACTS, Contents, Row
from romdp.experiments.shards import StoredRuns
from romdp.experiments.specification import RunSpec
from romdp.experiments.summary import slope
from romdp.experiments.tables import (
    KINDS,
    find_mismatches,
    grouping_columns,
    join,
    pack,
    schema,
    step_grid,
    unpack,
)

if TYPE_CHECKING:
    import pyarrow

_ENDINGS = {"figures": ".parquet", "epochs": ".epochs.parquet", "groups": ".groups.parquet"}
_GROUPS = ("epoch", "step", "observation", "group", "hidden_state")


def read_contents(directory: RunDirectory) -> Contents:
    """Return what an index would say."""
    stored = read_earlier_runs(directory, ("figures",))
    numbers = directory.numbers
    rows = {row.number: row for row in stored.rows}
    rows |= {
        numbers[run]: Row(numbers[run], run, {}, error) for run, error in stored.failed.items()
    }
    damaged = tuple(numbers[run] for run in stored.damaged)
    return Contents(dict(sorted(rows.items())), damaged, frozenset(), ())


def read_earlier_runs(directory: RunDirectory, kinds: Sequence[str] = KINDS) -> StoredRuns:
    """Read the finished runs and check them against the experiment, as far as that goes."""
    grid = step_grid(directory.experiment.steps)
    folder = directory.path / "runs"
    rows: list[Row] = []
    parts: dict[str, list[Any]] = {kind: [] for kind in kinds}
    failed: dict[RunSpec, str] = {}
    damaged: dict[RunSpec, str] = {}
    for number, run in enumerate(directory.experiment.runs):
        files = [folder / f"{run.id}{ending}" for ending in (*_ENDINGS.values(), ".json")]
        if not all(file.exists() for file in files):
            error = folder / f"{run.id}.error.txt"
            if error.exists():
                failed[run] = _read_text(error)
            continue
        try:
            tables = read_tables(folder, run, kinds)
            facts = _read_facts(folder / f"{run.id}.json", tables.get("figures"))
            for kind, table in tables.items():
                joined = join(kind, [number], [run], [table])
                for what in find_mismatches(kind, [number], [run], joined, grid).values():
                    raise StorageError(f"{run.id}{_ENDINGS[kind]}: {what}")
        except StorageError as error:
            damaged[run] = str(error)
            continue
        rows.append(Row(number, run, facts))
        for kind, table in tables.items():
            parts[kind].append(table)
    numbers, runs = [row.number for row in rows], [row.run for row in rows]
    tables = {kind: join(kind, numbers, runs, found) for kind, found in parts.items()}
    return StoredRuns(tuple(rows), tables, failed, damaged)


def read_tables(
    folder: Path, run: RunSpec, kinds: Sequence[str] = KINDS
) -> "dict[str, pyarrow.Table]":
    """Read the tables of one run and give them the columns that they have today."""
    tables = {}
    for kind in kinds:
        path = folder / f"{run.id}{_ENDINGS[kind]}"
        names = _GROUPS if kind == "groups" else schema(kind).names
        columns = _read_columns(path, names)
        if kind == "groups":
            columns = _regroup(path, columns, run.n_observations)
        tables[kind] = unpack(kind, pack(kind, columns))
    return tables


def _read_columns(path: Path, names: Sequence[str]) -> dict[str, Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path).read(columns=list(names))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        what = (str(error).splitlines() or ["unreadable"])[0]
        raise StorageError(f"{path.name} is damaged: {what}") from error
    for name in names:
        if name not in table.column_names:
            raise StorageError(f"{path.name} is damaged: the column {name!r} is missing")
    columns = {name: table[name].to_numpy() for name in names}
    for name, values in columns.items():
        if values.dtype.kind not in "iuf" or table[name].null_count:
            raise StorageError(f"{path.name} is damaged: {name!r} does not hold numbers")
    return columns


def _regroup(path: Path, columns: Mapping[str, Any], n_observations: int) -> dict[str, Any]:
    """Cut the table into its groupings, each a block that lists every observation in order."""
    length = len(columns["epoch"])
    if length == 0 or length % n_observations:
        raise StorageError(f"{path.name} is not made of blocks of {n_observations} rows")
    blocks = {name: column.reshape(-1, n_observations) for name, column in columns.items()}
    if not (blocks["observation"] == np.arange(n_observations)).all():
        raise StorageError(f"{path.name} does not list every observation in order")
    return grouping_columns(
        np.concatenate(([0], blocks["epoch"][:, 0])),
        np.concatenate(([0], blocks["step"][:, 0])),
        np.concatenate((blocks["hidden_state"][:1], blocks["group"])),
    )


def _read_facts(path: Path, figures: "pyarrow.Table | None") -> dict[str, Any]:
    """Read the facts, with the final figures that 0.1 kept in the table alone."""
    facts = read_json(path)
    wanted = ("regret", "n_clusters", *FACTS, *ENVIRONMENT)
    if not isinstance(facts, dict) or not all(name in facts for name in wanted):
        raise StorageError(f"{path.name} is damaged: it does not say all of {', '.join(wanted)}")
    for name in ("seconds", "n_clusters", "exact", "refines"):
        if not isinstance(facts[name], int | float):
            raise StorageError(f"{path.name} is damaged: {name} is {facts[name]!r}")
    for name in ("steps_to_exact", "gain"):
        if not isinstance(facts[name], int | float | None):
            raise StorageError(f"{path.name} is damaged: {name} is {facts[name]!r}")
    if figures is None:
        return facts
    step, regret, pseudo_regret, n_clusters = (
        figures[name].to_numpy() for name in ("step", "regret", "pseudo_regret", "n_clusters")
    )
    if not len(step):
        raise StorageError(f"the table beside {path.name} holds no rows")
    return facts | {
        "regret": float(regret[-1]),
        "pseudo_regret": float(pseudo_regret[-1]),
        "slope": slope(step, pseudo_regret),
        "n_clusters": int(n_clusters[-1]),
    }


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error

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
from numpy.typing import NDArray

from romdp.core.errors import StorageError
from romdp.core.storage import read_json
from romdp.experiments.directory import RunDirectory
from romdp.experiments.index import ENVIRONMENT, FACTS, KINDS, RETURNS, Contents, Row
from romdp.experiments.specification import RunSpec
from romdp.experiments.summary import slope
from romdp.experiments.tables import StoredRuns, join, pack, pack_groupings, schema, unpack
from romdp.playing.run import log_spaced

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
    damaged = {numbers[run]: what for run, what in stored.damaged.items()}
    return Contents(dict(sorted(rows.items())), damaged)


def read_earlier_runs(directory: RunDirectory, kinds: Sequence[str] = KINDS) -> StoredRuns:
    """Read the finished runs and check them against the experiment, as far as that goes."""
    steps = directory.experiment.steps
    grid = np.union1d(log_spaced(steps), [steps])
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
                if problem := _problem(kind, table, run.n_observations, grid):
                    raise StorageError(f"{run.id}{_ENDINGS[kind]}: {problem}")
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
        if kind == RETURNS:  # nobody kept them
            tables[kind] = schema(kind).empty_table()
            continue
        path = folder / f"{run.id}{_ENDINGS[kind]}"
        names = _GROUPS if kind == "groups" else schema(kind).names
        columns = _read_columns(path, names)
        packed = (
            _regroup(path, columns, run.n_observations) if kind == "groups" else pack(kind, columns)
        )
        tables[kind] = unpack(kind, packed)
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


def _regroup(path: Path, columns: Mapping[str, Any], n_observations: int) -> bytes:
    """Cut the table into its groupings, each a block that lists every observation in order."""
    length = len(columns["epoch"])
    if length == 0 or length % n_observations:
        raise StorageError(f"{path.name} is not made of blocks of {n_observations} rows")
    blocks = {name: column.reshape(-1, n_observations) for name, column in columns.items()}
    if not (blocks["observation"] == np.arange(n_observations)).all():
        raise StorageError(f"{path.name} does not list every observation in order")
    return pack_groupings(
        np.concatenate(([0], blocks["epoch"][:, 0])),
        np.concatenate(([0], blocks["step"][:, 0])),
        np.concatenate((blocks["hidden_state"][:1], blocks["group"])),
    )


def _problem(
    kind: str, table: "pyarrow.Table", n_observations: int, grid: NDArray[np.int64]
) -> str | None:
    """Say in what the table of a run does not match the experiment; None if it does."""
    columns = {name: table[name].to_numpy() for name in schema(kind).names if name != "labels"}
    if kind == "figures":
        if len(table) != len(grid):
            return f"it has {len(table)} figures, not {len(grid)}"
        if (columns["step"] != grid).any():
            return "its figures are not taken at the steps of the experiment"
        for name in ("reward", "regret", "pseudo_regret"):
            # Rewards lie in [0, 1]: no figure is farther from zero than its step. Where the gain is
            # not known, neither is the regret.
            possible = (np.abs(columns[name]) <= grid * (1 + 1e-9)).all()
            if not possible and (name == "reward" or not np.isnan(columns[name]).all()):
                return f"its {name} is not a possible number"
        if not ((columns["n_clusters"] >= 0) & (columns["n_clusters"] <= n_observations)).all():
            return "it has more groups than observations"
    elif kind == "epochs":
        ends = np.cumsum(columns["length"])
        if (columns["length"] < 0).any() or (columns["start"] + columns["length"] != ends).any():
            return "its epochs do not follow each other"
        if len(ends) and ends[-1] != grid[-1]:
            return "its epochs do not end with the run"
    elif kind == "groups":
        labels = table["labels"].combine_chunks().flatten().to_numpy()
        if len(table) < 2 or (np.diff(columns["epoch"]) < 0).any():
            return "its groupings are not in order"
        if labels.min() < -1 or labels.max() >= n_observations:
            return "it has impossible labels"
    return None


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

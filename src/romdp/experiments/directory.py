"""The directory of an experiment: what is in it, what is missing, and who may write to it.

experiment.json       what is compared; written first
runs.sqlite           the runs that ended, with their tables; see `store`
worlds/               copies of world files, if any
checkpoints/ID.npz    only while a run is under way
summary.json          final figures
errors.txt            why runs failed, if any did

Only one process writes results, and only while it holds the lock.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from romdp.core.errors import InvalidInputError, ROMDPError, StorageError, WriteError
from romdp.core.storage import (
    check_directory,
    delete_leftovers,
    locked,
    open_regular,
    read_json,
    write_bytes,
    write_json,
)
from romdp.core.text import shortened
from romdp.core.validation import as_path, choice, takes
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.store import FILE, TABLES, Contents, Store
from romdp.experiments.worlds import FileWorld, kept_file
from romdp.playing.checkpoint import delete_checkpoint

if TYPE_CHECKING:
    import pyarrow

_EXPERIMENT, _SUMMARY, _ERRORS, _LOCK = "experiment.json", "summary.json", "errors.txt", ".lock"
_CHECKPOINTS, _WORLDS = "checkpoints", "worlds"
_LOADED = {
    "figures": ("step", "regret", "pseudo_regret", "n_clusters"),
    "returns": ("step", "return", "length"),
}


@dataclass(frozen=True)
class RunDirectory:
    """An experiment and the directory that holds it; made by `create`, `begin` or `open`.

    Attributes
    ----------
    path
        Where it is.
    experiment
        What is compared.
    romdp
        The version of romdp that began it.
    """

    path: Path
    experiment: Experiment
    romdp: str

    @classmethod
    @takes(experiment=Experiment)
    def create(cls, path: str | os.PathLike[str], experiment: Experiment) -> "RunDirectory":
        """Begin a directory; one that holds anything is refused and left as it is."""
        target = as_path(path)
        experiment.check_reward_ranges()
        _check_free(target, experiment)
        content = experiment.to_dict()
        directory = cls(target, experiment, content["romdp"])
        _make_directory(target)
        with directory.lock():
            _check_free(target, experiment)  # another process may have been quicker
            write_json(target / _EXPERIMENT, content)
            directory.prepare()
        return directory

    @classmethod
    @takes(experiment=Experiment)
    def begin(cls, path: str | os.PathLike[str], experiment: Experiment) -> "RunDirectory":
        """Create a directory, or open the one in which this very experiment was begun.

        A script that does this and then calls `run_experiment` can be run again after any
        interruption.

        Raises
        ------
        InvalidInputError
            If the directory holds anything else, which is left as it is.
        """
        if (as_path(path) / _EXPERIMENT).is_file():
            directory = cls.open(path)
            if directory.experiment == experiment:
                return replace(directory, experiment=experiment)  # with its own agents
        return cls.create(path, experiment)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Open a directory that `create` began.

        Raises
        ------
        StorageError
            If it is no run directory, if it is damaged, or if its experiment was edited.
        """
        target = as_path(path)
        if not (target / _EXPERIMENT).is_file():
            raise StorageError(
                f"{target} is no run directory: it has no {_EXPERIMENT}; "
                "begin one with `romdp compare --out`"
            )
        content = read_json(target / _EXPERIMENT)
        if not isinstance(content, dict) or "kind" not in content:
            raise StorageError(f"{target / _EXPERIMENT} is not a file of romdp")
        try:
            try:
                experiment = Experiment.from_dict(content, target)
            except StorageError:
                # Killed before a world file was copied: the original serves, if it is unchanged.
                experiment = Experiment.from_dict(content)
        except ROMDPError as error:
            raise StorageError(f"{target / _EXPERIMENT}: {error}") from error
        directory = cls(target, experiment, str(content.get("romdp", "unknown")))
        if (target / FILE).exists():  # if not, killed before there was one
            with directory.store() as store:
                if store.experiment() != _hash(content):
                    raise StorageError(
                        f"{target / _EXPERIMENT} was edited after the experiment began, so it no "
                        "longer says what its runs are. Undo the change, or begin the new "
                        "experiment in another directory"
                    )
        return directory

    def prepare(self) -> None:
        """Make what is not there yet: the folders, the store, and copies of world files."""
        _make_directory(self.path / _CHECKPOINTS)
        for spec in self.experiment.worlds:
            if isinstance(spec, FileWorld):
                copy = self.path / kept_file(spec.sha256)
                if not copy.exists():
                    _make_directory(copy.parent)
                    with open_regular(spec.file) as file:
                        write_bytes(copy, file.read())
        if not (self.path / FILE).exists():
            Store.create(self.path / FILE, _hash(read_json(self.path / _EXPERIMENT)))

    def lock(self) -> AbstractContextManager[None]:
        """Keep every other process from writing to the directory."""
        busy = f"another romdp is at work in {self.path}; wait for it or stop it"
        return locked(self.path / _LOCK, busy)

    def store(self, *, writing: bool = False) -> Store:
        """Open the store of runs, for a ``with`` statement."""
        return Store(self.path / FILE, self.experiment.runs, writing=writing)

    def contents(self, kinds: Iterable[str] = ()) -> Contents:
        """Read the runs that ended, with their tables of these kinds."""
        if not (self.path / FILE).exists():
            return Contents()
        with self.store() as store:
            return store.read(kinds)

    @property
    def missing(self) -> list[RunSpec]:
        """The runs that are still to be done, those that failed among them."""
        finished = self.contents().finished
        return [run for run in self.experiment.runs if run not in finished]

    def checkpoint(self, run: RunSpec) -> Path:
        """Say where a run under way is kept."""
        return self.path / _CHECKPOINTS / f"{run.id}.npz"

    def delete_stale_files(self, todo: Iterable[RunSpec]) -> None:
        """Delete old checkpoints, all but those of the runs ``todo``, and half-written files.

        A file that is not named as romdp names the files of this experiment is left alone.
        """
        folder = self.path / _CHECKPOINTS
        if os.listdir(folder):
            delete_leftovers(folder, [self.checkpoint(run).name for run in self.experiment.runs])
            for run in set(self.experiment.runs).difference(todo):
                delete_checkpoint(self.checkpoint(run))
        delete_leftovers(self.path, (_EXPERIMENT, FILE, _SUMMARY, _ERRORS))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``, and ``errors.txt`` if runs failed."""
        write_json(self.path / _SUMMARY, dict(summary))
        errors = list(self.contents().failed.items())
        if not errors:
            self.errors_file.unlink(missing_ok=True)
            return
        parts = shortened([f"{run.id}\n{error}" for run, error in errors])
        write_bytes(self.errors_file, "\n".join(parts).encode())

    @property
    def errors_file(self) -> Path:
        """Where the errors of failed runs can be read."""
        return self.path / _ERRORS


def load_runs(
    directory: str | os.PathLike[str], table: Literal["figures", "returns"] = "figures"
) -> "pyarrow.Table":
    """Read the figures of all finished runs of a run directory, or the returns of their episodes.

    Parameters
    ----------
    directory
        What ``romdp compare`` wrote, finished or not.
    table
        ``"figures"``, or ``"returns"`` for the episodes of runs in Gymnasium environments.

    Returns
    -------
    pyarrow.Table
        One row per run and stored step, with the columns agent, world, n_observations, seed, step,
        regret, pseudo_regret and n_clusters. Of returns, one row per run and finished episode, with
        step, return and length after the first four. Runs that are missing, failed or damaged are
        left out. ``load_runs(directory).to_pandas()`` gives a pandas frame.

    Raises
    ------
    StorageError
        If the directory is missing, foreign or damaged as a whole.
    """
    import pyarrow as pa

    check_directory(directory, "the directory that `romdp compare` wrote")
    choice(table, "table", tuple(_LOADED))
    runs = RunDirectory.open(directory).contents((table,)).finished
    tables = [run.tables[table] for run in runs.values()]
    which = pa.array(np.repeat(np.arange(len(runs)), [len(rows["step"]) for rows in tables]))
    columns = {
        "agent": pa.array([run.agent for run in runs], pa.string()).take(which),
        "world": pa.array([run.world for run in runs], pa.string()).take(which),
        "n_observations": pa.array([run.n_observations for run in runs], pa.int64()).take(which),
        "seed": pa.array([run.replicate for run in runs], pa.int64()).take(which),
    }
    for name in _LOADED[table]:
        nothing = np.zeros(0, TABLES[table][name])
        columns[name] = np.concatenate([nothing, *(rows[name] for rows in tables)])
    return pa.table(columns)


def _hash(content: Any) -> str:
    """Return the SHA-256 of what an experiment says, however it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_free(path: Path, experiment: Experiment) -> None:
    """Refuse a directory that holds something."""
    try:
        # A kill may have left a lock, or an experiment half written.
        left = re.compile(rf"\{_LOCK}|\.{re.escape(_EXPERIMENT)}\..+\.tmp")
        found = [name for name in os.listdir(path) if not left.fullmatch(name)]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise InvalidInputError(f"{path} is a file; choose another directory") from None
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    if _EXPERIMENT in found:
        same = RunDirectory.open(path).experiment == experiment
        raise InvalidInputError(
            f"{path} already holds this experiment; go on with: romdp resume {path}"
            if same
            else f"{path} holds another experiment; choose another directory"
        )
    if found:
        raise InvalidInputError(f"{path} is not empty; choose another directory")


def _make_directory(path: Path) -> None:
    if path.is_symlink() and path.name in (_CHECKPOINTS, _WORLDS):
        raise StorageError(f"{path} is a symbolic link; put the folder itself there")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error

"""The directory of an experiment: what is in it, what is missing, and who may write to it.

experiment.json       what is compared; written first
runs.sqlite           the index of the runs that ended, which is also the manifest; see `index`
tables/               the tables of finished runs, joined into Parquet shards of about a thousand
worlds/               copies of world files, if any
checkpoints/ID.npz    only while a run is under way
summary.json          final figures
errors.txt            why runs failed, if any did

Only one process writes results, and only while it holds the lock. Version 0.1 kept four files
per run instead; such a directory can be read, see `earlier`.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from romdp.core.errors import InvalidInputError, ROMDPError, StorageError, WriteError
from romdp.core.storage import locked, open_regular, read_json, write_bytes, write_json
from romdp.experiments.agents import check_installed
from romdp.experiments.index import FILE, MOST_GROUPINGS, Contents, Index
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.worlds import FileWorld, kept_file

_EXPERIMENT, _SUMMARY, _ERRORS, _LOCK = "experiment.json", "summary.json", "errors.txt", ".lock"
_TABLES, _CHECKPOINTS, _WORLDS = "tables", "checkpoints", "worlds"
_RUNS_PER_SHARD = 1000
_SHARD_BYTES = 2**28  # what the groupings of the runs of one shard may take in memory
_SHARD = re.compile(r"[a-z]+-\d+-[0-9a-f]{16}\.parquet")
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.[0-9a-f]{8}\.tmp")  # as `write_atomic` names them
_MOST_ERRORS = 100  # that are written out


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
    earlier
        Whether version 0.1 wrote it: then it can be read, not continued, and nothing in it can
        be verified.
    """

    path: Path
    experiment: Experiment
    romdp: str
    earlier: bool = field(default=False, compare=False)

    @classmethod
    def create(cls, path: str | os.PathLike[str], experiment: Experiment) -> "RunDirectory":
        """Begin a directory; one that holds anything is refused and left as it is."""
        target = Path(path)
        check_installed(experiment.agents)
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
    def begin(cls, path: str | os.PathLike[str], experiment: Experiment) -> "RunDirectory":
        """Create a directory, or open the one in which this very experiment was begun.

        A script that does this and then calls `run_experiment` can be run again after any
        interruption.

        Raises
        ------
        InvalidInputError
            If the directory holds anything else, which is left as it is.
        """
        if (Path(path) / _EXPERIMENT).is_file():
            directory = cls.open(path)
            if directory.experiment == experiment:
                return directory
        return cls.create(path, experiment)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Open a directory that `create` began, or one that version 0.1 wrote.

        Raises
        ------
        StorageError
            If it is no run directory, if it is damaged, or if its experiment was edited.
        """
        target = Path(path)
        if not (target / _EXPERIMENT).is_file():
            raise StorageError(
                f"{target} is no run directory: it has no {_EXPERIMENT}; "
                "begin one with `romdp compare --out`"
            )
        content = read_json(target / _EXPERIMENT)
        if not isinstance(content, dict) or "kind" not in content:
            raise StorageError(f"{target / _EXPERIMENT} is not a file of romdp")
        is_indexed = (target / FILE).exists()
        if is_indexed:
            with Index(target / FILE, ()) as index:
                if index.about.get("experiment") != _hash(content):
                    raise StorageError(
                        f"{target / _EXPERIMENT} was edited after the experiment began, so it no "
                        "longer says what its runs are. Undo the change, or begin the new "
                        "experiment in another directory"
                    )
        elif any((target / _TABLES).glob("*.parquet")):
            raise StorageError(
                f"{target / FILE} is missing, so the tables cannot be told apart; "
                "bring it back from a copy"
            )
        try:
            try:
                experiment = Experiment.from_dict(content, target)
            except StorageError:
                # Killed before a world file was copied: the original serves, if it is unchanged.
                experiment = Experiment.from_dict(content)
        except ROMDPError as error:
            raise StorageError(f"{target / _EXPERIMENT}: {error}") from error
        earlier = not is_indexed and (target / "runs").is_dir()
        return cls(target, experiment, str(content.get("romdp", "unknown")), earlier)

    def prepare(self) -> None:
        """Make what is not there yet: the folders, the index, and copies of world files."""
        for name in (_TABLES, _CHECKPOINTS):
            _make_directory(self.path / name)
        for spec in self.experiment.worlds:
            if isinstance(spec, FileWorld):
                copy = self.path / kept_file(spec.sha256)
                if not copy.exists():
                    _make_directory(copy.parent)
                    with open_regular(spec.file) as file:
                        write_bytes(copy, file.read())
        if not (self.path / FILE).exists():
            content = read_json(self.path / _EXPERIMENT)
            # A thousand, fewer in worlds with very many observations.
            largest = max(n_observations for _, n_observations in self.experiment.cells)
            size = max(1, min(_RUNS_PER_SHARD, _SHARD_BYTES // (4 * MOST_GROUPINGS * largest)))
            Index.create(
                self.path / FILE, {"experiment": _hash(content), "runs_per_shard": str(size)}
            )

    def lock(self) -> AbstractContextManager[None]:
        """Keep every other process from writing to the directory."""
        busy = f"another romdp is at work in {self.path}; wait for it or stop it"
        return locked(self.path / _LOCK, busy)

    def index(self, *, writing: bool = False) -> Index:
        """Open the index, for a ``with`` statement."""
        return Index(self.path / FILE, self.experiment.runs, writing=writing)

    def contents(self) -> Contents:
        """Read what the index says now; of a directory of version 0.1, what its files say."""
        if self.earlier:
            from romdp.experiments.earlier import read_contents

            return read_contents(self)
        if not (self.path / FILE).exists():  # killed before there was an index
            return Contents()
        with self.index() as index:
            return index.contents()

    @property
    def missing(self) -> list[RunSpec]:
        """The runs that are still to be done, those that failed among them."""
        rows = self.contents().rows
        return [
            run
            for number, run in enumerate(self.experiment.runs)
            if number not in rows or rows[number].failed
        ]

    @property
    def failed(self) -> list[RunSpec]:
        """The runs that failed."""
        return [row.run for row in self.contents().rows.values() if row.failed]

    @cached_property
    def numbers(self) -> dict[RunSpec, int]:
        """The place of each run in the experiment."""
        return {run: number for number, run in enumerate(self.experiment.runs)}

    def facts(self, run: RunSpec) -> dict[str, Any]:
        """Return the facts of a finished run: final figures, wall time, versions and the like."""
        row = self.contents().rows.get(self.numbers[run])
        if row is None or row.failed:
            raise StorageError(f"{self.path}: the run {run.id} is not finished")
        return dict(row.facts)

    def error(self, run: RunSpec) -> str:
        """Return the traceback of a run that failed."""
        row = self.contents().rows.get(self.numbers[run])
        if row is None or row.error is None:
            raise StorageError(f"{self.path}: the run {run.id} has not failed")
        return row.error

    def table_file(self, name: str) -> Path:
        """Say where a shard is; only names that romdp itself gives are accepted."""
        if not _SHARD.fullmatch(name):
            raise StorageError(f"{self.path}: {name!r} is no table of romdp")
        return self.path / _TABLES / name

    def checkpoint(self, run: RunSpec) -> Path:
        """Say where a run under way is kept."""
        return self.path / _CHECKPOINTS / f"{run.id}.npz"

    def delete_stale_files(self, todo: Iterable[RunSpec], shards: Collection[str]) -> None:
        """Delete what is of no use any more: old checkpoints and shards, and half-written files.

        A file that is not named as romdp names the files of this experiment is left alone, and
        so is everything behind a symbolic link.

        Parameters
        ----------
        todo
            The runs that still need their checkpoint.
        shards
            The names of the shards in use.
        """
        wanted = {self.checkpoint(run).name for run in todo}
        ours = {self.checkpoint(run).name for run in self.experiment.runs}
        for folder in (_CHECKPOINTS, _TABLES, "."):
            for file in (self.path / folder).iterdir():
                half = _TEMPORARY.fullmatch(file.name)
                name = half["name"] if half else file.name
                if folder == _CHECKPOINTS:
                    name = name.removesuffix(".tmp").removesuffix(".previous")
                    is_ours, used = name in ours, name in wanted
                elif folder == _TABLES:
                    is_ours, used = bool(_SHARD.fullmatch(name)), name in shards
                else:
                    is_ours, used = name in (_EXPERIMENT, FILE, _SUMMARY, _ERRORS), True
                if is_ours and (half or not used) and file.is_file() and not file.is_symlink():
                    _delete(file)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``, and ``errors.txt`` if runs failed."""
        write_json(self.path / _SUMMARY, dict(summary))
        if self.earlier:
            return
        errors = [(row.run.id, row.error) for row in self.contents().rows.values() if row.failed]
        if not errors:
            _delete(self.errors_file)
            return
        parts = [f"{name}\n{error}" for name, error in errors[:_MOST_ERRORS]]
        if len(errors) > _MOST_ERRORS:
            parts.append(f"and {len(errors) - _MOST_ERRORS} more\n")
        write_bytes(self.errors_file, "\n".join(parts).encode())

    @property
    def errors_file(self) -> Path:
        """Where the errors of failed runs can be read."""
        return self.path / _ERRORS


def delete_checkpoint(checkpoint: Path) -> None:
    """Delete the files of a checkpoint."""
    for name in (checkpoint.name, f"{checkpoint.name}.previous", f"{checkpoint.name}.previous.tmp"):
        _delete(checkpoint.with_name(name))


def drop_checkpoint(checkpoint: Path) -> bool:
    """Put the checkpoint before this one in its place; without one, only delete it.

    Returns False if the file cannot be removed, or if there is none.
    """
    try:
        os.replace(checkpoint.with_name(f"{checkpoint.name}.previous"), checkpoint)
    except OSError:  # there is none
        try:
            checkpoint.unlink()
        except OSError:
            return False
    return True


def _delete(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


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
    if path.is_symlink() and path.name in (_TABLES, _CHECKPOINTS, _WORLDS):
        raise StorageError(f"{path} is a symbolic link; put the folder itself there")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error

"""The directory of an experiment: what is in it, what is missing, and who may write to it.

experiment.json            what is compared; written first
worlds/                    copies of world files, if any
runs/ID.parquet            figures of a run; written last, so that where it is, all is
runs/ID.epochs.parquet     its epochs
runs/ID.groups.parquet     its groupings
runs/ID.json               facts: wall time, gain, exactness, versions
runs/ID.error.txt          only where a run failed
checkpoints/ID.npz         only while a run is under way
summary.json               final figures
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from romdp.core.errors import InvalidInputError, MisuseError, ROMDPError, StorageError, WriteError
from romdp.core.storage import read_json, write_atomic, write_json
from romdp.experiments.catalogue import check_installed
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.tables import EPOCHS, FACTS, FIGURES, GROUPS
from romdp.experiments.worlds import FileWorld, kept_file

_EXPERIMENT, _SUMMARY, _LOCK = "experiment.json", "summary.json", ".lock"
_ERROR = ".error.txt"


@dataclass(frozen=True)
class RunDirectory:
    """An experiment and the directory that holds it; made by `create` or `open`."""

    path: Path
    experiment: Experiment
    romdp: str

    @classmethod
    def create(cls, path: str | os.PathLike[str], experiment: Experiment) -> "RunDirectory":
        """Begin a directory; one that holds anything is refused and left as it is."""
        target = Path(path)
        check_installed(experiment.agents)
        _check_free(target, experiment)
        content = experiment.to_dict()
        _make_directory(target)
        write_json(target / _EXPERIMENT, content)
        directory = cls(target, experiment, content["romdp"])
        directory.prepare()
        return directory

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Open a directory that `create` began."""
        target = Path(path)
        if not (target / _EXPERIMENT).is_file():
            raise StorageError(
                f"{target} is no run directory: it has no {_EXPERIMENT}; "
                "begin one with `romdp compare --out`"
            )
        content = read_json(target / _EXPERIMENT)
        if not isinstance(content, dict) or "kind" not in content:
            raise StorageError(f"{target / _EXPERIMENT} is not a file of romdp")
        try:
            experiment = _read_experiment(content, target)
        except ROMDPError as error:
            raise StorageError(f"{target / _EXPERIMENT}: {error}") from error
        return cls(target, experiment, str(content.get("romdp", "unknown")))

    def prepare(self) -> None:
        """Make the rooms, keep copies of world files, and sweep away what a kill left half done."""
        for name in ("runs", "checkpoints"):
            _make_directory(self.path / name)
            for file in (self.path / name).glob(".*.tmp"):
                with suppress(OSError):
                    file.unlink()
        for spec in self.experiment.worlds:
            if isinstance(spec, FileWorld):
                copy = self.path / kept_file(spec.sha256)
                if not copy.exists():
                    _make_directory(copy.parent)
                    _write(copy, _read(Path(spec.file)))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the directory, so that no second process works in it at the same time."""
        try:
            file = open(self.path / _LOCK, "ab")  # noqa: SIM115 - closed below
        except OSError as error:
            raise WriteError(f"cannot write {self.path}: {error.strerror or error}") from error
        with file:
            _hold(file.fileno(), self.path)
            yield

    def file(self, run: RunSpec, ending: str) -> Path:
        """Say where a file of a run is: ``ending`` is one of those in `tables`."""
        return self.path / "runs" / f"{run.id}{ending}"

    def checkpoint(self, run: RunSpec) -> Path:
        """Say where a run under way is kept."""
        return self.path / "checkpoints" / f"{run.id}.npz"

    def is_done(self, run: RunSpec) -> bool:
        """Whether a run is finished; one whose files are damaged is not."""
        if not all(self.file(run, ending).exists() for ending in (FIGURES, EPOCHS, GROUPS, FACTS)):
            return False
        import pyarrow
        import pyarrow.parquet

        try:
            read_json(self.file(run, FACTS))
            for ending in (FIGURES, EPOCHS, GROUPS):
                pyarrow.parquet.read_metadata(self.file(run, ending))
        except (pyarrow.ArrowException, OSError):
            return False
        return True

    @property
    def missing(self) -> list[RunSpec]:
        """The runs that are still to be done, those that failed among them."""
        return [run for run in self.experiment.runs if not self.is_done(run)]

    @property
    def failed(self) -> list[RunSpec]:
        """The runs that are missing because they left an error."""
        return [run for run in self.missing if self.file(run, _ERROR).exists()]

    def sweep(self, todo: Iterable[RunSpec]) -> None:
        """Remove checkpoints of other runs than these.

        A kill just after a run was stored leaves one, and so does a worker of a cluster that
        had lost touch.
        """
        wanted = {self.checkpoint(run).name for run in todo}
        for file in (self.path / "checkpoints").glob("*.npz*"):
            if file.name.removesuffix(".tmp").removesuffix(".previous") not in wanted:
                with suppress(OSError):
                    file.unlink()

    def error_file(self, run: RunSpec) -> Path:
        """Say where the error of a failed run is."""
        return self.file(run, _ERROR)

    def store(self, run: RunSpec, files: Mapping[str, bytes]) -> None:
        """Write the files of a finished run, that of its figures last, and clear up after it."""
        for ending in (EPOCHS, GROUPS, FACTS, FIGURES):
            _write(self.file(run, ending), files[ending])
        forget(self.checkpoint(run))
        self.file(run, _ERROR).unlink(missing_ok=True)

    def store_error(self, run: RunSpec, text: str) -> None:
        """Leave the error of a run that failed."""
        _write(self.file(run, _ERROR), text.encode())

    def facts(self, run: RunSpec) -> dict[str, Any]:
        """Read the facts of a finished run."""
        facts: dict[str, Any] = read_json(self.file(run, FACTS))
        return facts

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Write ``summary.json``."""
        write_json(self.path / _SUMMARY, dict(summary))
        return self.path / _SUMMARY


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def _write(path: Path, content: bytes) -> None:
    write_atomic(path, lambda file: file.write(content))


def forget(checkpoint: Path) -> None:
    """Remove a checkpoint and the one before it."""
    for name in (checkpoint.name, f"{checkpoint.name}.previous", f"{checkpoint.name}.previous.tmp"):
        with suppress(OSError):
            checkpoint.with_name(name).unlink()


def _check_free(path: Path, experiment: Experiment) -> None:
    """Refuse a directory that holds something."""
    try:
        found = [name for name in os.listdir(path) if not _is_passing(name)]
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


def _is_passing(name: str) -> bool:
    """Whether a file is only what a kill left behind."""
    return name == _LOCK or (name.startswith(".") and name.endswith(".tmp"))


def _read_experiment(content: dict[str, Any], path: Path) -> Experiment:
    try:
        return Experiment.from_dict(content, path)
    except StorageError:
        # Killed before a world file was copied: the original will do, if it is still the same.
        return Experiment.from_dict(content)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error


def _hold(descriptor: int, path: Path) -> None:
    """Lock an open file until it is closed, or until its process ends in whatever way."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MisuseError(f"another romdp is at work in {path}; wait for it or stop it") from None
    except OSError:  # a file system without locks
        return

"""Where a run is kept: one file that is replaced whole, and the one before it beside it."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from romdp.core.errors import StorageError, WriteError
from romdp.core.storage import locked, read_arrays, write_arrays
from romdp.core.validation import as_path, real_number

_KIND, _VERSION = "checkpoint of a run", 2

Arrays = Mapping[str, NDArray[Any]]


class Checkpoint:
    """Stores a run and loads it again.

    Parameters
    ----------
    path
        The file; None stores nothing.
    seconds
        How long to wait before the run is stored again.
    identity
        What the run is made of, by name. The file of a run with another identity is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, seconds: float, identity: Mapping[str, str]
    ) -> None:
        self.path = None if path is None else as_path(path, "checkpoint")
        self._seconds = real_number(seconds, "checkpoint_seconds", 0)
        self._identity = dict(identity)
        self._saved_at = time.monotonic()

    def lock(self) -> AbstractContextManager[None]:
        """Keep others from playing on this file while the context lasts."""
        if self.path is None:
            return nullcontext()
        busy = f"another run is playing on {self.path}; wait for it, or choose another path"
        return locked(self.path.with_name(f".{self.path.name}.lock"), busy)

    @property
    def is_due(self) -> bool:
        """Whether it is time to store the run again."""
        return self.path is not None and time.monotonic() - self._saved_at >= self._seconds

    def save(self, arrays: Callable[[], Arrays]) -> None:
        """Store what ``arrays()`` returns; the checkpoint before it stays beside it."""
        if self.path is not None:
            if self.path.exists():
                _keep_previous(self.path)
            write_arrays(self.path, _KIND, _VERSION, arrays(), self._identity)
            self._saved_at = time.monotonic()

    def load(self) -> Arrays | None:
        """Return what was stored last, None if there is nothing yet."""
        if self.path is None:
            return None
        if not self.path.exists():
            if not self.path.parent.is_dir():
                raise StorageError(f"cannot write {self.path}: its directory does not exist")
            return None
        try:
            arrays, found = read_arrays(self.path, _KIND, _VERSION)
        except StorageError as error:
            raise StorageError(f"{error}; {self._remedy()}") from error
        for part, mine in self._identity.items():
            if found.get(part) != mine:
                raise StorageError(
                    f"{self.path} is the checkpoint of a run with another {part}; choose another "
                    "path"
                )
        return arrays

    def damaged(self, error: Exception) -> StorageError:
        """Return the error for content that does not fit together."""
        return StorageError(f"{self.path}: {error}; {self._remedy()}")

    def _remedy(self) -> str:
        """Say what to do with a file that cannot be used."""
        assert self.path is not None
        before = _previous(self.path)
        hint = f"copy {before} over it to go on from there" if before.exists() else "delete it"
        return f"{hint}, or choose another path"


def delete_checkpoint(path: Path) -> None:
    """Delete the files of a checkpoint."""
    for file in (path, _previous(path), _previous(path, ".tmp")):
        with suppress(OSError):
            file.unlink()


def step_back(path: Path) -> bool:
    """Put the checkpoint before this one in its place; without one, only delete it.

    Returns False if the file cannot be removed, or if there is none.
    """
    try:
        os.replace(_previous(path), path)
    except OSError:  # there is none
        try:
            path.unlink()
        except OSError:
            return False
    return True


def _previous(path: Path, ending: str = "") -> Path:
    return path.with_name(f"{path.name}.previous{ending}")


def _keep_previous(path: Path) -> None:
    """Keep the last checkpoint under a second name, without a moment in which there is none."""
    before, temporary = _previous(path), _previous(path, ".tmp")
    try:
        temporary.unlink(missing_ok=True)
        try:
            os.link(path, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, temporary)
        os.replace(temporary, before)
    except OSError as error:
        raise WriteError(f"cannot write {before}: {error.strerror or error}") from error

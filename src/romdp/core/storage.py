"""Files that are written completely or not at all: sealed arrays and JSON, no pickle.

A lock keeps two processes from working on one file or directory.

What is written is flushed to the disk before it gets its name, and so is the directory that holds
it: after a power cut there is the old file or the new one.

A sealed file holds one thing: arrays, and facts as JSON. It is an ``.npz`` archive whose comment
is the SHA-256 of all bytes before it. What fits its seal is trusted, but for what compiled code
relies on: types, shapes and ranges, which a `romdp.core.formats.Format` declares.
"""

import glob
import hashlib
import json
import os
import platform
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import (
    InvalidInputError,
    MisuseError,
    ROMDPError,
    StorageError,
    WriteError,
)
from romdp.core.validation import as_path

OLD = "was made by romdp 0.2 or before; run it again"
"""Why a file of an older version is refused."""

_HEADER = "romdp"  # the first entry of a sealed file says what it is
_SEAL = 64  # the digits of a SHA-256
_UNSEALED = b"PK\5\6", b"\0\0"  # the ends of the last 22 bytes of an archive without a comment
_MACHINE = f"{crc32(platform.node().encode()):08x}"  # others may write to a shared folder too
_TEMPORARY = re.compile(
    r"\.(?P<name>.+)\.(?P<machine>[0-9a-f]{8})\.(?P<process>\d+)\.[0-9a-f]{8}\.tmp"
)
_LONGEST_NAME = 200  # bytes of a file's name that a temporary one keeps, of 255 in all

PathLike = str | os.PathLike[str]
Arrays = Mapping[str, NDArray[Any]]


def check_output(path: PathLike, kind: str = "file") -> Path:
    """Check where something is to be written, before the work that makes it begins.

    Parameters
    ----------
    path
        Where to write. A symbolic link stands for what it points to.
    kind
        ``"file"``: a new file, or an existing one to replace; its directory must exist.
        ``"directory"``: a new directory, whose parents are made if needed, or an existing one.

    Returns
    -------
    Path
        The place itself, without symbolic links.

    Raises
    ------
    InvalidInputError
        If the place is of the wrong kind: a FIFO, a device, a directory where a file is meant.
    WriteError
        If nothing can be written there.
    """
    shown = as_path(path)
    if shown.name in ("", ".."):
        raise InvalidInputError(f"cannot write path {str(shown)!r}: name a {kind}")
    target = Path(os.path.realpath(path))
    try:
        found = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        found = None
    except OSError as error:
        raise WriteError(f"cannot write {shown}: {error.strerror or error}") from error
    wanted = stat.S_ISREG if kind == "file" else stat.S_ISDIR
    if found is not None and not wanted(found):
        raise InvalidInputError(f"cannot write {shown}: it is {_kind_of(found)}; name a {kind}")
    folder = target if found is not None and kind == "directory" else target.parent
    while kind == "directory" and not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        reason = f"{folder} is not a directory" if folder.exists() else f"there is no {folder}"
        raise WriteError(f"cannot write {shown}: {reason}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WriteError(f"cannot write {shown}: Permission denied")
    return target


def _kind_of(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFLNK: "a symbolic link that leads nowhere",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def write_atomic(path: PathLike, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name beside it, flush it to the disk, then rename it.

    Through a symbolic link its target is written. A FIFO or a device is never replaced.
    """
    target = Path(os.path.realpath(as_path(path)))
    mark = f"{_MACHINE}.{os.getpid()}.{secrets.token_hex(4)}"
    temporary = target.with_name(f".{_beginning(target.name)}.{mark}.tmp")
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISREG(mode := target.lstat().st_mode):
                raise OSError(f"it is {_kind_of(mode)}")
        with open(temporary, "x+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sweep(target)
        sync_directory(target.parent)
    except OSError as error:
        _remove(temporary)
        if isinstance(error, ROMDPError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        _remove(temporary)
        raise


def _beginning(name: str) -> str:
    """Return as much of a file's name as leaves room for the rest of a temporary one."""
    return os.fsdecode(os.fsencode(name)[:_LONGEST_NAME])


def _sweep(target: Path) -> None:
    """Delete what processes of this machine that were killed left of earlier writes of a file."""
    for path in target.parent.glob(f".{glob.escape(_beginning(target.name))}.*.tmp"):
        found = _TEMPORARY.fullmatch(path.name)
        if found and found["machine"] == _MACHINE and not _is_alive(int(found["process"])):
            _remove(path)


def _is_alive(process: int) -> bool:
    """Whether a process runs; where that cannot be told, it does."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_bytes(path: PathLike, content: bytes) -> None:
    """Write a file completely or not at all."""
    write_atomic(path, lambda file: file.write(content))


def _remove(path: Path) -> None:
    with suppress(OSError):  # it may never have been made; what went wrong first is what counts
        path.unlink()


def delete_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Delete what killed processes left of files of these names; nobody may be writing them."""
    wanted = set(map(_beginning, names))
    for path in folder.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found and found["name"] in wanted and path.is_file() and not path.is_symlink():
            _remove(path)


def sync_directory(path: PathLike) -> None:
    """Flush the entries of a directory to the disk, where the system knows how."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def open_regular(path: PathLike) -> Iterator[BufferedReader]:
    """Open a file for reading; a FIFO or a device, which could block forever, is refused."""
    try:
        mode = os.stat(as_path(path)).st_mode
        if not stat.S_ISREG(mode):
            raise StorageError(f"cannot read {path}: it is {_kind_of(mode)}, not a file")
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        if isinstance(error, ROMDPError):
            raise
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def check_directory(path: PathLike, wanted: str) -> None:
    """Refuse a path that is no directory; ``wanted`` says what to pass instead."""
    if not as_path(path).is_dir():
        problem = "is a file" if Path(path).exists() else "does not exist"
        raise StorageError(f"{path} {problem}; pass {wanted}")


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file ``path`` while the context lasts.

    The lock ends with the process, in whatever way it ends, so nothing has to be cleaned up after
    a kill. Where the system or the file system knows no locks, nothing is locked.

    Raises
    ------
    MisuseError
        With the message ``busy``, if another process or thread holds the lock.
    """
    descriptor = _open(path)
    try:
        while not _hold(descriptor, busy, path):
            os.close(descriptor)
            descriptor = _open(path)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()  # still locked: who opened it meanwhile sees that it is gone
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error


def _hold(descriptor: int, busy: str, path: Path) -> bool:
    """Lock an open file; False if the process that held it before has removed it."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except BlockingIOError:
        raise MisuseError(busy) from None
    except FileNotFoundError:
        return False
    except OSError:  # a file system without locks
        return True


def write_json(path: PathLike, content: Any) -> None:
    """Write JSON that a person can read; not-a-number and infinity are refused."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_bytes(path, text.encode())


def read_json(path: PathLike) -> Any:
    """Read a JSON file; a missing or damaged one is a clear error."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    with open_regular(path) as file:
        content = file.read()
    try:
        return json.loads(content, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: it is not JSON ({error})") from error


def write_arrays(
    path: PathLike,
    kind: str,
    version: int,
    arrays: Arrays,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays and JSON-able facts to one sealed file that names its kind and version."""
    header = json.dumps({"kind": kind, "version": version, "facts": dict(facts or {})})
    members: dict[str, Any] = {_HEADER: np.frombuffer(header.encode(), np.uint8), **arrays}

    def write(file: IO[bytes]) -> None:
        np.savez(file, **members)
        file.seek(-2, os.SEEK_END)
        file.write(_SEAL.to_bytes(2, "little"))  # so long is the comment of the archive
        file.seek(0)
        file.write(hashlib.file_digest(file, "sha256").hexdigest().encode())  # type: ignore[arg-type]

    write_atomic(path, write)


def read_kind(path: PathLike) -> str:
    """Say what kind of thing a sealed file holds."""
    return str(_read(path)[0])


def read_arrays(
    path: PathLike, kind: str, version: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote; a foreign, damaged or newer file is a clear error."""
    found_kind, found_version, arrays, facts = _read(path)
    if found_kind != kind:
        raise StorageError(f"{path} holds a {found_kind}, not a {kind}")
    if found_version != version:
        raise StorageError(
            f"{path} has format version {found_version}; this romdp reads version {version}"
        )
    return arrays, facts


def _read(path: PathLike) -> tuple[Any, Any, dict[str, NDArray[Any]], dict[str, Any]]:
    """Read kind, version, arrays and facts of a sealed file."""
    with open_regular(path) as file:
        content = file.read()
    if hashlib.sha256(memoryview(content)[:-_SEAL]).hexdigest().encode() != content[-_SEAL:]:
        if content[30:].startswith(b"romdp.npy"):  # the name of the first entry
            old = (content[-22:-18], content[-2:]) == _UNSEALED
            edited = "is damaged or was edited: its checksum does not fit"
            raise StorageError(f"{path} {OLD if old else edited}")
        raise StorageError(f"{path} is damaged or not a file of romdp")
    with reading(path), np.load(BytesIO(content), allow_pickle=False) as archive:
        header = json.loads(archive[_HEADER].tobytes())
        arrays = {name: archive[name] for name in archive.files if name != _HEADER}
        return header["kind"], header["version"], arrays, dict(header["facts"])


@contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Turn whatever goes wrong while stored content is put together into a `StorageError`."""
    try:
        yield
    except MisuseError:
        raise
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from error
    except Exception as error:
        what = str(error) or type(error).__name__
        raise StorageError(f"{path} is damaged: {what}") from error

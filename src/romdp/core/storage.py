"""Files that are written completely or not at all: arrays and JSON, no pickle, with versions.

A lock keeps two processes from working on one file or directory.

What is written is flushed to the disk before it gets its name, and so is the directory that holds
it: after a power cut there is the old file or the new one. Files carry a checksum of their content.
"""

import hashlib
import json
import math
import os
import secrets
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from romdp.core.errors import (
    InvalidInputError,
    MisuseError,
    ROMDPError,
    StorageError,
    WriteError,
)

_HEADER = "romdp"  # the entry of an .npz file that says what it is
_CHECKSUM = "sha256"
_PIECE = 2**20  # bytes that are read at once

# What zipfile and numpy raise on damaged bytes; RuntimeError: a flipped bit says "encrypted", or
# JSON that is nested too deeply.
_DAMAGE: tuple[type[Exception], ...] = (
    *(ValueError, LookupError, TypeError, EOFError, RuntimeError, MemoryError, SyntaxError),
    *(ArithmeticError, AttributeError, zipfile.BadZipFile, zlib.error),
    *(struct.error, tokenize.TokenError),
)

_Model = TypeVar("_Model")

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
    shown = os.fspath(path)
    if Path(path).name in ("", "..") or "\0" in shown:
        raise InvalidInputError(f"cannot write {shown!r}: name a {kind}")
    target = Path(os.path.realpath(path))
    try:
        found = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        found = None
    except OSError as error:
        raise WriteError(f"cannot write {shown}: {error.strerror or error}") from error
    except ValueError as error:
        raise InvalidInputError(f"cannot write {shown!r}: {error}") from None
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
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISREG(mode := target.lstat().st_mode):
                raise OSError(f"it is {_kind_of(mode)}")
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_directory(target.parent)
    except OSError as error:
        _remove(temporary)
        if isinstance(error, ROMDPError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        _remove(temporary)
        raise


def write_bytes(path: PathLike, content: bytes) -> None:
    """Write a file completely or not at all."""
    write_atomic(path, lambda file: file.write(content))


def _remove(path: Path) -> None:
    with suppress(OSError):  # it may never have been made; what went wrong first is what counts
        path.unlink()


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
        mode = os.stat(path).st_mode
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
    if not Path(path).is_dir():
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


@contextmanager
def locked_directory(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Wait for a directory and hold it while the context lasts, alone if ``exclusive``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):  # where locks are not known, nothing is locked
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
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


def file_checksum(path: PathLike) -> str:
    """Return the SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def write_sealed(path: PathLike, content: Mapping[str, Any]) -> None:
    """Write a JSON object together with its checksum."""
    write_json(path, {**content, _CHECKSUM: _json_checksum(content)})


def unseal(content: Mapping[str, Any], path: PathLike) -> tuple[dict[str, Any], bool]:
    """Take the checksum out of what `write_sealed` wrote.

    Returns the content, and whether there was a checksum; one that does not fit is an error.
    """
    plain = {key: value for key, value in content.items() if key != _CHECKSUM}
    if _CHECKSUM in content and content[_CHECKSUM] != _json_checksum(plain):
        raise StorageError(f"{path} is damaged or was edited: its checksum does not fit")
    return plain, _CHECKSUM in content


def _json_checksum(content: Mapping[str, Any]) -> str:
    as_read = json.loads(json.dumps(content))  # keys that are numbers become text, and sort so
    text = json.dumps(as_read, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_arrays(
    path: PathLike,
    kind: str,
    version: int,
    arrays: Arrays,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays and JSON-able facts to one ``.npz`` file that names its kind and version."""
    plain = {name: np.asanyarray(array) for name, array in arrays.items()}
    content = {"kind": kind, "version": version, "facts": dict(facts or {})}
    header = json.dumps({**content, _CHECKSUM: _checksum(content, plain)})
    members: dict[str, Any] = {_HEADER: np.frombuffer(header.encode(), np.uint8), **plain}
    write_atomic(path, lambda file: np.savez(file, **members))


def _checksum(content: Mapping[str, Any], arrays: Arrays) -> str:
    """Hash everything that an .npz file holds: kind, version, facts, names and arrays."""
    digest = hashlib.sha256(_json_checksum(content).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def read_kind(path: PathLike) -> str:
    """Say what kind of thing a file of `write_arrays` holds."""
    header, _ = _read(path, header_only=True)
    kind: str = header["kind"]
    return kind


def is_sealed(path: PathLike) -> bool:
    """Say whether an .npz file carries a checksum; those written by version 0.1 do not."""
    return _CHECKSUM in _read(path, header_only=True)[0]


def read_arrays(
    path: PathLike, kind: str, version: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote; a foreign, damaged or newer file is a clear error."""
    header, arrays = _read(path)
    if header["kind"] != kind:
        raise StorageError(f"{path} holds a {header['kind']}, not a {kind}")
    if header["version"] != version:
        raise StorageError(
            f"{path} has format version {header['version']}; this romdp reads version {version}"
        )
    stored = header.pop(_CHECKSUM, None)
    if stored is not None and stored != _checksum(header, arrays):
        raise StorageError(f"{path} is damaged or was edited: its checksum does not fit")
    return arrays, header["facts"]


def _read(
    path: PathLike, header_only: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header of an .npz file and, unless told otherwise, its arrays."""
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, os.fstat(file.fileno()).st_size)
                if _HEADER not in members:
                    raise StorageError(f"{path} is not a file of romdp")
                header = json.loads(_array(archive, members.pop(_HEADER)).tobytes())
                wanted = {} if header_only else members
                arrays = {name: _array(archive, member) for name, member in wanted.items()}
        except StorageError:
            raise
        except _DAMAGE as error:
            raise StorageError(f"{path} is damaged or not a file of romdp") from error
    needed = {"kind": str, "version": int, "facts": dict}
    if not isinstance(header, dict) or any(
        not isinstance(header.get(name), of) for name, of in needed.items()
    ):
        raise StorageError(f"{path} is damaged or not a file of romdp")
    return header, arrays


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of an archive, none of which may be larger than the file itself.

    romdp stores arrays as they are. A compressed member, or members that share their bytes, could
    unpack to any size.
    """
    found = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(found) != len(archive.infolist()):
        raise ValueError("two members have the same name")
    if any(info.compress_type != zipfile.ZIP_STORED for info in found.values()):
        raise ValueError("a member is compressed")
    if sum(info.file_size for info in found.values()) > size:
        raise ValueError("the members are larger than the file")
    return found


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Read one array after checking that its header promises as much as there is."""
    with archive.open(member) as file:
        read_header = {
            (1, 0): npy.read_array_header_1_0,
            (2, 0): npy.read_array_header_2_0,
        }[npy.read_magic(file)]
        shape, by_columns, dtype = read_header(file)
        if dtype.hasobject or min(shape, default=0) < 0:
            raise ValueError("not an array of plain numbers")
        size = member.file_size - file.tell()
        if math.prod(shape) * dtype.itemsize != size:
            raise ValueError("the size of an array is not what its header says")
        content, filled = bytearray(size), 0
        while piece := file.read(_PIECE):
            content[filled : filled + len(piece)] = piece
            filled += len(piece)
        if filled != size:
            raise ValueError("an array ends early")
    return np.ndarray(shape, dtype, content, order="F" if by_columns else "C")


def read_model(path: PathLike, kind: str, version: int, build: Callable[..., _Model]) -> _Model:
    """Read arrays and facts and build an object of them; what it refuses is a damaged file."""
    arrays, facts = read_arrays(path, kind, version)
    try:
        return build(**arrays, **facts)
    except (TypeError, ROMDPError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error

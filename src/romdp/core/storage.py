"""Files that are written whole or not at all: arrays and JSON, no pickle, with format versions."""

import json
import os
import secrets
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import ROMDPError, StorageError, WriteError

_HEADER = "romdp"  # the entry of an .npz file that says what it is

# What zipfile and numpy raise on damaged bytes; RuntimeError: a flipped bit says "encrypted".
_DAMAGE: tuple[type[Exception], ...] = (
    *(ValueError, LookupError, TypeError, EOFError, RuntimeError, MemoryError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)

_Model = TypeVar("_Model")

Arrays = Mapping[str, NDArray[Any]]


def write_atomic(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name beside it, flush it to the disk, then rename it."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        _remove(temporary)
        raise WriteError(f"cannot write {target}: {error.strerror or error}") from error
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: Path) -> None:
    with suppress(OSError):  # it may never have been made; what went wrong first is what counts
        path.unlink()


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write JSON that a person can read; not-a-number and infinity are refused."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; a missing or damaged one is a clear error."""
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StorageError(f"{path} is damaged: it is not JSON ({error})") from error


def write_arrays(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    arrays: Arrays,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays and JSON-able facts to one ``.npz`` file that names its kind and version."""
    header = json.dumps({"kind": kind, "version": version, "facts": dict(facts or {})})
    content: dict[str, Any] = {_HEADER: np.frombuffer(header.encode(), np.uint8), **arrays}
    write_atomic(path, lambda file: np.savez(file, **content))


def read_kind(path: str | os.PathLike[str]) -> str:
    """Say what kind of thing a file of `write_arrays` holds."""
    return _read(path, wanted=(_HEADER,))[0]


def read_arrays(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote; a foreign, damaged or newer file is a clear error."""
    found_kind, found_version, facts, arrays = _read(path)
    if found_kind != kind:
        raise StorageError(f"{path} holds a {found_kind}, not a {kind}")
    if found_version != version:
        raise StorageError(
            f"{path} has format version {found_version}; this romdp reads version {version}"
        )
    return arrays, facts


def _read(
    path: str | os.PathLike[str], wanted: tuple[str, ...] | None = None
) -> tuple[str, int, dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with open(path, "rb") as file:  # numpy itself would not close a damaged one
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile) or _HEADER not in archive:
                raise StorageError(f"{path} is not a file of romdp")
            arrays = {name: np.asanyarray(archive[name]) for name in wanted or archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        return header["kind"], header["version"], header["facts"], arrays
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise StorageError(f"{path} is damaged or not a file of romdp") from error


def read_model(
    path: str | os.PathLike[str], kind: str, version: int, build: Callable[..., _Model]
) -> _Model:
    """Read arrays and facts and build an object of them; what it refuses is a damaged file."""
    arrays, facts = read_arrays(path, kind, version)
    try:
        return build(**arrays, **facts)
    except (TypeError, ROMDPError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error

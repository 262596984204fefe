"""Locks between processes: at most one at a time works on a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from romdp.core.errors import MisuseError, WriteError


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
                path.unlink()  # still locked: whoever opened it meanwhile sees that it is gone
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error


def _hold(descriptor: int, busy: str, path: Path) -> bool:
    """Lock an open file; False if it was removed by whoever held it before."""
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

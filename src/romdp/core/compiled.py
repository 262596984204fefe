"""The one decorator for compiled kernels: cached on disk where a disk allows it."""

import logging
import os
import pickle
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral

_logger = logging.getLogger("romdp")
_compilations = logging.getLogger("romdp.compilation")  # a name of its own: the command listens

# A division by zero gives inf as in NumPy: kernels guard their own divisions and stay branch-free.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_IMPORT = re.compile(r"^(?:from|import) (romdp[\w.]*)(?: import (\([^)]*\)|.*))?$", re.MULTILINE)

_Function = TypeVar("_Function", bound=Callable[..., object])


def kernel(function: _Function) -> _Function:
    """Compile a function with numba on its first call and keep the machine code on disk.

    The cache lies beside the source file, or in the user's cache directory where that is not
    writable, or where ``NUMBA_CACHE_DIR`` says. Where none of these can be written the kernel
    still works: it is compiled in each process.

    A kernel is compiled together with the kernels that it calls, but numba only looks whether
    its own file has changed. Here it is compiled again if any file of romdp has changed that its
    file imports, however indirectly. Of several processes that need the same kernel, one compiles
    it while the others wait for it.
    """
    try:
        compiled: _Function = numba.njit(cache=True, **_OPTIONS)(function)
        _restamp(compiled, Path(function.__code__.co_filename))
        _compile_in_turn(compiled)
    except RuntimeError as error:  # numba's way to say that no cache directory is writable
        if "no locator available" not in str(error):
            raise
        _logger.info("no writable cache directory: %s is compiled in memory", function.__name__)
        compiled = numba.njit(**_OPTIONS)(function)
    return compiled


def _restamp(compiled: Any, path: Path) -> None:
    """Let the stamp of a kernel's file in numba's cache be that of all files it imports."""
    file = getattr(compiled._cache, "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):  # no public name for it
        file._source_stamp = source_stamp(path)
        file._load_index = partial(_load_index, file._load_index)


def _load_index(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """Read an index of numba's cache; one that names what romdp no longer has is out of date."""
    try:
        return load()
    except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
        return {}


def _compile_in_turn(compiled: Any) -> None:
    """Let one process at a time compile a kernel; the next finds the result in the cache.

    A process that compiles a kernel waits for those that the kernel calls, and calls go round in
    no circle; so two processes never wait for each other.
    """
    folder, compile_now = Path(compiled._cache.cache_path), compiled.compile

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock, _turn(folder, zlib.crc32(compiled.__name__.encode())):
            # No versions of their own for arguments that are written as 0 or 1.
            return compile_now(tuple(map(unliteral, signature)))

    compiled.compile = compile_in_turn


@contextmanager
def _turn(folder: Path, place: int) -> Iterator[None]:
    """Lock one byte of a file in a cache directory, where this is possible."""
    unlock = None
    with suppress(ImportError, OSError):  # no such locks here: the work may be done twice
        import fcntl

        file = _lock_file(folder)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        unlock = partial(fcntl.lockf, file, fcntl.LOCK_UN, 1, place)
    try:
        yield
    finally:
        if unlock is not None:
            unlock()


@cache
def _lock_file(folder: Path) -> int:
    """Open the lock file of a cache directory, for as long as this process lives."""
    return os.open(folder / "romdp.lock", os.O_RDWR | os.O_CREAT, 0o666)


@cache
def source_stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, time and size of a file of romdp and of all files of romdp that it imports."""
    waiting, found = [path], {path}
    while waiting:
        for other in _imported(waiting.pop()) - found:
            found.add(other)
            waiting.append(other)
    stats = [(other.name, other.stat()) for other in sorted(found) if other.exists()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Find the files of romdp that a file imports itself: modules, or packages they come from."""
    root = Path(__file__).parents[2]
    names: set[str] = set()
    for module, what in _IMPORT.findall(path.read_text("utf-8") if path.exists() else ""):
        names.add(module)
        names.update(f"{module}.{name}" for name in re.findall(r"\w+", what))
    places = [root.joinpath(*name.split(".")) for name in names]
    files = {p.with_suffix(".py") for p in places} | {p / "__init__.py" for p in places}
    return frozenset(file for file in files if file.exists())


class _CompilationListener(event.Listener):
    """Calls back when a kernel of ours is compiled, not when it is read from the cache."""

    def __init__(self, callback: Callable[[str], None]) -> None:
        self._callback = callback

    def on_start(self, event: event.Event) -> None:
        dispatcher = event.data["dispatcher"]
        function = dispatcher.py_func
        if function.__module__.partition(".")[0] == "romdp":
            self._callback(function.__name__)

    def on_end(self, event: event.Event) -> None:
        pass


def on_compilation(callback: Callable[[str], None]) -> Callable[[], None]:
    """Call ``callback(kernel_name)`` whenever a kernel of romdp is about to be compiled.

    A kernel is compiled the first time it is ever used on a machine; later processes read it
    from the disk and the callback stays silent. Returns a function that stops the listening.
    """
    listener = _CompilationListener(callback)
    events: Any = event  # numba leaves these two functions untyped
    events.register("numba:compile", listener)
    return lambda: events.unregister("numba:compile", listener)


on_compilation(lambda name: _compilations.info("compiling %s (first use on this machine)", name))

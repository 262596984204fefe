"""The one decorator for compiled kernels: cached on disk where a disk allows it."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

_logger = logging.getLogger("romdp")
_compilations = logging.getLogger("romdp.compilation")  # a name of its own: the command listens

# A division by zero gives inf as in NumPy: kernels guard their own divisions and stay branch-free.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_Function = TypeVar("_Function", bound=Callable[..., object])


def kernel(function: _Function) -> _Function:
    """Compile a function with numba on its first call and keep the machine code on disk.

    The cache lies beside the source file, or in the user's cache directory where that is not
    writable, or where ``NUMBA_CACHE_DIR`` says. Where none of these can be written the kernel
    still works: it is compiled anew in each process.
    """
    try:
        compiled: _Function = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError as error:  # numba's way to say that no cache directory is writable
        if "no locator available" not in str(error):
            raise
        _logger.info("no writable cache directory: %s is compiled in memory", function.__name__)
        compiled = numba.njit(**_OPTIONS)(function)
    return compiled


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

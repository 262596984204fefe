"""The ``romdp`` command: it only calls the other packages.

Exit status: 0 done; 1 an I/O error, failed runs or an unexpected error; 2 refused before the work
began, with one line on stderr and nothing written; 130 interrupted.
"""

import os
import re
import sys
import warnings
from contextlib import suppress
from typing import Any

__all__ = ["app", "main"]

_COLOUR = r"\x1b\[[0-9;]*m"  # Gymnasium colours its warnings


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from romdp.cli.command import app

    return app


def main() -> None:
    """Run the command; whatever goes wrong is one line on stderr and an exit status."""
    try:
        status = _run()
    except KeyboardInterrupt:  # imports included
        status = 130
    except Exception as error:  # noqa: BLE001 - the outermost handler
        status = _explain(error)
    sys.exit(status)


def _run() -> Any:
    """Run the command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):  # no name is so strange that it cannot be printed
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from romdp.cli.command import announce_compilation, app, check_arguments

    warnings.formatwarning = _one_line_warning
    try:
        check_arguments(sys.argv[1:])
        announce_compilation()
        app()
    except SystemExit as end:
        sys.stdout.flush()  # a disk that is full must be noticed before Python exits
        return end.code


def _one_line_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Say what is wrong with the input; where in our code that was noticed helps nobody."""
    if not issubclass(category, UserWarning):
        return f"{filename}:{lineno}: {category.__name__}: {message}\n"
    from romdp.core.text import one_line

    return f"romdp: {one_line(re.sub(_COLOUR, '', str(message)))}\n"


def _explain(error: Exception) -> int:
    """Say in one line what went wrong, and return the exit status."""
    from romdp.core.errors import ROMDPError, WriteError
    from romdp.core.text import one_line

    if isinstance(error, ROMDPError):
        _say(one_line(error))
        return 1 if isinstance(error, WriteError | ConnectionError) else 2
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        _drop_output()
    elif isinstance(error, OSError):
        _drop_output()
        _say(one_line(f"{error.strerror or error}{f': {error.filename}' * bool(error.filename)}"))
    else:
        what = one_line(f"{type(error).__name__}: {error}", 300)
        _say(f"unexpected {what}; {_keep_traceback(error)}")
    return 1


def _keep_traceback(error: Exception) -> str:
    """Write the traceback to a file and say where it is."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="romdp-traceback-", suffix=".txt", delete=False, errors="backslashreplace"
        ) as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError as problem:
        return f"the traceback could not be kept ({problem.strerror})"
    return f"please report it with the traceback in {file.name}"


def _say(message: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"romdp: {message}\n")
        sys.stderr.flush()


def _drop_output() -> None:
    """Let what is still buffered go nowhere: Python flushes it once more when it exits."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())

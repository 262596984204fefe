"""Every error that romdp raises on purpose."""

import difflib
from collections.abc import Iterable

from romdp.core.text import shortened


class ROMDPError(Exception):
    """Base of every error raised on bad input or bad data."""


class InvalidInputError(ROMDPError, ValueError):
    """A value that cannot be used: the message names the entry and the remedy."""


class UnknownNameError(InvalidInputError):
    """A name that is not in the list; the message suggests the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        listed = f"choose from {', '.join(shortened(names))}"
        hint = f"did you mean {near[0]!r}?" if near else listed
        super().__init__(f"unknown {kind} {name[:80]!r}: {hint}")


class StructureError(ROMDPError, ArithmeticError):
    """A question without a single answer, such as the gain of two closed classes."""


class TooLargeError(ROMDPError, MemoryError):
    """An array that would not fit in memory; the message says what to ask for instead."""


class StorageError(ROMDPError, OSError):
    """A file that is missing, damaged, foreign, or of another format version."""


class WriteError(StorageError):
    """A file that cannot be written: a full disk, a directory that is missing or read-only."""


class MisuseError(ROMDPError, RuntimeError):
    """A call in the wrong order; the state is as it was before the call."""

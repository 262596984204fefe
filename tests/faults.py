"""Writes that fail, and processes that end, at a chosen moment."""

import os
from contextlib import contextmanager

import pytest


class FaultError(OSError):
    """A write that fails."""


class Kill(BaseException):
    """The end of a process: nothing that comes after it reaches the disk."""


@contextmanager
def interrupted(at, error):
    """Fail at the given one of the calls that change the disk; yields the number of calls so far.

    After a `FaultError` the disk works again; after a `Kill` every further call fails too.
    """
    calls = {"n": 0}

    def counted(original):
        def call(*arguments, **options):
            calls["n"] += 1
            if calls["n"] == at or (calls["n"] > at and error is Kill):
                raise error(28, "No space left on device")
            return original(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        tidying = ("unlink", "rmdir") if error is Kill else ()  # these do not fail for want of room
        for name in ("replace", "fsync", "mkdir", *tidying):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield calls

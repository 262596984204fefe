"""Writes that fail, and processes that end, at a chosen moment."""

import functools
import os
import sqlite3
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

    def count():
        calls["n"] += 1
        if calls["n"] == at or (calls["n"] > at and error is Kill):
            raise error(28, "No space left on device")

    def counted(original):
        def call(*arguments, **options):
            count()
            return original(*arguments, **options)

        return call

    class Connection(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement == "COMMIT":
                try:
                    count()
                except FaultError as fault:
                    raise sqlite3.OperationalError("database or disk is full") from fault
            return super().execute(statement, *values)

    with pytest.MonkeyPatch.context() as patch:
        tidying = ("unlink", "rmdir") if error is Kill else ()  # these do not fail for want of room
        for name in ("replace", "fsync", "mkdir", *tidying):
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Connection))
        yield calls

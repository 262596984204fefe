"""What is in the store of a run directory, and runs taken out of it or made to fail."""

import sqlite3
from contextlib import closing

from romdp.experiments.store import TABLES


def execute(path, statement, *values):
    """Change or read the store behind romdp's back."""
    with closing(sqlite3.connect(path / "runs.sqlite")) as connection, connection:
        return connection.execute(statement, values).fetchall()


def tables(path):
    """Return the tables of every run that ended, as the bytes that are stored."""
    rows = execute(path, f"SELECT number, {', '.join(TABLES)} FROM runs")
    return {number: blobs for number, *blobs in rows}


def lose(directory, *runs):
    """Take finished runs out of a directory, as if they had never been done."""
    for run in runs:
        number = directory.experiment.runs.index(run)
        execute(directory.path, "DELETE FROM runs WHERE number = ?", number)


def fail(directory, run, error):
    """Make a run one that failed."""
    with directory.store(writing=True) as store:
        store.put(run, {"error": error}, {})

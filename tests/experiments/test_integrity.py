"""What was changed behind romdp's back is named by the report and repeated by resume."""

import shutil
import zlib

import numpy as np
import pytest
from cases import execute, lose, small, tables

from romdp.core.errors import StorageError
from romdp.experiments.directory import RunDirectory, load_runs
from romdp.experiments.running import run_experiment
from romdp.experiments.store import TABLES, _seal
from romdp.experiments.watching import Watcher


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    directory = RunDirectory.create(tmp_path_factory.mktemp("reference") / "x", small(steps=300))
    run_experiment(directory)
    return directory


@pytest.fixture
def copy(reference, tmp_path):
    return RunDirectory.open(shutil.copytree(reference.path, tmp_path / "copy"))


class Repeats(Watcher):
    def __init__(self):
        self.runs = {}
        self.done = []

    def repeated(self, run, what):
        self.runs[run] = what

    def finished(self, run, facts):
        self.done.append(run)


def assert_healed(directory, reference, damaged):
    """Resume repeats the damaged runs and nothing else, and all is as it was."""
    watcher = Repeats()
    assert run_experiment(directory, watcher=watcher) == []
    assert list(watcher.runs) == list(damaged)
    assert set(watcher.done) == set(damaged)
    assert directory.contents(TABLES).damaged == {}
    assert tables(directory.path) == tables(reference.path)


@pytest.mark.parametrize("kind", TABLES)
def test_one_flipped_bit_in_a_table_is_noticed(copy, reference, kind):
    content = bytearray(tables(copy.path)[3][list(TABLES).index(kind)])
    content[len(content) // 2] ^= 4
    execute(copy.path, f"UPDATE runs SET {kind} = ? WHERE number = 3", bytes(content))
    run = copy.experiment.runs[3]
    assert copy.contents().damaged == {run: "its row does not fit its checksum"}
    assert run not in copy.contents(TABLES).finished
    assert load_runs(copy.path).num_rows * 8 == load_runs(reference.path).num_rows * 7
    assert_healed(copy, reference, [run])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("facts", '{"regret": 0.0}'),
        ("facts", '{"error": "it failed"}'),
        ("facts", None),
        ("facts", b"x"),
        ("epochs", "x"),
        ("epochs", 17),
        ("groups", None),
        ("seal", None),
        ("seal", "x"),
    ],
)
def test_a_changed_row_is_noticed(copy, reference, column, value):
    execute(copy.path, f"UPDATE runs SET {column} = ? WHERE number = 2", value)
    run = copy.experiment.runs[2]
    assert copy.contents().damaged == {run: "its row does not fit its checksum"}
    assert copy.missing == [run]
    assert_healed(copy, reference, [run])


def test_rows_in_the_place_of_others_are_noticed(copy, reference):
    for change in ("number = -2 WHERE number = 2", "number = 2 WHERE number = 5"):
        execute(copy.path, f"UPDATE runs SET {change}")
    second, fifth = copy.experiment.runs[2], copy.experiment.runs[5]
    assert list(copy.contents().damaged) == [second]
    assert copy.missing == [second, fifth]
    watcher = Repeats()
    assert run_experiment(copy, watcher=watcher) == []
    assert set(watcher.done) == {second, fifth}
    assert {n: row for n, row in tables(copy.path).items() if n >= 0} == tables(reference.path)


def test_a_row_of_another_experiment_is_noticed(copy, reference, tmp_path):
    """Its run has the same name there, and it fits its checksum."""
    other = RunDirectory.create(tmp_path / "other", small(steps=300, seed=9))
    run_experiment(other)
    ((*row,),) = execute(other.path, "SELECT * FROM runs WHERE number = 2")
    marks = ", ".join("?" * len(row))
    execute(copy.path, f"INSERT OR REPLACE INTO runs VALUES ({marks})", *row)
    run = copy.experiment.runs[2]
    assert copy.contents().damaged == {run: "its row is of another experiment"}
    assert_healed(copy, reference, [run])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("facts", "[" * 10**5),
        ("facts", "3"),
        ("figures", b"x"),
        ("groups", zlib.compress(b"x" * 99)),
    ],
)
def test_nonsense_that_fits_its_checksum_is_named(copy, column, value):
    run = copy.experiment.runs[2]
    names = ("facts", *TABLES)
    ((*row,),) = execute(copy.path, f"SELECT {', '.join(names)} FROM runs WHERE number = 2")
    row[names.index(column)] = value
    execute(
        copy.path,
        f"UPDATE runs SET {column} = ?, seal = ? WHERE number = 2",
        *(value, _seal(run, row[0], row[1:])),
    )
    assert list(copy.contents(TABLES).damaged) == [run]


def test_bits_of_the_store_flipped_one_by_one(reference, tmp_path):
    """Whatever bit is flipped: refused, named, or without effect; never another figure."""
    figures = {run: found.facts for run, found in reference.contents().finished.items()}
    content = (reference.path / "runs.sqlite").read_bytes()
    shutil.copytree(reference.path, tmp_path / "x")
    path = tmp_path / "x" / "runs.sqlite"
    rng = np.random.default_rng(3)
    outcomes = {"refused": 0, "noticed": 0, "harmless": 0}
    used = np.flatnonzero(np.frombuffer(content, np.uint8))  # many bytes are empty
    for place in rng.choice(used, 200, replace=False).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        for rest in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        try:
            found = RunDirectory.open(path.parent).contents(TABLES).finished
        except StorageError:
            outcomes["refused"] += 1
            continue
        for run, stored in found.items():
            assert stored.facts == figures[run]
        outcomes["noticed" if len(found) < 8 else "harmless"] += 1
    assert min(outcomes["refused"], outcomes["noticed"]) > 0


def test_what_is_done_again_has_the_same_bytes(copy, reference):
    before = tables(copy.path)
    for runs in (copy.experiment.runs[3:4], copy.experiment.runs[:5]):
        lose(copy, *runs)
        assert copy.missing == list(runs)
        run_experiment(copy)
        assert tables(copy.path) == before

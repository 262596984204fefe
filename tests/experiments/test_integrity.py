"""What was changed behind romdp's back is named by the report and repeated by resume."""

import shutil
import sqlite3

import numpy as np
import pytest
from experiment_cases import lose, small, tables

from romdp.core.errors import StorageError
from romdp.experiments.directory import RunDirectory
from romdp.experiments.running import run_experiment
from romdp.experiments.tables import load_runs, read_runs
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
    assert read_runs(directory).damaged == {}
    assert tables(directory.path) == tables(reference.path)


def shard(directory, kind):
    (path,) = (directory.path / "tables").glob(f"{kind}-*")
    return path


@pytest.mark.parametrize("kind", ["figures", "epochs", "groups"])
def test_one_flipped_bit_in_a_shard_is_noticed(copy, reference, kind):
    path = shard(copy, kind)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    found = read_runs(copy)
    assert found.rows == ()
    assert set(found.damaged) == set(copy.experiment.runs)
    assert all("SHA-256" in what for what in found.damaged.values())
    if kind == "figures":
        assert load_runs(copy.path).num_rows == 0
    assert_healed(copy, reference, copy.experiment.runs)


@pytest.mark.parametrize("kind", ["figures", "epochs", "groups"])
def test_a_lost_shard_is_noticed(copy, reference, kind):
    shard(copy, kind).unlink()
    assert len(read_runs(copy).damaged) == 8
    assert_healed(copy, reference, copy.experiment.runs)


def execute(directory, statement, *values):
    connection = sqlite3.connect(directory.path / "runs.sqlite")
    connection.execute(statement, values)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("regret", 0.0),
        ("regret", 1e300),
        ("regret", "much"),
        ("status", "failed"),
        ("seconds", None),
        ("exact", b"x"),
        ("agent", "oracle"),
        ("environment", 17),
        ("seal", None),
    ],
)
def test_a_changed_row_of_the_index_is_noticed(copy, reference, column, value):
    execute(copy, f"UPDATE runs SET {column} = ? WHERE number = 2", value)
    run = copy.experiment.runs[2]
    assert read_runs(copy).damaged == {run: "its row in the index is damaged"}
    assert copy.missing == [run]
    assert_healed(copy, reference, [run])


def test_a_changed_environment_is_noticed(copy, reference):
    execute(copy, "UPDATE environments SET content = 'x'")
    assert len(read_runs(copy).damaged) == 8
    assert_healed(copy, reference, copy.experiment.runs)


def test_names_of_shards_lead_nowhere_else(copy, tmp_path):
    outside = tmp_path / "precious.parquet"
    outside.write_bytes(b"x")
    execute(copy, "UPDATE shards SET file = '../../precious.parquet' WHERE kind = 'epochs'")
    assert len(read_runs(copy).damaged) == 8
    with pytest.raises(StorageError, match="no table of romdp"):
        run_experiment(copy)
    assert outside.read_bytes() == b"x"


def test_bits_of_the_index_flipped_one_by_one(reference, tmp_path):
    """Whatever bit is flipped: refused, named, or without effect; never another figure."""
    whole = read_runs(reference)
    figures = {row.run: row.facts for row in whole.rows}
    content = (reference.path / "runs.sqlite").read_bytes()
    shutil.copytree(reference.path, tmp_path / "x")
    path = tmp_path / "x" / "runs.sqlite"
    rng = np.random.default_rng(3)
    outcomes = {"refused": 0, "noticed": 0, "harmless": 0}
    used = np.flatnonzero(np.frombuffer(content, np.uint8))  # most bytes are empty
    for place in rng.choice(used, 80, replace=False).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        for rest in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        try:
            found = read_runs(RunDirectory.open(path.parent))
        except StorageError:
            outcomes["refused"] += 1
            continue
        for row in found.rows:
            assert row.facts == figures[row.run]
        outcomes["noticed" if len(found.rows) < 8 else "harmless"] += 1
    assert min(outcomes.values()) > 0


def test_runs_that_wait_are_read_too(reference, tmp_path, monkeypatch):
    """Killed before they were joined into shards, and one of them damaged."""
    waiting = RunDirectory.create(tmp_path / "x", reference.experiment)
    with monkeypatch.context() as patch:
        patch.setattr("romdp.experiments.tables.Writer._write_shards", lambda *_: None)
        run_experiment(waiting)
    assert tables(waiting.path) == {}
    assert load_runs(waiting.path).equals(load_runs(reference.path))
    execute(waiting, "UPDATE waiting SET epochs = X'00' WHERE number = 1")
    run = waiting.experiment.runs[1]
    assert list(read_runs(waiting).damaged) == [run]
    assert_healed(waiting, reference, [run])


def test_shards_that_are_written_again_have_the_same_bytes(copy, reference):
    before = tables(copy.path)
    for runs in (copy.experiment.runs[3:4], copy.experiment.runs[:5]):
        lose(copy, *runs)
        assert copy.missing == list(runs)
        run_experiment(copy)
        assert tables(copy.path) == before


def test_many_shards(reference, tmp_path, monkeypatch):
    monkeypatch.setattr("romdp.experiments.directory._RUNS_PER_SHARD", 3)
    directory = RunDirectory.create(tmp_path / "x", reference.experiment)
    run_experiment(directory)
    assert len(tables(directory.path)) == 9
    monkeypatch.undo()
    assert load_runs(directory.path).equals(load_runs(reference.path))
    path = sorted((directory.path / "tables").glob("groups-00001-*"))[0]
    path.write_bytes(b"")
    assert list(read_runs(directory).damaged) == list(directory.experiment.runs[3:6])
    before = tables(directory.path)
    run_experiment(directory)
    assert {name for name in before if tables(directory.path)[name] != before[name]} == {path.name}


def test_a_directory_from_before_returns_were_kept_can_be_read_and_resumed(copy, reference):
    execute(copy, "ALTER TABLE waiting DROP COLUMN returns")
    assert load_runs(copy.path).equals(load_runs(reference.path))
    assert load_runs(copy.path, "returns").num_rows == 0
    shard(copy, "epochs").unlink()
    assert_healed(copy, reference, copy.experiment.runs)

import json
import os

import pytest
from experiment_cases import small

import romdp
from romdp.core.errors import InvalidInputError, MisuseError, StorageError, WriteError
from romdp.experiments.directory import RunDirectory
from romdp.experiments.executors import Here
from romdp.experiments.running import run_experiment

TINY = {"steps": 50, "seeds": 1, "observations": (6,)}


@pytest.fixture
def done(tmp_path):
    directory = RunDirectory.create(tmp_path / "done", small(**TINY))
    assert run_experiment(directory, Here()) == []
    return directory


def test_create_and_open(tmp_path):
    made = RunDirectory.create(tmp_path / "a" / "b", small())
    found = RunDirectory.open(tmp_path / "a" / "b")
    assert found == made
    assert found.romdp == romdp.__version__
    assert found.missing == list(small().runs)
    assert found.failed == []
    assert json.loads((made.path / "experiment.json").read_text()) == small().to_dict()


def test_an_empty_directory_will_do(tmp_path):
    (tmp_path / ".experiment.json.1.ab.tmp").touch()  # left by a kill before anything was done
    RunDirectory.create(tmp_path, small())
    assert (tmp_path / "experiment.json").exists()


def contents(path):
    return {
        str(file.relative_to(path)): (file.read_bytes() if file.is_file() else None)
        for file in path.rglob("*")
    }


def test_what_holds_something_is_refused_and_left_alone(tmp_path):
    RunDirectory.create(tmp_path / "x", small())
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "letter.txt").write_text("dear")
    (tmp_path / "z").write_text("a file")
    before = contents(tmp_path)
    with pytest.raises(InvalidInputError, match="romdp resume"):
        RunDirectory.create(tmp_path / "x", small())
    with pytest.raises(InvalidInputError, match="another experiment"):
        RunDirectory.create(tmp_path / "x", small(seed=1))
    with pytest.raises(InvalidInputError, match="not empty"):
        RunDirectory.create(tmp_path / "y", small())
    with pytest.raises(InvalidInputError, match="is a file"):
        RunDirectory.create(tmp_path / "z", small())
    assert contents(tmp_path) == before


def test_a_directory_that_cannot_be_made(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.mkdir", full)
    with pytest.raises(WriteError, match="No space left"):
        RunDirectory.create(tmp_path / "x", small())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no run directory"),
        ("{", "damaged"),
        ("[]", "not a file of romdp"),
        ('{"a": 1}', "not a file of romdp"),
        ('{"kind": "other"}', "holds a other"),
        ('{"kind": "romdp experiment", "version": 2}', "version 2"),
        ('{"kind": "romdp experiment", "version": 1, "steps": 0}', "steps is 0"),
    ],
)
def test_a_foreign_or_damaged_directory(tmp_path, text, message):
    if text is not None:
        (tmp_path / "experiment.json").write_text(text)
    with pytest.raises(StorageError, match=message):
        RunDirectory.open(tmp_path)


def test_world_files_are_kept(tmp_path):
    path = tmp_path / "w.npz"
    romdp.worlds.river_swim(3, 6).save(path)
    experiment = small(worlds=(str(path),), observations=None)
    made = RunDirectory.create(tmp_path / "x", experiment)
    path.unlink()
    assert RunDirectory.open(tmp_path / "x").experiment == made.experiment
    (copy,) = (tmp_path / "x" / "worlds").iterdir()
    copy.write_bytes(copy.read_bytes() + b"x")
    with pytest.raises(StorageError, match=r"changed|cannot read"):
        RunDirectory.open(tmp_path / "x")


def test_killed_before_a_world_file_was_copied(tmp_path):
    path = tmp_path / "w.npz"
    romdp.worlds.river_swim(3, 6).save(path)
    experiment = small(worlds=(str(path),), observations=None, steps=20, seeds=1)
    RunDirectory.create(tmp_path / "x", experiment)
    (copy,) = (tmp_path / "x" / "worlds").iterdir()
    copy.unlink()
    directory = RunDirectory.open(tmp_path / "x")
    assert run_experiment(directory) == []
    assert copy.exists()


def test_damaged_runs_are_missing(done):
    first, second = done.experiment.runs
    assert done.missing == []
    path = done.file(second, ".epochs.parquet")
    path.write_bytes(path.read_bytes()[:-10])
    assert done.missing == [second]
    done.file(first, ".json").unlink()
    assert done.missing == [first, second]


def test_what_a_kill_left_half_done_is_swept_away(done):
    left = done.path / "runs" / ".x.parquet.17.abcd.tmp"
    left.touch()
    done.prepare()
    assert not left.exists()


def test_a_kill_after_the_last_file_leaves_nothing_for_long(done):
    """As if it had come before the checkpoint and the error of an earlier try were removed."""
    first, second = done.experiment.runs
    done.store_error(first, "an earlier try")
    assert done.failed == []
    done.file(second, ".json").unlink()
    kept = [done.checkpoint(second), done.checkpoint(second).with_suffix(".npz.previous")]
    left = [done.checkpoint(first), done.checkpoint(first).with_suffix(".npz.previous")]
    for file in kept + left:
        file.touch()
    done.sweep(done.missing)
    assert [file.exists() for file in kept + left] == [True, True, False, False]


def test_no_two_work_in_one_directory(done):
    with done.alone(), pytest.raises(MisuseError, match="another romdp is at work"):
        run_experiment(done)
    assert run_experiment(done) == []


def test_a_missing_baseline_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("romdp.experiments.catalogue.find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match="pip install"):
        RunDirectory.create(tmp_path / "x", small(agents=("dqn",)))
    assert os.listdir(tmp_path) == []

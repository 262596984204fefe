import json
import threading

import pytest
from cases import execute, fail, lose, small

import romdp
from romdp.core.errors import InvalidInputError, MisuseError, ROMDPError, StorageError, WriteError
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
    assert list(found.contents().failed) == []
    assert json.loads((made.path / "experiment.json").read_text()) == small().to_dict()


def test_begin_creates_or_goes_on(tmp_path):
    made = RunDirectory.begin(tmp_path / "x", small())
    assert RunDirectory.begin(tmp_path / "x", small()) == made
    with pytest.raises(InvalidInputError, match="another experiment"):
        RunDirectory.begin(tmp_path / "x", small(seed=1))


def test_an_empty_directory_will_do(tmp_path):
    left = ".experiment.json.0a1b2c3d.1.0123abcd.tmp"  # by a kill at the very start
    (tmp_path / left).touch()
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


def test_of_many_who_create_one_directory_at_once_one_succeeds(tmp_path):
    outcomes = []
    barrier = threading.Barrier(8)

    def create(seed):
        barrier.wait()
        try:
            RunDirectory.create(tmp_path / "x", small(seed=seed))
            outcomes.append(seed)
        except (InvalidInputError, MisuseError):
            outcomes.append(None)

    threads = [threading.Thread(target=create, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [seed for seed in outcomes if seed is not None]
    assert RunDirectory.open(tmp_path / "x").experiment.seed == winner


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
        ('{"kind": "romdp experiment", "version": 1}', "made by romdp 0.2 or before; run it again"),
        ('{"kind": "romdp experiment", "version": 3}', "version 3"),
        ('{"kind": "romdp experiment", "version": 2, "steps": 0}', "steps is 0"),
        ('{"kind": "romdp experiment", "version": 2, "seeds": 1e9}', "seeds is 1000000000"),
        ('{"kind": "romdp experiment", "version": 2, "seeds": 1e6}', "more than 1,000,000"),
        ('{"kind": "romdp experiment", "version": 2, "worlds": [{"name": 3}]}', "name of a world"),
        ('{"kind": "romdp experiment", "version": 2, "agents": {}}', "agents is"),
        ('{"kind": "romdp experiment", "version": 2, "agents": [3]}', r"agents\[0\] is 3"),
        ('{"kind": "romdp experiment", "version": 2, "observations": ["x"]}', "observations is"),
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


def test_killed_before_a_world_file_was_copied_or_the_index_made(tmp_path):
    path = tmp_path / "w.npz"
    romdp.worlds.river_swim(3, 6).save(path)
    experiment = small(worlds=(str(path),), observations=None, steps=20, seeds=1)
    RunDirectory.create(tmp_path / "x", experiment)
    (copy,) = (tmp_path / "x" / "worlds").iterdir()
    copy.unlink()
    (tmp_path / "x" / "runs.sqlite").unlink()
    directory = RunDirectory.open(tmp_path / "x")
    assert directory.missing == list(experiment.runs)
    assert run_experiment(directory) == []
    assert copy.exists()


def test_lost_and_failed_runs_are_missing(done):
    first, second = done.experiment.runs
    assert done.missing == []
    fail(done, second, "an earlier try")
    assert (done.missing, list(done.contents().failed)) == ([second], [second])
    assert done.contents().failed[second] == "an earlier try"
    lose(done, first)
    assert done.missing == [first, second]
    assert run_experiment(done) == []
    assert done.missing == []


def test_what_a_kill_left_is_deleted_and_nothing_else(done):
    first, second = done.experiment.runs
    left = [
        done.path / "checkpoints" / f".{second.id}.npz.0a1b2c3d.17.0123abcd.tmp",
        done.path / "checkpoints" / f"{first.id}.npz",
        done.path / "checkpoints" / f"{first.id}.npz.previous",
        done.path / "checkpoints" / f"{first.id}.npz.previous.tmp",
        done.path / ".summary.json.0a1b2c3d.17.0123abcd.tmp",
    ]
    kept = [
        done.path / "checkpoints" / f"{second.id}.npz",
        done.path / "checkpoints" / f"{second.id}.npz.previous",
        done.path / "checkpoints" / "thesis.npz",
        done.path / "checkpoints" / ".thesis.npz.0a1b2c3d.17.0123abcd.tmp",
        done.path / "checkpoints" / "notes.tmp",
        done.path / ".mine.0a1b2c3d.17.0123abcd.tmp",
    ]
    for file in left + kept:
        file.touch()
    done.delete_stale_files([second])
    assert [file for file in left if file.exists()] == []
    assert [file for file in kept if not file.exists()] == []


def test_nothing_is_written_or_deleted_behind_a_symbolic_link(done, tmp_path):
    outside = tmp_path / "outside"
    (done.path / "checkpoints").rename(outside)
    (done.path / "checkpoints").symlink_to(outside)
    (outside / f"{done.experiment.runs[0].id}.npz").write_bytes(b"precious")
    before = contents(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        run_experiment(done)
    assert contents(outside) == before


def test_a_store_that_is_a_symbolic_link_is_refused(done, tmp_path):
    (done.path / "runs.sqlite").rename(tmp_path / "elsewhere")
    (done.path / "runs.sqlite").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="symbolic link"):
        RunDirectory.open(done.path)


def test_no_two_work_in_one_directory(done):
    with done.lock(), pytest.raises(MisuseError, match="another romdp is at work"):
        run_experiment(done)
    assert run_experiment(done) == []


def test_whoever_reads_does_not_stop_the_one_who_writes(done):
    """A reader in the middle of its work sees one moment; the writer goes on."""
    first = done.experiment.runs[0]
    with done.store(writing=True) as writing, done.store() as reading:
        query = "SELECT number, seal FROM runs"
        before = reading._connection.execute(query).fetchall()
        rows = reading._connection.execute(query)
        found = [rows.fetchone()]
        writing.put(first, {"error": "while somebody reads"}, {})
        assert [*found, *rows] == before
        assert reading.read().failed == {first: "while somebody reads"}
    assert list(done.contents().failed) == [first]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content | {"steps": 100},
        lambda content: content | {"seeds": 2},
        lambda content: content | {"agent_settings": content["agent_settings"] | {"scale": 1.0}},
        lambda content: content | {"romdp": "0.0.1"},
    ],
)
def test_an_edited_experiment_is_refused(done, change):
    path = done.path / "experiment.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content)))
    with pytest.raises(StorageError, match="was edited"):
        RunDirectory.open(done.path)
    path.write_text(json.dumps(content))  # laid out differently, the same otherwise
    assert RunDirectory.open(done.path) == done


def test_a_lost_store_is_begun_anew(done):
    (done.path / "runs.sqlite").unlink()
    assert done.missing == list(done.experiment.runs)
    assert run_experiment(done) == []
    assert done.missing == []


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\0", b"x" * 5000], ids=["empty", "head", "noise"]
)
def test_a_store_that_is_none(done, content):
    (done.path / "runs.sqlite").write_bytes(content)
    with pytest.raises(ROMDPError, match=r"runs\.sqlite"):
        RunDirectory.open(done.path)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE runs",
        "DROP TABLE about",
        "ALTER TABLE runs DROP COLUMN epochs",
        "DELETE FROM about",
        "UPDATE about SET format = 'romdp runs 2'",
        "UPDATE about SET experiment = NULL",
    ],
)
def test_a_store_of_another_shape_is_refused(done, statement):
    execute(done.path, statement)
    with pytest.raises(StorageError):
        run_experiment(RunDirectory.open(done.path))

"""Run directories as arrays; damaged ones are refused in one clear line."""

import json
import shutil

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from run_directories import make_run_directory

from romdp.core.errors import ROMDPError, StorageError
from romdp.data.partition import Partition
from romdp.reports import write_report
from romdp.reports.reading import read_results

FIRST = "ucrl2-random-romdp-Y6-s0"


@pytest.fixture
def copy(run_directory, tmp_path):
    return shutil.copytree(run_directory, tmp_path / "copy")


def refused(directory):
    """Return the message; reading and reporting must refuse alike, and nothing is written."""
    with pytest.raises(ROMDPError) as reading:
        read_results(directory)
    with pytest.raises(ROMDPError) as reporting:
        write_report(directory)
    message = str(reading.value)
    assert str(reporting.value) == message
    assert "\n" not in message
    assert not directory.is_dir() or not (directory / "report.html").exists()
    return message


def test_everything_is_there(results, run_directory):
    assert results.agents == ("ucrl2", "lc-psrl", "oracle")
    assert results.panels == (("random-romdp", 6), ("random-romdp", 9))
    assert (results.missing, results.failures) == ((), ())
    assert len(results.records) == 12
    for panel in results.panels:
        for agent in results.agents:
            assert [record.seed for record in results.of(agent, panel)] == [0, 1]
    record = results.of("lc-psrl", ("random-romdp", 9))[1]
    stored = pyarrow.parquet.read_table(
        run_directory / "runs" / "lc-psrl-random-romdp-Y9-s1.parquet"
    )
    for name, column in record.curves.items():
        np.testing.assert_array_equal(column, stored[name].to_numpy())
    assert record.curves["step"][-1] == 1500
    world = results.experiment.world("random-romdp").make(9, 1)
    np.testing.assert_array_equal(record.hidden_state, world.labels)
    assert record.groupings[0].epoch == 1
    assert record.groupings[-1].labels.shape == (9,)
    exact = Partition(record.groupings[-1].labels) == Partition(world.labels)
    assert record.facts["exact"] == exact
    assert record.epochs["length"].sum() == 1500


def test_a_world_where_every_observation_is_a_state_has_nothing_to_find(tmp_path):
    small = {"worlds": ("random-mdp",), "agents": ("ucrl2",), "seeds": 1, "steps": 50}
    results = read_results(make_run_directory(tmp_path / "runs", **small))
    assert results.records[0].hidden_state is None


def test_missing_and_failed_runs_are_named(copy):
    for file in copy.glob("runs/oracle-random-romdp-Y9-s1.*"):
        file.unlink()
    (copy / "runs" / f"{FIRST}.parquet").unlink()
    (copy / "runs" / f"{FIRST}.error.txt").write_text("Traceback\nValueError: too bad\n\n")
    results = read_results(copy)
    assert results.missing == ("oracle-random-romdp-Y9-s1",)
    assert results.failures == ((FIRST, "ValueError: too bad"),)
    assert len(results.records) == 10


def test_the_error_of_a_run_that_was_finished_later_does_not_count(copy):
    (copy / "runs" / f"{FIRST}.error.txt").write_text("ValueError: too bad")
    assert read_results(copy).failures == ()


def test_a_table_cut_short_counts_as_missing(copy):
    path = copy / "runs" / f"{FIRST}.groups.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert read_results(copy).missing == (FIRST,)


def test_no_directory(tmp_path):
    assert "does not exist" in refused(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(tmp_path / "file")


def test_a_foreign_directory(tmp_path):
    assert "no experiment.json" in refused(tmp_path)
    for content in ("[]", '{"kind": "recipe"}', "{", '{"kind": "romdp experiment", "version": 7}'):
        (tmp_path / "experiment.json").write_text(content)
        assert "experiment.json" in refused(tmp_path)


def test_no_finished_run(copy):
    shutil.rmtree(copy / "runs")
    message = refused(copy)
    assert "no finished run" in message
    assert "romdp resume" in message
    (copy / "runs").mkdir()
    (copy / "runs" / f"{FIRST}.error.txt").write_text("ValueError: too bad")
    assert "1 failed: ValueError: too bad" in refused(copy)


def rewrite(path, change):
    table = pyarrow.parquet.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    pyarrow.parquet.write_table(pyarrow.table(change(columns)), path)


@pytest.mark.parametrize(
    ("ending", "change", "words"),
    [
        (".parquet", lambda c: {n: v for n, v in c.items() if n != "regret"}, "'regret'"),
        (".parquet", lambda c: {n: v[:0] for n, v in c.items()}, "no rows"),
        (".parquet", lambda c: c | {"step": c["step"].astype(str)}, "'step' does not hold numbers"),
        (".epochs.parquet", lambda c: {"epoch": c["epoch"]}, "'start' is missing"),
        (".groups.parquet", lambda c: {n: v[1:] for n, v in c.items()}, "blocks of 6 rows"),
        (".groups.parquet", lambda c: c | {"observation": c["observation"][::-1]}, "in order"),
    ],
)
def test_damaged_tables(copy, ending, change, words):
    path = copy / "runs" / f"{FIRST}{ending}"
    rewrite(path, change)
    message = refused(copy)
    assert f"{path} is damaged" in message
    assert words in message


def test_garbage_inside_a_table(copy):
    path = copy / "runs" / f"{FIRST}.parquet"
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = b"x" * (len(content) - footer - 4)
    path.write_bytes(bytes(content))
    with pytest.raises(StorageError, match="damaged"):
        read_results(copy)


def test_damaged_facts(copy):
    path = copy / "runs" / f"{FIRST}.json"
    path.write_text(json.dumps({"seconds": 1}))
    assert f"{path} is damaged" in refused(copy)

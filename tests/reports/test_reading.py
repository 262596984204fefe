"""Run directories as arrays; damaged ones are refused in one clear line."""

import shutil

import numpy as np
import pytest
from cases import execute
from report_cases import change_runs, make_run_directory

from romdp.core.errors import ROMDPError
from romdp.data.partition import Partition
from romdp.experiments.directory import RunDirectory, load_runs
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
    frame = load_runs(run_directory).to_pandas()
    stored = frame[(frame.agent == "lc-psrl") & (frame.n_observations == 9) & (frame.seed == 1)]
    for name in ("step", "regret", "pseudo_regret", "n_clusters"):
        np.testing.assert_array_equal(record.curves[name], stored[name])
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
    change_runs(copy, lost=["oracle-random-romdp-Y9-s1"], failed={FIRST: "Tr\nValueError: bad\n\n"})
    results = read_results(copy)
    assert results.missing == ("oracle-random-romdp-Y9-s1",)
    assert results.failures == ((FIRST, "ValueError: bad"),)
    assert len(results.records) == 10


def test_groupings_are_a_sequence(results):
    groupings = results.of("lc-psrl", ("random-romdp", 9))[1].groupings
    assert [g.epoch for g in groupings[1:]] == [g.epoch for g in groupings][1:]
    assert groupings[-1].labels.dtype == np.int64
    with pytest.raises(IndexError):
        groupings[len(groupings)]


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
    names = [run.id for run in RunDirectory.open(copy).experiment.runs]
    change_runs(copy, lost=names)
    message = refused(copy)
    assert "no finished run" in message
    assert "romdp resume" in message
    change_runs(copy, failed={FIRST: "ValueError: too bad"})
    assert "1 failed: ValueError: too bad" in refused(copy)


def test_damaged_runs_are_left_out_and_named(copy):
    execute(copy, "UPDATE runs SET groups = X'00' WHERE number = 0")
    results = read_results(copy)
    assert results.damaged == ((FIRST, "its row does not fit its checksum"),)
    assert len(results.records) == 11
    execute(copy, "UPDATE runs SET groups = X'00'")
    assert f"12 damaged: {FIRST}: its row" in refused(copy)

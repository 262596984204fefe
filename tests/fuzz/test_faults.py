"""A write that fails or is cut leaves the old state or the new one, never none."""

import builtins
import contextlib
import json
import os

import numpy as np
import pytest
from cases import FaultError, Kill, interrupted, tables

import romdp
from romdp.core.errors import ROMDPError, WriteError
from romdp.core.storage import write_json
from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.watching import Watcher
from romdp.reports import write_model_page

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=8, seed=1)


def every_moment(most=200):
    """Yield the moments to fail at, until one lies behind the last write."""
    for at in range(1, most):
        moment = {"at": at, "over": False}
        yield moment
        if moment["over"]:
            return
    raise AssertionError("there is no end of writes")


@pytest.mark.parametrize("error", [FaultError, Kill])
def test_play_goes_on_from_the_old_checkpoint_or_the_new(tmp_path, error):
    """Interrupted at any write of its checkpoint, a run ends as if nothing had happened."""
    agent = romdp.UCRL2()
    whole = romdp.play(agent, WORLD, steps=600, seed=0)
    for moment in every_moment():
        path = tmp_path / f"{moment['at']}.npz"
        romdp.play(agent, WORLD, steps=300, seed=0, checkpoint=path)
        with interrupted(moment["at"], error) as calls, contextlib.suppress(WriteError, Kill):
            romdp.play(agent, WORLD, steps=600, seed=0, checkpoint=path)
        moment["over"] = calls["n"] < moment["at"]
        again = romdp.play(agent, WORLD, steps=600, seed=0, checkpoint=path)
        np.testing.assert_array_equal(again.regret, whole.regret)


EXPERIMENT = Experiment(
    worlds=({"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}},),
    agents=("ucrl2", "oracle"),
    observations=(6,),
    steps=2,
    seeds=1,
)


class Finished(Watcher):
    def __init__(self):
        self.runs = set()

    def finished(self, run, facts):
        self.runs.add(run)


def compare(folder, watcher=None):
    """Begin an experiment, or go on with it, as ``romdp compare`` and ``romdp resume`` do."""
    if (folder / "experiment.json").exists():
        directory = RunDirectory.open(folder)
    else:
        directory = RunDirectory.create(folder, EXPERIMENT)
    return run_experiment(directory, watcher=watcher, checkpoint_seconds=0.0)


def contents(folder):
    """Return how many runs are finished, and the bytes of their tables."""
    summary = json.loads((folder / "summary.json").read_text())
    return summary["runs"]["finished"], tables(folder)


@pytest.mark.parametrize("error", [FaultError, Kill])
def test_compare_is_completed_by_resume_after_a_fault_at_any_write(tmp_path, monkeypatch, error):
    """Files, checkpoints and the index; what was finished before the fault stays finished."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    assert compare(tmp_path / "whole") == []
    whole = contents(tmp_path / "whole")
    for moment in every_moment(1000):
        folder = tmp_path / str(moment["at"])
        with (
            interrupted(moment["at"], error) as calls,
            contextlib.suppress(WriteError, Kill),
        ):
            compare(folder)
        moment["over"] = calls["n"] < moment["at"]
        done = set()
        if (folder / "runs.sqlite").exists():
            done = set(RunDirectory.open(folder).contents().finished)
        watcher = Finished()
        assert compare(folder, watcher) == []
        assert not done & watcher.runs
        assert contents(folder) == whole


@pytest.mark.parametrize("error", [FaultError, Kill])
def test_fit_with_its_page_leaves_the_old_model_or_the_new(tmp_path, error):
    """The three things that ``romdp fit --out`` writes: model, page, and what it replaces."""
    seen = romdp.simulate(WORLD, "uniform", 1500, seed=0)
    old, new = romdp.fit(seen, n_states=2), romdp.fit(seen, n_states=3)
    found = set()
    for moment in every_moment():
        folder = tmp_path / str(moment["at"])
        old.save(folder)
        with interrupted(moment["at"], error) as calls, contextlib.suppress(WriteError, Kill):
            new.save(folder)
            write_model_page(new, folder / "report.html")
        moment["over"] = calls["n"] < moment["at"]
        found.add(romdp.load_model(folder).n_states)
    assert found == {2, 3}


def test_a_file_cut_in_the_middle_of_a_write_is_never_seen(tmp_path):
    """Half of the bytes reach the disk, under whatever name: the old content stays."""
    write_json(tmp_path / "f.json", {"old": 1})

    class HalfFile:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, content):
            self.file.write(content[: len(content) // 2])
            raise OSError(5, "Input/output error")

    original = builtins.open

    def opened(path, mode="r", *arguments, **options):
        file = original(path, mode, *arguments, **options)
        return HalfFile(file) if "x" in mode else file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "open", opened)
        with pytest.raises(ROMDPError, match="Input/output error"):
            write_json(tmp_path / "f.json", {"new": 2})
    assert (tmp_path / "f.json").read_text() == '{\n  "old": 1\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"]

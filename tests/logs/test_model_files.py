"""What `LatentModel.save` may touch, and that it leaves the old model or the new one."""

import json
import os
import shutil
import tempfile
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from faults import FaultError, Kill, interrupted

import romdp
from romdp.core.errors import InvalidInputError, ROMDPError, StorageError, WriteError
from romdp.logs import fit
from romdp.logs.model import files, load_model

OURS = ["actions.parquet", "counts.npz", "model.json", "observations.parquet"]


def fitted(n_states, names=None):
    world = romdp.worlds.random_romdp(n_states, 2, 8, seed=1)
    seen = romdp.simulate(world, "uniform", 3000, seed=0)
    pages = seen.observations if names is None else np.array(names)[seen.observations]
    return fit(pa.table({"page": pages, "offer": seen.actions, "paid": seen.rewards}), *COLUMNS)


COLUMNS = ("page", "offer", "paid")


@cache
def old():
    return fitted(2)


@cache
def new():
    return fitted(3, list("abcdefgh"))


def names(folder):
    return sorted(os.listdir(folder))


def text(folder):
    return str(load_model(folder))


def edit(folder, **changes):
    """Write ``model.json`` anew as version 0.1 did, without checksums."""
    facts = json.loads((folder / "model.json").read_text())
    for name in ("sha256", "files"):
        facts.pop(name, None)
    facts = {**facts, "version": 1, **changes}
    (folder / "model.json").write_text(
        json.dumps({name: value for name, value in facts.items() if value != "left out"})
    )


# What may be written over


@pytest.mark.parametrize(
    "content", ['{"layers": 3}', "not JSON", '{"kind": "latent model", "version": 99}', "[" * 10**5]
)
def test_a_model_of_somebody_else_is_left_alone(tmp_path, content):
    """Version 0.1 deleted the whole directory if any ``model.json`` lay in it."""
    (tmp_path / "model.json").write_text(content)
    (tmp_path / "weights.bin").write_bytes(b"years of training")
    with pytest.raises(InvalidInputError, match=r"cannot write .*name a new directory"):
        new().save(tmp_path)
    assert names(tmp_path) == ["model.json", "weights.bin"]
    assert (tmp_path / "model.json").read_text() == content


def test_files_that_a_user_added_are_kept(tmp_path):
    old().save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "figures").mkdir()
    new().save(tmp_path)
    assert text(tmp_path) == str(new())
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert names(tmp_path) == sorted([*OURS, "figures", "notes.txt"])


def test_places_that_cannot_be_a_model_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    for place in (".", "", "/", "fifo", "/dev/null"):
        with pytest.raises(InvalidInputError, match="cannot write"):
            new().save(place)
    assert names(tmp_path) == ["fifo"]


def test_a_link_to_a_model_is_written_through(tmp_path):
    old().save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    new().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert text(tmp_path / "real") == str(new())


def test_whole_numbers_above_2_to_the_63_are_stored(tmp_path):
    """Version 0.1 raised OverflowError after all the work, when it saved."""
    model = fitted(2, np.arange(8, dtype=np.uint64) + np.uint64(2**64 - 8))
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").observation_names == model.observation_names


# A write that fails, or a process that is killed, at any moment


@pytest.mark.parametrize("error", [FaultError, Kill])
@pytest.mark.parametrize("before", ["nothing", "a model", "a model of 0.1"])
def test_every_interrupted_save_leaves_the_old_model_or_the_new(tmp_path, error, before):
    """In version 0.1 there was a moment between two renames with no model at all."""
    seen = set()
    for at in range(1, 60):
        folder = tmp_path / str(at)
        if before != "nothing":
            old().save(folder)
            if before == "a model of 0.1":
                edit(folder)
        with interrupted(at, error) as calls:
            try:
                new().save(folder)
            except (WriteError, Kill):
                failed = True
            else:
                failed = False
        try:
            found = load_model(folder).n_states
        except StorageError:
            found = 0
        assert found in ((0, 3) if before == "nothing" else (2, 3))
        if not failed and error is FaultError:
            assert found == 3
        seen.add(found)
        new().save(folder)  # goes on from whatever was left
        assert text(folder) == str(new())
        assert names(folder) == OURS
        if calls["n"] < at:
            break
    assert calls["n"] < at, "the loop must reach a save without a fault"
    assert seen == ({0, 3} if before == "nothing" else {2, 3})


def test_a_failed_first_save_leaves_nothing(tmp_path):
    with interrupted(3, FaultError), pytest.raises(WriteError, match="No space left on device"):
        new().save(tmp_path / "m")
    assert names(tmp_path) == []


def test_what_cannot_be_saved_is_kept_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    (tmp_path / "m").write_text("a file appeared while the model was fitted")
    with pytest.raises(WriteError, match=r"it is a file.* The model was kept in (.*)") as caught:
        files.save_or_keep(new(), tmp_path / "m")
    assert text(str(caught.value).rpartition(" ")[2]) == str(new())


# What is read


def test_every_flipped_bit_is_noticed(tmp_path):
    """Version 0.1 did not notice 28% of flipped bits in its Parquet tables."""
    new().save(tmp_path / "m")
    rng = np.random.default_rng(0)
    for name in OURS:
        path = tmp_path / "m" / name
        content = path.read_bytes()
        for bit in rng.integers(0, 8 * len(content), 60):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            with pytest.raises(StorageError):
                load_model(tmp_path / "m")
        path.write_bytes(content)
    assert text(tmp_path / "m") == str(new())


def test_a_model_of_version_0_1_is_read_and_called_unverified(tmp_path):
    new().save(tmp_path / "m")
    assert load_model(tmp_path / "m").verified
    edit(tmp_path / "m")
    read = load_model(tmp_path / "m")
    assert not read.verified
    assert "not verified" in str(read)
    assert read.counts == new().counts
    read.save(tmp_path / "m")
    assert load_model(tmp_path / "m").verified


@pytest.mark.parametrize(
    "changes",
    [
        *({name: "left out"} for name in ("reward_range", "confidence", "columns", "held_out")),
        {"reward_range": [0]},
        {"reward_range": [1, 0]},
        {"reward_range": [0, 1e309]},
        {"reward_range": "ab"},
        {"delta": "0.05"},
        {"delta": 0},
        {"rare": -1},
        {"n_rows": 10**30},
        {"n_episodes": None},
        {"confidence": {"scale": 1.0, "constants": "mine", "reward_states": "groups"}},
        {"confidence": {"scale": -1, "constants": "paper", "reward_states": "groups"}},
        {"columns": ["page"]},
        {"columns": {"observation": 3}},
        {"held_out": {"n_episodes": 3}},
        {"held_out": []},
        {"settings": 1},
    ],
    ids=str,
)
def test_damaged_facts_are_named(tmp_path, changes):
    """Version 0.1 ended in tracebacks, here or later, or used what it had read."""
    new().save(tmp_path / "m")
    edit(tmp_path / "m", **changes)
    with pytest.raises(StorageError, match="damaged"):
        load_model(tmp_path / "m")


def change_observations(folder, change):
    path = folder / "observations.parquet"
    columns = pa.parquet.read_table(path).to_pydict()
    pa.parquet.write_table(pa.table(change(columns)), path)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: {name: values for name, values in c.items() if name != "state"},
        lambda c: {name: values[:0] for name, values in c.items()},
        lambda c: {name: values[:-1] for name, values in c.items()},
        lambda c: {**c, "state": [x + 1 for x in c["state"]]},
        lambda c: {**c, "state": [-2] * 8},
        lambda c: {**c, "state": [float(x) for x in c["state"]]},
        lambda c: {**c, "visits": [-1] * 8},
        lambda c: {**c, "visits": [None, *c["visits"][1:]]},
        lambda c: {**c, "certainty": [1.5] * 8},
        lambda c: {**c, "log_odds": ["x"] * 8},
        lambda c: {**c, "observation": ["a"] * 8},
        lambda c: {**c, "observation": [None, *c["observation"][1:]]},
    ],
)
def test_damaged_tables_are_named(tmp_path, change):
    new().save(tmp_path / "m")
    edit(tmp_path / "m")
    change_observations(tmp_path / "m", change)
    with pytest.raises(StorageError, match="damaged"):
        load_model(tmp_path / "m")


def test_a_fifo_in_the_place_of_a_table_does_not_block(tmp_path):
    new().save(tmp_path / "m")
    edit(tmp_path / "m")
    for name in ("counts.npz", "actions.parquet"):
        shutil.copy(tmp_path / "m" / name, tmp_path / "kept")
        (tmp_path / "m" / name).unlink()
        os.mkfifo(tmp_path / "m" / name)
        with pytest.raises(StorageError, match="it is a FIFO"):
            load_model(tmp_path / "m")
        (tmp_path / "m" / name).unlink()
        shutil.move(tmp_path / "kept", tmp_path / "m" / name)
    assert issubclass(StorageError, ROMDPError)
    assert files.is_model(tmp_path / "m")

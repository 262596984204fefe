"""What `LatentModel.save` may touch, and that it leaves the old model or the new one."""

import datetime
import os
import tempfile
from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from cases import FaultError, Kill, interrupted

import romdp
from romdp.core.errors import InvalidInputError, MisuseError, StorageError, WriteError
from romdp.core.storage import locked, read_arrays, write_arrays
from romdp.logs import fit
from romdp.logs.model import files, load_model

OURS = ["model.npz"]


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
    """Write the file anew with other arrays or facts, None for those left out; the seal fits."""
    arrays, facts = read_arrays(folder / "model.npz", "latent model", 3)
    for name, value in changes.items():
        content = arrays if name in arrays else facts
        del content[name]
        if value is not None:
            content[name] = value
    write_arrays(folder / "model.npz", "latent model", 3, arrays, facts)


# What may be written over


@pytest.mark.parametrize("name", ["model.json", "model.npz"])
@pytest.mark.parametrize("content", [b"not ours", b"", b"PK"])
def test_a_model_of_somebody_else_is_left_alone(tmp_path, name, content):
    """Also one of romdp 0.2, which kept its facts in ``model.json``."""
    (tmp_path / name).write_bytes(content)
    (tmp_path / "weights.bin").write_bytes(b"years of training")
    with pytest.raises(InvalidInputError, match=r"cannot write .*name a new "):
        new().save(tmp_path)
    assert names(tmp_path) == [name, "weights.bin"]
    assert (tmp_path / name).read_bytes() == content


def test_another_thing_of_ours_is_left_alone(tmp_path):
    romdp.worlds.river_swim(3, 6).save(tmp_path / "model.npz")
    with pytest.raises(InvalidInputError, match=r"romdp world\); name a new directory"):
        new().save(tmp_path)
    assert romdp.ROMDP.load(tmp_path / "model.npz").n_states == 3


def test_two_do_not_write_one_model_at_once(tmp_path):
    old().save(tmp_path)
    with (
        locked(tmp_path / ".lock", "busy"),
        pytest.raises(MisuseError, match="another romdp is writing"),
    ):
        new().save(tmp_path)
    assert text(tmp_path) == str(old())


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
    for place in (".", "/", "fifo", "/dev/null"):
        with pytest.raises(InvalidInputError, match="cannot write"):
            new().save(place)
    with pytest.raises(InvalidInputError, match="path is ''"):
        new().save("")
    assert names(tmp_path) == ["fifo"]


def test_a_link_to_a_model_is_written_through(tmp_path):
    old().save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    new().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert text(tmp_path / "real") == str(new())


def test_whole_numbers_above_2_to_the_63_are_stored(tmp_path):
    model = fitted(2, np.arange(8, dtype=np.uint64) + np.uint64(2**64 - 8))
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").observation_names == model.observation_names


# A write that fails, or a process that is killed, at any moment


@pytest.mark.parametrize("error", [FaultError, Kill])
@pytest.mark.parametrize("before", ["nothing", "a model"])
def test_every_interrupted_save_leaves_the_old_model_or_the_new(tmp_path, error, before):
    seen = set()
    for at in range(1, 60):
        folder = tmp_path / str(at)
        if before != "nothing":
            old().save(folder)
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
    new().save(tmp_path / "m")
    rng = np.random.default_rng(0)
    path = tmp_path / "m" / "model.npz"
    content = path.read_bytes()
    for bit in rng.integers(0, 8 * len(content), 240):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(StorageError):
            load_model(tmp_path / "m")
    path.write_bytes(content)
    assert text(tmp_path / "m") == str(new())


def test_a_model_of_version_0_2_is_refused_with_one_line(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(StorageError, match=r"made by romdp 0\.2 or before; run it again"):
        load_model(tmp_path)
    assert files.is_model(tmp_path)


@pytest.mark.parametrize(
    "kind",
    [
        lambda i: f"page {i}",
        lambda i: i / 7,
        lambda i: f"page {i}".encode(),
        lambda i: datetime.date(2020, 1, 1 + i),
        lambda i: datetime.datetime(2020, 1, 1 + i, tzinfo=datetime.UTC),
        lambda i: datetime.timedelta(hours=i),
        lambda i: Decimal(i) / 4,
    ],
)
def test_names_of_any_type_come_back(tmp_path, kind):
    names = tuple(kind(i) for i in range(8))
    replace(old(), observation_names=names).save(tmp_path / "m")
    assert load_model(tmp_path / "m").observation_names == names


@pytest.mark.parametrize(
    "changes",
    [
        *({name: None} for name in ("reward_range", "confidence", "columns", "held_out", "visits")),
        {"reward_range": [0]},
        {"reward_range": "ab"},
        {"delta": "0.05"},
        {"rare": 1.5},
        {"n_rows": True},
        {"n_episodes": "3"},
        {"confidence": {"scale": 1.0, "constants": "mine", "reward_states": "groups"}},
        {"confidence": {"scale": -1, "constants": "paper", "reward_states": "groups"}},
        {"columns": ["page"]},
        {"columns": {"observation": 3}},
        {"held_out": {"n_episodes": 3}},
        {"held_out": []},
        {"settings": 1},
        {"safety": {"harm": "small"}},
        {"labels": np.zeros(7, np.int64)},
        {"labels": np.full(8, -2)},
        {"labels": np.arange(8)},
        {"labels": np.zeros(8)},
        {"visits": np.full(8, -1)},
        {"visits": np.zeros((8, 1), np.int64)},
        {"certainty": np.full(8, 1.5)},
        {"counts_starts": np.zeros(4, np.int64)},
        {"safety_policy": np.full((3, 2), 2.0)},
        {"safety_policy": np.full((3, 3), 0.5)},
        {"counts_visits": np.zeros((4, 2), np.int64)},
        {"counts_transitions": np.zeros((3, 2, 4), np.int64)},
        {"observation_names": np.zeros(9, np.uint8)},
        {"action_names": files._pack_names(("go", "go"))},
        {"action_names": files._pack_names((None, None))},
        {"action_names": files._pack_names(("go",))},
    ],
    ids=lambda changes: f"{next(iter(changes))}",
)
def test_damaged_content_is_named_although_its_checksum_fits(tmp_path, changes):
    new().save(tmp_path / "m")
    edit(tmp_path / "m", **changes)
    with pytest.raises(StorageError, match="damaged"):
        load_model(tmp_path / "m")


def test_a_fifo_in_the_place_of_the_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "model.npz")
    with pytest.raises(StorageError, match="it is a FIFO"):
        load_model(tmp_path)

import json
import os
import stat
import zipfile

import numpy as np
import pytest

from romdp.core.errors import InvalidInputError, StorageError, WriteError
from romdp.core.storage import (
    read_arrays,
    read_json,
    read_kind,
    read_model,
    write_arrays,
    write_atomic,
    write_json,
)

ARRAYS = {"numbers": np.arange(6).reshape(2, 3), "empty": np.empty((0, 4))}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "thing.npz"
    write_arrays(path, "thing", 3, ARRAYS, {"name": "Ä", "size": 2})
    return path


def names(directory):
    return sorted(os.listdir(directory))


def test_arrays_come_back(file):
    arrays, facts = read_arrays(file, "thing", 3)
    assert facts == {"name": "Ä", "size": 2}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(arrays[name], array)
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
    assert read_kind(file) == "thing"
    assert names(file.parent) == ["thing.npz"]  # no temporary file is left


def test_the_name_is_taken_as_it_is(tmp_path):
    write_arrays(tmp_path / "world", "thing", 1, ARRAYS)
    assert names(tmp_path) == ["world"]  # no suffix of numpy's


def test_writing_again_replaces_the_file(file):
    write_arrays(file, "other", 1, {})
    assert read_arrays(file, "other", 1) == ({}, {})


def test_other_kinds_and_versions_are_refused(file):
    with pytest.raises(StorageError, match=r"thing.npz holds a thing, not a world"):
        read_arrays(file, "world", 3)
    for version in (2, 4):
        message = f"has format version 3; this romdp reads version {version}"
        with pytest.raises(StorageError, match=message):
            read_arrays(file, "thing", version)


def test_missing_files_and_directories(tmp_path):
    for path in (tmp_path / "none.npz", tmp_path):
        for read in (read_kind, read_json, lambda path: read_arrays(path, "thing", 3)):
            with pytest.raises(StorageError, match="cannot read"):
                read(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"PK\x03\x04", b"hello world", b"\x80\x04\x95", b"\x93NUMPY", bytes(1000)],
    ids=repr,
)
def test_foreign_bytes(tmp_path, content):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"foreign.npz is (damaged or )?not a file of romdp"):
        read_arrays(path, "thing", 3)


def foreign_npy(path):
    np.save(path, np.arange(3))


def foreign_npz(path):
    np.savez(path, a=np.arange(3))


def foreign_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("romdp.npy", "no array")


def foreign_header(path):
    np.savez(path, romdp=np.frombuffer(b"[1, 2]", np.uint8))


def header_without_kind(path):
    np.savez(path, romdp=np.frombuffer(b'{"version": 3}', np.uint8))


def header_of_numbers(path):
    np.savez(path, romdp=np.arange(7.0))


def pickled(path):
    header = json.dumps({"kind": "thing", "version": 3, "facts": {}})
    objects = np.array([{"a": 1}], object)
    np.savez(path, romdp=np.frombuffer(header.encode(), np.uint8), objects=objects)


@pytest.mark.parametrize(
    "write",
    [
        foreign_npy,
        foreign_npz,
        foreign_zip,
        foreign_header,
        header_without_kind,
        header_of_numbers,
        pickled,
    ],
)
def test_files_of_others(tmp_path, write):
    with open(path := tmp_path / "foreign", "wb") as file:
        write(file)
    with pytest.raises(StorageError, match=r"foreign is (damaged or )?not a file of romdp"):
        read_arrays(path, "thing", 3)


def test_every_truncation_is_noticed(file):
    content = file.read_bytes()
    for length in range(0, len(content), 7):
        file.write_bytes(content[:length])
        with pytest.raises(StorageError):
            read_arrays(file, "thing", 3)


def test_damage_is_noticed_or_harmless(file):
    """A flipped bit is an error of ours, or lies where it changes nothing (unused zip fields)."""
    content = file.read_bytes()
    noticed = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            arrays, facts = read_arrays(file, "thing", 3)
        except StorageError:
            noticed += 1
        else:
            assert facts == {"name": "Ä", "size": 2}
            for name in arrays.keys() & ARRAYS.keys():
                assert np.array_equal(arrays[name], ARRAYS[name])
    assert noticed > len(content) / 3 / 2


def build(numbers, empty, name, size):
    if size != 2:
        raise InvalidInputError("size is not 2")
    return numbers.sum(), empty.shape, name


def test_read_model_builds(file):
    assert read_model(file, "thing", 3, build) == (15, (0, 4), "Ä")


@pytest.mark.parametrize(
    ("arrays", "facts", "message"),
    [
        (ARRAYS, {"name": "", "size": 3}, "is damaged: size is not 2"),
        (ARRAYS, {"name": ""}, "is damaged: .*missing.*size"),
        (ARRAYS, {"name": "", "size": 2, "more": 1}, "is damaged: .*more"),
        ({"numbers": np.ones(1)}, {"name": "", "size": 2}, "is damaged: .*empty"),
        (ARRAYS, {"name": "", "size": 2, "empty": 1}, "is damaged: .*empty"),
    ],
)
def test_what_cannot_be_built_is_damaged(tmp_path, arrays, facts, message):
    write_arrays(tmp_path / "f", "thing", 3, arrays, facts)
    with pytest.raises(StorageError, match=message):
        read_model(tmp_path / "f", "thing", 3, build)


def test_json_comes_back(tmp_path):
    content = {"a": [1, 2.5, None], "b": {"c": "Ä"}}
    write_json(tmp_path / "f.json", content)
    assert read_json(tmp_path / "f.json") == content
    assert (tmp_path / "f.json").read_text(encoding="utf-8").endswith("}\n")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b'{"a": }'], ids=repr)
def test_damaged_json(tmp_path, content):
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(StorageError, match=r"f.json is damaged: it is not JSON"):
        read_json(tmp_path / "f.json")


@pytest.mark.parametrize("content", [float("nan"), float("inf"), {"a": object()}])
def test_what_is_not_json_leaves_the_file_alone(tmp_path, content):
    write_json(tmp_path / "f.json", 1)
    with pytest.raises((ValueError, TypeError)):
        write_json(tmp_path / "f.json", content)
    assert read_json(tmp_path / "f.json") == 1
    assert names(tmp_path) == ["f.json"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_a_failure_while_writing_leaves_the_old_file(tmp_path, failure):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def write(file):
        file.write(b"half of the ne")
        raise failure

    with pytest.raises(failure):
        write_atomic(path, write)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


def test_a_full_disk_is_a_write_error(tmp_path):
    def write(file):
        file.write(b"half of the ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match=r"cannot write .*f: No space left on device"):
        write_atomic(tmp_path / "f", write)
    assert names(tmp_path) == []


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for path in ("none/f", "directory", "file/f", "x" * 300):
        with pytest.raises(WriteError, match="cannot write"):
            write_json(tmp_path / path, 1)
    assert names(tmp_path) == ["directory", "file"]


def test_others_may_read_what_the_umask_allows(tmp_path):
    write_json(tmp_path / "f.json", 1)
    (tmp_path / "plain").write_text("1", encoding="utf-8")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("f.json", "plain")]
    assert modes[0] == modes[1]

"""Files that are written completely or not at all, sealed and read again; locks."""

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from romdp.core import storage
from romdp.core.errors import InvalidInputError, MisuseError, StorageError, WriteError
from romdp.core.storage import (
    check_output,
    delete_leftovers,
    locked,
    read_arrays,
    read_json,
    read_kind,
    reading,
    write_arrays,
    write_atomic,
    write_bytes,
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


@pytest.mark.parametrize("write", [foreign_npy, foreign_npz])
def test_files_of_others(tmp_path, write):
    with open(path := tmp_path / "foreign", "wb") as file:
        write(file)
    with pytest.raises(StorageError, match=r"foreign is damaged or not a file of romdp"):
        read_arrays(path, "thing", 3)


def reseal(path):
    """Make an archive a sealed one, whatever is in it."""
    content = path.read_bytes()[:-2] + (64).to_bytes(2, "little")
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


@pytest.mark.parametrize(
    "write",
    [foreign_npz, foreign_zip, foreign_header, header_without_kind, header_of_numbers, pickled],
)
def test_nonsense_that_is_sealed_is_no_traceback(tmp_path, write):
    with open(path := tmp_path / "sealed", "wb") as file:
        write(file)
    reseal(path)
    with pytest.raises(StorageError, match=r"sealed is damaged"):
        read_arrays(path, "thing", 3)


def test_a_sealed_file_is_an_archive_of_numpy(file):
    with np.load(file, allow_pickle=False) as archive:
        assert archive.files == ["romdp", "numbers", "empty"]
        assert np.array_equal(archive["numbers"], ARRAYS["numbers"])
        assert json.loads(archive["romdp"].tobytes())["kind"] == "thing"


def test_the_same_content_gives_the_same_bytes(file, tmp_path):
    write_arrays(tmp_path / "again", "thing", 3, ARRAYS, {"name": "Ä", "size": 2})
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_what_version_0_2_wrote_is_refused_in_one_line(tmp_path):
    header = json.dumps({"kind": "thing", "version": 3, "facts": {}, "sha256": "0"})
    np.savez(tmp_path / "old.npz", romdp=np.frombuffer(header.encode(), np.uint8), **ARRAYS)
    with pytest.raises(
        StorageError, match=r"old.npz was made by romdp 0\.2 or before; run it again"
    ):
        read_arrays(tmp_path / "old.npz", "thing", 3)


def test_every_truncation_is_noticed(file):
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(StorageError, match="damaged"):
            read_arrays(file, "thing", 3)


def test_every_flipped_bit_is_noticed(file):
    content = file.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(StorageError):
            read_arrays(file, "thing", 3)


def build(numbers, empty, name, size):
    if size != 2:
        raise InvalidInputError("size is not 2")
    return numbers.sum(), empty.shape, name


def built(path):
    arrays, facts = read_arrays(path, "thing", 3)
    with reading(path):
        return build(**arrays, **facts)


def test_what_is_whole_is_built(file):
    assert built(file) == (15, (0, 4), "Ä")


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
        built(tmp_path / "f")


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
    for path in ("none/f", "directory", "file/f"):
        with pytest.raises(WriteError, match="cannot write"):
            write_json(tmp_path / path, 1)
    assert names(tmp_path) == ["directory", "file"]


@pytest.mark.parametrize("length", [200, 240, 255])
def test_names_as_long_as_file_systems_allow(tmp_path, length):
    """The temporary file beside it has a shorter name, and what a kill left of it is swept."""
    path = tmp_path / ("é" * (length // 2) + "x" * (length % 2))
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    here, other = storage._MACHINE, "0a1b2c3d"  # another machine's processes cannot be asked
    left = tmp_path / f".{'é' * 100}.{here}.{dead.stdout.strip()}.0123abcd.tmp"
    alive = tmp_path / f".{'é' * 100}.{here}.{os.getpid()}.0123abcd.tmp"
    elsewhere = tmp_path / f".{'é' * 100}.{other}.{dead.stdout.strip()}.0123abcd.tmp"
    for file in (left, alive, elsewhere):
        file.touch()
    write_json(path, 1)
    assert read_json(path) == 1
    assert names(tmp_path) == sorted([path.name, alive.name, elsewhere.name])


@pytest.mark.parametrize(
    "path", [3, 0, True, 2.5, None, b"f", "", "a\0b", "x" * 256, ["f"]], ids=str
)
def test_what_is_no_path_is_refused_by_name(path):
    """A whole number would be an open file: 1 is what the program prints to."""
    for call in (write_json, write_arrays, write_bytes):
        rest = {write_json: (1,), write_bytes: (b"",)}.get(call, ("kind", 1, {}))
        with pytest.raises(InvalidInputError, match="path is"):
            call(path, *rest)
    for call in (read_json, read_kind):
        with pytest.raises(InvalidInputError, match="path is"):
            call(path)


def test_others_may_read_what_the_umask_allows(tmp_path):
    write_json(tmp_path / "f.json", 1)
    (tmp_path / "plain").write_text("1", encoding="utf-8")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("f.json", "plain")]
    assert modes[0] == modes[1]


# Where things may be written


def special_files(folder):
    """Make everything that is neither a regular file nor a directory."""
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to(folder / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket"))
    return [folder / "fifo", folder / "socket", folder / "loop", "/dev/null"]


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_places_without_a_name_are_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("", ".", "/", "..", tmp_path / "..", "a\0b"):
        with pytest.raises(InvalidInputError, match=f"name a {kind}|pass the name of a file"):
            check_output(place, kind)


def test_special_files_are_never_replaced(tmp_path):
    for place in special_files(tmp_path):
        before = os.lstat(place).st_mode
        for kind in ("file", "directory"):
            with pytest.raises(InvalidInputError, match=r"cannot write .*it is a"):
                check_output(place, kind)
        with pytest.raises(WriteError, match=r"cannot write .*it is a"):
            write_json(place, 1)
        assert os.lstat(place).st_mode == before


def test_special_files_are_never_read(tmp_path):
    for place in special_files(tmp_path):
        for read in (read_json, read_kind, lambda path: read_arrays(path, "thing", 1)):
            with pytest.raises(StorageError, match="cannot read"):
                read(place)


def test_files_and_directories_are_not_mistaken_for_each_other(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="it is a directory; name a file"):
        check_output(tmp_path, "file")
    with pytest.raises(InvalidInputError, match="it is a file; name a directory"):
        check_output(tmp_path / "f", "directory")
    assert check_output(tmp_path / "f") == tmp_path / "f"
    assert check_output(tmp_path / "a" / "b" / "c", "directory") == tmp_path / "a" / "b" / "c"
    assert names(tmp_path) == ["f"]


def test_a_place_that_cannot_be_written_is_a_write_error(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    for place, kind in (("no/f", "file"), ("f/g", "file"), ("f/g", "directory")):
        with pytest.raises(WriteError, match=f"cannot write .*{place}: "):
            check_output(tmp_path / place, kind)
    with pytest.raises(InvalidInputError, match="no name may be longer than 255 bytes"):
        check_output(tmp_path / ("x" * 300))
    with pytest.raises(WriteError, match="Permission denied"):
        check_output("/proc/self/runs", "directory")


def test_links_are_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old.json").write_text("0", encoding="utf-8")
    for name in ("old", "new"):
        link = tmp_path / f"{name}.json"
        link.symlink_to(tmp_path / "real" / f"{name}.json")
        assert check_output(link) == tmp_path / "real" / f"{name}.json"
        write_json(link, 1)
        assert link.is_symlink()
        assert read_json(tmp_path / "real" / f"{name}.json") == 1


def test_what_a_kill_left_half_written_is_deleted_and_nothing_else(tmp_path):
    left = [".f.json.0a1b2c3d.17.0123abcd.tmp", ".f.json.0a1b2c3d.18.0123abce.tmp"]
    kept = [
        ".g.json.0a1b2c3d.17.0123abcd.tmp",
        ".f.json.tmp",
        "f.json",
        ".f.json.0a1b2c3d.17.xyz.tmp",
    ]
    for name in left + kept:
        (tmp_path / name).touch()
    (tmp_path / ".f.json.0a1b2c3d.19.0123abcd.tmp").symlink_to(tmp_path / "f.json")
    delete_leftovers(tmp_path, ["f.json", "h.json"])
    assert names(tmp_path) == sorted([*kept, ".f.json.0a1b2c3d.19.0123abcd.tmp"])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000, "NaN"])
def test_json_that_is_no_json_of_ours(tmp_path, text):
    (tmp_path / "f.json").write_text(text, encoding="utf-8")
    with pytest.raises(StorageError, match=r"f.json is damaged: it is not JSON"):
        read_json(tmp_path / "f.json")


def test_a_lock_file_is_held_once_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with locked(path, "busy with x"):
        assert path.exists()
        with pytest.raises(MisuseError, match="busy with x"), locked(path, "busy with x"):
            pass
        assert path.exists()  # who was refused removes nothing
    assert not path.exists()
    with locked(path, "busy"):
        pass


def test_a_lock_ends_with_an_error_inside(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "x.lock", "busy"):
        raise ZeroDivisionError
    with locked(tmp_path / "x.lock", "busy"):
        pass


def test_a_lock_file_that_a_kill_left_behind_is_free(tmp_path: Path) -> None:
    (tmp_path / "x.lock").touch()
    with locked(tmp_path / "x.lock", "busy"):
        pass
    assert not (tmp_path / "x.lock").exists()


def test_a_lock_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "x.lock").symlink_to(tmp_path / "elsewhere")
    refused = pytest.raises(WriteError, match=r"cannot write .*x\.lock")
    with refused, locked(tmp_path / "x.lock", "busy"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_without_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on a system that has none
    with locked(tmp_path / "x.lock", "busy"), locked(tmp_path / "x.lock", "busy"):
        pass


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    with locked(tmp_path / "x.lock", "busy"), locked(tmp_path / "x.lock", "busy"):
        pass

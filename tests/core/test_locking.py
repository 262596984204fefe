"""Locks between processes; two descriptors of one process exclude each other in the same way."""

import sys
from pathlib import Path

import pytest

from romdp.core.errors import MisuseError, WriteError
from romdp.core.storage import locked


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

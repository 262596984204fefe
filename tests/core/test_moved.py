"""Names of modules of version 0.1 still work."""

import sys
from importlib import import_module

import pytest

from romdp.core.lazy import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_module_that_has_moved_is_found_with_a_warning(old, monkeypatch):
    monkeypatch.delitem(sys.modules, f"romdp.{old}", raising=False)
    new = import_module(f"romdp.{MOVED[old]}")
    with pytest.warns(DeprecationWarning, match=f"romdp.{old} is now romdp.{MOVED[old]}"):
        found = import_module(f"romdp.{old}")
    assert found is new
    assert found.__spec__.name == f"romdp.{MOVED[old]}"


def test_the_baselines_are_found_under_their_short_name():
    from romdp.baselines import DQN

    from romdp.playing.baselines import DQN as SAME

    assert DQN is SAME


def test_other_names_are_still_missing():
    with pytest.raises(ModuleNotFoundError):
        import_module("romdp.nothing_like_it")

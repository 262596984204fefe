"""Names that are imported when they are used."""

import sys
from importlib import import_module

import pytest

import romdp

PACKAGE = """
from typing import TYPE_CHECKING
from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from some_package import child as child
    from some_package.child import Thing as Thing

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
"""


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package with one module, and names that are not loaded yet."""
    folder = tmp_path / "some_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "child.py").write_text("Thing = object()")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("some_package")
    for name in ("some_package", "some_package.child"):
        sys.modules.pop(name, None)


def test_a_name_comes_from_its_home_and_is_kept(package):
    assert "some_package.child" not in sys.modules
    thing = package.Thing
    assert thing is sys.modules["some_package.child"].Thing
    assert vars(package)["Thing"] is thing


def test_a_submodule_can_be_a_name(package):
    assert package.child is sys.modules["some_package.child"]


def test_other_names_are_attribute_errors(package):
    with pytest.raises(AttributeError, match="module 'some_package' has no attribute 'Thong'"):
        _ = package.Thong


def test_dir_lists_the_names(package):
    assert dir(package) == package.__all__ == ["Thing", "child"]


@pytest.mark.parametrize("package", [romdp, romdp.worlds], ids=lambda package: package.__name__)
def test_every_public_name_can_be_reached(package):
    assert sorted(package.__all__) == sorted(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None, name


def test_the_baselines_are_found_under_their_short_name():
    from romdp.baselines import DQN

    from romdp.playing.baselines import DQN as SAME

    assert DQN is SAME


def test_other_names_are_still_missing():
    with pytest.raises(ModuleNotFoundError):
        import_module("romdp.nothing_like_it")

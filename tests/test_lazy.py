import subprocess
import sys
import types

import pytest

import romdp
from romdp.lazy import lazy


@pytest.fixture
def package(monkeypatch):
    """A package whose names live in modules that are loaded already."""
    parent, child = types.ModuleType("some_package"), types.ModuleType("some_package.child")
    child.Thing = object()
    monkeypatch.setitem(sys.modules, "some_package", parent)
    monkeypatch.setitem(sys.modules, "some_package.child", child)
    parent.__getattr__, parent.__dir__ = lazy("some_package", {"Thing": "child", "child": None})
    return parent, child


def test_a_name_comes_from_its_home_and_is_kept(package):
    parent, child = package
    assert "Thing" not in vars(parent)
    assert parent.Thing is child.Thing
    assert vars(parent)["Thing"] is child.Thing


def test_a_submodule_can_be_a_name(package):
    parent, child = package
    assert parent.child is child


def test_other_names_are_attribute_errors(package):
    with pytest.raises(AttributeError, match="module 'some_package' has no attribute 'Thong'"):
        _ = package[0].Thong
    assert not hasattr(package[0], "__path__")


def test_dir_lists_the_names(package):
    assert dir(package[0]) == ["Thing", "child"]


@pytest.mark.parametrize("package", [romdp, romdp.worlds], ids=lambda package: package.__name__)
def test_every_public_name_can_be_reached(package):
    assert sorted(package.__all__) == sorted(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None, name


def test_import_leaves_the_heavy_libraries_out():
    code = "import sys, romdp; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ["numba", "scipy", "pandas", "matplotlib", "pyarrow", "typer", "rich"]
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

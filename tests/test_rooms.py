"""The rooms of the library: a module imports only from rooms above it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import romdp

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
PAGE = PROJECT.parent / "docs" / "architecture.md"
PACKAGE = Path(romdp.__file__).parent


def lint(*options):
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache", *options]
    return subprocess.run(command, cwd=PROJECT.parent, capture_output=True, text=True, check=False)


def read_contract():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    return contract


@pytest.fixture(scope="module", autouse=True)
def _needs_importlinter():
    pytest.importorskip("importlinter")


def test_every_import_goes_to_a_room_above():
    done = lint()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_a_wrong_order_is_noticed(tmp_path):
    """The same check with two rooms exchanged must fail, else it checks nothing."""
    text = PROJECT.read_text(encoding="utf-8")
    assert text.count('"romdp",\n    "assumptions"') == 1
    wrong = text.replace('"romdp",\n    "assumptions"', '"assumptions",\n    "romdp"')
    config = tmp_path / "pyproject.toml"
    config.write_text(wrong, encoding="utf-8")
    done = lint("--config", str(config))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "romdp.romdp" in done.stdout


def test_every_module_is_in_a_room():
    contract = read_contract()
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert contract["exhaustive"]
    assert sorted(contract["layers"]) == sorted(modules | packages)


def test_the_page_on_the_architecture_lists_the_rooms_in_their_order():
    section = PAGE.read_text(encoding="utf-8").split("## The rooms")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert [room for room, _ in rows] == read_contract()["layers"][::-1]
    assert all(words.strip() for _, words in rows)

"""What is published: metadata, contents, the order of the packages, what an import costs."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import romdp

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
NOT_IN_SDIST = {".gitignore"}  # hatch adds it by itself


def test_import_loads_nothing_heavy():
    heavy = ["matplotlib", "torch", "dask", "distributed", "plotly", "pandas", "sklearn", "polars"]
    code = "import sys, romdp; print([m for m in sys.argv[1:] if m in sys.modules])"
    command = [sys.executable, "-c", code, *heavy, "numba", "scipy", "pyarrow", "rich", "typer"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_loads_nothing_heavy():
    heavy = ["matplotlib", "torch", "dask", "plotly", "pandas", "sklearn", "numba", "scipy"]
    code = (
        "import sys; from romdp.cli import main\n"
        "names, sys.argv = sys.argv[1:], ['romdp', '--help']\n"
        "try: main()\n"
        "except SystemExit: print([m for m in names if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *heavy]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout
    assert done.stderr == "[]\n"


def test_the_command_is_where_the_metadata_says():
    module, name = PROJECT["scripts"]["romdp"].split(":")
    assert callable(getattr(import_module(module), name))


def test_the_package_says_that_it_is_typed_and_holds_its_pages():
    assert (files("romdp") / "py.typed").is_file()
    kinds = {path.name.rpartition(".")[2] for path in (files("romdp") / "reports/assets").iterdir()}
    assert {"css", "js"} <= kinds


def test_the_oldest_declared_python_is_required():
    versions = re.findall(
        r"Programming Language :: Python :: 3\.(\d+)", "\n".join(PROJECT["classifiers"])
    )
    assert PROJECT["requires-python"] == f">=3.{min(map(int, versions))}"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py3{min(map(int, versions))}"


def test_the_citation_has_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: *[\"']?([\w.]+)", text, re.MULTILINE).group(1) == romdp.__version__


def test_every_extra_is_pinned():
    pins = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.match(r"[\w.-]+", line).group().lower().replace("_", "-") for line in wanted}
    assert names - pins == {"romdp"}


def test_the_sdist_holds_all_that_is_kept_in_the_repository():
    included = set(PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    for name in included:
        assert (ROOT / name).exists(), name
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True
    )
    tops = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert tops - NOT_IN_SDIST - {"pyproject.toml"} <= included


def test_the_page_on_the_architecture_lists_the_packages_in_their_order():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.split("## The packages")[1], re.MULTILINE)
    assert [package for package, _ in rows] == contract["layers"][::-1]
    assert all(words.strip() for _, words in rows)

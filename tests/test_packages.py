"""The packages of the library: the order that the linter holds is the one that the docs explain."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_on_the_architecture_lists_the_packages_in_their_order():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.split("## The packages")[1], re.MULTILINE)
    assert [package for package, _ in rows] == contract["layers"][::-1]
    assert all(words.strip() for _, words in rows)

"""The reference has every public name; the theory pages cite labels and code that exist."""

import importlib.util
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import romdp
from romdp.core import errors

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = sorted(REFERENCE.glob("*.rst"))
_LINE = re.compile(
    r"^\.\. (?:(currentmodule)|auto(module|class|function|exception)|py:(data)):: (\S+)$",
    re.MULTILINE,
)
SUBMODULES = ("baselines", "experiments", "logs", "logs.model", "reports", "theory", "worlds")


def documented(page):
    """Return the full names that a page documents."""
    names, module = [], ""
    for current, auto, _, name in _LINE.findall(page.read_text(encoding="utf-8")):
        if current:
            module = name
        elif auto == "module":
            names += [name, *(f"{name}.{member}" for member in members(page, name))]
        elif name.startswith("romdp."):
            names.append(name)
        else:
            names.append(f"{module}.{name}")
    return names


def members(page, module):
    """Return what ``:members:`` of a module puts on a page: its ``__all__``, if it has one."""
    text = page.read_text(encoding="utf-8")
    wanted = re.search(rf"^\.\. automodule:: {module}\n   :members:$", text, re.MULTILINE)
    return getattr(import_module(module), "__all__", ()) if wanted else ()


def find(name):
    home, _, last = name.rpartition(".")
    try:
        return getattr(import_module(home), last) if home else import_module(name)
    except AttributeError:
        return import_module(name)


EVERYTHING = [name for page in PAGES for name in documented(page)]


def command_help():
    spec = importlib.util.spec_from_file_location("command_help", REFERENCE / "command_help.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same_things():
    return {id(find(name)) for name in EVERYTHING}


@pytest.mark.parametrize("name", sorted(set(romdp.__all__)))
def test_every_public_name_is_on_a_page(name):
    assert f"romdp.{name}" in EVERYTHING or f"romdp.{name}" in _headings()


def _headings():
    """Modules that a page is about: it makes them current and documents what is in them."""
    return {
        name
        for page in PAGES
        for current, _, _, name in _LINE.findall(page.read_text(encoding="utf-8"))
        if current
    }


@pytest.mark.parametrize("submodule", SUBMODULES)
def test_every_public_name_of_a_room_is_on_a_page(submodule):
    module = import_module(f"romdp.{submodule}")
    there = same_things()
    assert [name for name in module.__all__ if id(getattr(module, name)) not in there] == []


def test_nothing_is_documented_twice():
    assert sorted(EVERYTHING) == sorted(set(EVERYTHING))


@pytest.mark.parametrize("name", EVERYTHING)
def test_what_is_documented_is_there_and_says_something(name):
    found = find(name)
    assert isinstance(found, dict) or inspect.getdoc(found)


def test_every_error_is_on_a_page():
    kinds = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.ROMDPError)
    ]
    assert len(kinds) >= 8
    assert {id(kind) for kind in kinds} <= same_things()


def test_every_page_is_in_the_table_of_contents():
    index = (REFERENCE / "index.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", index.split("toctree::")[1], re.MULTILINE)
    assert sorted([*listed, "index"]) == [page.stem for page in PAGES]


def test_every_command_is_on_its_page():
    names = [name for name, _ in command_help().helps()]
    assert {"romdp", "romdp compare", "romdp fit", "romdp generate river-swim"} <= set(names)
    assert len(names) >= 16


def test_the_page_of_the_command_is_what_it_prints():
    source = ["a stub"]
    command_help().write_page(None, "reference/commands", source)
    assert "--observations" in source[0]
    untouched = ["another page"]
    command_help().write_page(None, "reference/agents", untouched)
    assert untouched == ["another page"]


ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
SOURCES = sorted((ROOT / "src" / "romdp").rglob("*.py"))
MAP = ROOT / "docs" / "theory" / "map.md"

# All labels of the paper's source, arXiv:1611.03907, by kind.
_LABELS = {
    "Apx": "concentration",
    "Aux": "deter",
    "alg": "sm.ucrl spectral.learning",
    "app": "clustering.rate experiment further.clustering",
    "asm": "ergodicity expansive",
    "cor": "partial.cluster.est regret",
    "eq": "BO clustering.condition confidence1 epst1 estimated.cluster1 estimated.cluster2 "
    "estimated.cluster3 factor firstlast nl.condition1 optimism perterbationM_2 prob.action "
    "rankcondition rcluss rew_bound second.moment symmetric.views third.moment v.condition v2toO",
    "fig": "Gmodel comparison comparisonCar evolution mappolicy observation.policy",
    "lem": "POMDPconstration concentration decomp matrix.decomposition partial.cluster "
    "tensor.decomposition",
    "sec": "intro rank stochastic",
    "thm": "regret",
}
LABELS = {f"{kind}:{name}" for kind, names in _LABELS.items() for name in names.split()}
_KINDS = "|".join([*_LABELS, "prop"])
_CITED = re.compile(rf"(?<![\w.])(?:{_KINDS}):[A-Za-z]\w*(?:\.\w+)*")
_ROW = re.compile(r"^\| `([^`]+)` \|[^|]*\|([^|]*)\|$", re.MULTILINE)
_NAME = re.compile(r"`(romdp(?:\.\w+)+)`")


def cited(path):
    return set(_CITED.findall(path.read_text(encoding="utf-8")))


def imported(name):
    """Import a dotted name: a module, something in one, or a part of that."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def rows():
    return _ROW.findall(MAP.read_text(encoding="utf-8"))


def test_a_label_is_recognised():
    text = "See `lem:decomp`, (``eq:v.condition``). Not linalg.eq:x, nor a thm: alone; cor:regret."
    assert _CITED.findall(text) == ["lem:decomp", "eq:v.condition", "cor:regret"]


def test_a_name_that_is_not_there_is_noticed():
    with pytest.raises(AttributeError):
        imported("romdp.theory.rates.no_such_formula")


def test_the_map_has_every_label_once():
    labels = [label for label, _ in rows()]
    assert sorted(labels) == sorted(LABELS)


def test_every_label_but_the_introduction_has_its_place():
    assert [label for label, code in rows() if not _NAME.search(code)] == ["sec:intro"]


@pytest.mark.parametrize("path", [*DOCS, *SOURCES], ids=lambda p: str(p.relative_to(ROOT)))
def test_cited_labels_exist(path):
    assert cited(path) <= LABELS


def test_theory_pages_cite_the_paper():
    every = set().union(*(cited(path) for path in DOCS if path != MAP))
    assert len(every) > 30


@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_cited_code_can_be_imported(path):
    for name in _NAME.findall(path.read_text(encoding="utf-8")):
        imported(name)

"""The theory pages cite labels that the paper has, and code that is there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
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


def find(name):
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
        find("romdp.theory.rates.no_such_formula")


def test_the_map_has_every_label_once():
    labels = [label for label, _ in rows()]
    assert sorted(labels) == sorted(LABELS)


def test_every_label_but_the_introduction_has_its_place():
    assert [label for label, code in rows() if not _NAME.search(code)] == ["sec:intro"]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda p: str(p.relative_to(ROOT)))
def test_cited_labels_exist(path):
    assert cited(path) <= LABELS


def test_theory_pages_cite_the_paper():
    every = set().union(*(cited(path) for path in PAGES if path != MAP))
    assert len(every) > 30


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_cited_code_can_be_imported(path):
    for name in _NAME.findall(path.read_text(encoding="utf-8")):
        find(name)

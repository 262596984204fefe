"""`make bench` writes its page; the figures themselves are for people to judge."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TABLE = Path(__file__).parent.parent / "benchmarks" / "table.py"


def bench(*arguments):
    return subprocess.run(
        [sys.executable, str(TABLE), *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "bench.md"
    done = bench("--quick", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "[1/7]" in done.stderr  # it says how far it is
    assert "[7/7]" in done.stderr
    return out.read_text(encoding="utf-8")


def rows(page, heading):
    """The cells of the table below a heading, without its head."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    lines = [line.strip("| ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


@pytest.mark.slow
def test_every_claim_has_its_table(page):
    headings = re.findall(r"^## (.*)", page, re.MULTILINE)
    assert headings == [
        "Simulator",
        "Gymnasium environment",
        "Planner",
        "Learning loop",
        "Grouping by likelihood",
        "Regret",
        "Starting",
    ]
    assert all(rows(page, heading) for heading in headings)
    assert "nan" not in page


@pytest.mark.slow
def test_ratios_are_those_of_their_row(page):
    for _, ours, plain, ratio in rows(page, "Simulator"):
        quotient = float(ours.replace(",", "")) / float(plain.replace(",", ""))
        assert float(ratio.replace(",", "")) == pytest.approx(quotient, rel=0.01, abs=0.5)
    for _, agent, mine, told, ratio, _ in rows(page, "Regret"):
        quotient = float(mine.replace(",", "")) / float(told.split()[0].replace(",", ""))
        value, low, high = map(float, re.findall(r"-?[\d.]+", ratio))
        assert value == pytest.approx(quotient, rel=0.02), agent
        assert low <= value <= high, agent


@pytest.mark.slow
def test_machine_and_versions_are_named(page):
    assert re.search(r"Machine: .+, \d+ cores, \d+ GiB, \w+", page)
    for name in ("romdp", "Python", "numpy", "numba", "scipy"):
        assert re.search(rf"\b{name} \d", page), name
    assert "commit" in page


def test_a_quick_table_does_not_replace_the_page():
    done = bench("--quick")
    assert done.returncode == 2
    assert "--out" in done.stderr

"""Every script in examples/ shows what it claims to show; the guard judges as it says."""

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

EXAMPLES = Path(__file__).parent.parent / "examples"
BENCHMARKS = EXAMPLES.parent / "benchmarks"
NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"


def run(name: str, folder: Path, *arguments: str) -> str:
    """Run a script in a folder of its own and return what it prints; warnings are errors."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_example_has_a_line_in_the_readme_and_a_test():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    listed = set(re.findall(r"python examples/(\w+)\.py", (EXAMPLES / "README.md").read_text()))
    assert listed == scripts
    assert {f"test_{name}" for name in scripts} <= set(globals())


def test_digits_log(tmp_path):
    assert run("digits_log", tmp_path) == "wrote digits.parquet: 6,000 rows\n"
    table = pq.read_table(tmp_path / "digits.parquet")
    assert table.num_rows == 6_000
    assert {len(picture) for picture in table["picture"].to_pylist()} == {64}
    assert set(table["action"].to_pylist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_output_and_linked(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)  # make docs runs it, and shows it
    assert f"notebooks/{path.stem}\n" in (NOTEBOOKS.parent / "index.md").read_text()
    assert f"notebooks/{path.name})" in (EXAMPLES / "README.md").read_text()


def test_names_of_points_do_not_overlap(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    figure = import_module("figures").draw_tails(
        {"as it was": (380, 3.16), "floor, c = 1": (364, 3.28), "counts x 0.5": (618, 2.37)}
    )
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


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
    assert "[1/6]" in done.stderr  # it says how far it is
    assert "[6/6]" in done.stderr
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
        "Starting",
    ]
    assert all(rows(page, heading) for heading in headings)
    assert "nan" not in page


@pytest.mark.slow
def test_ratios_are_those_of_their_row(page):
    for _, ours, plain, ratio in rows(page, "Simulator"):
        quotient = float(ours.replace(",", "")) / float(plain.replace(",", ""))
        assert float(ratio.replace(",", "")) == pytest.approx(quotient, rel=0.01, abs=0.5)


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


def test_the_index_of_results_names_benchmarks_that_exist_and_make_results_reads_it(tmp_path):
    root = EXAMPLES.parent
    index = (root / "docs" / "results" / "index.md").read_text()
    scripts = set(re.findall(r"python (benchmarks/\w+\.py)", index))
    assert scripts
    assert [each for each in sorted(scripts) if not (root / each).is_file()] == []
    command = [sys.executable, str(root / "benchmarks" / "results.py"), "--list", "--minutes", "10"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(re.findall(r"\| `[^`]+` \| \d+ \|", index))
    minutes = [int(line.split()[1]) for line in lines if line.startswith("now")]
    assert 0 < sum(minutes) <= 10
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def guard(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("guard")


def test_every_row_of_the_guard_can_be_measured_and_has_a_page(guard):
    tree = ast.parse((BENCHMARKS / "guard_measures.py").read_text())
    measures = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    pages = {page.stem for page in (BENCHMARKS.parent / "docs" / "results").glob("*.md")}
    for row in guard.read_rows().values():
        assert row.measure[0] in measures, row.name
        assert row.page in pages, row.name
        assert (row.at_least is None) != (row.at_most is None), row.name
        assert row.spread is not None or 0 <= row.claimed <= 1, row.name


@pytest.mark.parametrize("fails", [None, 32])
@pytest.mark.parametrize(("figure", "better"), [(0.95, True), (0.85, True), (0.6, False)])
def test_a_row_fails_outside_its_band_or_while_a_mark_is_out_of_date(guard, figure, better, fails):
    """Of 25 repeats at 0.9 a share of 0.7146 is left by chance once in a thousand times."""
    row = guard.Row("row", ["measure"], (25, 25), 1.0, "page", at_least=0.9, fails=fails)
    assert row.bound(25) == pytest.approx(0.9 - 3.09 * 0.3 / 5)
    verdict, right = guard.judge(row, [([figure], 1.0)] * 25)
    assert right == (better == (fails is None))
    assert verdict.isupper() or right or fails


def test_ratios_medians_and_what_broke(guard):
    row = guard.Row("row", ["measure"], (2, 2), 1.0, "page", spread=0.1, at_most=2.0)
    assert row.sum_up([([1.0, 1.0], 0.0), ([5.0, 2.0], 0.0)])[0] == 2.0
    assert row.sum_up([([1.0], 0.0), ([5.0], 0.0)])[0] == 3.0
    assert not guard.judge(row, [([1.0, 1.0], 0.0), ([], 0.0)])[1]
    middle = guard.Row("row", ["measure"], (3, 3), 1.0, "page", 0.1, at_most=2.0, middle=True)
    assert middle.sum_up([([1.0], 0.0), ([2.0], 0.0), ([9.0], 0.0)])[0] == 2.0

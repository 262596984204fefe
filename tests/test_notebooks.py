"""Results show themselves in notebooks: well-formed HTML with the figures that they print."""

from xml.etree import ElementTree

import gymnasium
import numpy as np
import pytest

import romdp
from romdp.clustering.spectral.report import ActionReport, Refusal, SpectralReport
from romdp.core.text import html_table

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)


def read(html):
    """Parse what a notebook is given: title, rows of cells, text below."""
    root = ElementTree.fromstring(f"<div>{html}</div>")
    (table,) = root.findall("table")
    rows = [[cell.text for cell in row] for row in table]
    title, *below = ["".join(part.itertext()) for part in root.findall("p")]
    return title, rows, below


def test_text_is_escaped_and_on_one_line():
    rows = [["<b>", "a & b"], ["two\nlines", '"']]
    title, cells, below = read(html_table("1 < 2", rows, ["x", "<y>"], ["<script>", "more"]))
    assert title == "1 < 2"
    assert cells == [["x", "<y>"], ["<b>", "a & b"], ["two\\nlines", '"']]
    assert below == ["<script>more"]
    assert "<script>" not in html_table("", [], notes=["<script>"])
    assert read(html_table("no notes", [["a", 1]])) == ("no notes", [["a", "1"]], [])


def test_a_run():
    run = romdp.play(romdp.PSRL(), WORLD, 2000, seed=3)
    title, rows, _ = read(run._repr_html_())
    shown = dict(rows)
    assert title == "Run of psrl, seed 3"
    assert shown["steps"] == "2,000"
    assert float(shown["regret"].replace(",", "")) == pytest.approx(run.regret[-1], rel=1e-3)
    assert shown["epochs"] == str(len(run.epochs))
    assert shown["groups"] == "9"
    assert "episodes" not in shown


def test_a_run_with_episodes_and_no_known_model():
    run = romdp.play(romdp.PSRL(), gymnasium.make("FrozenLake-v1"), 1000, seed=0)
    shown = dict(read(run._repr_html_())[1])
    assert shown["episodes"] == str(len(run.returns))
    assert "mean return, last fifth" in shown
    assert shown["success rate, last fifth"] == f"{run.success_rate:.1%}"
    assert shown["objective"] == "episodic, discount 0.99"
    assert "regret" not in shown


def test_a_run_that_has_not_begun():
    run = romdp.epochs(romdp.PSRL(), WORLD, 10).run
    assert dict(read(run._repr_html_())[1])["steps"] == "0"


def test_a_policy():
    policy = romdp.play(romdp.PSRL(), WORLD, 2000, seed=3).policy
    title, (head, *rows), (below,) = read(policy._repr_html_())
    assert title == "Policy of psrl (objective: average)"
    assert head[0] == "action"
    counts = np.bincount(policy.table, minlength=2)
    assert dict(rows) == {str(a): str(n) for a, n in enumerate(counts) if n}
    assert below == f"at any other observation: {policy.default}"


def test_assumptions():
    assumptions = WORLD.assumptions()
    title, rows, _ = read(assumptions._repr_html_())
    printed = [line.split(maxsplit=1)[0] for line in str(assumptions).splitlines()]
    assert "assumes" in title
    assert [name.split()[0] for name, _ in rows] == printed
    assert dict(rows)["hidden states X"] == "3"


@pytest.mark.parametrize("truth", [False, True])
def test_a_report_of_spectral_learning(truth):
    done = ActionReport(0, 50, np.arange(3), groups=((0, 1),), refused=(Refusal((2,), "why"),))
    partition = romdp.Partition([0, 0, 1])
    report = SpectralReport((done,), partition, 0.1, "matrix <method>", truth)
    title, (head, row), (below,) = read(report._repr_html_())
    assert title == "Spectral learning: matrix <method>, level 0.1"
    assert dict(zip(head, row, strict=True))["samples"] == "50"
    assert "grouped {0, 1}" in below
    assert "refused {2}: why" in below
    assert ("the true world" in below) is truth


def test_a_model_of_a_log():
    seen = romdp.simulate(WORLD, "uniform", 5_000, seed=0)
    table = {
        "page": [f"<p{y}>" for y in seen.observations],
        "offer": seen.actions,
        "paid": seen.rewards,
    }
    model = romdp.fit(table, observation="page", action="offer", reward="paid")
    title, (head, *rows), (below,) = read(model._repr_html_())
    assert title.startswith(f"{model.n_states} hidden states behind 9 observations")
    assert {row[head.index("state")] for row in rows} == {str(s) for s in range(model.n_states)}
    assert "<p" in rows[0][head.index("typical")]  # escaped in the source: read() parsed it
    assert f"this earns at least {model.value_lower:.4g} per step" in below
    for check in model.checks:
        assert str(check) in below

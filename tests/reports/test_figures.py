"""Figures: bands, colours, the story of a run's groups."""

import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from report_cases import make_groupings, make_record

import romdp
from romdp.core.errors import InvalidInputError, StorageError, WriteError
from romdp.experiments import AGENTS
from romdp.experiments.agents import BASELINE_NAMES
from romdp.reports import (
    emission_figure,
    flow_figure,
    groups_figure,
    regret_figure,
    save_figure,
    write_figures,
)
from romdp.reports.drawing import STATE_COLOURS, UNSEEN_COLOUR, Words, agent_styles, state_colour
from romdp.reports.groupings import emission_picture, flow_picture, lay_out
from romdp.reports.reading import aligned, band, best_first, common_steps, curve, typical
from romdp.theory import lower_bound
from romdp.worlds import random_romdp


def note_of(figure):
    return " ".join(figure.get_supxlabel().split())


def lines_of(axes, colour):
    return [line for line in axes.lines if line.get_color() == colour]


def test_the_curves_are_the_bands(results):
    figure = regret_figure(results, "pseudo_regret")
    assert [axes.get_title() for axes in figure.axes] == [
        "random-romdp, Y = 6",
        "random-romdp, Y = 9",
    ]
    for axes, panel in zip(figure.axes, results.panels, strict=True):
        assert axes.get_xlabel() == r"$\sqrt{N}$"
        for name, style in agent_styles(results.agents).items():
            (line,) = lines_of(axes, style.colour if name != "oracle" else "#000000")
            wanted = band(results.of(name, panel), "pseudo_regret")
            np.testing.assert_allclose(line.get_xdata(), np.sqrt(wanted.step))
            np.testing.assert_allclose(line.get_ydata(), wanted.middle)
        assert len(axes.collections) == 3  # a band each
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert "mean" in note_of(figure)  # what the band is stands below
    assert "2 seeds" in note_of(figure)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == list(results.agents)


def test_the_limit_is_a_thin_line_under_regret(results):
    figure = regret_figure(results, "pseudo_regret")
    for axes, panel in zip(figure.axes, results.panels, strict=True):
        (limit,) = [line for line in axes.lines if line.get_label() == "C log N"]
        spec = results.experiment.world(panel[0])
        constants = [lower_bound(spec.make(panel[1], seed)) for seed in range(2)]
        expected = np.mean(constants) * np.log(results.experiment.steps)
        assert limit.get_ydata()[-1] == pytest.approx(expected)
    assert "C log N" in note_of(figure)
    groups = regret_figure(results, "n_clusters")
    assert "C log N" not in note_of(groups)


def test_a_measure_that_does_not_exist_is_refused(results):
    with pytest.raises(InvalidInputError, match="measure"):
        regret_figure(results, "fun")


def test_bulbs_hold_the_number_of_groups(results):
    figure = groups_figure(results)
    for axes, panel in zip(figure.axes, results.panels, strict=True):
        curves = [  # two agents may meet in a place
            ((float(np.sqrt(n)), float(y)), int(groups))
            for agent in results.agents
            for record in [typical(results.of(agent, panel))]
            for n, y, groups in zip(
                record.curves["step"],
                record.curves["regret"],
                record.curves["n_clusters"],
                strict=True,
            )
        ]
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        assert len(texts) >= 2
        for place, words in texts.items():
            assert int(words) in {groups for spot, groups in curves if np.allclose(spot, place)}


def printed(picture):
    return ElementTree.fromstring(picture.print_svg())


def parts(picture, tag):
    return list(printed(picture).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


def words_of(picture):
    return [text.text for text in parts(picture, "text")]


def framed(picture):
    return [box for box in parts(picture, "rect") if box.get("stroke") == "black"]


def test_a_flow_has_a_block_for_every_group():
    figure = flow_figure(make_record())
    assert len(framed(figure)) == 4 + 3 + 2
    assert len(parts(figure, "path")) == 4 + 3
    assert {"epoch 2", "step 10"} <= set(words_of(figure))
    assert "true hidden state" in figure.note
    assert figure.note in " ".join(words_of(figure))
    assert "#hatched" not in figure.print_svg()


def test_groups_that_mix_states_are_hatched():
    record = make_record(groupings=make_groupings([[0, 1, 2, 3], [0, 0, 0, 1]]))
    assert [box.get("fill") for box in framed(flow_figure(record))].count("url(#hatched)") == 1
    unknown = make_record(hidden_state=None)
    assert "final group" in flow_figure(unknown).note


def test_a_picture_for_print_needs_no_page():
    picture = flow_figure(make_record())
    text = picture.print_svg()
    assert "currentColor" not in text
    assert "var(" not in text
    assert picture._repr_svg_() == text  # what a notebook shows
    assert printed(picture).get("width") == "600"


def assert_fits(figure):
    """Nothing that is written around the panels sticks out of the figure."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    around = [*figure.legends, *filter(None, (figure._supxlabel, figure._suptitle))]
    assert around
    for thing in around:
        box = thing.get_window_extent(renderer)
        assert (box.min >= 0).all()
        assert (box.max <= figure.bbox.max).all()


def test_notes_are_no_wider_than_their_figures(results):
    one = replace(results, records=[r for r in results.records if r.n_observations == 9])
    for measure in ("regret", "mean_return"):
        assert_fits(regret_figure(one, measure))
    assert_fits(groups_figure(one))


def test_a_flow_needs_groupings():
    with pytest.raises(InvalidInputError, match="no stored groupings"):
        flow_figure(make_record(groupings=()))


@pytest.mark.parametrize("n_observations", [8, 100])
def test_the_emission_matrix_and_its_groups(n_observations):
    world = random_romdp(3, 2, n_observations, seed=4)
    found = romdp.Partition(np.where(np.arange(n_observations) == 3, -1, world.labels))
    figure = emission_figure(world.emission, found)
    cells = [box for box in parts(figure, "rect") if box.get("fill-opacity")]
    assert len(cells) in (n_observations, n_observations - 1)  # the likeliest may be quite black
    order = np.lexsort((np.arange(n_observations), found.labels, world.labels))
    rows = [round((float(box.get("y")) - 30) / 20) for box in cells]
    assert sorted(rows) == rows
    words = [shape.text for shape in figure.shapes if isinstance(shape, Words)]
    assert words[:4] == ["state", "0", "1", "2"]
    if n_observations == 8:
        assert "-" in words  # the observation without a group
        assert words[-8:] == [str(y) for y in order]


def test_an_emission_has_the_colours_of_its_states():
    figure = emission_picture(np.eye(3), romdp.Partition([0, 0, 1])).svg()
    assert figure.count(f'fill="{state_colour(0)}"') == 1 + 1  # state 0, and the group of 0 and 1
    assert figure.count(f'fill="{state_colour(1)}"') == 1  # state 1 alone: its group looks like 0


@pytest.mark.parametrize("hidden", [np.array([0, 0, 1, 1]), None])
def test_a_picture_for_the_page_has_hints_and_is_whole(hidden):
    record = make_record(groupings=make_groupings([[0, 1, 2, -1], [0, 0, 0, 1]]))
    svg = flow_picture(lay_out(record.groupings, hidden), hidden).svg()
    root = ElementTree.fromstring(svg)
    hints = [found.text for found in root.iter("title")]
    assert "not seen yet: 3" in hints
    assert ("1 observation of state 0" in hints) == (hidden is not None)
    assert ("url(#hatched)" in svg) == (hidden is not None)


def test_an_emission_of_another_world():
    with pytest.raises(InvalidInputError, match="5 observations, but emission has 2 columns"):
        emission_figure(np.eye(2), romdp.Partition([0] * 5))


def test_files_are_whole_and_always_the_same(results, tmp_path):
    paths = [
        save_figure(regret_figure(results), tmp_path / name, dpi=50) for name in ("one", "two.x")
    ]
    assert [path.name for path in paths[1]] == ["two.x.svg", "two.x.png"]
    for first, second in zip(*paths, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert ElementTree.parse(paths[0][0]).getroot().tag.endswith("svg")
    assert paths[0][1].read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidInputError, match="format"):
        save_figure(regret_figure(results), tmp_path / "x", ["pdf"])
    with pytest.raises(WriteError, match="cannot write"):
        save_figure(regret_figure(results), tmp_path / "no" / "x", ["svg"])


def test_the_figures_of_a_directory(run_directory, tmp_path):
    written = write_figures(run_directory, tmp_path / "a" / "b")
    names = {path.name for path in written}
    assert {"regret.svg", "regret.png", "pseudo-regret.svg", "groups.svg"} <= names
    assert "flow-lc-psrl-random-romdp-Y9.svg" in names
    assert not any("flow-ucrl2" in name for name in names)  # it never regroups
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == names
    with pytest.raises(StorageError, match="does not exist"):
        write_figures(tmp_path / "nothing")


def test_drawing_leaves_nothing_behind(run_directory, tmp_path):
    """No window, no global figure, no setting kept: pyplot is not even imported."""
    code = f"""
import sys, matplotlib
from romdp.reports import write_figures
write_figures({str(run_directory)!r}, {str(tmp_path)!r})
assert "matplotlib.pyplot" not in sys.modules
assert matplotlib.rcParams["svg.hashsalt"] is None
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def runs(*finals):
    return [
        make_record(seed=seed, regret=(0, final / 2, final)) for seed, final in enumerate(finals)
    ]


def test_measures_of_a_run():
    record = make_record()
    assert curve(record, "regret").tolist() == [1, 2, 3]
    assert curve(record, "pseudo_regret").tolist() == [2, 3, 4]
    assert curve(record, "n_clusters").tolist() == [4, 3, 2]
    assert curve(record, "reward_per_step").tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(InvalidInputError, match="regret"):
        curve(record, "regrets")


def test_the_median_and_its_quartiles():
    summary = band(runs(1, 2, 3, 4, 100), kind="median")
    assert (summary.low[-1], summary.middle[-1], summary.high[-1]) == (2, 3, 4)
    assert summary.n_runs == 5


def test_the_mean_and_its_bootstrap_interval():
    """Against a plain bootstrap with other draws: 2,000 resamples fix an end to about 3%."""
    finals = np.array([1.0, 4.0, 6.0, 7.0, 20.0, 3.0])
    summary = band(runs(*finals))
    assert summary.middle[-1] == pytest.approx(finals.mean())
    rng = np.random.default_rng(5)
    means = [finals[rng.integers(6, size=6)].mean() for _ in range(20_000)]
    low, high = np.quantile(means, [0.025, 0.975])
    assert summary.low[-1] == pytest.approx(low, rel=0.1)
    assert summary.high[-1] == pytest.approx(high, rel=0.1)
    assert (summary.low <= summary.middle).all()
    assert (summary.middle <= summary.high).all()


def test_a_band_is_the_same_every_time():
    first, second = band(runs(1, 5, 9)), band(runs(1, 5, 9))
    np.testing.assert_array_equal(first.low, second.low)
    np.testing.assert_array_equal(first.high, second.high)


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_one_run_has_no_band(kind):
    summary = band(runs(7), kind=kind)
    np.testing.assert_array_equal(summary.low, summary.middle)
    np.testing.assert_array_equal(summary.high, summary.middle)


def test_only_steps_that_all_runs_have_are_compared():
    records = [
        make_record(step=(1, 10, 100), regret=(1, 2, 3)),
        make_record(step=(1, 5, 10), regret=(5, 6, 7)),
    ]
    assert common_steps(records).tolist() == [1, 10]
    assert aligned(records, "regret").tolist() == [[1, 2], [5, 7]]


def test_the_typical_run_is_in_the_middle():
    assert typical(runs(9, 1, 5)).seed == 2
    assert typical(runs(9, 1, 5, 4)).seed == 3
    assert typical(runs(np.nan, 1)).seed == 1


def test_without_regret_runs_are_ordered_by_their_returns():
    records = runs(np.nan, np.nan, np.nan)
    for record, final in zip(records, (0.5, 0.9, 0.7), strict=True):
        record.curves["mean_return"][-1] = final
    assert [record.seed for record in best_first(records)] == [1, 2, 0]
    assert typical(records).seed == 2


def test_nothing_to_summarise():
    with pytest.raises(InvalidInputError, match="empty"):
        band([])
    with pytest.raises(InvalidInputError, match="empty"):
        typical([])
    with pytest.raises(InvalidInputError, match="median"):
        band(runs(1, 2), kind="medain")


NAMES = [*AGENTS, *BASELINE_NAMES]


def test_every_agent_of_the_command_has_a_style_of_its_own():
    styles = agent_styles(NAMES)
    assert list(styles) == NAMES
    assert len(set(styles.values())) == len(NAMES)
    # Without colour, dash and marker still tell any two apart.
    assert len({(style.dash, style.marker) for style in styles.values()}) == len(NAMES)


def test_an_agent_looks_the_same_in_any_company():
    assert agent_styles(["ucrl2"])["ucrl2"] == agent_styles(NAMES)["ucrl2"]


def test_other_agents_take_spare_styles_that_no_other_has():
    mine = [f"mine-{number}" for number in range(9)]
    styles = agent_styles([*NAMES, *mine])
    assert len(set(styles.values())) == len(NAMES) + 9
    assert agent_styles(["a", "b", "a"]).keys() == {"a", "b"}


def test_styles_have_names_for_the_page_and_black_is_light_on_dark():
    for style in agent_styles([*NAMES, *"abcdefghijklmnopqrstuvwxyz"]).values():
        assert style.page_dash in {"solid", "dash", "dot", "dashdot"}
        assert style.page_symbol
        assert style.dark_colour != "#000000"


def test_state_colours_repeat_and_nobody_is_grey():
    assert state_colour(0) == state_colour(len(STATE_COLOURS)) == STATE_COLOURS[0]
    assert state_colour(-1) == UNSEEN_COLOUR
    assert UNSEEN_COLOUR not in STATE_COLOURS


def test_a_figure_is_as_wide_as_a_column(results):
    figure = regret_figure(results, "regret", width=3.3)
    assert figure.get_size_inches()[0] == pytest.approx(3.3)
    assert {axes.get_subplotspec().colspan.start for axes in figure.axes} == {0}  # in a row
    with pytest.raises(InvalidInputError, match="width is 1"):
        regret_figure(results, width=1)

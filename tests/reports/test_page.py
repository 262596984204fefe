"""The page of an experiment: what it says, and how it behaves in a real browser."""

import io
import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from report_cases import (
    change_runs,
    columns_of,
    make_groupings,
    make_record,
    make_run_directory,
    resize,
)

import romdp
from romdp.core.errors import InvalidInputError, WriteError
from romdp.core.storage import read_json
from romdp.experiments import Experiment, RunDirectory
from romdp.experiments.summary import summarise
from romdp.experiments.worlds import NamedWorld
from romdp.reports import Results, read_results, write_figures, write_report
from romdp.reports.experiment_page import report_page
from romdp.reports.reading import band


def data_of(page):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def test_the_page_holds_the_figures(run_directory, results, tmp_path):
    path = write_report(run_directory, tmp_path / "out" / "page.html")
    assert path == tmp_path / "out" / "page.html"
    assert not (run_directory / "report.html").exists()
    data = data_of(path.read_text(encoding="utf-8"))
    assert [agent["name"] for agent in data["agents"]] == ["ucrl2", "lc-psrl", "oracle"]
    assert data["panels"] == ["random-romdp, Y = 6", "random-romdp, Y = 9"]
    assert len(data["series"]) == 6
    assert len(data["runs"]) == 12
    worlds = [romdp.worlds.random_romdp(3, 2, 6, seed=seed) for seed in range(2)]
    limit = np.mean([romdp.theory.lower_bound(world) for world in worlds])
    assert data["limits"][0] == pytest.approx(limit, rel=1e-5)
    series = next(s for s in data["series"] if (s["agent"], s["panel"]) == (1, 1))
    wanted = band(results.of("lc-psrl", ("random-romdp", 9)))
    np.testing.assert_array_equal(series["step"], wanted.step)
    for drawn, value in zip(
        series["regret"]["mean"], (wanted.middle, wanted.low, wanted.high), strict=True
    ):
        np.testing.assert_allclose(drawn, value, rtol=1e-5)
    for run, record in zip(data["runs"], results.records, strict=True):
        assert run["seed"] == record.seed
        assert run["changes"] == len(record.groupings) - 1
        assert run["final"]["regret"] == pytest.approx(record.curves["regret"][-1], rel=1e-5)
        assert run["emission"].count("shows observation") == record.n_observations
        assert (run["flow"] is None) == (len(record.groupings) == 1)
    for series in data["series"]:
        example, panel = series["example"], results.panels[series["panel"]]
        record = results.of(results.agents[series["agent"]], panel)[example["seed"]]
        np.testing.assert_array_equal(example["n_clusters"], record.curves["n_clusters"])
        if series["agent"] == 0:  # the first one's last point is never crowded out
            assert example["bulbs"][0] == len(example["step"]) - 1


def test_the_page_lies_in_the_directory_by_default(run_directory, tmp_path):
    directory = shutil.copytree(run_directory, tmp_path / "copy")
    (directory / "summary.json").unlink()
    path = write_report(directory)
    assert path == directory / "report.html"
    assert path.stat().st_size < 6e6
    assert read_json(directory / "summary.json")["kind"] == "romdp summary"
    first = path.read_bytes()
    assert write_report(directory).read_bytes() == first


def test_configuration_and_versions_are_told(run_directory, tmp_path):
    page = write_report(run_directory, tmp_path / "p.html").read_text(encoding="utf-8")
    body = page[page.index('<section id="configuration">') :].split("<script")[0]
    assert "Hoeffding confidence sets" in body
    assert f"numpy {np.__version__}" in body
    assert "&quot;n_states&quot;: 3" in body


def test_missing_and_failed_runs_are_told(run_directory, tmp_path):
    directory = shutil.copytree(run_directory, tmp_path / "copy")
    failed = {"ucrl2-random-romdp-Y6-s0": "Traceback\nValueError: <b>bad</b>\n"}
    change_runs(directory, lost=["oracle-random-romdp-Y9-s1"], failed=failed)
    page = write_report(directory).read_text(encoding="utf-8")
    warnings = page[page.index('<div id="warnings">') : page.index("<nav")]
    assert "1 of 12 runs are missing" in warnings
    assert "<li>oracle-random-romdp-Y9-s1</li>" in warnings
    assert "ucrl2-random-romdp-Y6-s0: ValueError: &lt;b&gt;bad&lt;/b&gt;" in warnings


def many_results(path, n_seeds, n_observations=30):
    """Make up the results of many runs, all with a long story."""
    world = NamedWorld("random-romdp", {"n_states": 5, "n_actions": 4})
    agents = ("sl-ucrl", "lc-psrl", "ucrl2", "psrl", "oracle")
    experiment = Experiment((world,), agents, (n_observations, 40), steps=1_000_000, seeds=n_seeds)
    directory = RunDirectory.create(path, experiment)
    rng = np.random.default_rng(0)
    step = np.unique(np.rint(np.geomspace(1, 1e6, 60)).astype(int))
    records = []
    for size in (n_observations, 40):
        labels = [np.minimum(np.arange(size), most) for most in range(size, 4, -1)]
        for agent in agents:
            for seed in range(n_seeds):
                regret = np.cumsum(rng.random(len(step)))
                record = make_record(agent, seed, step, regret, world="random-romdp")
                epochs = {
                    name: np.arange(300)
                    for name in ("epoch", "start", "length", "n_clusters", "gain", "sweeps")
                }
                changes = {"n_observations": size, "groups": columns_of(make_groupings(labels))}
                truth = np.arange(size) % 5
                records.append(replace(record, epochs=epochs, hidden_state=truth, **changes))
    return Results(directory, tuple(records), (), ())


def test_the_page_of_thousands_of_runs_has_a_bounded_size(tmp_path):
    results = many_results(tmp_path / "runs", 200)
    assert len(results.records) == 2_000
    wanted = "ucrl2-random-romdp-Y40-s177"
    summary = summarise(results.directory)
    page = report_page(results, summary, [wanted])
    assert len(page.encode()) < 9e6
    data = data_of(page)
    assert data["nRuns"] == 2_000
    told = {(run["agent"], run["panel"], run["seed"]) for run in data["runs"]}
    assert (2, 1, 177) in told
    typical_seeds = {(s["agent"], s["panel"], s["example"]["seed"]) for s in data["series"]}
    assert typical_seeds <= told
    for series in data["series"]:
        assert series["nRuns"] == 200
        assert len(series["seeds"]) == 30
    assert f"{len(data['runs'])} of 2,000 runs" in page
    with pytest.raises(InvalidInputError, match="did you mean 'ucrl2-random-romdp-Y40-s17"):
        report_page(results, summary, ["ucrl2-random-romdp-Y40-s1777"])


def test_a_page_that_cannot_be_written(run_directory, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot make"):
        write_report(run_directory, tmp_path / "file" / "page.html")
    with pytest.raises(WriteError, match="cannot write"):
        write_report(run_directory, tmp_path)


def test_a_world_without_a_single_gain_shows_rewards(tmp_path):
    """Regret is unknown there; the page begins with what is known."""
    world = romdp_world_with_two_ends(tmp_path / "world.npz")
    directory = make_run_directory(
        tmp_path / "runs", worlds=(world,), agents=("psrl",), observations=None, seeds=1, steps=50
    )
    results = read_results(directory)
    assert np.isnan(results.records[0].curves["regret"]).all()
    page = write_report(directory).read_text(encoding="utf-8")
    assert list(data_of(page)["measures"]) == ["reward_per_step", "n_clusters"]
    assert '<section id="groups">' not in page
    written = [path.name for path in write_figures(directory, tmp_path / "figures")]
    assert written == ["reward-per-step.svg", "reward-per-step.png"]


def romdp_world_with_two_ends(path):
    stay = np.zeros((2, 2, 2))
    stay[0, :, 0] = stay[1, :, 1] = 1.0
    world = romdp.ROMDP(stay, [[0.2, 0.2], [0.9, 0.9]], [[0.5, 0.5, 0], [0, 0, 1]])
    world.save(path)
    return str(path)


# ---- in a browser -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(run_directory, tmp_path_factory):
    return write_report(run_directory, tmp_path_factory.mktemp("page") / "report.html")


def traces(browser, part="curves"):
    """Return the names of what is drawn in each panel that is shown."""
    return browser.execute_script(
        """return [...document.querySelectorAll(`#${arguments[0]} .card:not([hidden]) .plot`)]
        .map((area) => area.data.map((trace) => trace.name));""",
        part,
    )


def click(browser, group, text):
    """Click the switch with this text; a busy machine may take a while to draw it."""
    from selenium.webdriver.support.wait import WebDriverWait

    def found(browser):
        labels = browser.find_elements("css selector", f"#{group} label")
        return [label for label in labels if label.text == text]

    (label,) = WebDriverWait(browser, 20).until(found)
    label.click()


def choose(browser, label, value):
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("css selector", f'select[title="{label}"]')).select_by_value(value)


def shown_rows(browser):
    rows = browser.find_elements("css selector", "#summary tr[data-agent]")
    return [row.get_attribute("data-agent") for row in rows if row.is_displayed()]


@pytest.mark.page
def test_it_renders_without_a_network(browser):
    curves = ["ucrl2"] * 3 + ["lc-psrl"] * 3 + ["oracle"] * 3
    assert traces(browser) == [[*curves, "C log N"]] * 2
    assert len(traces(browser, "bulbs")[0]) == 6
    drawn = browser.find_elements("css selector", ".plot .scatterlayer .js-line")
    assert len(drawn) >= 12
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []


@pytest.mark.page
def test_the_screenshot_is_not_empty(browser, tmp_path):
    from PIL import Image

    browser.save_screenshot(str(tmp_path / "page.png"))
    picture = Image.open(tmp_path / "page.png").convert("RGB")
    assert picture.size == (1280, 900)
    colours = {colour for _, colour in picture.getcolors(1 << 24)}
    assert {(0, 0x72, 0xB2)} <= colours  # the accent of the switches
    assert len(colours) > 200


@pytest.mark.page
def test_agents_are_switched_off_and_on(browser):
    click(browser, "agents", "ucrl2")
    assert all("ucrl2" not in names for names in traces(browser) + traces(browser, "bulbs"))
    assert shown_rows(browser) == ["lc-psrl", "oracle"] * 2
    click(browser, "agents", "ucrl2")
    assert all("ucrl2" in names for names in traces(browser) + traces(browser, "bulbs"))
    assert shown_rows(browser) == ["ucrl2", "lc-psrl", "oracle"] * 2
    for name in ("ucrl2", "lc-psrl", "oracle"):  # nobody left: empty, not broken
        click(browser, "agents", name)
    assert traces(browser) == [[], []]


@pytest.mark.page
def test_worlds_are_switched_off_and_on(browser):
    click(browser, "worlds", "random-romdp, Y = 6")
    assert len(traces(browser)) == len(traces(browser, "bulbs")) == 1
    assert len(shown_rows(browser)) == 3
    click(browser, "worlds", "random-romdp, Y = 6")
    assert len(traces(browser)) == 2


@pytest.mark.page
def test_what_is_drawn_can_be_chosen(browser, results):
    def first(what):
        return browser.execute_script(f"return document.querySelector('#curves .plot').{what}")

    choose(browser, "measure", "n_clusters")
    assert first("layout.yaxis.title.text") == "number of groups"
    assert "C log N" not in traces(browser)[0]
    choose(browser, "measure", "pseudo_regret")
    choose(browser, "band", "runs")
    assert traces(browser)[0] == ["ucrl2"] * 2 + ["lc-psrl"] * 2 + ["oracle"] * 2 + ["C log N"]
    note = browser.find_element("id", "band-note").text
    assert note.startswith("One line per run; thin and grey")
    record = results.of("ucrl2", ("random-romdp", 6))[0]
    np.testing.assert_allclose(first("data[0].y"), record.curves["pseudo_regret"], rtol=1e-5)
    np.testing.assert_allclose(first("data[0].x"), np.sqrt(record.curves["step"]))
    choose(browser, "horizontal axis", "log")
    assert first("layout.xaxis.type") == "log"
    np.testing.assert_allclose(first("data[0].x"), record.curves["step"])
    same = browser.execute_script(
        "return [...document.querySelectorAll('#curves .plot')].map((p) => p.layout.yaxis.range)"
    )
    assert same[0] == same[1]
    click(browser, "views", "same height")
    assert first("layout.yaxis.autorange") is True


@pytest.mark.page
def test_the_story_of_a_run(browser, results):
    def words(name):
        return browser.find_element("id", name).text

    choose(browser, "world", "1")
    choose(browser, "agent", "1")
    choose(browser, "seed", "1")
    record = results.of("lc-psrl", ("random-romdp", 9))[1]
    assert words("run-facts").startswith("lc-psrl in random-romdp, Y = 9, seed 1")
    chapters = browser.find_elements("css selector", "#chapters tbody tr")
    assert len(chapters) == min(len(record.groupings), 40)
    assert len(browser.find_elements("css selector", "#flow path")) >= 9
    assert len(browser.find_elements("css selector", "#emission rect")) > 9 + 2 * 3
    epochs = browser.find_elements("css selector", "#epochs tbody tr")
    assert len(epochs) == min(len(record.epochs["start"]), 200)
    choose(browser, "agent", "0")
    assert words("run-facts").startswith("ucrl2 in random-romdp, Y = 9, seed 1")
    assert words("flow-note") == "The grouping of this run never changed."
    assert not browser.find_element("id", "flow").is_displayed()


@pytest.mark.page
@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_phone(browser, width):
    resize(browser, width, 800, mobile=True)
    browser.refresh()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for area in browser.find_elements("css selector", ".plot .main-svg, .chip, select, button"):
        box = area.rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 1
    click(browser, "agents", "ucrl2")
    assert all("ucrl2" not in names for names in traces(browser))


@pytest.mark.page
def test_dark_and_light(browser):
    def paper():
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    def oracle():
        return browser.execute_script(
            """const area = document.querySelector('#curves .plot');
            return area.data.find((t) => t.name === 'oracle' && t.mode !== 'lines').line.color;"""
        )

    before = (paper(), oracle())
    assert before == ("rgb(255, 255, 255)", "#000000")
    browser.find_element("id", "theme").click()
    after = (paper(), oracle())
    assert after == ("rgb(20, 23, 27)", "#F2F2F2")
    browser.find_element("id", "theme").click()
    assert (paper(), oracle()) == before


@pytest.mark.page
def test_paper_is_light_and_narrow(browser):
    """What is printed is drawn again, and afterwards the page is as it was."""
    widest = """const left = document.body.getBoundingClientRect().left;
        return Math.max(...[...document.querySelectorAll('.plot .main-svg')]
        .map((picture) => picture.getBoundingClientRect().right)) - left;"""
    theme = "return document.documentElement.dataset.theme"
    resize(browser, 1280, 900)
    browser.execute_script("if (!romdp.isDark()) document.getElementById('theme').click();")
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'));")
    assert browser.execute_script(theme) == "light"
    assert browser.execute_script(widest) <= 720
    browser.execute_script("window.dispatchEvent(new Event('afterprint'));")
    assert browser.execute_script(theme) == "dark"
    browser.execute_script("document.getElementById('theme').click();")


@pytest.mark.page
def test_a_picture_can_be_taken_away(browser):
    """The page forbids itself everything from elsewhere; saving a picture must still work."""
    from PIL import Image

    image = browser.execute_async_script(
        """const done = arguments[arguments.length - 1];
        const area = document.querySelector('#curves .plot');
        Plotly.toImage(area, {format: 'png', width: 400, height: 300})
          .then(done, (error) => done(String(error)));"""
    )
    assert image.startswith("data:image/png;base64,")
    assert Image.open(io.BytesIO(b64decode(image.split(",")[1]))).size == (400, 300)

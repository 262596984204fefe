"""The page of a model: what it says, and how it behaves in a real browser."""

import dataclasses
import json
import re

import numpy as np
import pytest
from report_cases import problems, resize
from test_shell import Reader
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import InvalidInputError, StorageError, WriteError
from romdp.core.text import with_error
from romdp.logs import fit
from romdp.logs.model import load_model
from romdp.reports import model_data, write_model_page
from romdp.reports.model_page import MEANING

EVIL = '<script>alert("x")</script>\'&'
ACTIONS = ("tea <b>&</b>", '"ale"', "café ☕")
WORLD = romdp.worlds.random_romdp(n_states=4, n_actions=3, n_observations=40, seed=3)
NAMES = [f"{EVIL} {i}" if i % 3 == 0 else f"Seite {i:02d} 手袋\u201d" for i in range(40)]


def log_of(world, steps, names, actions, policy="uniform"):
    seen = romdp.simulate(world, policy, steps, seed=0)
    return {
        "page": [names[i] for i in seen.observations],
        "offer": [actions[a] for a in seen.actions],
        "paid": 10 * seen.rewards - 4,
        "user": np.arange(steps) // 40,
    }


@pytest.fixture(scope="module")
def model():
    return fit(log_of(WORLD, 20_000, NAMES, ACTIONS), "page", "offer", "paid", "user")


@pytest.fixture(scope="module")
def shaky():
    """A model of few steps, of which one action is hardly ever taken."""
    policy = np.tile([0.9, 0.09, 0.01], (40, 1))
    log = log_of(WORLD, 800, NAMES, ACTIONS, policy)
    return fit(log, "page", "offer", "paid", "user")


def text_of(model, tmp_path):
    return write_model_page(model, tmp_path / "page.html").read_text(encoding="utf-8")


def data_of(page):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def part(page, name):
    return page[page.index(f'<section id="{name}">') :].split("</section>")[0]


def test_the_page_holds_the_model(model, tmp_path):
    page = text_of(model, tmp_path)
    data = data_of(page)
    assert data["actions"] == sorted(ACTIONS)
    assert len(data["states"]) == 4
    assert sorted(data["order"]) == [0, 1, 2, 3]
    for s, state in enumerate(data["states"]):
        assert state["share"] == pytest.approx(model.share[s], rel=1e-4)
        assert state["best"] == model.policy[s]
        assert state["size"] == model.partition.sizes[s]
        assert sum(state["margins"]) == state["size"]
        for a, action in enumerate(state["actions"]):
            assert action["visits"] == model.counts.visits[s, a]
            assert action["pays"] == with_error(model.rewards[s, a], model.reward_errors[s, a])
            law = model.mdp.transition[s, a]
            assert action["leads"][0] == [int(law.argmax()), pytest.approx(law.max(), abs=1e-4)]
    seen = data["observations"]
    assert sorted(seen["names"]) == sorted(NAMES)
    assert seen["visits"] == sorted(model.visits, reverse=True)
    assert seen["states"] == model.predict(seen["names"]).tolist()


def test_headline_figures_are_those_of_the_model(model, tmp_path):
    page = text_of(model, tmp_path)
    words = page[page.index('<div class="tiles">') : page.index('<div id="warnings">')]
    value, prediction = model.held_out.value, model.held_out.prediction
    promised = model.value_lower, model.value_if_markov, model.judged.logged_value
    for figure in (*promised, prediction.grouped, prediction.ungrouped):
        assert f"{figure:.4g}" in words
    for figure in (model.gain, value.estimate, value.low, value.high, value.logged):
        assert f"{figure:.4g}" in part(page, "earnings")  # the greedy policy is a footnote
    assert "20,000 rows" in words
    assert "500 episodes, 3 actions" in words


def test_every_tile_says_which_policy_it_means_and_is_short(model, shaky, tmp_path):
    for subject in (model, shaky):
        page = text_of(subject, tmp_path)
        words = page[page.index('<div class="tiles">') : page.index('<div id="warnings">')]
        lines = re.findall(r'<div class="(?:label|value)">(.*?)</div>', words)
        names, values, below = lines[::3], lines[1::3], lines[2::3]
        first = names.index("do something else, of the steps")
        promised = ["what that earns at least, per step"]
        if subject.value_lower != subject.value_if_markov:
            promised.append("the same if the states are right, per step")
        assert (first, names[1:]) == (0, [*promised, "hidden states", *names[len(promised) + 2 :]])
        assert max(map(len, below)) < 90
        assert values[first + 1] not in below[first + 1]  # said once
        assert "What to do differently: " in part(page, "earnings")


def test_names_are_text_wherever_they_go(model, shaky, tmp_path):
    for subject in (model, shaky):
        page = text_of(subject, tmp_path)
        reader = Reader(page)
        assert not reader.open
        assert len([tag for tag, _ in reader.tags if tag == "script"]) == 4
        assert "<b>&</b>" not in page.split("<script")[0]
        assert "<script>alert" not in page
        assert "".join(reader.words).count("<script>alert(") >= 3
        assert "café ☕" in "".join(reader.words)
        assert not [name for _, found in reader.tags for name in found if name.startswith("on")]


def test_nothing_is_fetched_and_nothing_needs_plotly(model, tmp_path):
    path = write_model_page(model, tmp_path / "a" / "page.html")
    assert path.stat().st_size < 100_000
    page = path.read_text(encoding="utf-8")
    assert "Plotly.newPlot" not in page
    outside = [found for _, found in Reader(page).tags if {"src", "href"} & set(found)]
    assert [found.get("href", found.get("src")) for found in outside] == ["data:,"]
    first = path.read_bytes()
    assert write_model_page(model, path).read_bytes() == first


def test_a_page_can_be_large_but_not_huge(model, tmp_path, monkeypatch):
    monkeypatch.setattr(model_data, "MOST_OBSERVATIONS", 25)
    monkeypatch.setattr("romdp.reports.model_page.MOST_OBSERVATIONS", 25)
    long = [f"{name} {'x' * 1000}" for name in model.observation_names]
    page = text_of(dataclasses.replace(model, observation_names=tuple(long)), tmp_path)
    seen = data_of(page)["observations"]
    assert len(seen["names"]) == len(seen["states"]) == 25
    assert max(map(len, seen["names"])) == 300
    assert min(seen["visits"]) >= np.sort(model.visits)[-25]
    assert "the 25 most frequent of 40" in part(page, "finder")


def test_what_speaks_against_it_comes_first(model, shaky, tmp_path):
    page = text_of(shaky, tmp_path)
    words = page[page.index('<div id="warnings">') : page.index('<section id="finder">')]
    failed = [check.name for check in shaky.checks if check.ok is False]
    assert "every action was tried in every state" in failed
    for name in failed:
        assert f"This check failed: {name}" in words
        assert MEANING[name] in words
    assert len(shaky.rarely_tried) > 2
    doubtful = int((shaky.certainty < 0.95).sum())
    assert doubtful
    assert f"{doubtful} of {shaky.n_observations} observations" in part(page, "doubts")
    assert f"{len(shaky.rarely_tried)} of" in part(page, "doubts")
    assert not model.warnings
    assert "No check speaks against" in text_of(model, tmp_path)


def test_every_check_is_explained(model):
    others = {"vectors are placed surely", "the past tells more than the last observation"}
    assert [check.name for check in model.checks] == [n for n in MEANING if n not in others]


def test_settings_are_told(model, tmp_path):
    words = part(text_of(model, tmp_path), "configuration")
    assert "observation: page, action: offer, reward: paid, episode: user" in words
    assert str(model.confidence).split("(", maxsplit=1)[0] in words
    assert f"numpy {np.__version__}" in words
    assert f"romdp {romdp.__version__}" in words


def test_models_with_less_to_say(tmp_path):
    log = log_of(WORLD, 3000, NAMES, ACTIONS)
    without_reward = text_of(fit(log, "page", "offer", episode="user"), tmp_path)
    assert data_of(without_reward)["rewarded"] is False
    assert "The log has no rewards" in without_reward
    assert "what to do</th>" not in without_reward
    one = text_of(fit(log, "page", "offer", "paid", "user", n_states=1), tmp_path)
    assert "1 hidden state behind" in one
    seen = romdp.simulate(WORLD, "uniform", 3000, seed=0)
    plain = text_of(fit(seen, method="overlap", n_states=4), tmp_path)  # gives no margins
    assert "gives no margins" in plain
    assert "a trajectory, without columns" in plain


def test_names_that_no_file_can_hold(model, tmp_path):
    names = ("\ud83d half", *model.observation_names[1:])
    page = text_of(dataclasses.replace(model, observation_names=names), tmp_path)
    assert "? half" in data_of(page)["observations"]["names"]


def test_directories(model, tmp_path):
    model.save(tmp_path / "model")
    path = write_model_page(tmp_path / "model")
    assert path == tmp_path / "model" / "report.html"
    assert path.read_bytes() == write_model_page(model, tmp_path / "again.html").read_bytes()
    path.write_text("somebody else's page")
    model.save(tmp_path / "model")  # a page inside does not keep a model from being replaced
    assert path.read_text() == "somebody else's page"
    with pytest.raises(StorageError, match="holds no model"):
        write_model_page(tmp_path)
    with pytest.raises(InvalidInputError, match="say where"):
        write_model_page(model)
    with pytest.raises(WriteError, match="cannot write"):
        write_model_page(model, tmp_path)


def test_fit_writes_the_page_and_report_writes_it_again(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(log_of(WORLD, 4000, NAMES, ACTIONS)), tmp_path / "log.parquet")
    out = tmp_path / "model"
    columns = (
        "--observation",
        "page",
        "--action",
        "offer",
        "--reward",
        "paid",
        "--episode",
        "user",
    )
    arguments = ["fit", str(tmp_path / "log.parquet"), *columns, "--out", str(out)]
    for force in ([], ["--force"]):  # the second replaces the first
        result = CliRunner().invoke(app, [*arguments, *force])
        assert result.exit_code == 0, result.output
        assert f"wrote {out / 'report.html'}" in result.output
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    result = CliRunner().invoke(app, ["report", str(out)])
    assert result.exit_code == 0, result.output
    assert f"wrote {out / 'report.html'}" in result.output
    assert (out / "report.html").read_bytes() == page
    result = CliRunner().invoke(app, ["report", str(out), "--out", str(tmp_path / "other.html")])
    assert (tmp_path / "other.html").read_bytes() == page
    assert len(data_of(page.decode())["states"]) == load_model(out).n_states


# ---- in a browser -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    return write_model_page(model, tmp_path_factory.mktemp("page") / "model.html")


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def click_node(browser, state):
    browser.execute_script(
        """document.querySelector(`#graph [data-state="${arguments[0]}"]`)
        .dispatchEvent(new MouseEvent("click", {bubbles: true}))""",
        state,
    )


def chosen(browser):
    return browser.find_element("css selector", "#detail h3").text


@pytest.mark.page
def test_it_renders_without_a_network(browser, model):
    assert len(all_of(browser, "#graph .node")) == 4
    assert len(all_of(browser, "#graph .move")) >= 4
    assert len(all_of(browser, "#states tbody tr[data-state]")) == 2 * 4  # states, and pays
    assert chosen(browser) == f"State {model.share.argmax()}"
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [name for name in loaded if not name.startswith("data:")] == []


@pytest.mark.page
def test_a_state_in_detail(browser, model):
    for state in range(4):
        click_node(browser, state)
        assert chosen(browser) == f"State {state}"
        words = browser.find_element("id", "detail").text
        assert f"Greedy: {model.action_names[model.policy[state]]}" in words
        asked = {str(model.act(name)) for name in model.typical(state, 50)}
        assert any(f"What to do: {name}." in words for name in {*asked, "as before"})
        listed = [cell.text for cell in all_of(browser, "#members td:first-child")]
        wanted = [" ".join(str(name).split()) for name in model.typical(state, 50)]
        assert listed == wanted
        assert len(all_of(browser, f'#graph .node.chosen[data-state="{state}"]')) == 1
        outgoing = (model.mdp.transition[state, model.policy[state]] >= 0.01).sum()
        stays = model.mdp.transition[state, model.policy[state], state] >= 0.01
        assert len(all_of(browser, "#graph .move.mine")) == outgoing - stays
    row = browser.find_element("css selector", '#states tr[data-state="1"]')
    row.click()
    assert chosen(browser) == "State 1"
    assert "chosen" in row.get_attribute("class")
    wanted = str(model.typical(1, 50)[-1])
    browser.find_element("id", "filter").send_keys(wanted)
    assert all_of(browser, "#members td:first-child")[0].text == wanted


@pytest.mark.page
def test_observations_are_found(browser, model):
    box = browser.find_element("id", "find")
    box.send_keys("SEITE 01")
    (row,) = all_of(browser, "#found tbody tr")
    cells = [cell.text for cell in row.find_elements("css selector", "td")]
    name = NAMES[1]
    state = model.predict(name)
    assert cells[:3] == [name, model.act(name) or "as before", str(state)]
    row.find_element("css selector", "button").click()
    assert chosen(browser) == f"State {state}"
    box.clear()
    box.send_keys("<script>alert")
    assert len(all_of(browser, "#found tbody tr")) == 12
    assert "and 2 more" in browser.find_element("id", "found").text
    box.send_keys("nothing has this")
    assert "No observation" in browser.find_element("id", "found").text


@pytest.mark.page
def test_moves_under_one_action(browser, model):
    from selenium.webdriver.support.select import Select

    menu = Select(browser.find_element("css selector", 'select[title="moves under"]'))
    words = [option.text for option in menu.options]
    assert words == [
        "the greedy policy",
        "the policy of the log",
        *(f"always: {name}" for name in sorted(ACTIONS)),
    ]
    click_node(browser, 0)
    for a in range(3):
        menu.select_by_value(str(a))
        law = model.mdp.transition[0, a].copy()
        law[0] = 0
        titles = browser.execute_script(
            "return [...document.querySelectorAll('.move.mine title')].map((t) => t.textContent)"
        )
        assert len(titles) == (law >= 0.01).sum()
        assert any(title.startswith(f"state 0 to state {law.argmax()}:") for title in titles)


@pytest.mark.page
@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_phone(browser, width):
    resize(browser, width, 800, mobile=True)
    browser.refresh()
    browser.find_element("id", "find").send_keys("a")
    for folded in all_of(browser, "details"):
        browser.execute_script("arguments[0].open = true", folded)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    (drawing,) = all_of(browser, "#graph svg")
    for area in [drawing, *all_of(browser, "input, select, .node")]:
        box = browser.execute_script(
            "const b = arguments[0].getBoundingClientRect(); return [b.left, b.right]", area
        )
        assert 0 <= box[0] <= box[1] <= width + 1


@pytest.mark.page
@pytest.mark.parametrize("n_states", [1, 2, 20, 50])
def test_any_number_of_states_is_drawn(chromium, tmp_path, n_states):
    world = romdp.worlds.random_romdp(
        n_states=n_states, n_actions=2, n_observations=2 * n_states, seed=0
    )
    seen = romdp.simulate(world, "uniform", 400 * n_states, seed=0)
    model = known_model(world, seen)
    resize(chromium, 1280, 900)
    chromium.get(write_model_page(model, tmp_path / "page.html").as_uri())
    assert len(all_of(chromium, "#graph .node")) == n_states
    note = chromium.find_element("id", "graph-note").text
    assert ("strongest" in note) == (n_states >= 20)
    assert len(all_of(chromium, "#graph .move")) <= 3 * n_states + 20
    chromium.find_element("id", "theme").click()
    chromium.find_element("id", "theme").click()
    assert problems(chromium) == []


def known_model(world, seen):
    """A model with the true grouping: nothing is learned here, it is only drawn."""
    from romdp.data.counts import Counts
    from romdp.logs.model.latent import build

    y = world.n_observations
    return build(
        romdp.Partition(world.labels),
        Counts.from_trajectory(seen),
        np.full(y, 5.0),
        np.full(y, 0.99),
        observation_names=tuple(range(y)),
        action_names=("a", "b"),
        reward_range=(0.0, 1.0),
        n_rows=seen.n_steps,
    )

"""XES files: event logs of processes, as their owners have them."""

import gzip

import pytest
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import InvalidInputError
from romdp.logs.reading.xes import read_xes

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
MOMENT = "2024-03-0{}T10:00:00.000+01:00"


def event(name, day=None, more=""):
    time = "" if day is None else f'<date key="time:timestamp" value="{MOMENT.format(day)}"/>'
    return f'<event><string key="concept:name" value="{name}"/>{time}{more}</event>'


def log(*cases, head=HEAD, tag="log"):
    traces = "".join(
        f'<trace><string key="concept:name" value="c{i}"/>{"".join(events)}</trace>'
        for i, events in enumerate(cases)
    )
    defaults = '<global scope="event"><string key="concept:name" value="none"/></global>'
    return f'{head}<{tag} xmlns="http://www.xes-standard.org/">{defaults}{traces}</{tag}>'


@pytest.fixture
def write(tmp_path):
    def write(text, name="log.xes"):
        path = tmp_path / name
        content = text.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize("name", ["log.xes", "log.xes.gz"])
def test_events_are_rows_and_attributes_are_columns(write, name):
    cost = '<int key="cost" value="3"/><list key="parts"><string key="x" value="y"/></list>'
    table = read_xes(write(log([event("A", 1), event("B", 2, cost)], [event("A", 1)]), name))
    assert table.to_pydict() == {
        "case:concept:name": ["c0", "c0", "c1"],
        "concept:name": ["A", "B", "A"],
        "time:timestamp": table["time:timestamp"].to_pylist(),
        "cost": [None, 3, None],
    }
    assert str(table["time:timestamp"].type).startswith("timestamp")


def test_a_log_is_fitted_by_its_standard_names(write):
    """Events are sorted by their times, and those of equal times stay as they are."""
    first = [event("A", 1), event("C", 2), event("B", 2)]
    model = romdp.fit(write(log(*[first, [first[1], first[2], first[0]]] * 20)), holdout=0)
    assert set(model.observation_names) == {"A", "B", "C"}
    assert model.n_episodes == 40
    assert model.counts.ends.sum() == 40
    assert model.settings["ends"] == "terminated"
    a, b, c = model.predict(["A", "B", "C"])
    assert model.counts.transitions[a, 0, c] == 40
    assert model.counts.transitions[c, 0, b] == 40
    assert not any("action" in warning or "policy" in warning for warning in model.warnings)


def test_events_without_times_stay_as_they_are(write):
    model = romdp.fit(write(log(*[[event("A"), event("B"), event("A", 1)]] * 9)), holdout=0)
    assert model.columns["order"] is None
    assert model.counts.starts[model.predict("A")] == 9


def test_what_is_named_is_used_in_place_of_the_standard(write):
    more = '<string key="lifecycle:transition" value="complete"/>'
    path = write(log(*[[event("A", 1, more), event("B", 2, more)]] * 9))
    model = romdp.fit(
        path, observation=["concept:name", "lifecycle:transition"], ends="truncated", holdout=0
    )
    assert sorted(model.observation_names)[0].startswith("A")
    assert model.counts.ends.sum() == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (log([event("A")], head='<!DOCTYPE log [<!ENTITY e "x">]>'), "document type"),
        (log([event("A")])[:-20], "damaged"),
        ("not XML", "not an XES file"),
        (log(), "no events"),
        (log([event("A", 1, '<int key="n" value="many"/>')]), "'many' is no int"),
    ],
)
def test_a_file_that_is_no_log_is_refused(write, text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_xes(write(text))


def test_values_of_several_kinds_are_text(write):
    kinds = ['<int key="n" value="3"/>', '<string key="n" value="many"/>']
    table = read_xes(write(log([event("A", None, kind) for kind in kinds])))
    assert table["n"].to_pylist() == ["3", "many"]


def test_the_command_reads_an_event_log(write, tmp_path):
    path = write(log(*[[event("A", 1), event("B", 2)], [event("A", 1), event("C", 2)]] * 30))
    told = CliRunner().invoke(app, ["fit", str(path), "--out", str(tmp_path / "model"), "--quiet"])
    assert told.exit_code == 0, told.output
    assert romdp.load_model(tmp_path / "model").n_episodes == 60
    assert "best action" not in told.output

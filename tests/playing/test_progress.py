"""The progress bar: on stderr or in a notebook, where a person looks, and quiet elsewhere."""

import sys
from types import SimpleNamespace

import pytest
from matplotlib import pyplot

import romdp
from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.playing.player import progress_bar
from romdp.worlds import random_romdp

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)


def test_play_is_quiet_where_no_terminal_is(capfd):
    romdp.play(romdp.PSRL(), WORLD, 100)
    romdp.play(romdp.PSRL(), WORLD, 100, progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_shown_on_stderr_on_request(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with_bar = romdp.play(romdp.PSRL(), WORLD, 100, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "psrl" in err
    assert "100 steps" in err
    assert with_bar.reward[-1] == romdp.play(romdp.PSRL(), WORLD, 100).reward[-1]


def test_a_terminal_gets_a_bar(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    romdp.play(romdp.PSRL(), WORLD, 100)
    assert "psrl" in capfd.readouterr().err


def test_listeners_hear_the_epochs_beside_the_bar():
    heard = []
    run = romdp.play(romdp.PSRL(), WORLD, 100, progress=True, callback=heard.append)
    assert len(heard) == len(run.epochs)


def test_the_bar_follows_the_steps(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("mine", 1000) as show:
        for epoch in romdp.epochs(romdp.PSRL(), WORLD, 400):
            show(epoch)
    err = capfd.readouterr().err
    assert "mine" in err
    assert "400 of 1,000 steps" in err
    assert "9 groups" in err


@pytest.fixture
def notebook(monkeypatch):
    """Pretend that a notebook runs this; returns what it shows, one list per bar."""
    bars = []

    class Handle:
        def __init__(self, shown):
            self.shown = [shown]

        def update(self, shown):
            self.shown.append(shown)

    def display(what, display_id):
        assert display_id
        bars.append(Handle(what))
        return bars[-1]

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    screen = SimpleNamespace(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython.display", screen)
    return bars


def test_a_notebook_gets_a_bar_of_its_own(notebook, capfd):
    romdp.play(romdp.PSRL(), WORLD, 100)
    (bar,) = notebook
    assert bar.shown[0] == 'psrl <progress value="0.0000" max="1"></progress> '
    assert 'value="1.0000"' in bar.shown[-1]
    assert "100 of 100 steps; regret" in bar.shown[-1]
    assert capfd.readouterr() == ("", "")


def test_a_notebook_can_be_told_to_show_nothing(notebook):
    romdp.play(romdp.PSRL(), WORLD, 100, progress=False)
    assert notebook == []


def test_an_experiment_shows_one_bar_in_a_notebook(notebook, tmp_path):
    few = Experiment(worlds=("random-romdp",), agents=("psrl",), seeds=2, steps=50)
    run_experiment(RunDirectory.create(tmp_path / "runs", few))
    (bar,) = notebook
    assert bar.shown[-1].endswith('<progress value="1.0000" max="1"></progress> 2 of 2 runs')
    run_experiment(RunDirectory.open(tmp_path / "runs"))
    assert notebook[-1].shown[-1].endswith("2 of 2 runs")  # nothing was left to do


def test_a_figure_is_pyplots():
    run = romdp.play(romdp.PSRL(), WORLD, 100)
    axes = run.plot()
    assert pyplot.gca() is axes  # so that pyplot.show() and savefig() are about it
    assert run.plot(axes) is axes
    assert pyplot.get_fignums() == [axes.figure.number]
    pyplot.close(axes.figure)

"""The progress bar: on stderr, where a person looks, and quiet elsewhere."""

import sys

import romdp
from romdp.playing.progress import progress_bar
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

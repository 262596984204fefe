"""Run directories made as by `romdp compare`, runs made up by hand, and a browser for pages."""

import shutil

import numpy as np
import pytest
from cases import fail, lose

from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.agents import Settings
from romdp.experiments.worlds import NamedWorld
from romdp.reports.reading import EpochGrouping, Record


def make_record(agent="a", seed=0, step=(1, 10, 100), regret=(1.0, 2.0, 3.0), **changes):
    """Make a run with four observations of two states that ends with the truth."""
    step = np.array(step)
    regret = np.array(regret, float)
    labels = [[0, 1, 2, 3], [0, 0, 1, 2], [0, 0, 1, 1]]
    entries = {
        "agent": agent,
        "world": "w",
        "n_observations": 4,
        "seed": seed,
        "curves": {
            "step": step,
            "regret": regret,
            "pseudo_regret": regret + 1,
            "n_clusters": np.linspace(4, 2, len(step)).astype(int),
            "reward": step / 2,
            "mean_return": np.full(len(step), np.nan),
        },
        "epochs": {},
        "groups": columns_of(make_groupings(labels)),
        "hidden_state": np.array([0, 0, 1, 1]),
        "facts": {},
    }
    if "groupings" in changes:
        changes["groups"] = columns_of(changes.pop("groupings"))
    return Record(**{**entries, **changes})


def columns_of(groupings):
    return {
        name: np.array([getattr(one, name) for one in groupings])
        for name in ("epoch", "step", "labels")
    }


def make_groupings(labels):
    return tuple(
        EpochGrouping(number + 1, 10 * number, np.array(row)) for number, row in enumerate(labels)
    )


def make_run_directory(path, **changes):
    """Play a small comparison; ``changes`` are entries of `Experiment` to replace."""
    world = NamedWorld("random-romdp", {"n_states": 3, "n_actions": 2})
    entries = {
        "worlds": (world,),
        "agents": ("ucrl2", "lc-psrl", "oracle"),
        "observations": (6, 9),
        "steps": 1500,
        "seeds": 2,
        "settings": Settings(scale=0.1),
    }
    directory = RunDirectory.create(path, Experiment(**{**entries, **changes}))
    assert run_experiment(directory) == []
    return directory.path


def change_runs(path, lost=(), failed=None):
    """Take runs out of a directory, or make them runs that failed; both by name."""
    directory = RunDirectory.open(path)
    runs = {run.id: run for run in directory.experiment.runs}
    lose(directory, *(runs[name] for name in lost))
    for name, error in (failed or {}).items():
        fail(directory, runs[name], error)


BROWSER_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1280,900"),
)


def start(profile):
    from selenium import webdriver

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("install the browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in (*BROWSER_OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def resize(browser, width, height, mobile=False):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile},
    )


def problems(browser):
    """Return what the console holds since it was last asked."""
    return [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]

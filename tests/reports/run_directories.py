"""Small run directories, made as `romdp compare` makes them."""

from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.agents import Settings
from romdp.experiments.worlds import NamedWorld


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
    numbers = {run.id: number for run, number in directory.numbers.items()}
    with directory.index(writing=True) as index:
        index.forget([numbers[name] for name in lost])
        for name, error in (failed or {}).items():
            index.store_error(numbers[name], error)

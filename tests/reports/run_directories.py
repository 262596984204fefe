"""Small run directories, made as `romdp compare` makes them."""

from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.catalogue import Settings
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

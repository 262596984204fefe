"""Small experiments, and what is in their directories."""

from romdp.experiments import Experiment
from romdp.experiments.agents import Settings


def small(**changes):
    """Two agents, two sizes, two seeds: eight short runs."""
    arguments = {
        "worlds": ({"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}},),
        "agents": ("ucrl2", "oracle"),
        "observations": (6, 9),
        "steps": 2000,
        "seeds": 2,
        "settings": Settings(scale=0.1),
    }
    return Experiment(**{**arguments, **changes})


def tables(directory):
    """Return the bytes of every table by its name, which holds a hash of them."""
    return {path.name: path.read_bytes() for path in (directory / "tables").iterdir()}


def lose(directory, *runs):
    """Take finished runs out of a directory, as if they had never been done."""
    with directory.index(writing=True) as index:
        index.forget([directory.numbers[run] for run in runs])


def fail(directory, run, error):
    """Make a run one that failed."""
    with directory.index(writing=True) as index:
        index.store_error(directory.numbers[run], error)

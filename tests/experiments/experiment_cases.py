"""Small experiments."""

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

"""Runs made up by hand, to know what must come out."""

import numpy as np

from romdp.reports.reading import Grouping, Record


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
        },
        "epochs": {},
        "groupings": make_groupings(labels),
        "hidden_state": np.array([0, 0, 1, 1]),
        "facts": {},
    }
    return Record(**{**entries, **changes})


def make_groupings(labels):
    return tuple(
        Grouping(number + 1, 10 * number, np.array(row)) for number, row in enumerate(labels)
    )

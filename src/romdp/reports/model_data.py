"""What the script of a model's page needs, as plain data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.logs.model.checks import SURE
from romdp.logs.model.latent import LatentModel
from romdp.reports.choices import Choices
from romdp.reports.palette import STATE_COLOURS, UNSEEN_COLOUR

Floats = NDArray[np.float64]

MOST_OBSERVATIONS = 20_000
"""So many observations are in the page, the most frequent ones."""

MOST_NODES = 50
"""So many states are in the graph, the most visited ones."""

_NAME = 300  # letters kept of a name
_MOST_AHEAD = 20  # states that an action leads to
_NEGLIGIBLE = 0.005  # chance of one that is left out
_BOUNDS = (0.5, 0.8, SURE, 0.99, 0.999)
_BINS = ("under 50%", "50-80%", "80-95%", "95-99%", "99-99.9%", "over 99.9%")


def model_page_data(model: LatentModel, facts: dict[str, Any], found: Choices) -> dict[str, Any]:
    """Collect the states, the moves between them and the observations.

    Parameters
    ----------
    model, facts
        The model and what `romdp.logs.model.model_facts` says of it.
    found
        What `romdp.reports.choices.choices` says of it.
    """
    logged = logged_moves(model)
    return {
        "actions": [name_text(name) for name in model.action_names],
        "rewarded": model.reward_range is not None,
        "rare": model.rare,
        "delta": model.delta,
        "states": [
            _state(model, facts["states"][s], found, logged[s]) for s in range(model.n_states)
        ],
        "order": circle_order(model),
        "bins": _BINS,
        "colours": _action_colours(model),
        "otherColour": UNSEEN_COLOUR,
        "observations": _observations(model),
        "nObservations": model.n_observations,
    }


def name_text(name: object) -> str:
    """Write the name of an observation or an action, cut where it is very long."""
    text = str(name)
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"


def _state(
    model: LatentModel, facts: dict[str, Any], found: Choices, logged: Floats
) -> dict[str, Any]:
    state = facts["state"]
    return {
        "share": facts["share"],
        "future": found.future[state],
        "size": facts["n_observations"],
        "best": int(model.policy[state]),
        "cautious": int(model.cautious_policy[state]),
        "sure": found.sure[state],
        "logged": ahead(logged),
        "margins": margin_counts(model.certainty[model.partition.labels == state]),
        "actions": [
            {
                "visits": action["visits"],
                "pays": action["reward"],
                "width": action["reward_width"],
                "loses": found.losses[state, a],
                "leads": None if action["leads_to"] is None else ahead(action["leads_to"]),
            }
            for a, action in enumerate(facts["actions"])
        ],
    }


def ahead(law: Sequence[float] | Floats) -> list[list[float]]:
    """List the likeliest next states with their chances, the likeliest first.

    Examples
    --------
    >>> ahead([0.2, 0.0, 0.8])
    [[2, 0.8], [0, 0.2]]
    """
    chances = np.asarray(law, np.float64)
    order = np.argsort(-chances, kind="stable")[:_MOST_AHEAD]
    return [[int(s), round(float(chances[s]), 4)] for s in order if chances[s] >= _NEGLIGIBLE]


def margin_counts(certainty: Floats) -> list[int]:
    """Count certainties in bins that get finer towards one; those that are not known are left out.

    Examples
    --------
    >>> margin_counts(np.array([0.3, 0.9, 0.9, 1.0, np.nan]))
    [1, 0, 2, 0, 0, 1]
    """
    known = certainty[np.isfinite(certainty)]
    return np.bincount(np.digitize(known, _BOUNDS), minlength=len(_BINS)).tolist()  # type: ignore[no-any-return]


def logged_moves(model: LatentModel) -> Floats:
    """Return where every state led in the log, whatever was done there."""
    transitions = model.counts.dense().transitions
    assert isinstance(transitions, np.ndarray)
    moves = transitions.sum(axis=1)
    laws: Floats = moves / np.maximum(1, moves.sum(axis=1, keepdims=True))
    return laws


def circle_order(model: LatentModel) -> list[int]:
    """Order the states around a circle so that those that lead to each other are near.

    The angle is that of a state's place in the plane of the two smoothest eigenvectors of the
    graph's Laplacian.
    """
    states = np.sort(np.argsort(-model.share, kind="stable")[:MOST_NODES])
    rewarded = model.reward_range is not None
    laws = (
        model.mdp.transition[np.arange(model.n_states), model.policy]
        if rewarded
        else logged_moves(model)
    )[np.ix_(states, states)]
    links = laws + laws.T
    np.fill_diagonal(links, 0.0)
    if len(states) < 4:
        return [int(s) for s in states]
    vectors = np.linalg.eigh(np.diag(links.sum(axis=1)) - links)[1]
    angles = np.arctan2(vectors[:, 2], vectors[:, 1])
    return [int(s) for s in states[np.argsort(angles, kind="stable")]]


def _action_colours(model: LatentModel) -> list[str]:
    """Give the actions that are recommended in most steps a colour of their own."""
    weight = np.bincount(model.policy, model.share, model.n_actions)
    place = np.argsort(np.argsort(-weight, kind="stable"), kind="stable")
    return [STATE_COLOURS[p] if p < len(STATE_COLOURS) else UNSEEN_COLOUR for p in place]


def _observations(model: LatentModel) -> dict[str, Any]:
    """List the most frequent observations, as columns."""
    kept = np.argsort(-model.visits, kind="stable")[:MOST_OBSERVATIONS]
    return {
        "names": [name_text(model.observation_names[i]) for i in kept],
        "states": model.partition.labels[kept],
        "visits": model.visits[kept],
        "certainty": model.certainty[kept].round(5),
    }

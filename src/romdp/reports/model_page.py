"""The page of a model: what a log taught, in one HTML file that opens from disk."""

import os
from pathlib import Path
from typing import Any

from romdp.core.errors import InvalidInputError
from romdp.logs.model.facts import model_facts
from romdp.logs.model.files import load_model
from romdp.logs.model.latent import LatentModel
from romdp.reports.choices import choices
from romdp.reports.model_data import MOST_NODES, MOST_OBSERVATIONS, model_page_data
from romdp.reports.model_parts import checks, configuration, doubts, earnings, headline, warnings
from romdp.reports.model_tables import pay_table, state_table
from romdp.reports.shell import Html, asset, document, element, folded, section, write_page

_INPUT = (
    '<input type="search" id="find" placeholder="name of an observation" '
    'aria-label="name of an observation" autocomplete="off" spellcheck="false">'
)


def write_model_page(
    model_or_directory: LatentModel | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
) -> Path:
    """Write the page of a fitted model.

    Parameters
    ----------
    model_or_directory
        A model, or the directory that `LatentModel.save` or ``romdp fit`` wrote.
    path
        The file to write; by default ``report.html`` in the directory.

    Returns
    -------
    Where the page is. It needs no network, no other file and no package for drawing.

    Raises
    ------
    StorageError
        Where the directory is missing, damaged or foreign.

    Examples
    --------
    >>> import romdp, tempfile
    >>> world = romdp.worlds.random_romdp(n_states=2, n_actions=2, n_observations=6, seed=0)
    >>> model = romdp.fit(romdp.simulate(world, "uniform", 2000, seed=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model_page(model, f"{folder}/model.html").name
    'model.html'
    """
    if isinstance(model_or_directory, LatentModel):
        model = model_or_directory
        if path is None:
            raise InvalidInputError("say where to write the page of the model: pass path")
        target = Path(path)
    else:
        model = load_model(model_or_directory)
        target = Path(model_or_directory) / "report.html" if path is None else Path(path)
    # A name may hold half of a surrogate pair, which no file can.
    return write_page(target, model_page(model).encode("utf-8", "replace").decode())


def model_page(model: LatentModel) -> str:
    """Return the page as text."""
    facts, found = model_facts(model), choices(model)
    summary = facts["summary"]
    episodes = "episode" if model.n_episodes == 1 else "episodes"
    actions = "action" if model.n_actions == 1 else "actions"
    return document(
        f"{model.n_states} hidden state{'' if model.n_states == 1 else 's'} behind "
        f"{model.n_observations:,} observations",
        headline(facts),
        warnings(facts),
        _finder(model),
        _graph(model),
        section(
            "states",
            "The hidden states",
            state_table(model, facts, found),
            folded("What every action pays", *pay_table(model, facts)) if _pays(summary) else "",
            note=_state_note(summary),
        ),
        earnings(facts),
        checks(facts),
        doubts(model, facts),
        section("configuration", "What was done", *configuration(model, facts)),
        subtitle=f"{model.n_rows:,} rows in {model.n_episodes:,} {episodes}, "
        f"{model.n_actions} {actions}; grouped by {model.method}.",
        data=model_page_data(model, facts, found),
        script=asset("graph.js") + asset("model.js"),
        style=asset("model.css"),
        plotly=False,
    )


def _pays(summary: dict[str, Any]) -> bool:
    return summary["reward_range"] is not None


def _state_note(summary: dict[str, Any]) -> str:
    note = "Click a row to see everything about its state. Share: of the log's steps."
    if _pays(summary):
        note += (
            " Sure: the chance that the best action beats the one that comes closest among those "
            "that were tried, given the states and their values. Share then: of the steps, if the "
            "best actions are followed."
        )
    return note


def _finder(model: LatentModel) -> Html:
    known = min(model.n_observations, MOST_OBSERVATIONS)
    note = "Type part of its name to see its state and what to do."
    if known < model.n_observations:
        note += (
            f" The page knows the {known:,} most frequent of {model.n_observations:,}; "
            "`romdp apply` answers for all."
        )
    return section(
        "finder",
        "Find an observation",
        Html(_INPUT),
        element("div", id="found", aria_live="polite"),
        note=note,
    )


def _graph(model: LatentModel) -> Html:
    some = model.n_states > MOST_NODES
    return section(
        "map",
        "From state to state",
        element("div", id="views", class_="row"),
        element(
            "div",
            element(
                "div",
                element("div", id="graph"),
                element("div", id="legend", class_="row"),
                element("p", id="graph-note", class_="note"),
                class_="card",
            ),
            element("div", id="detail", class_="card", aria_live="polite", tabindex="-1"),
            class_="beside",
        ),
        note="Size: share of the log's steps. Ring: chance to stay. Arrows: chance to move on. "
        + (f"The {MOST_NODES} most visited of {model.n_states} states are drawn. " if some else "")
        + "Click a state.",
    )

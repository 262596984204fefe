"""The page of a model: what a log or a run taught, in one HTML file that opens from disk."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from romdp import __version__
from romdp.core.errors import InvalidInputError, MisuseError
from romdp.core.text import count, number
from romdp.core.validation import as_path
from romdp.logs.model.checks import SURE
from romdp.logs.model.files import load_model
from romdp.logs.model.latent import LatentModel
from romdp.logs.model.text import model_facts, noun
from romdp.playing.run import Run
from romdp.reports.learning import curve_section, groups_section, objective_of, run_tiles
from romdp.reports.model_data import (
    MOST_NODES,
    MOST_OBSERVATIONS,
    compare_actions,
    go,
    model_page_data,
    more,
    name_text,
    pay_table,
    state_table,
)
from romdp.reports.portraits import looks_of, portrait_section
from romdp.reports.shell import (
    Html,
    alert,
    asset,
    document,
    element,
    facts,
    folded,
    section,
    table,
    tiles,
    write_page,
)

_MOST_LISTED = 50
_VERSIONS = ("numpy", "scipy", "numba", "pyarrow")
_INPUT = (
    '<input type="search" id="find" placeholder="name of an observation" '
    'aria-label="name of an observation" autocomplete="off" spellcheck="false">'
)

MEANING = {
    "observations are placed surely": "An observation in the wrong state gets the wrong action.",
    "vectors are placed surely": "A vector in the wrong state gets the wrong action.",
    "the past tells more than the last observation": "Otherwise states need not look back.",
    "every action was tried in every state": "What was rarely tried cannot be judged: "
    "something better may hide there.",
    "the policy rests on experience": "What a handful of tries recommends may have been luck.",
    "every state leads to every other": "Long-run averages assume that no state is left for good.",
    "the policy has one long-run gain": "Otherwise what the policy earns depends on where it "
    "begins, and its gain is an average.",
    "the observations of a state are alike": "Otherwise different states were taken for one, and "
    "neither the gains nor the policy can be relied on.",
    "the hidden states are Markov": "The plan assumes that the present state tells all that the "
    "past can tell about what comes next.",
    "the world stayed the same": "What was learned is to be done in the world as it is now.",
    "whoever wrote the log chose by what was seen": "Otherwise what their actions brought may be "
    "due to what made them act.",
    "hidden states predict better than single observations": "Otherwise the grouping loses "
    "something that matters.",
}
"""Why each check of a model is made, in a sentence."""


def write_model_page(
    model: LatentModel | Run | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    environment: str = "its environment",
) -> Path:
    """Write the page of a model.

    Parameters
    ----------
    model
        A model, or the directory that `LatentModel.save` or ``romdp fit`` wrote; or a run, whose
        page also tells how it learned.
    path
        The file to write; by default ``report.html`` in the directory.
    environment
        What the page of a run calls the place where it was played.

    Returns
    -------
    Path
        Where the page is. It needs no network, no other file and no package for drawing.

    Raises
    ------
    StorageError
        If the directory is missing, damaged or foreign.

    Examples
    --------
    >>> import romdp, tempfile
    >>> world = romdp.worlds.random_romdp(n_states=2, n_actions=2, n_observations=6, seed=0)
    >>> model = romdp.fit(romdp.simulate(world, "uniform", 2000, seed=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model_page(model, f"{folder}/model.html").name
    'model.html'
    """
    if isinstance(model, LatentModel | Run):
        if path is None:
            raise InvalidInputError("say where to write the page of the model: pass path")
        target = as_path(path)
    else:
        folder = as_path(model, "model")
        target = folder / "report.html" if path is None else as_path(path)
        model = load_model(model)
    if isinstance(model, LatentModel):
        page = model_page(model)
    elif not model.steps.size:
        raise MisuseError("nothing was played yet, so there is nothing to show")
    else:
        try:
            page = model_page(model.model, model, environment)
        except MisuseError as error:
            page = _page_without_states(model, environment, f"{error}.")
    # A name may hold half of a surrogate pair, which no file can.
    return write_page(target, page.encode("utf-8", "replace").decode())


def model_page(model: LatentModel, run: Run | None = None, environment: str = "") -> str:
    """Return the page as text; that of a run tells how it went and has nothing to judge it by."""
    content, compared = model_facts(model), compare_actions(model)
    rewarded = model.reward_range is not None
    looks, bars = looks_of(model)
    title = f"{count(model.n_states, 'hidden state')} behind {model.shown}"
    subtitle = (
        f"{model.n_rows:,} rows in {count(model.n_episodes, 'episode')}, "
        f"{count(model.n_actions, 'action')}; grouped by {model.method}."
    )
    if run is not None:
        title = f"{run.agent} in {environment}: {title}"
        subtitle = (
            f"{run.steps[-1]:,} steps, {len(run.returns):,} finished episodes; "
            f"objective: {objective_of(run)}."
        )
    note = f"Click a row to see everything about its state. Share: of all steps.{bars}"
    if model.plan is not None:
        average = model.objective == "average"
        sum_ = "what is earned above the average" if average else "the sum of rewards, discounted,"
        note += f" Value: {sum_} from there on, if the policy is followed."
    elif rewarded:
        note += (
            " What to do: what the log bears out. Greedy: what looks best in the fitted model. "
            "Sure: the probability that it beats the action that comes closest among those that "
            "were tried, given the states and their values. Share then: of the steps, if the "
            "greedy actions are followed."
        )
    learning = [] if run is None else [curve_section(run), groups_section(run)]
    of_log = model.plan is None
    return document(
        title,
        _headline(model, content, run),
        _warnings(content, model.decoder.notes if model.decoder else ()) if of_log else "",
        *([_earnings(content)] if of_log else learning),
        section(
            "states",
            "The hidden states, and what to do",
            state_table(model, content, compared, looks),
            folded("What every action pays", *pay_table(model, content)) if rewarded else "",
            note=note,
        ),
        _finder(model) if model.named else "",  # vectors have no names to look for
        portrait_section(model),
        _graph(model),
        _memory(model),
        *([_checks(content), _doubts(model, content)] if of_log else []),
        section("configuration", "What was done", _configuration(model, content, run, environment)),
        subtitle=subtitle,
        data=model_page_data(model, content, compared),
        script=asset("graph.js") + asset("model.js"),
        style=asset("model.css"),
        plotly=False,
    )


def _page_without_states(run: Run, environment: str, why: str) -> str:
    """Return the page of a run that leaves no model."""
    return document(
        f"{run.agent} in {environment}",
        tiles(run_tiles(run)),
        curve_section(run),
        groups_section(run),
        section("states", "The hidden states, and what to do", note=why),
        section("configuration", "What was done", _run_facts(run, environment)),
        style=asset("model.css"),
        plotly=False,
    )


def _headline(model: LatentModel, content: dict[str, Any], run: Run | None) -> Html:
    """Make the tiles with the figures that are asked for first."""
    summary, held = content["summary"], content["held_out"] or {}
    found = [
        *([] if run is None else run_tiles(run)),
        *(_promises(model) if summary["gain"] is not None and model.plan is None else []),
        ("hidden states", number(summary["n_states"]), f"behind {model.shown}"),
        (
            "log" if model.plan is None else "run",
            f"{summary['n_rows']:,} {'rows' if model.plan is None else 'steps'}",
            f"{count(summary['n_episodes'], 'episode')}, {count(summary['n_actions'], 'action')}",
        ),
    ]
    prediction = held.get("prediction")
    if prediction and model.named:  # a vector occurs once and alone predicts nothing
        more = f"{number(prediction['ungrouped'])} without hidden states "
        more += f"({prediction['gain']:+.3g} ± {2 * prediction['gain_error']:.2g})"
        name = "held-out log likelihood, per step"
        found.append((name, number(prediction["grouped"]), more))
    return tiles(found)


def _promises(model: LatentModel) -> list[tuple[str, str, str]]:
    """Say in brief what is promised; it is told in full below."""
    judged = model.judged
    per = "step" if model.objective == "average" else "episode"
    departs = judged.asked >= 0
    share = model.visits[departs].sum() / max(1, model.visits.sum())
    where = f"at {count(int(departs.sum()), noun(model))}; elsewhere go on as before"
    found = [("do something else, of the steps", f"{share:.0%}", where)]
    bounds = [
        (
            "what that earns at least",
            judged.value_lower,
            f"95% confidence, by {judged.value_basis}",
        ),
        ("the same if the states are right", judged.value_if_markov, "95% confidence in the model"),
    ]
    for name, bound, sure in bounds[: 1 + (bounds[0][1] != bounds[1][1])]:
        known = bool(np.isfinite(bound))
        more = f"{sure}; the log's policy earns {number(judged.logged_value)}" if known else ""
        found.append((f"{name}, per {per}", number(bound) if known else "not known", more))
    return found


def _warnings(content: dict[str, Any], of_vectors: Sequence[str] = ()) -> Html:
    """Say first what speaks against relying on the model."""
    failed = [check for check in content["checks"] if check["ok"] is False]
    lines: list[tuple[object, ...]] = [
        (
            element("b", f"This check failed: {check['name']}."),
            f" {_sentence(check['text'])} {MEANING.get(check['name'], '')}",
        )
        for check in failed
    ]
    for note in of_vectors:
        what, _, text = note.partition(": ")
        lines.append((element("b", f"{what}."), f" {_sentence(text)}"))
    serious = bool(lines)
    lines += [(_sentence(note),) for note in (content["held_out"] or {}).get("notes", ())]
    doubtful = [found for found in content["margins"]["doubtful"] if found["certainty"] < SURE]
    if doubtful and all(check["name"] != "observations are placed surely" for check in failed):
        lines.append(
            (
                element("b", "Some observations are doubtful."),
                " Few steps show them, but their state, and so their action, is uncertain: see ",
                element("a", "what is doubtful", href="#doubts"),
            )
        )
    if not lines:
        text = "No check speaks against the model; what was checked is listed below."
        return element("div", element("p", text, class_="note"), id="warnings")
    title = element("p", element("b", "Before you rely on it" if serious else "Good to know"))
    listed = element("ul", *(element("li", *line) for line in lines))
    return element("div", alert(title, listed), id="warnings")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _finder(model: LatentModel) -> Html:
    known = min(model.n_observations, MOST_OBSERVATIONS)
    note = "Type part of its name to see its state and what to do."
    if known < model.n_observations:
        note += (
            f" The page knows the {known:,} most frequent of {model.n_observations:,}; "
            "`romdp apply` answers for all."
        )
    found = element("div", id="found", aria_live="polite")
    return section("finder", "Find an observation", Html(_INPUT), found, note=note)


def _graph(model: LatentModel) -> Html:
    some = f"The {MOST_NODES} most visited of {model.n_states} states are drawn. "
    graph = element(
        "div",
        element("div", id="graph"),
        element("div", id="legend", class_="row"),
        element("p", id="graph-note", class_="note"),
        class_="card",
    )
    detail = element("div", id="detail", class_="card", aria_live="polite", tabindex="-1")
    return section(
        "map",
        "From state to state",
        element("div", id="views", class_="row"),
        element("div", graph, detail, class_="beside"),
        note="Size: share of all steps. Ring: probability to stay. Arrows: probability to move on. "
        f"{some if model.n_states > MOST_NODES else ''}Click a state.",
    )


def _memory(model: LatentModel) -> Html:
    """Say what it brings to look back, and how many states that takes."""
    if model.memory is None:
        return Html("")
    machine = model.memory.machine
    text = (
        f"States look back: each stands for the histories named with it, and the graph shows "
        f"which follows which. The machine behind them has {count(machine.n_states, 'state')}."
    )
    if np.isfinite(machine.gain):
        text += (
            f" Held-out steps are predicted better by {machine.gain:.3f} nats per step (standard "
            f"error {machine.error:.3f}) than without looking back."
        )
    rows = [[round(size), f"{score:.3f}"] for size, score in machine.curve.tolist()]
    heads = ["states", "nats per held-out step"]
    curve = table(heads, rows) if rows else ""
    return section("memory", "What memory brings", curve, note=text)


def _earnings(content: dict[str, Any]) -> Html:
    """Say what the policy earns, in the words of the terminal."""
    said = content["summary"]["earnings"]
    text = " ".join(_sentence(line) for line in said)
    text = text or "The log has no rewards: there is nothing to recommend, only states and moves."
    return section("earnings", "What it earns", note=text)


def _checks(content: dict[str, Any]) -> Html:
    """List what was checked, with the figures behind every answer."""
    answers = {True: "yes", False: "no", None: "open"}
    rows = [
        [
            element("b", answers[check["ok"]], class_=f"answer {answers[check['ok']]}"),
            check["name"],
            element("div", _sentence(check["text"]), class_="words"),
            element("div", MEANING.get(check["name"], ""), class_="words"),
        ]
        for check in content["checks"]
    ]
    made = table(["holds?", "what was checked", "what the data say", "why it matters"], rows)
    return section("checks", "What it rests on", made, note="Open: the data cannot decide.")


def _doubts(model: LatentModel, content: dict[str, Any]) -> Html:
    """List the observations that are placed least surely, and pairs that were rarely tried."""
    margins, rare = content["margins"], model.rarely_tried
    total = int((model.certainty < SURE).sum())
    listed = [found for found in margins["doubtful"] if found["certainty"] < SURE]
    parts: list[object] = []
    if model.decoder is not None:
        parts.append(element("p", "How sure placements are, state by state, is said above."))
    elif np.isnan(model.certainty).all():
        parts.append(element("p", f"Grouping by {model.method} gives no margins."))
    elif not total:
        parts.append(element("p", f"Every observation is at least {SURE:.0%} certain."))
    else:
        rows = [
            [
                element("bdi", name_text(found["observation"])),
                go(found["state"]),
                f"{found['certainty']:.1%}",
                found["visits"],
            ]
            for found in listed[:_MOST_LISTED]
        ]
        title = f"{total:,} of {model.n_observations:,} observations are less than {SURE:.0%} "
        made = table(["observation", "state", "certainty", "seen"], rows)
        parts.append(folded(f"{title}certain", made, more(total - len(rows))))
    if without := margins["n_without_state"]:
        text = f"{without:,} observations have no state: the log does not say enough about them."
        parts.append(element("p", text))
    if rare:
        rows = [[go(s), element("bdi", name_text(a)), n] for s, a, n in rare[:_MOST_LISTED]]
        title = f"{len(rare):,} of {model.n_states * model.n_actions:,} pairs of state and action "
        title += f"were tried less than {model.rare} times"
        made = table(["state", "action", "tried"], rows)
        parts.append(folded(title, made, more(len(rare) - _MOST_LISTED)))
    note = (
        "The certainty of an observation is the probability that it belongs to its state and not "
        "to another, given where all the others are."
        if model.named
        else None
    )
    return section("doubts", "What is doubtful", element("div", id="margins"), *parts, note=note)


def _configuration(
    model: LatentModel, content: dict[str, Any], run: Run | None, environment: str
) -> Html:
    """Say how the model was made, and by what this page was written."""
    if run is not None:
        return _run_facts(run, environment)
    names = [f"{role}: {name_text(n)}" for role, n in model.columns.items() if n is not None]
    held, span = content["held_out"], model.reward_range
    return facts(
        {
            "columns of the log": ", ".join(names) or "a trajectory, without columns",
            "grouped by": model.method,
            "held out": "nothing"
            if held is None
            else f"{count(held['n_episodes'], 'episode')}, {count(held['n_steps'], 'step')}",
            "confidence sets": str(model.confidence),
            "probability that the widths fail (delta)": model.delta,
            "an action counts as rarely tried below this number of tries": model.rare,
            "reward ranges over": f"{number(span[0])} to {number(span[1])}"
            if span
            else "no rewards",
            **{f"fitted with {name}": value for name, value in model.settings.items()},
            "page written by": _writer(),
        }
    )


def _run_facts(run: Run, environment: str) -> Html:
    told = {"environment": environment, "agent": run.agent, "objective": objective_of(run)}
    told |= {"steps": f"{run.steps[-1]:,}", "seed": str(run.seed)}
    return facts({**told, "page written by": _writer()})


def _writer() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in _VERSIONS)
    return f"romdp {__version__}, Python {platform.python_version()}, {versions}"

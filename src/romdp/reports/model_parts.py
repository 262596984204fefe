"""The parts of a model's page that are words and figures: headline, warnings, checks, settings."""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from romdp import __version__
from romdp.core.text import number
from romdp.logs.model.checks import SURE
from romdp.logs.model.latent import LatentModel
from romdp.reports.model_data import name_text
from romdp.reports.shell import Html, alert, element, facts, folded, join, section, table

_MOST_LISTED = 50
_VERSIONS = ("numpy", "scipy", "numba", "pyarrow")

MEANING = {
    "observations are placed surely": "An observation in the wrong state gets the wrong action.",
    "every action was tried in every state": "What was hardly tried cannot be judged: something "
    "better may hide there.",
    "the policy rests on experience": "What a handful of tries recommends may have been luck.",
    "every state leads to every other": "Long-run averages assume that no state is left for good.",
    "the policy has one long-run gain": "Otherwise what the policy earns depends on where it "
    "begins, and its gain is an average.",
    "transition matrices have full rank": "Only the spectral methods need this.",
    "the observations of a state are alike": "Otherwise different states were taken for one, and "
    "neither the gains nor the policy can be relied on.",
    "the hidden states are Markov": "The plan assumes that the present state tells all that the "
    "past can tell about what comes next.",
    "hidden states predict better than single observations": "Otherwise the grouping loses "
    "something that matters.",
}
"""Why each check of a model is made, in a sentence."""


def headline(content: dict[str, Any]) -> Html:
    """Make the tiles with the figures that are asked for first."""
    summary, held = content["summary"], content["held_out"] or {}
    tiles = [
        _tile(
            "hidden states",
            number(summary["n_states"]),
            f"behind {summary['n_observations']:,} observations",
        ),
        _tile(
            "log",
            f"{summary['n_rows']:,} rows",
            f"{summary['n_episodes']:,} episode{'s' * (summary['n_episodes'] != 1)}, "
            f"{summary['n_actions']} action{'s' * (summary['n_actions'] != 1)}",
        ),
    ]
    if summary["gain"] is not None:
        tiles.append(
            _tile(
                "reward per step, best policy",
                number(summary["gain"]),
                f"at least {number(summary['pessimistic_gain'])}; "
                f"no policy above {number(summary['optimistic_gain'])}",
            )
        )
    if value := held.get("value"):
        tiles.append(
            _tile(
                "the same, on held-out episodes",
                number(value["estimate"]),
                f"95%: {number(value['low'])} to {number(value['high'])}; "
                f"those who acted earned {number(value['logged'])}",
            )
        )
    if prediction := held.get("prediction"):
        tiles.append(
            _tile(
                "held-out log likelihood, per step",
                number(prediction["grouped"]),
                f"{number(prediction['ungrouped'])} without hidden states "
                f"({prediction['gain']:+.3g} ± {2 * prediction['gain_error']:.2g})",
            )
        )
    return element("div", *tiles, class_="tiles")


def _tile(name: str, value: str, more: str) -> Html:
    return element(
        "div",
        element("div", name, class_="label"),
        element("div", value, class_="value"),
        element("div", more, class_="label"),
        class_="card tile",
    )


def warnings(content: dict[str, Any]) -> Html:
    """Say first what speaks against relying on the model."""
    failed = [check for check in content["checks"] if check["ok"] is False]
    notes = (content["held_out"] or {}).get("notes", ())
    lines = [
        element(
            "li",
            element("b", f"Not so: {check['name']}."),
            f" {_sentence(check['text'])} {MEANING.get(check['name'], '')}",
        )
        for check in failed
    ]
    lines += [element("li", _sentence(note)) for note in notes]
    doubtful = [found for found in content["margins"]["doubtful"] if found["certainty"] < SURE]
    if doubtful and all(check["name"] != "observations are placed surely" for check in failed):
        lines.append(
            element(
                "li",
                element("b", "Some observations are doubtful."),
                " Few steps show them, but their state, and so their action, is uncertain: see ",
                element("a", "what is doubtful", href="#doubts"),
            )
        )
    if not lines:
        text = "No check speaks against the model; what was checked is listed below."
        return element("div", element("p", text, class_="note"), id="warnings")
    title = "Before you rely on it" if failed else "Good to know"
    box = alert(element("p", element("b", title)), element("ul", *lines))
    return element("div", box, id="warnings")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def earnings(content: dict[str, Any]) -> Html:
    """Draw what the policy earns on one scale, with what is not known about it."""
    summary, held = content["summary"], content["held_out"] or {}
    if summary["gain"] is None:
        text = "The log has no rewards: there is nothing to recommend, only states and moves."
        return section("earnings", "What it earns", note=text)
    rows = [
        (
            "best policy, in the model",
            summary["gain"],
            summary["pessimistic_gain"],
            summary["optimistic_gain"],
        )
    ]
    text = (
        f"Reward per step, in the log's own units (it ranges from "
        f"{number(summary['reward_range'][0])} to {number(summary['reward_range'][1])}). In the "
        f"model: what the policy earns at least and what no policy can exceed, each with "
        f"{1 - summary['delta']:.0%} confidence, given the states. The most cautious policy is "
        f"sure of {number(summary['cautious_gain'])}."
    )
    if value := held.get("value"):
        rows += [
            ("best policy, held-out episodes", value["estimate"], value["low"], value["high"]),
            ("those who acted, held-out episodes", value["logged"], None, None),
        ]
        text += (
            f" On {held['n_episodes']:,} held-out episodes: doubly robust, 95% interval over "
            f"episodes; {value['agreement']:.0%} of their actions are the recommended ones, "
            f"worth {value['effective_steps']:,.0f} steps."
        )
    return section("earnings", "What it earns", _scale(rows), note=text)


def _scale(rows: Sequence[tuple[str, float, float | None, float | None]]) -> Html:
    """Draw values with their intervals on one line each; places are shares of the width."""
    ends = [x for _, *values in rows for x in values if x is not None]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0

    def place(value: float) -> str:
        return f"{100 * (value - low) / span:.2f}%"

    lines = []
    for name, value, start, end in rows:
        said = number(value)
        marks = []
        if start is not None and end is not None:
            said += f"  [{number(start)}, {number(end)}]"
            width = f"{100 * (end - start) / span:.2f}%"
            marks.append(element("i", class_="reach", style=f"left:{place(start)};width:{width}"))
        marks.append(element("i", class_="point", style=f"left:{place(value)}"))
        lines.append(
            element(
                "div",
                element("span", name),
                element("span", *marks, class_="track"),
                element("span", said, class_="said"),
            )
        )
    return element("div", *lines, class_="card scale")


def checks(content: dict[str, Any]) -> Html:
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
    return section(
        "checks",
        "What it rests on",
        table(["holds?", "what was checked", "what the data say", "why it matters"], rows),
        note="Open: the data do not tell.",
    )


def doubts(model: LatentModel, content: dict[str, Any]) -> Html:
    """List the observations that are placed least surely, and pairs that were hardly tried."""
    summary, margins = content["summary"], content["margins"]
    total = int((model.certainty < SURE).sum())
    listed = [found for found in margins["doubtful"] if found["certainty"] < SURE]
    listed = listed[:_MOST_LISTED]
    parts: list[object] = []
    if np.isnan(model.certainty).all():
        parts.append(element("p", f"Grouping by {model.method} gives no margins."))
    elif not total:
        parts.append(element("p", f"Every observation is at least {SURE:.0%} certain."))
    else:
        rows = [
            [
                element("bdi", name_text(found["observation"])),
                _go(found["state"]),
                f"{found['certainty']:.1%}",
                found["visits"],
            ]
            for found in listed
        ]
        parts.append(
            folded(
                f"{total:,} of {model.n_observations:,} observations are less than "
                f"{SURE:.0%} certain",
                table(["observation", "state", "certainty", "seen"], rows),
                _more(total - len(listed)),
            )
        )
    if margins["n_without_state"]:
        parts.append(
            element(
                "p",
                f"{margins['n_without_state']:,} observations have no state: the log does not "
                "say enough about them.",
            )
        )
    rare = model.rarely_tried
    if rare:
        rows = [[_go(s), element("bdi", name_text(a)), n] for s, a, n in rare[:_MOST_LISTED]]
        pairs = summary["n_states"] * summary["n_actions"]
        parts.append(
            folded(
                f"{len(rare):,} of {pairs:,} pairs of state and action were tried less than "
                f"{model.rare} times",
                table(["state", "action", "tried"], rows),
                _more(len(rare) - _MOST_LISTED),
            )
        )
    note = (
        "The certainty of an observation is the chance that it belongs to its state and not to "
        "another, given where all the others are."
    )
    return section("doubts", "What is doubtful", element("div", id="margins"), *parts, note=note)


def _go(state: int) -> Html:
    return element("button", state, type="button", class_="go", data_state=state)


def _more(count: int) -> Html:
    return element("p", f"and {count:,} more", class_="note") if count > 0 else Html("")


def configuration(model: LatentModel, content: dict[str, Any]) -> list[Html]:
    """Say how the model was made, and by what this page was written."""
    columns = {role: name for role, name in model.columns.items() if name is not None}
    versions = ", ".join(f"{name} {version(name)}" for name in _VERSIONS)
    held = content["held_out"]
    named = facts(
        {
            "columns of the log": join(
                ", ".join(f"{role}: {name_text(name)}" for role, name in columns.items())
            )
            if columns
            else "a trajectory, without columns",
            "grouped by": model.method,
            "held out": "nothing"
            if held is None
            else f"{held['n_episodes']:,} episodes, {held['n_steps']:,} steps",
            "confidence sets": str(model.confidence),
            "probability that the widths fail (delta)": model.delta,
            "an action counts as hardly tried below so many tries": model.rare,
            "reward ranges over": "no rewards"
            if model.reward_range is None
            else f"{number(model.reward_range[0])} to {number(model.reward_range[1])}",
            **{f"fitted with {name}": value for name, value in model.settings.items()},
            "page written by": f"romdp {__version__}, Python {platform.python_version()}, "
            f"{versions}",
        }
    )
    return [named]

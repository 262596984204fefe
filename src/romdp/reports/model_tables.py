"""The tables of a model's page: the hidden states, and what every action pays in them."""

from typing import Any

import numpy as np

from romdp.core.text import number, one_line
from romdp.logs.model.latent import LatentModel
from romdp.reports.choices import Choices
from romdp.reports.model_data import Floats, ahead, logged_moves
from romdp.reports.shell import Html, element, table

_MOST_STATES = 200
_MOST_ACTIONS = 24
_TYPICAL = 3
_AHEAD = 3


def state_table(model: LatentModel, facts: dict[str, Any], found: Choices) -> Html:
    """Make the table of hidden states, the most visited first."""
    order = np.argsort(-model.share, kind="stable")
    rewarded = model.reward_range is not None
    headings = ["state", "share", "observations", "typical"]
    if rewarded:
        headings += ["best action", "sure", "pays", "leads to", "share then"]
    else:
        headings.append("leads to")
    logged = logged_moves(model)
    rows = [_row(facts["states"][s], model, found, logged[s]) for s in order[:_MOST_STATES]]
    made = table(headings, rows, [{"data_state": int(s)} for s in order[:_MOST_STATES]])
    if model.n_states <= _MOST_STATES:
        return made
    more = f"and {model.n_states - _MOST_STATES:,} more hidden states"
    return Html(made + element("p", more, class_="note"))


def _row(state: dict[str, Any], model: LatentModel, found: Choices, logged: Floats) -> list[object]:
    s = state["state"]
    row: list[object] = [
        element("button", s, type="button", class_="go", data_state=s),
        f"{state['share']:.1%}",
        state["n_observations"],
        _typical(state["typical"]),
    ]
    if model.reward_range is None:
        return [*row, _leads(logged)]
    best = state["actions"][model.policy[s]]
    return [
        *row,
        _best(state, best),
        sureness(found.sure[s]),
        best["reward"],
        _leads(best["leads_to"]),
        "-" if np.isnan(found.future[s]) else f"{found.future[s]:.1%}",
    ]


def _typical(names: list[str]) -> Html:
    parts = [element("bdi", one_line(name, 28), title=name[:300]) for name in names[:_TYPICAL]]
    return element("div", *parts, class_="names")


def _best(state: dict[str, Any], best: dict[str, Any]) -> Html:
    parts = [element("bdi", one_line(best["action"], 28))]
    if best["rare"]:
        parts.append(element("span", f"tried {best['visits']} times", class_="mark"))
    elif state["cautious_action"] != state["best_action"]:
        hint = "what to do if every width were as bad as it could be"
        safe = element("bdi", one_line(state["cautious_action"], 28))
        parts.append(element("span", "cautious: ", safe, class_="mark soft", title=hint))
    return element("div", *parts, class_="names")


def sureness(chance: float) -> str:
    """Write how sure an action is the best.

    Examples
    --------
    >>> sureness(0.99951), sureness(0.873), sureness(float("nan"))
    ('over 99.9%', '87%', '-')
    """
    if np.isnan(chance):
        return "-"
    if chance > 0.999:
        return "over 99.9%"
    return f"{chance:.1%}" if chance > 0.99 else f"{chance:.0%}"


def _leads(law: Any) -> str:
    if law is None:
        return "-"
    return ", ".join(f"{s} ({chance:.0%})" for s, chance in ahead(law)[:_AHEAD])


def pay_table(model: LatentModel, facts: dict[str, Any]) -> list[Html]:
    """Make the table of mean rewards, darker where they are higher."""
    names = facts["summary"]["action_names"]
    states = sorted(facts["states"], key=lambda state: -state["share"])[:_MOST_STATES]
    known = [a["reward"] for state in states for a in state["actions"] if a["reward"] is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    rows = []
    for state in states:
        best = model.policy[state["state"]]
        shown = state["actions"][:_MOST_ACTIONS]
        cells = [_pay(action, a == best, low, high) for a, action in enumerate(shown)]
        rows.append([state["state"], *cells])
    note = "Mean reward, and how often it was tried; the best action, all told, is framed."
    if len(names) > _MOST_ACTIONS:
        note += f" The first {_MOST_ACTIONS} of {len(names)} actions; a state's detail has all."
    headings = ["state", *(one_line(name, 28) for name in names[:_MOST_ACTIONS])]
    marks = [{"data_state": state["state"]} for state in states]
    return [element("p", note, class_="note"), table(headings, rows, marks)]


def _pay(action: dict[str, Any], best: bool, low: float, high: float) -> Html:
    if action["reward"] is None:
        return element("span", "never tried", class_="pay few")
    height = (action["reward"] - low) / ((high - low) or 1.0)
    return element(
        "span",
        number(action["reward"]),
        element("small", f"of {action['visits']:,}"),
        class_=f"pay{' few' if action['rare'] else ''}{' best' if best else ''}",
        style=f"--heat:{0.45 * height:.2f}",
    )

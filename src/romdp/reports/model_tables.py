"""The tables of a model's page: the hidden states, and what every action pays in them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from romdp.core.text import number, one_line
from romdp.logs.model.latent import LatentModel
from romdp.reports.model_data import Comparison, ahead, logged_moves
from romdp.reports.shell import Html, element, table

_MOST_STATES, _MOST_ACTIONS = 200, 24
_TYPICAL = _AHEAD = 3  # names and next states per row


def state_table(
    model: LatentModel, content: dict[str, Any], compared: Comparison, looks: Sequence[Html] = ()
) -> Html:
    """Make the table of hidden states, the most visited first.

    ``looks`` shows what each state looks like, if it has no names.
    """
    rewarded = model.reward_range is not None
    named = model.named  # vectors have no names
    headings = ["state", "share", *(["observations", "typical"] if named else [])]
    headings += ["codes", "typical"] if looks else []
    planned = model.plan is not None
    headings += ["best action", "value" if planned else "sure", "pays"] if rewarded else []
    headings += ["leads to", "share then"] if rewarded and not planned else ["leads to"]
    logged = logged_moves(model)
    rows = []
    shown = [int(s) for s in np.argsort(-model.share, kind="stable")[:_MOST_STATES]]
    for s in shown:
        state = content["states"][s]
        typical = [
            element("bdi", one_line(name, 28), title=name[:300])
            for name in state["typical"][:_TYPICAL]
        ]
        row: list[object] = [go(s), f"{state['share']:.1%}"]
        if named:
            row += [state["n_observations"], element("div", *typical, class_="names")]
        if looks:
            row += [state["n_observations"], looks[s]]
        if rewarded:
            best = state["actions"][model.policy[s]]
            future = compared.future[s]
            row.append(_best(state, best))
            row.append(float(model.values[s]) if planned else sureness(compared.sure[s]))
            row.append(best["reward"])
            row.append(_leads(best["leads_to"]))
            row += [] if planned else ["-" if np.isnan(future) else f"{future:.1%}"]
        else:
            row.append(_leads(logged[s]))
        rows.append(row)
    made = table(headings, rows, [{"data_state": s} for s in shown])
    return Html(made + more(model.n_states - _MOST_STATES, " hidden states"))


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
    """Write how sure it is that an action is the best.

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


def pay_table(model: LatentModel, content: dict[str, Any]) -> list[Html]:
    """Make the table of mean rewards, darker where they are higher."""
    names = content["summary"]["action_names"]
    states = sorted(content["states"], key=lambda state: -state["share"])[:_MOST_STATES]
    known = [a["reward"] for state in states for a in state["actions"] if a["reward"] is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)

    def pay(action: dict[str, Any], best: bool) -> Html:
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

    rows = [
        [
            state["state"],
            *(
                pay(action, a == model.policy[state["state"]])
                for a, action in enumerate(state["actions"][:_MOST_ACTIONS])
            ),
        ]
        for state in states
    ]
    note = "Mean reward, and how often it was tried; the best action, all told, is framed."
    if len(names) > _MOST_ACTIONS:
        note += f" The first {_MOST_ACTIONS} of {len(names)} actions; a state's detail has all."
    headings = ["state", *(one_line(name, 28) for name in names[:_MOST_ACTIONS])]
    marks = [{"data_state": state["state"]} for state in states]
    return [element("p", note, class_="note"), table(headings, rows, marks)]


def go(state: int) -> Html:
    """Make the button that shows a state."""
    return element("button", state, type="button", class_="go", data_state=state)


def more(rest: int, what: str = "") -> Html:
    """Say how many entries of a list are not shown, if any."""
    return element("p", f"and {rest:,} more{what}", class_="note") if rest > 0 else Html("")

"""What the page of a model shows: its actions compared, tables, and plain data for its script."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from romdp.core.arrays import Floats
from romdp.core.text import MOST_LISTED, one_line, with_error
from romdp.exact.chains import classes, gain_and_bias, stationary_law
from romdp.logs.model.checks import SURE
from romdp.logs.model.latent import LatentModel
from romdp.reports.drawing import STATE_COLOURS, UNSEEN_COLOUR
from romdp.reports.shell import Html, element, table

MOST_OBSERVATIONS = 20_000
"""How many observations the page holds: the most frequent ones."""

MOST_NODES = MOST_LISTED
"""How many states the graph shows: the most visited ones."""

_NAME = 300  # letters kept of a name
_MOST_AHEAD = 20  # states that an action leads to
_NEGLIGIBLE = 0.005  # probability of one that is left out
_BOUNDS = (0.5, 0.8, SURE, 0.99, 0.999)
_BINS = ("under 50%", "50-80%", "80-95%", "95-99%", "99-99.9%", "over 99.9%")


class Comparison(NamedTuple):
    """What the fitted model says about the actions of every state.

    Attributes
    ----------
    losses : ndarray, shape (n_states, n_actions)
        What one use of an action in place of the best one loses in the long run, in the reward's
        own units; NaN where it was never tried, or the policy has no single long-run gain.
    sure : ndarray, shape (n_states,)
        Probability that the best action beats the one that comes closest; NaN where no other was
        tried.
    future : ndarray, shape (n_states,)
        Share of time in each state if the policy is followed; NaN where that depends on the start.
    """

    losses: Floats
    sure: Floats
    future: Floats


def compare_actions(model: LatentModel) -> Comparison:
    """Compare the actions of every state.

    An action is worth ``q(s, a) = r(s, a) + sum_x p(x | s, a) h(x)`` with the bias ``h`` of the
    recommended policy. Both parts are means over visits, so that ``q`` has a standard error; the
    probability that one action beats another is the normal one for the difference of two such
    means. The grouping and ``h`` are taken as given. A pair's variance counts the largest possible
    one as a visit more, so that a few equal rewards do not look like certainty.
    """
    n_states = model.n_states
    states = np.arange(n_states)
    empty = np.full(n_states, np.nan)
    laws, rewards, policy = model.mdp.transition, model.mdp.reward, model.policy
    followed = laws[states, policy]
    tried = model.counts.visits > 0
    judged = model.plan is None or model.objective == "average"
    if not judged or model.reward_range is None or len(classes(followed).recurrent) != 1:
        return Comparison(np.full(tried.shape, np.nan), empty, empty)
    bias = gain_and_bias(followed, rewards[states, policy])[1]
    visits = np.maximum(1, model.counts.visits)
    ahead = laws @ bias
    worth = rewards + ahead
    of_rewards = model.counts.reward_squares / visits - rewards**2
    of_moves = laws @ bias**2 - ahead**2
    largest = (1.0 + np.ptp(bias) ** 2) / 4.0
    spread = (visits * np.maximum(0.0, of_rewards + of_moves) + largest) / (visits + 1)
    errors = spread / visits
    lead = worth[states, policy][:, None] - worth
    chance = ndtr(lead / np.sqrt(errors[states, policy][:, None] + errors))
    rivals = tried.copy()
    rivals[states, policy] = False
    sure = np.where(rivals.any(axis=1), np.where(rivals, chance, 1.0).min(axis=1), np.nan)
    low, high = model.reward_range
    losses = np.where(tried, np.maximum(0.0, lead) * (high - low), np.nan)
    return Comparison(losses, sure, stationary_law(followed))


def model_page_data(
    model: LatentModel, facts: dict[str, Any], compared: Comparison
) -> dict[str, Any]:
    """Collect the states, the moves between them and the observations.

    Parameters
    ----------
    model, facts
        The model and what `romdp.logs.model.model_facts` says about it.
    compared
        What `compare_actions` says about it.
    """
    logged = logged_moves(model)
    # The actions that are recommended in most steps have a colour of their own.
    weight = np.bincount(model.policy, model.share, model.n_actions)
    place = np.argsort(np.argsort(-weight, kind="stable"), kind="stable")
    colours = [STATE_COLOURS[p] if p < len(STATE_COLOURS) else UNSEEN_COLOUR for p in place]
    kept = np.argsort(-model.visits, kind="stable")[:MOST_OBSERVATIONS]
    return {
        "actions": [name_text(name) for name in model.action_names],
        "rewarded": model.reward_range is not None,
        "rare": model.rare,
        "states": [
            _state(model, facts["states"][s], compared, logged[s]) for s in range(model.n_states)
        ],
        "order": circle_order(model),
        "bins": _BINS,
        "colours": colours,
        "otherColour": UNSEEN_COLOUR,
        "observations": {
            "names": [name_text(model.observation_names[i]) for i in kept],
            "states": model.partition.labels[kept],
            "asked": model.judged.asked[kept],
            "visits": model.visits[kept],
            "certainty": model.certainty[kept].round(5),
        },
        "nObservations": model.n_observations,
        "named": model.named,
        "logged": "the policy of the log" if model.plan is None else "the agent as it learned",
    }


def name_text(name: object) -> str:
    """Write the name of an observation or an action, cut where it is very long."""
    text = str(name)
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"


def _state(
    model: LatentModel, facts: dict[str, Any], compared: Comparison, logged: Floats
) -> dict[str, Any]:
    state = facts["state"]
    return {
        "share": facts["share"],
        "future": compared.future[state],
        "size": facts["n_observations"],
        "asked": facts["asked"],
        "best": int(model.policy[state]),
        "cautious": int(model.cautious_policy[state]),
        "sure": compared.sure[state],
        "logged": ahead(logged),
        "margins": margin_counts(model.certainty[model.partition.labels == state]),
        "actions": [
            {
                "visits": action["visits"],
                "pays": action["pays"],
                "loses": compared.losses[state, a],
                "leads": None if action["leads_to"] is None else ahead(action["leads_to"]),
            }
            for a, action in enumerate(facts["actions"])
        ],
    }


def ahead(law: Sequence[float] | Floats) -> list[list[float]]:
    """List the likeliest next states with their probabilities, the likeliest first.

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


_MOST_STATES, _MOST_ACTIONS = 200, 24
_TYPICAL = _AHEAD = 3  # names and next states per row


def state_table(
    model: LatentModel, content: dict[str, Any], compared: Comparison, looks: Sequence[Html] = ()
) -> Html:
    """Make the table of hidden states, of the most visited ones if there are many.

    ``looks`` shows what each state looks like, if it has no names.
    """
    rewarded = model.reward_range is not None
    named = model.named  # vectors have no names
    headings = ["state", "share", *(["observations", "typical"] if named else [])]
    headings += ["codes", "typical"] if looks else []
    planned = model.plan is not None
    if rewarded:
        headings += ["best action", "value"] if planned else ["what to do", "greedy", "sure"]
        headings.append("pays")
    headings += ["leads to", "share then"] if rewarded and not planned else ["leads to"]
    logged = logged_moves(model)
    rows = []
    shown = sorted(np.argsort(-model.share, kind="stable")[:_MOST_STATES].tolist())
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
            row += [] if planned else [element("bdi", one_line(state["asked"], 28))]
            row.append(_best(state, best))
            worth = with_error(model.values[s], model.value_errors[s])
            row.append(worth if planned else sureness(compared.sure[s]))
            row.append(best["pays"])
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
    most = sorted(content["states"], key=lambda state: -state["share"])[:_MOST_STATES]
    states = sorted(most, key=lambda state: int(state["state"]))
    known = [a["reward"] for state in states for a in state["actions"] if a["reward"] is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)

    def pay(action: dict[str, Any], best: bool) -> Html:
        if action["reward"] is None:
            return element("span", "never tried", class_="pay few")
        height = (action["reward"] - low) / ((high - low) or 1.0)
        return element(
            "span",
            action["pays"],
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
    note = "Mean reward, and how often it was tried; the greedy action is framed."
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

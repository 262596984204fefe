"""A model of a log as text, and as plain data for a page."""

from typing import TYPE_CHECKING

import numpy as np

from romdp.core.text import columns, count, html_table, number, one_line, with_error

if TYPE_CHECKING:
    from romdp.logs.model.latent import LatentModel
from dataclasses import asdict
from typing import Any

from romdp.logs.model.latent import LatentModel

_MOST_STATES = 20
_MOST_ACTIONS = 8
_NAME = 24
_HISTORY = 60


def table(model: "LatentModel") -> str:
    """Write a model as a table of its hidden states, with what is certain and what is not."""
    gains = [] if model.reward_range is None else ["", *_gains(model)]
    return "\n".join([_title(model), *gains, "", *_states(model), "", *_remarks(model)])


def html(model: "LatentModel") -> str:
    """Write the same as HTML: the states, the gains, and what is certain and what is not."""
    head, *rows = _state_rows(model)
    gains = [] if model.reward_range is None else _gains(model)
    return html_table(_title(model), rows, head, [*_more_states(model), *gains, *_remarks(model)])


def _title(model: "LatentModel") -> str:
    return (
        f"{count(model.n_states, 'hidden state')} behind {model.shown} "
        f"({model.n_rows:,} rows, {count(model.n_episodes, 'episode')}, "
        f"{count(model.n_actions, 'action')}), "
        f"found by {model.method}"
    )


def _remarks(model: "LatentModel") -> list[str]:
    lines = [str(check) for check in model.checks]
    lines += [f"NO  {note}" for note in (model.decoder.notes if model.decoder else ())]
    if model.held_out is not None:
        lines += [f"?   {note}" for note in model.held_out.notes]
    return lines


def _order(model: "LatentModel") -> list[int]:
    return sorted(np.argsort(-model.share, kind="stable")[:_MOST_STATES].tolist())


def _state_rows(model: "LatentModel") -> list[list[str]]:
    names = ["observations", "typical"] if model.named else []  # a vector has no name
    names = names if model.memory is None else ["after"]
    doing = model.plan is None  # a run has no logger from whom to depart
    chosen = [*["do"] * doing, "greedy" if doing else "do", "pays"] if model.n_actions > 1 else []
    rows = [["state", "share", *names, *chosen, "leads to"]]
    states = np.arange(model.n_states)
    laws = model.mdp.transition[states, model.policy]
    for s in _order(model):
        best = int(model.policy[s])
        ahead = np.argsort(-laws[s], kind="stable")[:3]
        pays = paid(model, s, best)
        rows.append(
            [
                str(s),
                f"{model.share[s]:.1%}",
                *(_members(model, s) if names else []),
                *(
                    [*[_doing(model, s)] * doing, one_line(model.action_names[best], _NAME), pays]
                    if chosen
                    else []
                ),
                ", ".join(f"{x} ({laws[s, x]:.0%})" for x in ahead if laws[s, x] >= 0.01),
            ]
        )
    return rows


def paid(model: "LatentModel", state: int, action: int) -> str:
    """Write a mean reward with its error, unless four digits of all rewards do not show that."""
    mean, error = float(model.rewards[state, action]), float(model.reward_errors[state, action])
    low, high = model.reward_range or (0.0, 1.0)
    if high > low and 2.0 * error <= 5e-4 * (high - low):
        mean, error = round(mean / (high - low), 4) * (high - low) + 0.0, 0.0
    return with_error(mean, error)


def _members(model: "LatentModel", state: int) -> list[str]:
    if model.memory is not None:
        return [one_line(model.observation_names[state], _HISTORY)]
    typical = ", ".join(one_line(name, 12) for name in model.typical(state, 3))
    return [f"{model.partition.sizes[state]:,}", typical]


def _doing(model: "LatentModel", state: int) -> str:
    return one_line(_asked(model, state) or "-", _NAME) if model.reward_range else "-"


def _more_states(model: "LatentModel") -> list[str]:
    hidden = model.n_states - _MOST_STATES
    return [f"... and {hidden} more hidden states"] if hidden > 0 else []


def _states(model: "LatentModel") -> list[str]:
    lines = [*columns(_state_rows(model)), *_more_states(model)]
    if model.reward_range is not None and model.n_actions <= _MOST_ACTIONS:
        rows = [["state", *(f"pays {one_line(name, 12)}" for name in model.action_names)]]
        for s in _order(model):
            rows.append([str(s), *(paid(model, s, a) for a in range(model.n_actions))])
        lines += ["", *columns(rows)]
    return lines


def noun(model: "LatentModel") -> str:
    """Say what it is that has something to do: an observation, or a state of vectors."""
    return "observation" if model.named and model.memory is None else "state"


def per_what(model: "LatentModel") -> str:
    """Say what values are about."""
    if model.objective == "average":
        return "per step"
    if model.objective == "episodic":
        return "per episode"
    return f"per episode, discounted by {model.objective:g} per step,"


def _gains(model: "LatentModel") -> list[str]:
    """Say in words what to do differently, and what that and the greedy policy earn."""
    found = model.judged
    per = per_what(model)
    if model.plan is not None:
        return [
            f"the policy, which explores no more, promises {number(model.gain)} per step; no lower "
            f"bound of what it earns, since {found.missing}"
        ]
    departs = found.asked >= 0
    share = model.visits[departs].sum() / max(1, model.visits.sum())
    lines = [
        f"what to do differently: at {count(int(departs.sum()), noun(model))} ({share:.0%} of "
        "the steps); elsewhere go on as before"
    ]
    if not departs.any():
        lines = ["what to do differently: nothing; go on as before"]
    if np.isfinite(found.value_lower):
        lines.append(
            f"this earns at least {found.value_lower:.4g} {per} with 95% confidence (by "
            f"{found.value_basis}); whoever wrote the log earns {found.logged_value:.4g}"
        )
    else:
        lines.append(f"no lower bound of what this earns, since {found.missing}")
    if found.effective_episodes:
        lines.append(
            f"the log judges it as well as {found.effective_episodes:,.0f} episodes of it would"
        )
    if np.isfinite(found.value_if_markov) and found.value_if_markov != found.value_lower:
        lines.append(f"if the hidden states are right, at least {found.value_if_markov:.4g} {per}")
    lines.append(
        f"the greedy policy, which takes what looks best, promises {number(model.gain)} per step"
    )
    value = None if model.held_out is None else model.held_out.value
    if value is not None:
        told = [number(x) for x in (value.estimate, value.low, value.high, value.logged)]
        lines[-1] += (
            f" in the model and {told[0]} on held-out episodes (95% interval {told[1]} to "
            f"{told[2]}), where the logged actions earned {told[3]}; {value.agreement:.0%} of "
            "them agree with it"
        )
    return lines


AS_BEFORE = "as before"
"""What to do where the log bears no departure out."""

_TYPICAL = 12  # observations listed with each state
_DOUBTFUL = 200  # observations listed by how doubtful their placing is


def model_facts(model: LatentModel) -> dict[str, Any]:
    """Describe a model by numbers, words, lists and dictionaries that JSON can hold.

    Names of observations and actions are written as text.

    Returns
    -------
    dict
        ``summary``: sizes, gains, settings; ``states``: one entry each, with its share, typical
        observations, and for every action what it pays, where it leads and how often it was
        tried; ``margins``: the most doubtful observations; ``checks``, ``warnings``,
        ``held_out``.
    """
    return {
        "summary": _summary(model),
        "states": [_state(model, s) for s in range(model.n_states)],
        "margins": _margins(model),
        "checks": [asdict(check) for check in model.checks],
        "warnings": list(model.warnings),
        "held_out": None if model.held_out is None else asdict(model.held_out),
    }


def _summary(model: LatentModel) -> dict[str, Any]:
    rewarded = model.reward_range is not None
    return {
        "n_states": model.n_states,
        "n_actions": model.n_actions,
        "n_observations": model.n_observations,
        "n_rows": model.n_rows,
        "n_episodes": model.n_episodes,
        "action_names": [str(name) for name in model.action_names],
        "reward_range": list(model.reward_range) if model.reward_range else None,
        "gain": model.gain if rewarded else None,
        "objective": model.objective,
        "value_lower": model.value_lower if rewarded else None,
        "harm": model.judged.harm if rewarded else None,
        "earnings": _gains(model) if rewarded else [],
        "method": model.method,
        "rare": model.rare,
    }


def _state(model: LatentModel, state: int) -> dict[str, Any]:
    visits, rewards = model.counts.visits[state], model.rewards[state]
    actions = [
        {
            "action": str(model.action_names[a]),
            "visits": int(visits[a]),
            "reward": float(rewards[a]) if visits[a] and model.reward_range else None,
            "pays": paid(model, state, a) if visits[a] else "-",
            "leads_to": model.mdp.transition[state, a].tolist() if visits[a] else None,
            "rare": bool(visits[a] < model.rare),
        }
        for a in range(model.n_actions)
    ]
    return {
        "state": state,
        "share": float(model.share[state]),
        "n_observations": int(model.partition.sizes[state]),
        "typical": [str(name) for name in model.typical(state, _TYPICAL)],
        "asked": _asked(model, state),
        "best_action": str(model.action_names[model.policy[state]]),
        "cautious_action": str(model.action_names[model.cautious_policy[state]]),
        "actions": actions,
    }


def _asked(model: LatentModel, state: int) -> str | None:
    """Return what to do differently in most steps of a state; None where somebody planned."""
    if model.plan is not None:
        return None
    members = model.partition.labels == state
    weights = np.bincount(model.judged.asked[members] + 1, model.visits[members])
    most = int(weights.argmax())
    return str(model.action_names[most - 1]) if most else AS_BEFORE


def _margins(model: LatentModel) -> dict[str, Any]:
    placed = np.flatnonzero(np.isfinite(model.certainty))
    doubtful = placed[np.argsort(model.certainty[placed], kind="stable")][:_DOUBTFUL]
    return {
        "n_without_state": int((model.partition.labels < 0).sum()),
        "doubtful": [
            {
                "observation": str(model.observation_names[i]),
                "state": int(model.partition.labels[i]),
                "certainty": float(model.certainty[i]),
                "visits": int(model.visits[i]),
            }
            for i in doubtful
        ],
    }

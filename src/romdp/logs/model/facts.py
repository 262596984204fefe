"""Everything that a page about a model needs, as plain data."""

from dataclasses import asdict
from typing import Any

import numpy as np

from romdp.logs.model.latent import LatentModel
from romdp.logs.model.table import describe_safety

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
        "optimistic_gain": model.optimistic_gain if rewarded else None,
        "pessimistic_gain": model.pessimistic_gain if rewarded else None,
        "cautious_gain": model.cautious_gain if rewarded else None,
        "objective": model.objective,
        "value_lower": model.value_lower if rewarded else None,
        "harm": model.judged.harm if rewarded else None,
        "safety": describe_safety(model) if rewarded else [],
        "method": model.method,
        "delta": model.delta,
        "rare": model.rare,
    }


def _state(model: LatentModel, state: int) -> dict[str, Any]:
    reward_widths, transition_widths = model.widths
    low, high = model.reward_range or (0.0, 1.0)
    span = high - low if high > low else 1.0
    visits, rewards = model.counts.visits[state], model.rewards[state]
    actions = [
        {
            "action": str(model.action_names[a]),
            "visits": int(visits[a]),
            "reward": float(rewards[a]) if visits[a] and model.reward_range else None,
            "reward_width": float(reward_widths[state, a] * span),
            "transition_width": float(transition_widths[state, a]),
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
        "best_action": str(model.action_names[model.policy[state]]),
        "safe_action": str(model.action_names[model.safe_policy[state].argmax()]),
        "cautious_action": str(model.action_names[model.cautious_policy[state]]),
        "actions": actions,
    }


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

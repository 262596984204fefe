"""Agents as plain data, so that a file can say which agent it is about."""

import dataclasses
import warnings
from functools import cache
from typing import Any

from romdp.agents.agent import Agent
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.exact.objectives import Objective


@cache
def _kinds() -> dict[str, type]:
    """Return what an agent may be made of, by name: a file can name nothing else."""
    import romdp

    names = (
        *("Agent", "Optimism", "Posterior", "Doubling", "Hoeffding", "Bernstein", "TimeUniform"),
        *("Singletons", "Known", "Chain", "Spaced", "UntilSure", "UntilFound"),
        *("Spectral", "Homogeneity", "Overlap", "Likelihood"),
    )
    return {name: getattr(romdp, name) for name in names} | {"Objective": Objective}


def agent_to_dict(agent: Any) -> dict[str, Any] | None:
    """Return plain data that `agent_from` reads; None for an agent with parts of others' making."""
    try:
        packed: dict[str, Any] = _pack(agent)
    except TypeError:
        return None
    return packed


def _pack(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_pack(part) for part in value]
    if isinstance(value, Partition):
        return {"labels": value.labels.tolist()}
    name = type(value).__name__
    if _kinds().get(name) is not type(value):
        raise TypeError(f"{name} is not a part of romdp")
    return {"type": name, "arguments": {field: _pack(part) for field, part in _changed(value)}}


def _changed(value: Any) -> list[tuple[str, Any]]:
    """Return the fields that differ from their defaults, which are left out."""
    changed = []
    for field in dataclasses.fields(value):
        part, default = getattr(value, field.name), field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.init and (default is dataclasses.MISSING or part != default):
            changed.append((field.name, part))
    return changed


def agent_from(content: Any) -> Agent:
    """Make the agent that `agent_to_dict` was given; anything else is an `InvalidInputError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the file's, not the caller's
            agent = _unpack(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"this describes no agent: {error}") from error
    if not isinstance(agent, Agent):
        raise InvalidInputError("this describes no agent")
    return agent


def _unpack(content: Any) -> Any:
    match content:
        case list():
            return tuple(_unpack(part) for part in content)
        case {"labels": list(labels)}:
            return Partition(labels)
        case {"type": str(name), "arguments": dict(arguments)} if name in _kinds():
            parts = {key: _unpack(part) for key, part in arguments.items()}
            if name == "Known":
                return _kinds()[name](parts["partition"])
            if name == "Chain":
                return _kinds()[name](*parts["clusterers"])
            return _kinds()[name](**parts)
        case dict():
            raise ValueError(f"unknown part {str(content)[:60]}")
    return content

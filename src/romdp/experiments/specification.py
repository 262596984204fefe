"""An experiment as data: worlds, agents, steps and seeds; and the runs it is made of."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from romdp import __version__
from romdp.agents.agent import Agent
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.randomness import stream
from romdp.core.storage import OLD
from romdp.core.validation import check, check_fields, choice, shown, whole_number
from romdp.exact.objectives import parse_optional
from romdp.experiments.agents import (
    BASELINE_NAMES,
    Own,
    Settings,
    check_agents,
    check_blind_agents,
    make_agent,
)
from romdp.experiments.worlds import (
    EnvironmentWorld,
    WorldSpec,
    safe_name,
    world_from,
)
from romdp.playing.episodes import checked_range, takes_any_reward

_KIND, _VERSION = "romdp experiment", 2

_MOST_STEPS = 10**15  # a year of a machine that makes 30 million a second
_MOST_RUNS = _MOST_SEEDS = 10**6  # all of them are kept in memory


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of an experiment.

    Attributes
    ----------
    agent, world
        Their names in tables.
    n_observations
        The number of observations of the world.
    replicate
        The column ``seed`` of tables: the number of the world's draw and of the run.
    """

    agent: str
    world: str
    n_observations: int
    replicate: int

    @property
    def id(self) -> str:
        """The name of the run's files.

        Examples
        --------
        >>> RunSpec("ucrl2", "grid", 190, 3).id
        'ucrl2-grid-Y190-s3'
        """
        return safe_name(f"{self.agent}-{self.world}-Y{self.n_observations}-s{self.replicate}")

    def stream(self, seed: int) -> np.random.SeedSequence:
        """Return the run's own stream of randomness.

        It depends on nothing but the experiment's seed and this run, so that any run can be
        repeated alone, in any order and on any number of workers.
        """
        names = (self.world, str(self.n_observations), self.agent)
        digests = [hashlib.sha256(name.encode()).digest() for name in names]
        words = [int.from_bytes(digest[:8], "big") for digest in digests]
        return stream(seed, *words, self.replicate)


@dataclass(frozen=True)
class Experiment:
    """Agents that are compared on worlds.

    Every agent meets the same worlds: replicate r of a world is drawn with the seed r. The run
    itself has a stream of its own, see `RunSpec.stream`.

    Parameters
    ----------
    worlds
        What they play in: names, files, or what `world_from` reads.
    agents
        Names in the catalogue, ``"module:factory"``, or agents. Of agents the names are kept here,
        so each must have its own, and the agents themselves in ``own``.
    observations
        The numbers of observations, one world for each; None for the worlds' own.
    steps
        The number of steps of each run.
    seeds
        Replicates of each agent in each world.
    seed
        Seeds every run of the experiment.
    settings
        What the agents share.
    own
        The agents that were given as such, by name.

    Examples
    --------
    >>> small = Experiment(("random-romdp",), ("ucrl2", "oracle"), (10, 20), steps=1e4, seeds=2)
    >>> len(small.runs)
    8
    >>> Experiment.from_dict(small.to_dict()) == small
    True
    """

    worlds: tuple[WorldSpec, ...]
    agents: tuple[Any, ...]
    observations: tuple[int, ...] | None = None
    steps: int = 100_000
    seeds: int = 5
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    own: Mapping[str, Own] = field(default_factory=dict, hash=False)
    cells: tuple[tuple[WorldSpec, int], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        worlds = tuple(
            spec if isinstance(spec, WorldSpec) else world_from(spec)
            for spec in _some(self.worlds, "worlds")
        )
        given = _some(self.agents, "agents")
        for number, agent in enumerate(given):
            check(agent, f"agents[{number}]", str, Agent)
        check_fields(self, own=Mapping, settings=Settings)
        agents = {agent.name: Own.of(agent) for agent in given if isinstance(agent, Agent)}
        checked: dict[str, Any] = {
            "worlds": worlds,
            "agents": tuple(x.name if isinstance(x, Agent) else x for x in given),
            "own": {**self.own, **agents},
            "steps": whole_number(self.steps, "steps", 1, _MOST_STEPS),
            "seeds": whole_number(self.seeds, "seeds", 1, _MOST_SEEDS),
            "seed": whole_number(self.seed, "seed", 0),
        }
        check_agents(checked["agents"], checked["own"])
        sizes: tuple[int | None, ...] = (None,)
        if self.observations is not None:
            wanted = _some(self.observations, "observations")
            sizes = tuple(whole_number(y, "observations", 1) for y in wanted)
            _no_twins(sizes, "observations")
            checked["observations"] = sizes
        # Refuse what could never be finished before anything is made.
        n_runs = len(worlds) * len(sizes) * len(checked["agents"]) * checked["seeds"]
        if n_runs > _MOST_RUNS:
            raise InvalidInputError(
                f"this experiment has {n_runs:,} runs, more than {_MOST_RUNS:,}; use fewer seeds"
            )
        _no_twins([spec.label for spec in worlds], "world", "; give each a label of its own")
        cells: list[tuple[WorldSpec, int]] = []
        for spec in worlds:
            if self.observations is not None and not spec.takes_observations:
                raise InvalidInputError(
                    f"the number of observations of world {spec.label!r} cannot be chosen; "
                    "leave observations out"
                )
            if isinstance(spec, EnvironmentWorld):
                check_blind_agents(checked["agents"], spec.name)
                cells.append((spec, spec.size()))
                continue
            for size in sizes:
                world = spec.make(size, 0)  # made once, so that a bad one shows
                # An MDP can only be observed by its states.
                cells.append((spec, getattr(world, "n_observations", world.n_states)))
        for name, value in {**checked, "cells": tuple(cells)}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def runs(self) -> tuple[RunSpec, ...]:
        """All runs, replicate by replicate, so that a part of them is a smaller comparison."""
        return tuple(
            RunSpec(agent, spec.label, n_observations, replicate)
            for replicate in range(self.seeds)
            for spec, n_observations in self.cells
            for agent in self.agents
        )

    @property
    def objective(self) -> str:
        """What the agents maximise, in words: the settings say it, or else the kind of world."""
        given = parse_optional(self.settings.objective)
        if given is not None:
            return str(given)
        episodic = [isinstance(spec, EnvironmentWorld) for spec in self.worlds]
        if not any(episodic):
            return "average"
        return "episodic" if all(episodic) else "episodic in environments, average in other worlds"

    def check_reward_ranges(self) -> None:
        """Refuse a bad range of rewards, and agents that must be told one where nobody says it."""
        environments = [spec for spec in self.worlds if isinstance(spec, EnvironmentWorld)]
        for spec in environments:
            checked_range(spec.reward_range)
        unknown = [spec for spec in environments if not spec.pays_known_rewards]
        for name in self.agents if unknown else ():
            own = self.own.get(name)
            if own is None and name in BASELINE_NAMES:
                continue
            if takes_any_reward(make_agent(name, None, self.settings, own)):
                continue
            raise InvalidInputError(
                f"agent {name!r} must be told the smallest and the largest reward of "
                f"{unknown[0].name}; pass reward_range=[low, high] as an argument of the world "
                "(on the command line --set 'reward_range=[LOW,HIGH]')"
            )

    def world(self, label: str) -> WorldSpec:
        """Return the world that tables call by this label."""
        known = {spec.label: spec for spec in self.worlds}
        return known[choice(label, "label", known)]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``experiment.json`` holds."""
        return {
            "kind": _KIND,
            "version": _VERSION,
            "worlds": [spec.to_dict() for spec in self.worlds],
            "observations": None if self.observations is None else list(self.observations),
            "agents": list(self.agents),
            **({"own": {name: own.about for name, own in self.own.items()}} if self.own else {}),
            "agent_settings": self.settings.to_dict(),
            "steps": self.steps,
            "seeds": self.seeds,
            "seed": self.seed,
            "romdp": __version__,
        }

    @classmethod
    def from_dict(cls, content: Any, directory: Path | None = None) -> "Experiment":
        """Read what `to_dict` gave, or what a person wrote: what is left out has its default.

        Parameters
        ----------
        content
            A table with the entries of ``experiment.json``.
        directory
            The run directory, where it keeps copies of world files.
        """
        if not isinstance(content, Mapping):
            raise InvalidInputError("an experiment is a table with content such as steps = 1e6")
        if content.get("kind", _KIND) != _KIND:
            raise StorageError(f"this holds a {content['kind']}, not a {_KIND}")
        if content.get("version", _VERSION) != _VERSION:
            if content["version"] == 1:
                raise StorageError(f"the experiment {OLD}")
            raise StorageError(
                f"the experiment has format version {content['version']}; this romdp reads "
                f"version {_VERSION}"
            )
        for key in content:
            choice(key, "entry of an experiment", _ENTRIES)
        settings = content.get("agent_settings", {})
        if not isinstance(settings, Mapping):
            raise InvalidInputError("agent_settings must be a table such as scale = 0.1")
        for key in settings:
            choice(key, "agent setting", [entry.name for entry in fields(Settings)])
        given = {key: content[key] for key in ("steps", "seeds", "seed") if key in content}
        own = content.get("own", {})
        if not isinstance(own, Mapping):
            raise InvalidInputError("own must be a table of agents by their names")
        worlds = _some(content.get("worlds", ("random-romdp",)), "worlds")
        return cls(
            tuple(world_from(world, directory) for world in worlds),
            content.get("agents", ("sl-ucrl", "ucrl2", "oracle")),
            content.get("observations"),
            settings=Settings(**settings),
            own={name: Own.read(about) for name, about in own.items()},
            **given,
        )


_ENTRIES = (
    *("kind", "version", "worlds", "observations", "agents", "own", "agent_settings"),
    *("steps", "seeds", "seed", "romdp"),
)


def _some(values: Any, name: str) -> tuple[Any, ...]:
    """Check a list that must not be empty."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInputError(f"{name} is {shown(values)}; pass a list")
    if not values:
        raise InvalidInputError(f"{name} is an empty list; pass at least one")
    return tuple(values)


def _no_twins(values: Sequence[Any], name: str, hint: str = "") -> None:
    for value in values:
        if values.count(value) > 1:
            raise InvalidInputError(f"{name} {value!r} is given twice{hint}")

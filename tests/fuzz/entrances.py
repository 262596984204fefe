"""Calls with wrong arguments: every public callable, every argument, every kind of wrong value.

    python tests/fuzz/entrances.py [--only TEXT] [--pairs N] [--seed N]

prints how the calls ended, by kind, and each that ended wrongly. A call ends well if it returns, or
if it raises an error of ours that names the argument.
"""

import argparse
import collections
import contextlib
import inspect
import itertools
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import romdp
from romdp.core.errors import ROMDPError
from romdp.logs import Columns

SECONDS, GIGABYTES = 5.0, 2


class Thing:
    """Something that nobody expects."""

    def __repr__(self):
        return "<a thing>"


WRONG = {
    "None": lambda: None,
    "True": lambda: True,
    "np.False": lambda: np.False_,
    "minus one": lambda: -1,
    "zero": lambda: 0,
    "one": lambda: 1,
    "2.5": lambda: 2.5,
    "billion": lambda: 10**9,
    "2**63": lambda: 2**63,
    "10**400": lambda: 10**400,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: -np.inf,
    "tiny": lambda: 5e-324,
    "1e154": lambda: 1e154,
    "1e300": lambda: 1e300,
    "complex": lambda: 1j,
    "empty text": lambda: "",
    "text": lambda: "nonsense",
    "method": lambda: "likelihood",
    "agent's name": lambda: "lc-psrl",
    "nul": lambda: "a\0b",
    "bytes": lambda: b"x",
    "long": lambda: "x" * 5000,
    "empty list": list,
    "nested": lambda: [[]],
    "ragged": lambda: [[1, 2], [3]],
    "nans": lambda: [float("nan")] * 3,
    "negative": lambda: [-1, -2],
    "far": lambda: [10**9],
    "words": lambda: ["a", "b"],
    "nothing": lambda: [None, None],
    "dict": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "pair": lambda: (2.0, 1.0),
    "infinite pair": lambda: (-np.inf, np.inf),
    "thing": Thing,
    "class": lambda: Thing,
    "function": lambda: len,
    "module": lambda: romdp,
    "array0": lambda: np.array(3.0),
    "empty array": lambda: np.zeros((0, 3)),
    "flat": lambda: np.zeros((3, 0)),
    "deep": lambda: np.ones((2, 3, 2, 2)),
    "huge": lambda: np.full((3, 2), 1e300),
    "whole": lambda: np.arange(6).reshape(3, 2),
    "objects": lambda: np.array([None, Thing()], object),
    "dates": lambda: np.array(["2020-01-01"], "M8[D]"),
    "recipe": lambda: romdp.UCRL2,
    "recipe called": romdp.UCRL2,
    "sets": romdp.Hoeffding,
    "clusterer": romdp.Likelihood,
    "partition": lambda: romdp.Partition([0, 1, 0]),
    "trajectory": lambda: romdp.Trajectory([0, 1, 2], [0, 1, 0], [0.0, 1.0, 0.5]),
    "world": lambda: romdp.worlds.river_swim(3),
    "np.nan": lambda: np.float64("nan"),
    "dots": lambda: ...,
    "iterator": lambda: iter([1, 2]),
    "env": lambda: gymnasium.make("CartPole-v1"),
}


class Toy(gymnasium.Env):
    """Three observations, two actions, four steps."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return 0, {}

    def step(self, action):
        self.age += 1
        return (self.age + action) % 3, float(action), self.age == 4, False, {}


class ToyVectors(gymnasium.Env):
    """The same with vectors of two numbers."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action):
        return self.np_random.normal(size=2), 0.0, bool(self.np_random.random() < 0.2), False, {}


@cache
def world():
    return romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=6, seed=1)


@cache
def seen():
    return romdp.simulate(world(), "uniform", 400, seed=0)


def log():
    return {"page": seen().observations, "offer": seen().actions, "paid": seen().rewards}


def vectors():
    return np.random.default_rng(0).normal(size=(400, 2))


@cache
def counts():
    return romdp.Counts.from_trajectory(seen())


def evidence():
    return romdp.Evidence(counts(), romdp.Triples.from_trajectory(seen()), 400, 1)


@cache
def model():
    return romdp.fit(log(), "page", "offer", "paid", n_states=3)


@cache
def run():
    return romdp.play(romdp.LCPSRL(), world(), 100)


def online():
    agent = romdp.Online(romdp.PSRL(), 6, 2)
    agent.act(0)
    return agent


def encoder():
    table = vectors()
    actions = np.random.default_rng(1).integers(2, size=400)
    return romdp.Encoder(views="plain").fit(table, actions=actions)


@cache
def fitted_encoder():
    return encoder()


def hidden_states():
    return romdp.HiddenStates(n_states=3).fit(seen())


FOLDER = tempfile.mkdtemp()


@cache
def runs():
    from romdp.experiments import Experiment, RunDirectory, run_experiment

    experiment = Experiment(
        worlds=({"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}},),
        agents=("ucrl2",),
        observations=(6,),
        steps=50,
        seeds=1,
    )
    directory = RunDirectory.create(f"{FOLDER}/runs", experiment)
    run_experiment(directory)
    return directory


@cache
def stored(name):
    path = f"{FOLDER}/{name}"
    maker = {"model": model, "policy.npz": lambda: run().policy, "seen.npz": seen}
    maker |= {"world.npz": world, "online.npz": online, "mdp.npz": lambda: world().hidden}
    maker |= {"words.json": lambda: romdp.Vocabulary(4), "encoder.npz": fitted_encoder}
    maker[name]().save(path)
    return path


def rng():
    return np.random.default_rng(0)


# What a call takes where nothing is wrong, by the argument's name, or by its place and name.
GOOD: dict[str, Any] = {
    "actions": lambda: seen().actions,
    "agent": romdp.UCRL2,
    "arrays": lambda: counts().arrays(),
    "capacity": lambda: 4,
    "clusterer": romdp.Likelihood,
    "confidence": romdp.Hoeffding,
    "counts": counts,
    "data": log,
    "delta": lambda: 0.05,
    "directory": lambda: str(runs().path),
    "emission": lambda: world().emission,
    "env": Toy,
    "evidence": evidence,
    "labels": lambda: [0, 1, 2, 0, 1, 2],
    "model": model,
    "n_actions": lambda: 2,
    "n_observations": lambda: 6,
    "n_states": lambda: 3,
    "name": lambda: "random-romdp",
    "names": lambda: ["a", "b"],
    "observation": lambda: 1,
    "observations": lambda: [0, 1, 2],
    "other": lambda: romdp.Partition([0, 1, 1, 0, 1, 1]),
    "out": lambda: f"{FOLDER}/out.parquet",
    "partition": lambda: romdp.Partition([0, 1, 2, 0, 1, 2]),
    "path": lambda: f"{FOLDER}/written",
    "policy": lambda: run().policy,
    "previous": lambda: romdp.Partition.singletons(6),
    "reward": lambda: 0.5,
    "rng": rng,
    "seed": lambda: 0,
    "seen": seen,
    "state": lambda: 0,
    "steps": lambda: 60,
    "t": lambda: 401,
    "trajectory": seen,
    "transition": lambda: world().hidden.transition,
    "world": world,
    "Counts.visits": lambda: [[3], [1]],
    "Counts.transitions": lambda: [[[1, 2]], [[1, 0]]],
    "Counts.reward_sums": lambda: [[1], [1]],
    "Counts.reward_squares": lambda: [[1], [1]],
    "Evidence.counts": counts,
    "HiddenStates.fit.X": seen,
    "HiddenStates.predict.X": lambda: seen().observations,
    "HiddenStates.predict_proba.X": lambda: seen().observations,
    "HiddenStates.score.X": seen,
    "Encoder.fit.X": vectors,
    "Encoder.transform.X": vectors,
    "Encoder.predict.X": vectors,
    "Encoder.load.path": lambda: stored("encoder.npz"),
    "Encoder.learn.steps": seen,
    "LatentModel.save.path": lambda: f"{FOLDER}/model",
    "LatentModel.score.log": log,
    "LatentModel.compare.other": model,
    "LatentModel.drift.log": log,
    "LatentModel.asked_of.names": lambda: [0, 1],
    "LatentModel.states_of.names": lambda: [0, 1],
    "LatentModel.in_units.value": lambda: 0.5,
    "MDP.load.path": lambda: stored("mdp.npz"),
    "ROMDP.load.path": lambda: stored("world.npz"),
    "Online.load.path": lambda: stored("online.npz"),
    "Trajectory.load.path": lambda: stored("seen.npz"),
    "Vocabulary.load.path": lambda: stored("words.json"),
    "load_model.path": lambda: stored("model"),
    "load_policy.path": lambda: stored("policy.npz"),
    "worlds.load_world.path": lambda: stored("world.npz"),
    "MDP.reward": lambda: world().hidden.reward,
    "ROMDP.reward": lambda: world().hidden.reward,
    "MDP.best_policy.objective": lambda: "average",
    "MDP.values.objective": lambda: 0.9,
    "MDP.values.policy": lambda: [0, 1, 0],
    "MDP.chain.policy": lambda: [0, 1, 0],
    "MDP.mixing.policy": lambda: [0, 1, 0],
    "MDP.policy_gain.policy": lambda: [0, 1, 0],
    "MDP.stationary.policy": lambda: [0, 1, 0],
    "ROMDP.from_labels.reward": lambda: world().hidden.reward,
    "ROMDP.from_labels.labels": lambda: world().labels,
    "ROMDP.from_labels.chance": lambda: world().observation_chance,
    "ROMDP.from_labels.observation_chance": lambda: world().observation_chance,
    "ROMDP.from_mdp.mdp": lambda: world().hidden,
    "Objective.parse.value": lambda: "episodic",
    "Online.require_spaces.observations": lambda: 6,
    "Online.require_spaces.actions": lambda: 2,
    "Online.observe.next_observation": lambda: 2,
    "Online.observe.action": lambda: 1,
    "Partition.among.places": lambda: np.arange(6),
    "Partition.compose.groups": lambda: romdp.Partition([0, 1]),
    "Simulator.step.action": lambda: 1,
    "Simulator.trajectory.policy": lambda: "uniform",
    "Spectral.examine.previous": lambda: romdp.Partition.singletons(6),
    "Trajectory.observations": lambda: [0, 1, 2],
    "Trajectory.actions": lambda: [0, 1, 0],
    "Trajectory.concatenate.trajectories": lambda: [seen(), seen()],
    "Trajectory.part.start": lambda: 0,
    "Trajectory.part.stop": lambda: 5,
    "Triples.previous": lambda: [0],
    "Triples.middle": lambda: [1],
    "Triples.action": lambda: [0],
    "Triples.next": lambda: [1],
    "Triples.count": lambda: [3],
    "Triples.select.action": lambda: 0,
    "UntilSure.clusterer": romdp.Likelihood,
    "Vocabulary.decode.number": lambda: 0,
    "Vocabulary.from_dict.content": lambda: romdp.Vocabulary(4).to_dict(),
    "apply_model.data": log,
    "evaluate.observation": lambda: "page",
    "evaluate.action": lambda: "offer",
    "evaluate.reward": lambda: "paid",
    "fit.observation": lambda: "page",
    "fit.action": lambda: "offer",
    "fit.reward": lambda: "paid",
    "simulate.policy": lambda: "uniform",
    "worlds.simulate.policy": lambda: "uniform",
    "worlds.WORLDS.name": lambda: "random-romdp",
    "worlds.RichObservation.per_state": lambda: 2,
    "worlds.Distraction.env": ToyVectors,
    "worlds.Distraction.n_numbers": lambda: 2,
    "worlds.VectorObservation.classes": lambda: [np.zeros((1, 2)), np.ones((1, 2)), np.eye(2)],
    "worlds.VocabularyWrapper.capacity": lambda: 4,
    "theory.partial_groups.policy": lambda: "uniform",
    "theory.run_bound.run": run,
    "theory.epoch_counts.playing": lambda: romdp.epochs(romdp.UCRL2(), world(), 50),
    "theory.Theory.needs.observation": lambda: 0,
    "theory.Theory.regret.steps": lambda: [100],
    "experiments.Experiment.worlds": lambda: (
        {"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}},
    ),
    "experiments.Experiment.agents": lambda: ("ucrl2",),
    "experiments.Experiment.observations": lambda: (6,),
    "experiments.Experiment.from_dict.content": runs().experiment.to_dict,
    "experiments.Experiment.world.label": lambda: "random-romdp",
    "experiments.RunDirectory.begin.path": lambda: str(runs().path),
    "experiments.RunDirectory.begin.experiment": lambda: runs().experiment,
    "experiments.RunDirectory.create.path": lambda: tempfile.mkdtemp(dir=FOLDER) + "/new",
    "experiments.RunDirectory.create.experiment": lambda: runs().experiment,
    "experiments.RunDirectory.open.path": lambda: str(runs().path),
    "experiments.make_agent.name": lambda: "ucrl2",
    "experiments.run_experiment.directory": runs,
    "experiments.summarise.directory": runs,
    "reports.read_results.path": lambda: str(runs().path),
    "reports.emission_figure.emission": lambda: world().emission,
    "reports.regret_figure.results": lambda: romdp.reports.read_results(runs().path),
    "reports.groups_figure.results": lambda: romdp.reports.read_results(runs().path),
    "reports.flow_figure.record": lambda: romdp.reports.read_results(runs().path).records[0],
    "reports.save_figure.figure": lambda: romdp.reports.emission_figure(
        world().emission, romdp.Partition(world().labels)
    ),
    "reports.save_figure.stem": lambda: f"{FOLDER}/figure",
    "reports.write_figures.out": lambda: f"{FOLDER}/figures",
    "reports.write_report.out": lambda: f"{FOLDER}/report.html",
    "reports.write_model_page.path": lambda: f"{FOLDER}/page.html",
    "logs.count_logs.columns": lambda: Columns("page", "offer", "paid"),
    "logs.Columns.observation": lambda: "page",
    "logs.fit.observation": lambda: "page",
    "logs.fit.action": lambda: "offer",
    "logs.fit.reward": lambda: "paid",
    "baselines.baseline.name": lambda: "q-learning",
    "baselines.play_baseline.name": lambda: "q-learning",
}

# Objects whose methods are called.
OBJECTS: dict[str, Any] = {
    "Agent": romdp.UCRL2,
    "Bernstein": romdp.Bernstein,
    "Chain": lambda: romdp.Chain(romdp.Singletons(), romdp.Likelihood()),
    "Counts": counts,
    "Doubling": romdp.Doubling,
    "Encoder": fitted_encoder,
    "HiddenStates": hidden_states,
    "Hoeffding": romdp.Hoeffding,
    "Homogeneity": romdp.Homogeneity,
    "Known": lambda: romdp.Known([0, 1, 2, 0, 1, 2]),
    "LatentModel": model,
    "Likelihood": romdp.Likelihood,
    "MDP": lambda: world().hidden,
    "ROMDP": world,
    "Objective": romdp.Objective,
    "Online": online,
    "Optimism": romdp.Optimism,
    "Overlap": lambda: romdp.Overlap(3),
    "Partition": lambda: romdp.Partition([0, 1, 0, 1, 0, 1]),
    "Policy": lambda: run().policy,
    "Posterior": romdp.Posterior,
    "Run": run,
    "Simulator": lambda: romdp.Simulator(world(), 0),
    "Singletons": romdp.Singletons,
    "Spaced": lambda: romdp.Spaced(romdp.Likelihood()),
    "Spectral": romdp.Spectral,
    "TimeUniform": romdp.TimeUniform,
    "Trajectory": lambda: romdp.Trajectory([0, 1, 2], [0, 1, 0], [0.0, 1.0, 0.5]),
    "Triples": lambda: romdp.Triples.from_trajectory(seen()),
    "UntilFound": romdp.UntilFound,
    "UntilSure": romdp.UntilSure,
    "Vocabulary": lambda: romdp.Vocabulary(4, ["a"]),
    "theory.Theory": lambda: romdp.theory.bounds(world()),
    "baselines.DQN": romdp.baselines.DQN,
    "baselines.QLearning": romdp.baselines.QLearning,
    "experiments.Experiment": lambda: runs().experiment,
    "experiments.RunDirectory": runs,
}

# What romdp itself makes and nobody else; their methods are called all the same.
MADE = {
    "LatentModel", "Policy", "Run", "ROMDPError", "baselines.Baseline",
    "theory.Theory", "theory.Magnitude", "theory.Row", "theory.RunBound",
    "encoding.Encoding", "encoding.Portraits", "encoding.StateDecoder",
    "experiments.RunDirectory", "reports.Results", "logs.Evaluation", "logs.LogCounts",
}  # fmt: skip

# Methods for romdp's own use: fast, and documented as unchecked; or scikit-learn's and Gymnasium's.
OWN = {
    "Agent.on_states", "Counts.from_parts", "Counts.from_cells", "Counts.from_arrays",
    "Counts.group_transitions", "Counts.in_units", "Counts.restrict", "Counts.group",
    "Doubling.budget", "Doubling.longest", "Doubling.spare", "Doubling.unseen_budget",
    "Encoder.learn", "Encoder.set_fit_request", "Encoder.set_output", "Encoder.set_params",
    "Encoder.get_params", "Encoder.fit_transform", "Encoder.get_feature_names_out",
    "HiddenStates.set_fit_request", "HiddenStates.set_score_request", "HiddenStates.set_params",
    "HiddenStates.get_params", "HiddenStates.fit_predict",
    "LatentModel.find", "LatentModel.asked_of", "LatentModel.states_of", "LatentModel.in_units",
    "Likelihood.fit", "Objective.within", "Partition.among", "Partition.compose",
    "Partition.contingency", "Posterior.draw_rewards", "Posterior.draw_transitions",
    "Posterior.mean_rewards", "Posterior.prior_weights", "Simulator.let", "Simulator.run",
    "Simulator.restore", "TimeUniform.intervals", "Trajectory.changed", "Trajectory.encoded",
    "Trajectory.part", "Spaced.is_due", "UntilSure.is_sure", "Spectral.examine", "Run.plot",
    "experiments.RunDirectory.checkpoint", "experiments.RunDirectory.contents",
    "experiments.RunDirectory.delete_stale_files", "experiments.RunDirectory.store",
    "experiments.RunDirectory.write_summary", "theory.Magnitude.of",
}  # fmt: skip

_SAME = {"logs": ("HiddenStates", "apply_model", "evaluate", "fit"), "encoding": ("Encoder",)}


@dataclass
class Entrance:
    """A public callable, and what it takes."""

    name: str
    call: Any
    make: dict[str, Any]  # of each argument that must be there
    arguments: tuple[str, ...]  # those that may be wrong
    then: Any = field(default=None, repr=False)


def _arguments(function, skip=0):
    found = list(inspect.signature(function).parameters.values())[skip:]
    return [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _example(name, argument):
    for key in (f"{name}.{argument}", argument):
        if key in GOOD:
            return GOOD[key]
    raise LookupError(f"what does {name} take for {argument}? Add it to tests/fuzz/entrances.py")


def _entrance(name, function, call, skip=0, then=None):
    parameters = _arguments(function, skip)
    needed = [p for p in parameters if p.default is p.empty or f"{name}.{p.name}" in GOOD]
    make = {p.name: _example(name, p.name) for p in needed}
    return Entrance(name, call, make, tuple(p.name for p in parameters), then)


def _try_agent(agent):
    """Play with what was made: a description may be wrong without anybody having noticed."""
    if hasattr(agent, "start"):
        romdp.play(agent, world(), 40)


def entrances():
    """List every public callable."""
    found = []
    modules = ("", "worlds.", "theory.", "experiments.", "reports.", "logs.", "baselines.")
    for prefix in modules:
        module = romdp if not prefix else getattr(romdp, prefix[:-1], None)
        if prefix == "logs.":
            import romdp.logs as module
        for short in module.__all__:
            value, name = getattr(module, short), prefix + short
            if not callable(value) or short in _SAME.get(prefix[:-1], ()):
                continue
            if inspect.isclass(value):
                found += _of_class(name, value)
            else:
                found.append(_entrance(name, value, value, then=_try_agent))
    return found


def _of_class(name, kind):
    if name not in MADE:
        if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(kind).parameters.values()):
            takes = {"clusterers": romdp.Singletons}
            yield Entrance(name, lambda **given: kind(*given.values()), takes, ("clusterers",))
        else:
            yield _entrance(name, kind, kind, then=_use(kind))
    for method, static in inspect.getmembers_static(kind):
        full = f"{name}.{method}"
        if method.startswith("_") or full in OWN or isinstance(static, property):
            continue
        function = getattr(kind, method)
        owner = getattr(function, "__module__", "") or ""
        if not callable(function) or not owner.startswith("romdp"):
            continue
        bound = isinstance(static, classmethod | staticmethod)
        if bound:
            yield _entrance(full, function, function)
        elif name in OBJECTS and len(_arguments(function)) > 1:
            make = OBJECTS[name]

            def call(_make=make, _method=method, **arguments):
                return getattr(_make(), _method)(**arguments)

            yield _entrance(full, function, call, skip=1)


def _use(kind):
    """Return what to do with an object that was made: agents' parts are played with."""
    if hasattr(kind, "regroup"):
        return lambda made: _try_agent(romdp.Agent(made))
    if kind.__name__ in ("Optimism", "Posterior"):
        return lambda made: _try_agent(romdp.Agent(planner=made))
    if kind.__name__ in ("Hoeffding", "Bernstein", "TimeUniform"):
        return lambda made: _try_agent(romdp.UCRL2(made))
    if kind.__name__ == "Doubling":
        return lambda made: _try_agent(romdp.Agent(stopping=made))
    if hasattr(kind, "start"):
        return _try_agent
    return None


@dataclass
class Outcome:
    """How a call ended."""

    name: str
    wrong: dict[str, str]
    kind: str  # of the exception, "returned", "slow"
    words: str = ""
    fault: str = ""

    def __str__(self):
        wrong = ", ".join(f"{name}={value}" for name, value in self.wrong.items())
        return f"{self.name}({wrong}): {self.fault}: {self.kind}: {self.words[:300]}"


class TooLong(BaseException):
    """A call that takes too long."""


@contextlib.contextmanager
def limits(seconds=12 * SECONDS, gigabytes=GIGABYTES):
    """End what takes too long, and refuse memory beyond some gigabytes more than now."""

    def stop(*_):
        raise TooLong

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    old = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + (gigabytes << 30), old[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, old)
        signal.signal(signal.SIGALRM, handler)


# What messages call an argument where that is clearer than its name.
ALIASES = {
    "X": r"vectors|observation|array|Input|steps|n_states|list|rows",
    "path": r"cannot (read|write)|model|there is no|is no|holds|directory|not a file of romdp",
    "checkpoint": r"not a file of romdp",
    "previous": r"grouping|middle has shape",
    "n_observations": r"entries must lie from",
    "names": r"an observation holds",
    "trajectories": r"trajectory",
    "planner": r"plan\(\)",
    "value": r"objective",
    "name": r"agent|world|baseline",
    "world_seed": r"seed",
    "directory": r"path|director",
    "content": r"experiment",
    "columns": r"column",
    "terminated": r"column",
    "out": r"cannot (write|make)|path",
    **dict.fromkeys(["observation", "action", "reward", "episode", "order"], r"column"),
    "propensity": r"column",
    "log": r"data|files?|column|kind",
    "labels": r"observation_chance",
    "visits": r"transitions",
    "observations": r"spaces|number",
    "actions": r"spaces",
    "data": r"logs?|column|rows|table|files?|kind",
    "world": r"reward_range",
    "env": r"environment|observations holds",
}


def _names(words, argument):
    """Say whether an error's words name an argument."""
    if re.search(ALIASES.get(argument, r"$.^"), words):
        return True
    stem = argument.rstrip("s").removeprefix("n_").removeprefix("next_")
    return re.search(rf"\b(n_)?{re.escape(stem)}|{stem.replace('_', ' ')}", words) is not None


def attempt(entrance, wrong):
    """Make one call with these arguments wrong; returns how it ended."""
    arguments = {name: make() for name, make in entrance.make.items() if name not in wrong}
    arguments |= {name: WRONG[value]() for name, value in wrong.items()}
    outcome, began = Outcome(entrance.name, wrong, "returned"), time.process_time()
    try:
        # What is called for the first time is compiled, which must not be interrupted.
        with limits() if wrong else contextlib.nullcontext(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            result = entrance.call(**arguments)
            if entrance.then is not None:
                entrance.then(result)
    except ROMDPError as error:
        outcome.kind, outcome.words = type(error).__name__, str(error)
        if not any(_names(outcome.words, name) for name in wrong):
            outcome.fault = "no argument is named"
        elif len(outcome.words) > 1000:
            outcome.fault = "longer than anybody reads"
    except TooLong:
        outcome.kind, outcome.fault = "slow", "took too long"
    except BaseException as error:  # noqa: BLE001 - whatever it is
        outcome.kind, outcome.words = type(error).__name__, str(error)
        outcome.fault = "no error of ours"
    if time.process_time() - began > SECONDS and not outcome.fault:
        outcome.fault = f"took {time.process_time() - began:.0f} s"
    return outcome


# A billion steps take long because they were asked for, and a caller's function may raise what it
# likes: neither is a wrong argument.
WORK = {("steps", "billion"), ("episodes", "billion")} | {
    (name, value)
    for name in ("callback", "progress", "stage", "policy")
    for value in ("class", "function", "recipe", "sets")
}


def single_calls(found):
    """List every call with one wrong argument."""
    calls = [(e, name, value) for e in found for name in e.arguments for value in WRONG]
    return [(e, {name: value}) for e, name, value in calls if (name, value) not in WORK]


def pairs(found, n, seed=0):
    """List some calls with two wrong arguments."""
    rng = random.Random(seed)
    several = [e for e in found if len(e.arguments) > 1]
    for _ in range(n):
        entrance = rng.choice(several)
        chosen = rng.sample(entrance.arguments, 2)
        wrong = {name: rng.choice(sorted(WRONG)) for name in chosen}
        if not WORK & wrong.items():
            yield entrance, wrong


def say(words):
    """Print at once: the next call may take long."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--pairs", type=int, default=0, help="calls with two wrong arguments")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--returned", action="store_true", help="show what was taken")
    options = parser.parse_args()
    os.chdir(FOLDER)
    found = [e for e in entrances() if re.search(options.only, e.name)]
    for entrance in found:
        outcome = attempt(entrance, {})
        if outcome.kind != "returned":
            say(f"right call: {outcome}")
    calls = itertools.chain(single_calls(found), pairs(found, options.pairs, options.seed))
    kinds, n_wrong = collections.Counter(), 0
    for entrance, wrong in calls:
        outcome = attempt(entrance, wrong)
        kinds[outcome.kind] += 1
        n_wrong += bool(outcome.fault)
        if outcome.fault or (options.returned and outcome.kind == "returned"):
            say(outcome)
    say(f"{sum(kinds.values()):,} calls to {len(found)} callables: {dict(kinds)}")
    say(f"{n_wrong} ended wrongly")
    return n_wrong > 0


if __name__ == "__main__":
    sys.exit(main())

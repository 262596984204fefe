"""What every agent must satisfy, as a check that anyone can run on an agent of their own."""

import contextlib
import dataclasses
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState
from romdp.agents.planners import Planner
from romdp.clustering.clusterer import Clusterer, Evidence
from romdp.core.arrays import Floats
from romdp.core.errors import ROMDPError
from romdp.core.formats import fingerprint
from romdp.core.randomness import stream
from romdp.core.validation import check, whole_number
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.planning.backup import Plan
from romdp.playing.online import Online
from romdp.playing.player import Playing
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import Simulator

Arrays = dict[str, NDArray[Any]]


class CheckError(ROMDPError, AssertionError):
    """An agent that breaks a rule; the message says which one, in which world and how."""


@dataclass(frozen=True)
class Case:
    """One agent in one world."""

    agent: Agent
    world: ROMDP
    place: str
    steps: int
    seed: int

    def demand(self, holds: bool, what: str) -> None:
        """Raise unless a rule holds; ``what`` says how it was broken."""
        if not holds:
            raise CheckError(self._sentence(what))

    def demand_equal(self, one: Arrays, other: Arrays, what: str) -> None:
        """Raise unless two lots of arrays are the same bit by bit."""
        names = sorted(one.keys() | other.keys())
        differing = [name for name in names if not _same(one.get(name), other.get(name))]
        self.demand(not differing, f"{what}: {', '.join(differing)} differ")

    def _sentence(self, what: str) -> str:
        name = getattr(self.agent, "name", self.agent)
        return f"agent {name!r} in {self.place} ({self.steps} steps, seed {self.seed}): {what}"

    @contextlib.contextmanager
    def refusing_errors(self) -> Iterator[None]:
        """Turn whatever the agent raises into a `CheckError`."""
        try:
            yield
        except CheckError:
            raise
        except Exception as error:
            hint = "; an agent that fits one world only needs world="
            raise CheckError(
                self._sentence(f"it raised {type(error).__name__}: {error}{hint}")
            ) from error

    @contextlib.contextmanager
    def leaving_no_trace(self) -> Iterator[None]:
        """Demand that the agent and the global generators stay as they are."""
        before, numpy_before, python_before = fingerprint(self.agent), _numpy(), random.getstate()
        yield
        self.demand(fingerprint(self.agent) == before, "playing changed the agent itself")
        untouched = _numpy() == numpy_before and random.getstate() == python_before
        self.demand(untouched, "it drew from a global generator; use the seed that start() gets")

    def playing(self, steps: int | None = None, seed: int | None = None, **options: Any) -> Playing:
        """Prepare a run."""
        seed = self.seed if seed is None else seed
        return Playing(self.agent, self.world, steps or self.steps, seed, **options)

    def played(self, steps: int | None = None, seed: int | None = None, **options: Any) -> Arrays:
        """Play and return all that came of it."""
        return drained(self.playing(steps, seed, **options))

    @cached_property
    def whole(self) -> Arrays:
        """What came of playing all steps once, to compare other plays with."""
        return self.played()

    def state(self) -> AgentState:
        """Start a life."""
        return self.agent.start(self.world.n_observations, self.world.n_actions, self.seed)


def _numpy() -> str:
    return repr(np.random.get_state())  # noqa: NPY002 - to see that nobody used it


def _same(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    if one is None or other is None:
        return False
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and one.tobytes() == other.tobytes()


def drained(playing: Playing) -> Arrays:
    """Play to the end and return the outcome."""
    for _ in playing:
        pass
    return outcome(playing)


def outcome(playing: Playing) -> Arrays:
    """Return the figures of a run, its epochs and groupings, and the agent's state."""
    run = playing.run
    return {
        "steps": run.steps,
        "reward": run.reward,
        "regret": run.regret,
        "pseudo_regret": run.pseudo_regret,
        "epochs": np.asarray(run.epochs),
        "groupings": np.array([[n, *partition.labels] for n, partition in run.groupings]),
        **{f"state.{name}": array.copy() for name, array in playing.state.arrays().items()},
    }


@dataclass
class Notes:
    """How many steps the clusterer was shown and the planner planned on."""

    shown: int = 0
    placed: int = 0
    planned: int = 0
    t: int = 0


@dataclass(frozen=True)
class WatchedClusterer:
    """A clusterer whose evidence is looked at."""

    clusterer: Clusterer
    notes: Notes = field(repr=False)

    @property
    def needs(self) -> frozenset[str]:
        """What the clusterer reads."""
        return self.clusterer.needs

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Note what is shown, and ask the clusterer."""
        visits = evidence.counts.visits.sum(axis=1)
        partition = self.clusterer.regroup(evidence, previous, rng)
        self.notes.shown = int(visits.sum())
        self.notes.placed = int(visits[partition.labels >= 0].sum())
        self.notes.planned, self.notes.t = 0, evidence.step  # without a group nobody plans
        return partition


@dataclass(frozen=True)
class WatchedPlanner:
    """A planner whose counts are looked at."""

    planner: Planner
    notes: Notes = field(repr=False)

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: Floats | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Note what is planned on, and ask the planner."""
        self.notes.planned, self.notes.t = int(counts.visits.sum()), t
        return self.planner.plan(counts, t, rng, start, n_observations)


def _own_loop(case: Case) -> AgentState:
    """Play as somebody would who owns the loop, over the stream that compiled play sees."""
    world, state = case.world, case.state()
    n_observations, n_actions = world.n_observations, world.n_actions
    simulator = Simulator(world, stream(case.seed, 0))  # 0: the world's stream of a seed
    state.begin(simulator.observation)
    for _ in range(case.steps):
        seen = simulator.observation
        if state.must_think(seen):
            state.think()
            _check_decision(case, state)
        action = int(state.table[seen])
        once = Recorder(n_observations, n_actions)
        simulator.run(np.full(n_observations, action), once, 1)
        reward = float(once.reward_sums[seen * n_actions + action])
        state.learn(seen, action, reward, simulator.observation)
    return state


def _check_decision(case: Case, state: AgentState) -> None:
    """Look at a table before the compiled loop trusts it."""
    n_observations, n_actions = case.world.n_observations, case.world.n_actions
    for name, array, size in [
        ("table", state.table, n_actions),
        ("budget.cells", state.budget.cells, state.budget.visits.size),
    ]:
        fits = array.shape == (n_observations,) and array.dtype == np.int64
        case.demand(fits, f"{name} must be int64 of shape ({n_observations},)")
        inside = bool(((array >= 0) & (array < size)).all())
        case.demand(inside, f"{name} must have entries from 0 to {size - 1}, not {array}")
    groups = state.partition.n_observations
    case.demand(groups == n_observations, f"its partition has {groups} observations")


def _check_loops_agree(case: Case) -> None:
    """Before anything compiled runs, the agent is driven by hand and its tables are looked at."""
    by_hand = {f"state.{name}": array.copy() for name, array in _own_loop(case).arrays().items()}
    states = {name: array for name, array in case.whole.items() if name.startswith("state.")}
    case.demand_equal(by_hand, states, "compiled play and a loop of one's own disagree")


def _check_seeds(case: Case) -> None:
    case.demand_equal(case.played(), case.whole, "two plays with the same seed differ")


def _check_plays_apart(case: Case) -> None:
    one, other = case.playing(), case.playing(seed=case.seed + 1)
    for _ in zip_longest(one, other):
        pass
    what = "two plays at once touch each other"
    case.demand_equal(outcome(one), case.whole, what)
    case.demand_equal(outcome(other), case.played(seed=case.seed + 1), what)


def _check_resuming(case: Case) -> None:
    cuts = sorted({1, 2, 3, 10, case.steps // 2, case.steps - 1})
    with tempfile.TemporaryDirectory() as directory:
        once, often = Path(directory) / "once.npz", Path(directory) / "often.npz"
        for steps in cuts:
            piece = case.played(steps, checkpoint=often)
            what = f"the run up to step {steps} depends on where it was cut"
            case.demand_equal(piece, case.played(steps), what)
        what = f"a run cut at {cuts} differs from an uncut one"
        case.demand_equal(case.played(checkpoint=often), case.whole, what)
        case.played(10, checkpoint=once)
        what = f"playing 10 steps and going on to {case.steps} differs from playing all at once"
        case.demand_equal(case.played(checkpoint=once), case.whole, what)


def _check_saving(case: Case) -> None:
    """Go on with a copy made from the arrays, beside the original."""
    n_observations, n_actions = case.world.n_observations, case.world.n_actions
    state, copy = case.state(), case.state()
    for t in range(case.steps):
        seen = t % n_observations
        for one in (state, copy):
            if one.must_think(seen):
                one.think()
            one.learn(seen, int(one.table[seen]), float(t % 2), (t + 1) % n_observations)
        what = f"a state that was saved and loaded differs at step {t + 1}"
        case.demand_equal(dict(copy.arrays()), dict(state.arrays()), what)
        if t % 3 == 0:
            saved = {name: array.copy() for name, array in copy.arrays().items()}
            copy = type(copy).from_arrays(copy.agent, n_observations, n_actions, case.seed, saved)
            what = f"from_arrays after step {t + 1} does not give back what arrays held"
            case.demand_equal(dict(copy.arrays()), saved, what)


def _check_counts(case: Case) -> None:
    playing = case.playing()
    end = 0
    for epoch in playing:
        state = playing.state
        case.demand(epoch.start == end, f"epoch {epoch.number} does not start where the last ends")
        end = epoch.start + epoch.length
        case.demand(_has_counted(state, end), f"after {end} steps {_what_it_counted(state)}")
    case.demand(end == case.steps, f"its epochs have {end} steps in all")


def _has_counted(state: AgentState, steps: int) -> bool:
    """Tell whether all steps are counted, or some of them where an agent counts groups.

    It may then forget what an observation did before it joined its group.
    """
    recorder = state.recorder
    visits = int(recorder.visits.sum())
    remembered = visits == steps if recorder.owners is None else visits <= steps
    return state.step == steps and remembered and int(recorder.pairs.counts.sum()) == visits


def _what_it_counted(state: AgentState) -> str:
    visits, pairs = state.recorder.visits.sum(), state.recorder.pairs.counts.sum()
    return f"it says {state.step} and has counted {visits} visits and {pairs} transitions"


def _check_planning_is_up_to_date(case: Case) -> None:
    parts = {f.name for f in dataclasses.fields(case.agent)} if _is_dataclass(case.agent) else set()
    if not {"clusterer", "planner"} <= parts or getattr(case.agent, "counting", "") == "paper":
        return
    notes = Notes()
    watched = dataclasses.replace(
        case.agent,
        clusterer=WatchedClusterer(case.agent.clusterer, notes),
        planner=WatchedPlanner(case.agent.planner, notes),
    )
    for epoch in dataclasses.replace(case, agent=watched).playing():
        case.demand(
            notes.shown == epoch.start,
            f"epoch {epoch.number} grouped on {notes.shown} counted steps after {epoch.start}",
        )
        case.demand(
            notes.planned == notes.placed,
            f"epoch {epoch.number} planned on {notes.planned} counted steps, its groups have "
            f"been visited {notes.placed} times",
        )
        case.demand(
            notes.t == epoch.start + 1,
            f"epoch {epoch.number} planned for step {notes.t} at step {epoch.start + 1}",
        )


def _is_dataclass(agent: object) -> bool:
    return dataclasses.is_dataclass(agent) and not isinstance(agent, type)


def _check_gymnasium(case: Case) -> None:
    def stepped() -> Arrays:
        playing = Playing(case.agent, ROMDPEnv(case.world), case.steps, case.seed)
        outcome = drained(playing)
        what = f"in a Gymnasium environment {_what_it_counted(playing.state)}"
        case.demand(_has_counted(playing.state, case.steps), what)
        return outcome

    what = "two plays in a Gymnasium environment with the same seed differ"
    case.demand_equal(stepped(), stepped(), what)


def _check_never_seen(case: Case) -> None:
    """Show one observation for long, then the others; a saved and loaded agent acts alike."""
    n_observations, n_actions = case.world.n_observations, case.world.n_actions
    online = Online(case.agent, n_observations, n_actions, case.seed)
    for t in range(case.steps // 2):
        online.act(0)
        online.observe(t % 2, 0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "online.npz"
        online.save(path)
        loaded = Online.load(path, case.agent)
    for seen, following in pairwise([*range(n_observations), *range(n_observations)]):
        action, again = online.act(seen), loaded.act(seen)
        fits = 0 <= action < n_actions
        case.demand(
            fits, f"it takes action {action} at observation {seen}, seen for the first time"
        )
        case.demand(action == again, f"a saved and loaded agent acts differently at {seen}")
        online.observe(seen % 2, following)
        loaded.observe(seen % 2, following)


RULES: tuple[Callable[[Case], None], ...] = (
    _check_loops_agree,
    _check_counts,
    _check_planning_is_up_to_date,
    _check_seeds,
    _check_plays_apart,
    _check_saving,
    _check_resuming,
    _check_gymnasium,
    _check_never_seen,
)


def check_agent(
    agent: Agent, world: ROMDP | MDP | None = None, steps: int = 200, seed: int = 0
) -> None:
    """Run an agent through what every agent must satisfy.

    - The agent is a description: playing does not change it, nor any global generator.
    - Its table holds an action for every observation.
    - The same seed gives the same run, also with another play of the same agent under way.
    - Playing some steps and going on from a checkpoint equals playing all of them, bit by bit.
    - Saving and loading changes nothing.
    - Counts are those of all steps so far, also when it groups and plans (the latter is looked
      at where it has a ``clusterer`` and a ``planner``, as `Agent` has, and forgets nothing).
    - Compiled play, and a loop of one's own over the same stream, agree bit by bit.
    - It plays in a Gymnasium environment, and acts on observations that it has never seen.

    Parameters
    ----------
    agent
        An `Agent`, or anything else that `romdp.play` takes.
    world
        Where to play. By default in three small random worlds: an ordinary one, one with a
        single hidden state and one with a single action. An agent that fits one world only,
        such as the oracle, needs that one.
    steps
        How many steps a run has, at least 20.
    seed
        Seeds every run.

    Raises
    ------
    CheckError
        At the first rule that is broken.

    Examples
    --------
    >>> import romdp
    >>> check_agent(romdp.PSRL(), steps=50)
    """
    check(agent, "agent", "start")
    length = whole_number(steps, "steps", 20)
    start = whole_number(seed, "seed", 0)
    worlds = _small_worlds() if world is None else {"the given world": as_romdp(world)}
    for place, romdp in worlds.items():
        case = Case(agent, romdp, place, length, start)
        with case.refusing_errors(), case.leaving_no_trace():
            for rule in RULES:
                rule(case)


def _small_worlds() -> dict[str, ROMDP]:
    return {
        "a random world": random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1),
        "a one-state world": random_romdp(n_states=1, n_actions=2, n_observations=4, seed=2),
        "a one-action world": random_romdp(n_states=3, n_actions=1, n_observations=6, seed=3),
    }

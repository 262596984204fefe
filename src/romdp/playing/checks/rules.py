"""The rules that every agent must keep."""

import dataclasses
import tempfile
from collections.abc import Callable
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np

from romdp.agents.agent import AgentState
from romdp.core.randomness import stream
from romdp.data.recorder import Recorder
from romdp.playing.checks.case import Arrays, Case, drained, outcome
from romdp.playing.checks.watching import Notes, WatchedClusterer, WatchedPlanner
from romdp.playing.online import Online
from romdp.playing.player import Playing
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.simulator import Simulator


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

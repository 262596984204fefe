"""The agent: UCRL2, PSRL, the oracle, SL-UCRL and all that romdp adds are this one.

    observe -> count -> group observations -> plan on the groups -> act -> observe ...

It differs only in its answers to three questions: which observations belong together
(clusterer), what to do given the counts on the groups (planner), when to think again (stopping
rule). It thinks at the start of an epoch and then follows a fixed table observation -> action.
"""

import inspect
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from romdp.agents.planners import THIN, Optimism, Planner, Posterior, goal_of
from romdp.agents.stopping import Doubling, Stopping, spare_of
from romdp.clustering.clusterer import (
    Clusterer,
    Evidence,
    Singletons,
    Slices,
    has_states_alone,
)
from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.formats import Format, exact, index, optional, part, real, whole
from romdp.core.randomness import Seed, generator, seed_sequence
from romdp.core.validation import LARGEST_WHOLE, check, check_fields, choice, how_many, shown
from romdp.data.budget import Budget
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.trajectory import Trajectory
from romdp.encoding.memory import check_memory
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Plan
from romdp.planning.means import mean_plan

if TYPE_CHECKING:
    from romdp.worlds.simulator import Simulator

_PLANNER, _CLUSTERER, _UNSEEN = range(1, 4)  # streams of the seed; 0 is the world's

_MOST_STEPS = LARGEST_WHOLE // 2  # of a life that is loaded, and may go on
_COUNTERS = ("step", "epoch", "epoch_start", "last_start", "sweeps", "found_at")
_FORMAT = Format(
    "agent",
    labels=index("observations", of="observations", none=True),
    table=index("observations", of="actions"),
    values=real("observations"),
    recorder=part(),
    budget=part(
        format=Format("budget", visits=whole("*"), steps=whole(low=0), spare=whole(low=0)),
    ),
    **{name: whole(low=0, high=_MOST_STEPS) for name in _COUNTERS},
    converged=exact(np.bool_),
    gain=exact(np.float64),
    staged=index("* *", of="actions"),
    found=optional(index("observations", of="observations", none=True)),
)

_EPOCH = ("last_start", "epoch_start", "epoch", "_anew")  # what thinking changes first

_FIRST_LOOK = 2_000  # steps after which rewards should have differed
_MANY = 2_000  # observations met from which on grouping would take longer than a loop can wait;
_LATER = 16  # its result is then waited for for this part of the steps so far, and meanwhile
_SLICE = 0.005  # seconds of each step go into it
_logger = logging.getLogger("romdp")
_UNSTAGED = np.empty((0, 0), np.int64)

# The plan where no observation has a group yet.
_NOTHING = Plan(np.empty(0, np.int64), np.nan, 0.0, 0, np.empty(0), converged=True, gap=0.0)


@dataclass(frozen=True)
class Agent:
    """A frozen description of an agent; `start` makes one that lives.

    Parameters
    ----------
    clusterer
        Which observations belong together? `Singletons`, `Known`, `Spectral`, `Overlap`,
        `Likelihood`, or any object like `Clusterer`.
    planner
        What to do, given the counts on the groups? `Optimism`, `Posterior`, or any object
        like `Planner`.
    stopping
        When to think again? `Doubling`, or any object like `Stopping`.
    counting
        What a group remembers. ``"pooled"``: everything that its observations ever did.
        ``"paper"``: what an observation did before it joined a group is not used for the
        group; where groups merge, the one with the most samples is kept. Memory then is that
        of the groups, and the grouping may only get coarser.
    name
        What tables and figures call it.
    memory
        How far its states look back in environments and loops where the last observation does not
        tell what follows: 0 not at all, k steps, or ``"auto"``, as far as held-out steps are better
        predicted. Observations of a `ROMDP` tell all, so there it is not looked at.
    """

    clusterer: Clusterer = field(default_factory=Singletons)
    planner: Planner = field(default_factory=Optimism)
    stopping: Stopping = field(default_factory=Doubling)
    counting: Literal["pooled", "paper"] = "pooled"
    name: str = "agent"
    memory: int | str = 0

    def __post_init__(self) -> None:
        check_memory(self.memory)
        check_fields(self, clusterer="regroup", planner="plan", stopping="budget", name=str)
        _check_call(self.clusterer, "regroup", "evidence", "previous", "rng")
        _check_call(self.planner, "plan", "counts", "t", "rng", "start", "n_observations")
        choice(self.counting, "counting", ("pooled", "paper"))

    def on_states(self) -> "Agent":
        """Return the same agent for observations that are states already, met one after the other.

        Grouped by likelihood, a state that was met a few times would join one that it resembles so
        far, and hide what was not tried yet. So each has a group of its own, at once.
        """
        return replace(self, clusterer=Singletons(met_only=True))

    def start(self, n_observations: int, n_actions: int, seed: Seed = 0) -> "AgentState":
        """Begin a life: nothing seen, every observation a group of its own."""
        return AgentState(
            self,
            how_many(n_observations, "n_observations"),
            how_many(n_actions, "n_actions"),
            seed,
        )


class AgentLike(Protocol):
    """What `romdp.play` and `romdp.Online` take: an `Agent`, a baseline, or one of your own.

    ``start`` returns its state, which must answer as `AgentState` does.
    """

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        ...

    def start(self, n_observations: int, n_actions: int, seed: Seed = 0) -> Any:
        """Begin a life."""
        ...


def begin_life(agent: AgentLike, n_observations: int, n_actions: int, seed: Seed) -> Any:
    """Start an agent, which may be anybody's own, and look at what it returns."""
    check(agent, "agent", "start")
    state = agent.start(n_observations, n_actions, seed)
    fits = callable(getattr(state, "must_think", None))
    _require(fits, agent, "start", state, "a state that answers as AgentState does")
    return state


class AgentState:
    """One life of an agent: what it has counted, how it groups, and the table it follows.

    Attributes
    ----------
    step
        Steps taken so far.
    epoch
        Epochs begun so far.
    partition
        The grouping of the present epoch.
    budget
        What is left of the present epoch.
    recorder
        All counts, always up to date: the agent never plans on counts that lag behind.
    objective
        What the agent maximises here. An episodic objective is the average until an episode has
        ended.
    learns_by_step
        Whether it learns at every step, and begins no further epoch.
    total_steps
        How many steps it will play, if somebody has said so; it does not look at that.
    same_length
        Whether all episodes so far took equally many steps, as the loop says. Then an end is
        neither good nor bad, and all rewards may be higher by a constant without any difference.
    """

    learns_by_step = False
    total_steps = 0
    same_length = False

    def __init__(self, agent: Agent, n_observations: int, n_actions: int, seed: Seed) -> None:
        self.agent = agent
        self.objective = goal_of(agent.planner)
        self.seed = seed_sequence(seed)
        self.recorder = Recorder(n_observations, n_actions)
        self.partition = Partition.singletons(n_observations)
        self.step = 0
        self.epoch = 0
        self.epoch_start = 0
        self.last_start = 0
        self.gain = np.nan
        self.sweeps = 0
        self.converged = True
        self.staged = _UNSTAGED
        self._next_look = _FIRST_LOOK
        self._anew = False  # whether all was counted again since it thought last
        self._search: Slices[Partition] | None = None  # for groups, under way in slices
        self.found: Ints | None = None  # what it found, to be used from this step on:
        self.found_at = 0
        self._table: Ints | None = np.zeros(n_observations, np.int64)
        self._values: Floats | None = np.zeros(n_observations)
        self._blind: int | None = None
        self._met = np.empty(0, np.int64)  # how often each group was met, and once more
        self._policy, self._group_values = _NOTHING.policy, _NOTHING.values
        self._valued = self.partition.labels
        self._ended_at = (self.partition, n_observations)
        self.budget = Budget.none(n_observations)
        self._watches = "triples" in agent.clusterer.needs
        if self._watches:
            self.recorder.watch_triples(self.partition.labels, self.table)

    def expect_episodes(self, limit: int | None = None, zero_reward: float = 0.0) -> None:
        """Say that episodes may end here, before the first step.

        An agent without an objective of its own then maximises the reward of an episode.

        Parameters
        ----------
        limit
            The most steps that an episode can have, if known.
        zero_reward
            Which of the rewards that `learn` is told stands for a reward of 0.
        """
        planner = self.agent.planner
        if hasattr(planner, "objective"):
            goal = planner.objective or Objective("episodic")
            self.objective = goal.within(limit, zero_reward)

    @property
    def goal(self) -> Objective:
        """What is planned for now: the objective, or the average until an episode has ended."""
        episodic = self.objective.kind == "episodic"
        return AVERAGE if episodic and not self.recorder.has_ends else self.objective

    def _planner(self, goal: Objective) -> Planner:
        """Return the planner with what it has to plan for."""
        planner = self.agent.planner
        if goal_of(planner) == goal:
            return planner
        changed: Planner = replace(planner, objective=goal)  # type: ignore[type-var]
        return changed

    def best_plan(self) -> Plan:
        """Return the plan by the mean of what was learned, without exploring, on the groups.

        Its values are in the units of the rewards that `learn` is told; under a discounted or
        episodic objective they are sums in which the ``zero_reward`` of the objective counts 0.
        """
        if self.partition.n_clusters == 0:
            return _NOTHING
        counts, planner = self._count(self.partition), self._planner(self.goal)
        if not isinstance(planner, Posterior):
            return mean_plan(counts, self.goal)
        rewards, weights = planner.mean_rewards(counts), planner.prior_weights(counts)
        return mean_plan(counts, self.goal, rewards=rewards, weights=weights)

    def group_counts(self) -> Counts | None:
        """Return the counts of the groups, which later steps may change; None if there are none."""
        return self._count(self.partition) if self.partition.n_clusters else None

    def think(self) -> None:
        """Begin an epoch: group, plan, and write the new table (`alg:sm.ucrl`)."""
        before = {name: getattr(self, name) for name in _EPOCH}
        try:
            self._think()
        except BaseException:
            vars(self).update(before)
            raise

    def _think(self) -> None:
        agent, recorder = self.agent, self.recorder
        last_length = self.step - self.epoch_start if self.epoch else 1
        self.last_start, self.epoch_start = self.epoch_start, self.step
        if self._anew:  # clusterers that wait for steps to grow are asked again
            self.last_start, self._anew = 0, False
        self.epoch += 1

        evidence = Evidence(
            counts=recorder.counts,
            triples=recorder.triples if self._watches else None,
            step=self.step + 1,
            last_step=self.last_start + 1 if self.epoch > 1 else 0,
            n_met=recorder.n_met,
        )
        n = recorder.n_observations
        partition = self._regroup(evidence)
        fits = isinstance(partition, Partition) and partition.n_observations == n
        _require(fits, agent.clusterer, "regroup", partition, f"a Partition of {n} observations")
        counts, plan = self._plan(partition)
        if plan.is_stuck and getattr(agent.clusterer, "or_states", False):
            # A group may hide what its observations have not tried yet.
            partition = Singletons(met_only=True).regroup(
                evidence, partition, self._rng(_CLUSTERER)
            )
            counts, plan = self._plan(partition)
        visits = np.zeros((0, recorder.n_actions), np.int64) if counts is None else counts.visits
        spare = 0 if counts is None else spare_of(agent.stopping, counts)
        wanted = "at least one visit of every group and action"  # or nothing would ever happen
        budget = agent.stopping.budget(visits)
        fits = _are_whole(budget, 1, None) and np.shape(budget) == visits.shape
        _require(fits, agent.stopping, "budget", budget, wanted)
        longest = agent.stopping.longest(last_length)
        _require(_are_whole(longest, 1, None), agent.stopping, "longest", longest, "steps >= 1")
        self.partition = partition
        self._met = visits.sum(axis=1) + 1
        self._follow(plan)
        if self.step >= self._next_look:
            self._look_for_a_difference()
        self.budget = Budget(
            partition.labels,
            self._read_table,
            self._with_unseen(budget),
            longest,
            agent.stopping.eager,
            partition.n_clusters,
            spare,
        )
        if self._watches:
            recorder.watch_triples(partition.labels, self._policy)

    def _regroup(self, evidence: Evidence) -> Partition:
        """Ask the clusterer; where observations are many its answer comes some steps later.

        Which steps these are does not depend on how fast the machine is.
        """
        if self._search is not None or self.found is not None:
            if self.step < self.found_at:
                return self.partition
            self._go_on()
            assert self.found is not None
            partition, self.found = Partition(self.found), None
            return partition
        clusterer, rng = self.agent.clusterer, self._rng(_CLUSTERER)
        in_slices = getattr(clusterer, "in_slices", None)
        if min(self.step, self.recorder.n_met) < _MANY or in_slices is None:
            return clusterer.regroup(evidence, self.partition, rng)
        search: Slices[Partition] = in_slices(evidence, self.partition, rng)
        try:
            next(search)
        except StopIteration as answer:  # at once
            return answer.value  # type: ignore[no-any-return]
        self._search, self.found_at = search, self.step + self.step // _LATER
        return self.partition

    def _go_on(self, seconds: float = math.inf) -> None:
        """Go on with the search for groups, if one is under way, for so long."""
        until = time.perf_counter() + seconds
        while self._search is not None and time.perf_counter() < until:
            try:
                next(self._search)
            except StopIteration as answer:
                self._search, self.found = None, answer.value.labels

    def _plan(self, partition: Partition) -> tuple[Counts | None, Plan]:
        """Return the counts of the groups, if there are any, and the plan on them."""
        if partition.n_clusters == 0:
            return None, _NOTHING
        counts = self._count(partition)
        begin, size = self._values_of(partition), self.recorder.n_observations
        goal = self.goal
        if self.same_length and counts.has_ends and not goal.is_average:
            usual = float(np.median(counts.reward_means[counts.visits > 0]))
            goal = replace(goal, zero_reward=usual)
        planner = self._planner(goal)
        plan = planner.plan(counts, self.step + 1, self._rng(_PLANNER), begin, size)
        wanted = f"a Plan of {counts.n_observations} groups and {counts.n_actions} actions"
        _require(_is_plan(plan, counts), planner, "plan", plan, wanted)
        return counts, plan

    def _count(self, partition: Partition) -> Counts:
        """Return the counts of the groups, by the rule of the agent."""
        if self.agent.counting == "pooled":
            planner = self.agent.planner
            sparse = isinstance(planner, Posterior) and planner.prior is None
            if isinstance(planner, Optimism):  # few steps can have seen few transitions only
                sparse = self.step < THIN * partition.n_clusters**2 * self.recorder.n_actions
            return self.recorder.group(partition, sparse=sparse)
        if partition != self.partition:
            if not self.partition.refines(partition):
                raise InvalidInputError(
                    'counting="paper" forgets what a grouping that splits again would need; use '
                    'counting="pooled" with this clusterer'
                )
            self.recorder.merge_keeping_largest(partition)
        return self.recorder.counts

    def _follow(self, plan: Plan) -> None:
        """Take over a plan; it is spelled out for every observation only if somebody asks.

        Observations without a group share one action, drawn at the start of the epoch (see
        `_blind_action`), and one budget outside the model, so that no planner can chase them.
        """
        self.gain, self.sweeps, self.converged = plan.gain, plan.sweeps, plan.converged
        self.staged = plan.policy if plan.policy.ndim == 2 else _UNSTAGED
        self._policy = plan.policy if plan.policy.ndim == 1 else plan.policy[0]
        self._group_values = np.append(plan.values, plan.values.max(initial=0.0))
        self._valued = self.partition.labels
        self._table = self._values = self._blind = None

    def _spell_out(self, table: Ints, values: Floats) -> None:
        """Follow a table of all observations."""
        self._table, self._values, self._blind = table, values, None

    @property
    def _blind_action(self) -> int:
        """The action at observations without a group, the same for all of them in an epoch.

        Each is of some group: the more often a group was met, the more likely. So one is drawn,
        and what is done there is done here. Where episodes end, an observation never met is more
        often a new place, and the action itself is drawn.
        """
        if self._blind is None:
            rng = self._rng(_UNSEEN)
            if self._policy.size and self.objective.is_average:
                chances = self._met / self._met.sum()
                self._blind = int(self._policy[rng.choice(chances.size, p=chances)])
            else:
                self._blind = int(rng.integers(self.recorder.n_actions))
        return self._blind

    def _read_table(self) -> Ints:
        return self.table

    @property
    def table(self) -> Ints:
        """The action at every observation in the present epoch."""
        if self._table is None:
            labels = self.partition.labels
            self._table = np.append(self._policy, 0)[labels]  # -1, no group, reads the last entry
            unseen = labels < 0
            if unseen.any():
                self._table[unseen] = self._blind_action
        return self._table

    @property
    def labels(self) -> Ints:
        """The group of every observation, -1 for none."""
        return self.partition.labels

    @property
    def values(self) -> Floats:
        """What the last plan expects at every observation; the best of them without a group."""
        if self._values is None:
            self._values = self._group_values[self._valued]
        return self._values

    def _with_unseen(self, budget: Ints) -> Ints:
        """Flatten the budgets and append that of the observations without a group.

        Where all those met are states, the next one is met as a state too: the epoch ends there.
        """
        met, n_actions = self.recorder.n_met, self.recorder.n_actions
        unseen = np.flatnonzero(self.partition.labels[:met] < 0)
        visits = 0
        if unseen.size:
            visits = int(self.recorder.visits.reshape(-1, n_actions)[unseen].sum())
        alone = not unseen.size and met > 0 and has_states_alone(self.partition)
        least = 0 if alone else self.agent.stopping.unseen_budget(visits)
        return np.append(budget.ravel(), least)

    def _values_of(self, partition: Partition) -> Floats:
        """Carry the last values over to a new grouping: a warm start for the planner."""
        if self.goal.is_average == bool(np.isnan(self.gain)):
            return np.zeros(partition.n_clusters)  # the last plan had another objective
        if partition.is_identity:
            return self.values
        end = self._end_of(partition)
        labels = partition.labels[:end]
        values = self._values
        values = self._group_values[self._valued[:end]] if values is None else values[:end]
        placed = labels >= 0
        sums = np.bincount(labels[placed], values[placed], partition.n_clusters)
        return sums / np.maximum(partition.sizes, 1)

    def _look_for_a_difference(self) -> None:
        """Say, once, if no policy can be better than another as far as anybody can see."""
        self._next_look = max(_FIRST_LOOK, 2 * self.step)
        recorder = self.recorder
        n, total = int(recorder.visits.sum()), float(recorder.reward_sums.sum())
        squares = float(recorder.reward_squares.sum())
        if n * squares - total * total > 1e-9 * n * squares:
            self._next_look = _MOST_STEPS  # rewards differ
        elif n > 0 and self.objective.is_average:
            self._next_look = _MOST_STEPS
            _logger.warning(
                "all %d rewards so far were %g, and %s maximises the reward per step: every policy "
                'is as good as any other. If episodes end, pass objective="episodic"; else let '
                "the rewards tell good from bad",
                n,
                total / n,
                self.agent.name,
            )
        elif n > 0 and not recorder.has_ends and total / n != self.objective.zero_reward:
            self._next_look = _MOST_STEPS
            _logger.warning(
                "all %d rewards so far were %g and no episode has terminated (objective: %s): "
                "every policy is as good as any other. Say which steps end an episode "
                "(terminated=True), or let the rewards tell good from bad",
                n,
                total / n,
                self.objective,
            )

    def _end_of(self, partition: Partition) -> int:
        """Return a number such that no observation from it on has a group."""
        if partition is not self._ended_at[0]:
            placed = np.flatnonzero(partition.labels >= 0)
            self._ended_at = (partition, int(placed[-1]) + 1 if placed.size else 0)
        return self._ended_at[1]

    def _rng(self, stream: int) -> np.random.Generator:
        return generator(self.seed, stream, self.epoch)

    def must_think(self, observation: int, age: int = 0) -> bool:
        """Whether the epoch is over when ``observation`` is met, or none has begun."""
        return self.budget.is_over(observation, self.action(observation, age))

    def advance(self, simulator: "Simulator", steps: int) -> None:
        """Follow the table in a compiled world until the epoch is over or the steps are done."""
        done, _ = simulator.run(self.table, self.recorder, steps, self.budget)
        self.step += done

    def action(self, observation: int, age: int = 0) -> int:
        """Return what to do at an observation, after ``age`` steps of an episode."""
        if self.staged.size:
            group = int(self.partition.labels[observation])
            if group >= 0:
                return int(self.staged[min(age, len(self.staged) - 1), group])
        if self._table is not None:
            return int(self._table[observation])
        group = int(self.partition.labels[observation])
        return int(self._policy[group]) if group >= 0 else self._blind_action

    def begin(self, observation: int) -> None:
        """Note that an episode begins with an observation."""
        self.recorder.begin(observation)

    def learn(self, observation: int, action: int, reward: float, following: int) -> None:
        """Count one step.

        Parameters
        ----------
        observation, action, reward
            What was seen, done and paid.
        following
            What came next: an observation, `romdp.data.trajectory.END` after the last step of an
            episode, or `UNKNOWN`, as where an episode was cut.
        """
        self.recorder.record(observation, action, reward, following)
        self.budget.spend(observation, action)
        self.step += 1
        if self._search is not None:
            self._go_on(_SLICE)

    def idle(self) -> None:
        """Begin an epoch in which nothing has a group yet, and nobody knows what is seen."""
        self.epoch += 1
        self.last_start, self.epoch_start = self.epoch_start, self.step

    def wait(self) -> None:
        """Count a step of which nothing is kept: nobody knows yet what is seen."""
        self.step += 1

    def recount(self, seen: Trajectory | None) -> None:
        """Forget all counts and groups and count what is passed: observations mean something else.

        The epoch is over. Nothing has a group until the agent thinks again.
        """
        n, n_actions = self.recorder.n_observations, self.recorder.n_actions
        self.recorder = Recorder(n, n_actions)
        self.partition = Partition.unseen(n)
        self._anew = True
        self._search = self.found = None
        self.gain = np.nan
        self._spell_out(np.zeros(n, np.int64), np.zeros(n))
        self.budget = Budget.none(n)
        if seen is not None:
            self.recorder.record_all(seen)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold; later steps do not change it."""
        self._go_on()
        return _FORMAT.pack(self)[0]

    @classmethod
    def from_arrays(
        cls,
        agent: Agent,
        n_observations: int,
        n_actions: int,
        seed: Seed,
        arrays: Mapping[str, NDArray[Any]],
    ) -> Self:
        """Go on where `arrays` was taken; what does not fit together is a `StorageError`."""
        found = _FORMAT.read(arrays, observations=n_observations, actions=n_actions)
        labels, table, begun = found["labels"], found["table"], found["epoch"] > 0
        partition = Partition(labels)
        recorder = Recorder.from_arrays(n_observations, n_actions, found["recorder"] or {})
        cells = partition.n_clusters * n_actions + 1 if begun else 1
        faults = {
            "labels are not numbered by first appearance": np.any(partition.labels != labels),
            "labels split groups that are counted as one": recorder.owners is not None
            and not Partition(recorder.owners).refines(partition),
            "its steps and epochs do not follow one another": not (
                found["last_start"] <= found["epoch_start"] <= found["step"]
                and min(1, found["step"]) <= found["epoch"] <= found["step"] + 1
            ),
            "groups are found that are not numbered by first appearance": found["found"] is not None
            and np.any(Partition(found["found"]).labels != found["found"]),
            "more visits are counted than steps were taken": recorder.visits.sum() > found["step"],
            "the staged policy is not one of the groups": found["staged"].size
            and found["staged"].shape[1] != partition.n_clusters,
            f"there are not {cells} budgets of visits": len(found["budget"]["visits"]) != cells,
        }
        _FORMAT.refuse(faults)

        state = cls(agent, n_observations, n_actions, seed)
        state.recorder, state.partition = recorder, partition
        state._spell_out(table, found["values"])
        if begun:
            state.budget = Budget(partition.labels, table, **found["budget"])
            state.budget.eager = agent.stopping.eager
        for name in (*_COUNTERS, "converged", "gain", "staged", "found"):
            setattr(state, name, found[name])
        return state


def _check_call(part: object, method: str, *arguments: str) -> None:
    """Refuse a part whose method takes something else, such as sets in place of a planner."""
    try:
        inspect.signature(getattr(part, method)).bind(*arguments)
    except TypeError as error:
        raise InvalidInputError(
            f"{method}() of {shown(part)} does not take ({', '.join(arguments)}), as that of an "
            f"agent's part must: {error}"
        ) from None
    except ValueError:  # what is not written in Python may not say what it takes
        return


def _require(fits: bool, part: object, method: str, returned: object, wanted: str) -> None:
    """Refuse what a part of the agent returned, which may be anybody's own."""
    if not fits:
        name = type(part).__name__
        raise InvalidInputError(
            f"{method}() of {name} returned {shown(returned)}; it must return {wanted}"
        )


def _are_whole(numbers: Any, low: int, high: int | None) -> bool:
    """Whether numbers, as compiled loops rely on, are whole and from ``low`` to ``high``."""
    array = np.asarray(numbers)
    inside = array.dtype.kind in "iu" and (array >= low).all()
    return bool(inside and (high is None or (array <= high).all()))


def _is_plan(plan: Any, counts: Counts) -> bool:
    """Whether a planner's plan has an action and a value for every group."""
    sizes = counts.n_observations, counts.n_actions
    return (
        isinstance(plan, Plan)
        and np.shape(plan.policy)[-1:] == np.shape(plan.values) == sizes[:1]
        and np.ndim(plan.policy) <= 2
        and _are_whole(plan.policy, 0, sizes[1] - 1)
    )

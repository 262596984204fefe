"""What a run leaves behind: a policy, which explores no more, and the model behind it."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError, MisuseError, StorageError
from romdp.core.formats import Format, fact, index, part, real, whole
from romdp.core.text import MOST_LISTED, html_table
from romdp.core.validation import freeze, rectangular, whole_array, whole_number
from romdp.data.counts import LARGEST, Counts
from romdp.data.partition import Partition
from romdp.encoding.observations import Numbering, Numbers, ObservationEncoder, encoder_from
from romdp.exact.objectives import Objective

_GONE = 1e-6  # what is left of an episode that is as good as over

FORMAT = Format(
    "policy",
    2,
    state_values=real("states", finite=False),
    labels=index("codes", of="states", none=True),
    plan=whole("steps states", 0),
    default=whole(low=0),
    agent=fact(str),
    objective=fact(str),
    observations=fact(),
    actions=fact(),
    codes=part(),
)


@dataclass(frozen=True, eq=False)
class Policy:
    """What to do at every observation; it learns nothing any more.

    It is the plan of a model: `Run.policy` and `Online.policy` make one, and `romdp.load_policy`
    reads one. It takes the environment's own observations, one or a batch, and returns its actions.
    It answers for every observation of the environment, and always alike: where the hidden state is
    not known, with the action that is best most often. Under an episodic objective with a horizon,
    and where vectors do not show the step of the episode although it matters, what is best depends
    on that step as well: ``policy.act(observation, step)``. `depends_on_step` says whether it does.
    If states look back (`looks_back`), `act` takes observations one after the other, and `reset`
    begins an episode.

    Attributes
    ----------
    plan
        The number of the action in every hidden state; shape (n_steps, n_states). There is one row,
        or under a horizon one for each step of the episode.
    state_values
        What is expected from each hidden state on, under the objective: relative to the worst one
        for the average reward, else the (discounted) sum of rewards.
    labels
        The hidden state of every observation that has a code, -1 for none.
    default
        The number of the action where the hidden state is not known.
    agent, objective
        Who learned it, and what it is the best plan for: the average reward as long as no episode
        has terminated.
    observations, actions
        From observations to codes, and from numbers to actions.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    >>> policy = romdp.play(romdp.LCPSRL(), world, steps=10_000, seed=0).policy
    >>> best = world.hidden.optimal_policy[world.labels]
    >>> policy.act(range(9)).tolist() == best.tolist()
    True
    >>> policy.act(0), policy.n_states, romdp.Partition(policy.state(range(9))).n_clusters
    (1, 3, 3)
    """

    plan: Ints = field(repr=False)
    state_values: Floats = field(repr=False)
    labels: Ints = field(repr=False)
    default: int
    agent: str
    objective: str
    observations: ObservationEncoder = field(repr=False)
    actions: Numbering | Numbers = field(repr=False)
    _before: list[int] = field(default_factory=lambda: [-1, -1], repr=False, compare=False)

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return len(self.state_values)

    @cached_property
    def _choices(self) -> Ints:
        """The plan, with what is done where the state is not known in the last column."""
        return np.pad(self.plan, ((0, 0), (0, 1)), constant_values=self.default)

    @property
    def table(self) -> Ints:
        """The number of the action at every observation that has a code, at an episode's start."""
        return np.asarray(self._choices[0][self.labels])

    @property
    def values(self) -> Floats:
        """What is expected from each of these on; NaN where the hidden state is not known."""
        return np.append(self.state_values, np.nan)[self.labels]

    @property
    def depends_on_step(self) -> bool:
        """Whether what is best depends on the step of the episode, so that `act` needs it."""
        return len(self.plan) > 1 or self.observations.depends_on_step

    def act(self, observations: Any, step: Any = 0) -> Any:
        """Return the action for an observation, or those of a batch, as the environment has them.

        Parameters
        ----------
        observations
            What is seen: one observation, or several with one axis more.
        step
            How many steps of the episode are over, where it matters: under a horizon (beyond the
            last step, the action of the last one is returned), or where codes depend on it. One
            number, or one for each observation.
        """
        if self.looks_back:
            codes, single, ages = self._inner(observations, step)
            pairs = zip(codes.tolist(), ages.tolist(), strict=True)
            numbers = np.array([self._go_on(self._before, *pair) for pair in pairs], np.int64)
        else:
            numbers, single = self._numbers(observations, step)
        return self.actions.decode(int(numbers[0]) if single else numbers)

    @property
    def looks_back(self) -> bool:
        """Whether what is best depends on what was seen and done before."""
        return getattr(self.observations, "machine", None) is not None

    def _inner(self, observations: Any, step: Any) -> tuple[Ints, bool, Ints]:
        """Return codes that do not look back, whether it is a single one, and steps."""
        encoder: Any = self.observations
        codes, single = encoder.inner.find_all(observations, step)
        return codes, single, np.broadcast_to(np.asarray(step), codes.shape)

    def _go_on(self, before: Any, code: int, step: int) -> int:
        """Return the number of the action after a state and an action, which become the next."""
        encoder: Any = self.observations
        state = encoder.step(code, (int(before[0]), int(before[1])))
        number = int(self._choices[min(step, len(self.plan) - 1), self.labels[state]])
        before[:2] = state, number
        return number

    def state(self, observations: Any, step: Any = 0) -> Any:
        """Return the hidden state of an observation, or of each of a batch; -1 where none is known.

        The arguments are as for `act`. If states look back, a batch is a sequence from the start of
        an episode.
        """
        states, single, _ = self._states(observations, step)
        return int(states[0]) if single else states

    def predict(
        self,
        observation: Any,
        state: Ints | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, Ints | None]:
        """Return what `act` does and what to pass next time, as stable-baselines3 calls it.

        Parameters
        ----------
        observation
            One, or a batch: one of each of several environments.
        state
            What the last call returned; None at first. It is the step of each episode where
            `depends_on_step`; a row of state before, action and step where it `looks_back`; else
            None.
        episode_start
            Which of them begin an episode.
        deterministic
            Ignored: the same observation always has the same action.
        """
        if self.looks_back:
            return self._predict_after(observation, state, episode_start)
        if not self.depends_on_step:
            return self.act(observation), None
        begun = [0] if state is None else np.atleast_1d(state)
        steps = whole_array(begun, "state", ("n",), 0, LARGEST)
        if episode_start is not None:
            steps = np.where(np.asarray(episode_start, np.bool_), 0, steps)
        numbers, single = self._numbers(observation, int(steps[0]) if steps.size == 1 else steps)
        steps = np.broadcast_to(steps, numbers.shape) + 1
        return self.actions.decode(int(numbers[0]) if single else numbers), steps

    def reset(self) -> None:
        """Begin an episode: forget what `act` was asked before, if states look back at all."""
        self._before[:] = -1, -1

    def _predict_after(self, observation: Any, state: Any, begins: Any) -> tuple[Any, Ints]:
        """Do what `predict` does where states look back."""
        ages = np.zeros(1, np.int64) if state is None else np.asarray(state)[:, 2]
        codes, single, _ = self._inner(observation, int(ages[0]) if len(ages) == 1 else ages)
        fresh = np.tile([-1, -1, 0], (len(codes), 1))
        rows = fresh if state is None else np.array(np.broadcast_to(state, fresh.shape))
        if begins is not None:
            rows[np.broadcast_to(np.asarray(begins, np.bool_), len(rows))] = fresh[0]
        pairs = zip(rows, codes.tolist(), strict=True)
        numbers = np.array([self._go_on(row, code, int(row[2])) for row, code in pairs], np.int64)
        rows[:, 2] += 1
        return self.actions.decode(int(numbers[0]) if single else numbers), rows

    def probabilities(self, observations: Any, step: Any = 0) -> Floats:
        """Return the probability of each action, by its number: one of them has it all."""
        numbers, single = self._numbers(observations, step)
        rows = np.eye(self.actions.size)[numbers]
        return np.asarray(rows[0] if single else rows)

    def _numbers(self, observations: Any, step: Any) -> tuple[Ints, bool]:
        """Return the number of each action, and whether it is a single one."""
        states, single, step = self._states(observations, step)
        return self._choices[np.minimum(step, len(self.plan) - 1), states], single

    def _states(self, observations: Any, step: Any) -> tuple[Ints, bool, Any]:
        given = rectangular(step, "step")
        if given.ndim:
            step = whole_array(given, "step", ("n",), 0, LARGEST)
        else:
            step = whole_number(given.item(), "step", 0)
        codes, single = self.observations.find_all(observations, step)
        if np.ndim(step) and len(step) != len(codes):
            raise InvalidInputError(f"there are {len(step)} steps for {len(codes)} observations")
        states: Ints = np.where(codes < 0, -1, self.labels[codes])
        return states, single, step

    def _repr_html_(self) -> str:
        chosen, times = np.unique(
            self._choices[0][self.labels[self.labels >= 0]], return_counts=True
        )
        order = np.argsort(-times, kind="stable")[:MOST_LISTED]
        rows = [(self.actions.decode(int(chosen[i])), f"{times[i]:,}") for i in order]
        more = chosen.size - order.size
        return html_table(
            f"Policy of {self.agent} (objective: {self.objective})",
            rows,
            ("action", "observations met where it is best"),
            [
                *([f"... and {more} more actions"] if more > 0 else []),
                f"at any other observation: {self.actions.decode(self.default)}",
            ],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to exactly this file, completely or not at all."""
        FORMAT.save(
            path,
            {
                **vars(self),
                "observations": self.observations.to_dict(),
                "actions": self.actions.to_dict(),
                "codes": self.observations,
            },
        )


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy that `Policy.save` wrote; a damaged or foreign file is a `StorageError`."""

    def build(**found: Any) -> Policy:
        observations = encoder_from(found.pop("observations"), "observation")
        observations.restore(found.pop("codes") or {})
        actions = encoder_from(found.pop("actions"), "action")  # names are observations only
        if len(found["labels"]) != observations.size or not len(found["plan"]):
            raise StorageError("the policy is damaged: its parts are of different sizes")
        if max(found["plan"].max(initial=0), found["default"]) >= actions.size:
            raise StorageError(f"the policy is damaged: there are only {actions.size} actions")
        arrays = {name: freeze(found.pop(name)) for name in ("plan", "state_values", "labels")}
        return Policy(**arrays, **found, observations=observations, actions=actions)

    return FORMAT.load(path, build)


if TYPE_CHECKING:
    from romdp.logs.model.latent import LatentModel


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned up to a step; what the agent does later changes nothing of it.

    Attributes
    ----------
    policy
        The plan.
    counts
        Counts of the hidden states, rewards scaled to [0, 1]; None for baselines, which count
        nothing.
    visits
        How often each code was acted on.
    reward_range
        The rewards that stand for 0 and 1.
    goal
        What the plan is best for.
    n_steps
        Steps so far.
    """

    policy: Policy
    counts: Counts | None
    visits: Ints
    reward_range: tuple[float, float]
    goal: Objective
    n_steps: int

    def value(self, longest: int) -> float:
        """Return what an episode of at most so many steps pays under the plan, by what was counted.

        NaN where no episode began, or nothing was counted.
        """
        counts = self.counts
        if counts is None or not counts.starts.any():
            return float("nan")
        low, high = self.reward_range
        paid = (low + (high - low) * counts.reward_means).ravel()
        laws = counts.sparse().outcomes()
        seen = np.maximum(np.asarray(laws.sum(axis=1)).ravel(), 1)
        present, value = counts.starts / counts.starts.sum(), 0.0
        first = np.arange(counts.n_observations) * counts.n_actions
        plans = chain(self.policy.plan, repeat(self.policy.plan[-1]))
        for plan in islice(plans, longest):
            pairs = first + plan
            value += float(present @ paid[pairs])
            present = (laws[pairs].T @ (present / seen[pairs]))[:-1]  # the last place is the end
            if present.sum() < _GONE:
                break
        return value

    @cached_property
    def model(self) -> "LatentModel":
        """The model, as `romdp.fit` would return it."""
        from romdp.logs.model.latent import LatentModel

        policy = self.policy
        if not policy.n_states:
            raise MisuseError("nothing was learned yet, so there is no model: play on")
        if self.counts is None:
            raise MisuseError(
                f"{policy.agent} counts nothing, so that it leaves a policy and no model"
            )
        size = int(np.flatnonzero((policy.labels >= 0) | (self.visits > 0))[-1]) + 1
        unknown = freeze(np.full(size, np.nan))
        objective: str | float = self.goal.kind
        if self.goal.discount is not None:
            objective = self.goal.discount
        return LatentModel(
            partition=Partition(policy.labels[:size]),
            observation_names=tuple(map(policy.observations.plain_name, range(size))),
            action_names=tuple(map(policy.actions.plain_name, range(policy.actions.size))),
            counts=self.counts,
            visits=freeze(self.visits[:size]),
            reward_range=self.reward_range,
            log_odds=unknown,
            certainty=unknown,
            method=policy.agent,
            n_rows=self.n_steps,
            n_episodes=int(self.counts.starts.sum()),
            objective=objective,
            encoder=policy.observations,
            plan=policy.plan[0],
        )


def learned_by(
    state: Any,
    observations: ObservationEncoder,
    actions: Numbering | Numbers,
    agent: str,
    reward_range: tuple[float, float] | None = (0.0, 1.0),
    seen: tuple[float, float] = (0.0, 1.0),
) -> Learned:
    """Take away what an agent's state has learned.

    Parameters
    ----------
    state
        The life of the agent.
    observations, actions
        What stands for the codes and numbers that it knows.
    agent
        What it is called.
    reward_range
        The rewards that its counts hold as 0 and 1; None if they hold them as they are.
    seen
        The smallest and the largest reward so far; needed where there is no range.
    """
    plan, counts, labels = state.best_plan(), state.group_counts(), state.partition.labels
    known = np.ones(len(plan.values), np.bool_)
    weights = np.bincount(labels[labels >= 0], minlength=known.size)
    if counts is not None and known.size:
        weights = counts.visits.sum(axis=1)
        known = weights > 0  # a state where nothing was done is not known
    numbers = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
    labels, rows = numbers[labels], np.atleast_2d(plan.policy)[:, known]
    low, high = reward_range or (0.0, 1.0)
    default = int(np.bincount(rows[0], weights[known]).argmax()) if known.any() else 0
    policy = Policy(
        plan=freeze(rows),
        state_values=freeze(plan.values[known] * (high - low)),
        labels=freeze(labels),
        default=default,
        agent=agent,
        objective=str(state.goal),
        observations=observations.snapshot(),
        actions=actions,
    )
    visits = np.zeros(labels.size, np.int64)
    if counts is not None:
        if known.any():
            counts = counts.group(Partition(numbers[:-1])).copy()
        if reward_range is None:
            counts = _scaled(counts, *seen)
        if state.recorder.n_visited is not None:
            visits = state.recorder.visits.reshape(labels.size, -1).sum(axis=1)
    return Learned(policy, counts, visits, reward_range or seen, state.goal, state.step)


def _scaled(counts: Counts, low: float, high: float) -> Counts:
    """Rescale rewards from [low, high] to [0, 1]."""
    span = high - low if high > low else 1.0
    visits, sums = counts.visits, counts.reward_sums
    squares = counts.reward_squares - 2 * low * sums + low**2 * visits
    return Counts.from_parts(
        visits,
        counts.transitions,
        np.clip((sums - low * visits) / span, 0.0, visits),
        np.clip(squares / span**2, 0.0, visits),
        counts.ends,
        counts.starts,
    )

"""The compiled simulator: a ROMDP stepped at machine speed, from a seed, stoppable anywhere."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.formats import Format, exact, real, whole
from romdp.core.randomness import (
    Seed,
    alias_tables,
    as_uniform,
    generator,
    next_word,
    pick,
    xoshiro_state,
)
from romdp.core.validation import (
    check_memory,
    choice,
    laws,
    real_array,
    rectangular,
    whole_array,
    whole_number,
)
from romdp.data.budget import FOREVER, Budget, is_spent, spend
from romdp.data.recorder import Recorder
from romdp.data.tally import count_step, count_triple, is_full, owner_of
from romdp.data.trajectory import Trajectory
from romdp.exact.mdp import MDP, REWARD_LAWS
from romdp.exact.romdp import ROMDP, as_romdp

_BERNOULLI, _UNIFORM, _BETA = (REWARD_LAWS.index(law) for law in ("bernoulli", "uniform", "beta"))

_START = 1  # the stream of the seed that draws the first state
_KEPT = ("state", "place", "taken", "collected")
_FORMAT = Format(
    "simulator",
    state=exact(np.uint64, "4"),
    place=whole("2", 0),
    taken=whole("pairs", 0),
    collected=real("1"),
)

PAUSED, STOPPED, FULL = range(3)
"""Why the compiled loop returned: steps used up, the stopping rule spoke, a table must grow."""


class Tables(NamedTuple):
    """A world as alias tables: hidden state to hidden state, then hidden state to observation.

    Two small draws instead of one large one: memory is X * A * X + Y, never X * A * Y.
    """

    move_keep: NDArray[np.uint64]  # (X * A * X,)
    move_alias: NDArray[np.int32]
    emit_keep: NDArray[np.uint64]  # (Y,), observations sorted by hidden state
    emit_alias: NDArray[np.int32]  # counted from the first observation of the state
    emit_start: Ints  # (X + 1,)
    member: Ints  # (Y,) the sorted observations
    reward: Floats  # (X, A)
    law: int

    @classmethod
    def of(cls, world: ROMDP) -> Self:
        """Build the tables; cost is linear in X * A * X + Y."""
        size = world.n_states
        keep, alias = alias_tables(world.transition)
        member = np.argsort(world.labels, kind="stable")
        start = np.searchsorted(world.labels[member], np.arange(size + 1))
        emit_keep = np.empty(member.size, np.uint64)
        emit_alias = np.empty(member.size, np.int32)
        for first, last in pairwise(start):
            chance = world.observation_chance[member[first:last]]
            emit_keep[first:last], emit_alias[first:last] = alias_tables(chance)
        law = REWARD_LAWS.index(world.reward_law)
        moves = keep.ravel(), alias.ravel()
        return cls(*moves, emit_keep, emit_alias, start, member, world.reward, law)


@kernel
def draw_reward(
    law: int, mean: float, s0: np.uint64, s1: np.uint64, s2: np.uint64, s3: np.uint64
) -> tuple[float, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Draw a reward around its mean, always inside [0, 1]."""
    if law == _BERNOULLI:  # small, so that the compiler puts it into the loop
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        return (1.0 if as_uniform(word) < mean else 0.0), s0, s1, s2, s3
    return _draw_real_reward(law, mean, s0, s1, s2, s3)


@kernel
def _draw_real_reward(
    law: int, mean: float, s0: np.uint64, s1: np.uint64, s2: np.uint64, s3: np.uint64
) -> tuple[float, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Draw a reward that may be any number of [0, 1]."""
    reward = mean
    if law == _UNIFORM:
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        reward = mean + min(mean, 1.0 - mean) * (2.0 * as_uniform(word) - 1.0)
    elif law == _BETA and 0.0 < mean < 1.0:
        # Beta(2 mean, 2 (1 - mean)) by Joehnk's rejection: half the tries or more succeed.
        first = second = 1.0
        while first + second > 1.0 or first + second <= 0.0:
            word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
            first = as_uniform(word) ** (0.5 / mean)
            word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
            second = as_uniform(word) ** (0.5 / (1.0 - mean))
        reward = first / (first + second)
    return reward, s0, s1, s2, s3


@kernel
def _run(
    tables: Tables,
    state: NDArray[np.uint64],
    place: Ints,
    steps: int,
    table: Ints,
    budget_cells: Ints,
    budget_visits: Ints,
    spare: int,
    eager: bool,
    taken: Ints,
    collected: Floats,
    owners: Ints | None,
    n_owners: int,
    visits: Ints,
    sums: Floats,
    squares: Floats,
    pair_keys: Ints | None,
    pairs: Ints,
    pairs_journal: Ints,
    groups: Ints | None,
    n_groups: int,
    last: Ints,
    triple_keys: Ints | None,
    triples: Ints,
    triples_journal: Ints,
) -> tuple[int, int, int]:
    """Step and count until the stopping rule speaks; see `Simulator.run`."""
    move_keep, move_alias, emit_keep, emit_alias, start, member, mean, law = tables
    n_states, n_actions = mean.shape
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    x, y, previous = place[0], place[1], last[0]
    total = collected[0]
    status = PAUSED
    done = 0
    while done < steps:
        spent = budget_cells[y]
        if is_spent(budget_visits, spent, spare):
            status = STOPPED
            break
        if is_full(pair_keys, pairs_journal) or is_full(triple_keys, triples_journal):
            status = FULL
            break
        a = table[y]
        reward, s0, s1, s2, s3 = draw_reward(law, mean[x, a], s0, s1, s2, s3)
        total += reward
        pair = x * n_actions + a
        taken[pair] += 1
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        x = pick(move_keep, move_alias, pair * n_states, n_states, word)
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        first = start[x]
        y2 = member[first + pick(emit_keep, emit_alias, first, start[x + 1] - first, word)]
        cell = owner_of(owners, y) * n_actions + a
        following = owner_of(owners, y2)
        count_step(
            cell,
            reward,
            following,
            n_owners,
            visits,
            sums,
            squares,
            pair_keys,
            pairs,
            pairs_journal,
        )
        previous = count_triple(
            previous, y, y2, groups, n_groups, triple_keys, triples, triples_journal
        )
        y = y2
        done += 1
        spare = spend(budget_visits, spent, eager, spare)
        if spare < 0:
            status = STOPPED
            break
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    place[0], place[1], last[0] = x, y, previous
    collected[0] = total
    return done, status, max(spare, 0)


@kernel
def _walk(
    tables: Tables,
    state: NDArray[np.uint64],
    place: Ints,
    action_keep: NDArray[np.uint64],
    action_alias: NDArray[np.int32],
    observations: Ints,
    actions: Ints,
    rewards: Floats,
) -> None:
    """Write a trajectory under a policy given as flat alias tables, one row per observation."""
    move_keep, move_alias, emit_keep, emit_alias, start, member, mean, law = tables
    n_states, n_actions = mean.shape
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    x, y = place[0], place[1]
    for t in range(observations.size):
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        a = pick(action_keep, action_alias, y * n_actions, n_actions, word)
        observations[t] = y
        actions[t] = a
        rewards[t], s0, s1, s2, s3 = draw_reward(law, mean[x, a], s0, s1, s2, s3)
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        x = pick(move_keep, move_alias, (x * n_actions + a) * n_states, n_states, word)
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        first = start[x]
        y = member[first + pick(emit_keep, emit_alias, first, start[x + 1] - first, word)]
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    place[0], place[1] = x, y


@kernel
def _step(
    tables: Tables,
    state: NDArray[np.uint64],
    place: Ints,
    taken: Ints,
    collected: Floats,
    action: int,
) -> float:
    """Take one action, with the draws that `_run` makes; returns the reward."""
    move_keep, move_alias, emit_keep, emit_alias, start, member, mean, law = tables
    n_states, n_actions = mean.shape
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    pair = place[0] * n_actions + action
    reward, s0, s1, s2, s3 = draw_reward(law, mean[place[0], action], s0, s1, s2, s3)
    word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
    x = pick(move_keep, move_alias, pair * n_states, n_states, word)
    word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
    first = start[x]
    y = member[first + pick(emit_keep, emit_alias, first, start[x + 1] - first, word)]
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    place[0], place[1] = x, y
    taken[pair] += 1
    collected[0] += reward
    return reward


class Simulator:
    """A world in motion: tables, the generator's state, and where it stands.

    Parameters
    ----------
    world
        A `ROMDP`; an `MDP` is one whose observations are its states.
    seed
        The first hidden state is drawn from ``world.initial`` with it.
    """

    def __init__(self, world: ROMDP | MDP, seed: Seed) -> None:
        self.world = as_romdp(world)
        self._tables = Tables.of(self.world)
        self._state = xoshiro_state(seed)
        rng = generator(seed, _START)
        x = int(rng.choice(self.world.n_states, p=self.world.initial))
        shown = np.flatnonzero(self.world.labels == x)
        y = int(rng.choice(shown, p=self.world.observation_chance[shown]))
        self._place = np.array([x, y], np.int64)
        self._taken = np.zeros(self.world.reward.size, np.int64)
        self._collected = np.zeros(1)

    @property
    def reward(self) -> float:
        """The reward that `run` has collected so far."""
        return float(self._collected[0])

    @property
    def expected_reward(self) -> float:
        """The same with each reward's mean in its place; the truth, for scoring only."""
        return float(self._taken @ self.world.reward.ravel())

    @property
    def observation(self) -> int:
        """What the world shows now."""
        return int(self._place[1])

    @property
    def hidden_state(self) -> int:
        """The truth behind it; for scoring only."""
        return int(self._place[0])

    def run(
        self, table: Ints, recorder: Recorder, steps: int, budget: Budget | None = None
    ) -> tuple[int, bool]:
        """Follow a fixed table, counting, until the epoch is over or the steps are used up.

        Parameters
        ----------
        table
            The action at every observation; what is wrong is refused before a kernel sees it.
        recorder
            Where the steps are counted.
        steps
            The longest length.
        budget
            What is left of the epoch; every step spends some of it. Without one only ``steps``
            ends the run.

        Returns
        -------
        The number of steps done, and whether the epoch is over.
        """
        world, steps = self.world, whole_number(steps, "steps")
        table = whole_array(table, "table", world.labels.shape, 0, world.n_actions - 1)
        if (recorder.n_observations, recorder.n_actions) != (table.size, world.n_actions):
            raise InvalidInputError(
                f"recorder counts {recorder.n_observations} observations and "
                f"{recorder.n_actions} actions; the world has {table.size} and {world.n_actions}"
            )
        if budget is None:
            budget = Budget(np.full(table.size, -1), table, np.full(1, FOREVER))
        cells = whole_array(budget.cells, "budget.cells", table.shape, 0, budget.visits.size - 1)
        steps = min(steps, budget.steps)
        recorder.n_met = recorder.n_observations
        done, status = 0, FULL
        while status == FULL:
            recorder.make_room()
            pairs, triples = recorder.pairs, recorder.triples_tally
            more, status, budget.spare = _run(
                self._tables,
                self._state,
                self._place,
                steps - done,
                table,
                cells,
                budget.visits,
                budget.spare,
                budget.eager,
                self._taken,
                self._collected,
                recorder.owners,
                recorder.n_owners,
                recorder.visits,
                recorder.reward_sums,
                recorder.reward_squares,
                pairs.keys,
                pairs.counts,
                pairs.journal,
                recorder.triple_groups,
                recorder.n_triple_groups,
                recorder.last,
                triples.keys,
                triples.counts,
                triples.journal,
            )
            done += more
        budget.use_steps(done, ended=status == STOPPED)
        return done, budget.steps <= 0

    def step(self, action: int) -> float:
        """Take one action and return its reward; `run` makes the same draws, and is compiled."""
        chosen = whole_number(action, "action", 0, self.world.n_actions - 1)
        return float(self.let(_step, chosen))

    def let(self, loop: Callable[..., Any], *arguments: Any) -> Any:
        """Let a compiled loop of somebody else's step the world.

        It is called with the tables, the generator's four words, the pair (hidden state,
        observation), how often each action was taken in each hidden state (flat) and the reward
        collected so far, which it must update, and then with the ``arguments``.
        """
        world = self._tables, self._state, self._place, self._taken, self._collected
        return loop(*world, *arguments)

    def trajectory(self, policy: ArrayLike | str, steps: int) -> Trajectory:
        """Follow a policy for some steps and return all that was seen; see `simulate`."""
        length = whole_number(steps, "steps", low=1)
        check_memory("a trajectory of so many steps", length, copies=6)
        keep, alias = alias_tables(
            policy_rows(policy, self.world.n_observations, self.world.n_actions)
        )
        observations = np.empty(length, np.int64)
        actions = np.empty(length, np.int64)
        rewards = np.empty(length, np.float64)
        _walk(
            self._tables,
            self._state,
            self._place,
            keep.ravel(),
            alias.ravel(),
            observations,
            actions,
            rewards,
        )
        return Trajectory(
            observations,
            actions,
            rewards,
            final_observations=[self.observation],
            n_observations=self.world.n_observations,
            n_actions=self.world.n_actions,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Where the world stands, for a checkpoint, copied."""
        return _FORMAT.pack({name: getattr(self, f"_{name}") for name in _KEPT})[0]

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back to where `arrays` was taken; what does not fit the world is a `StorageError`."""
        found = _FORMAT.read(arrays, pairs=self.world.reward.size)
        x, y = found["place"].tolist()
        if y >= self.world.n_observations or self.world.labels[y] != x:
            reason = "hidden state and observation do not belong together"
            raise _FORMAT.damaged(f"place is {x, y}; {reason}")
        if not found["state"].any():
            raise _FORMAT.damaged("the generator's state is zero")
        for name in _KEPT:
            setattr(self, f"_{name}", found[name])


def policy_rows(policy: ArrayLike | str, n_observations: int, n_actions: int) -> Floats:
    """Read a policy as rows of action probabilities."""
    if isinstance(policy, str):
        choice(policy, "policy", ["uniform"])
        return np.full((n_observations, n_actions), 1.0 / n_actions)
    if rectangular(policy, "policy").ndim == 1:
        table = whole_array(policy, "policy", (n_observations,), 0, n_actions - 1)
        return np.eye(n_actions)[table]
    return laws(real_array(policy, "policy", (n_observations, n_actions)), "policy")


def simulate(world: ROMDP | MDP, policy: ArrayLike | str, steps: int, seed: Seed = 0) -> Trajectory:
    """Simulate a world under a fixed policy.

    Parameters
    ----------
    world
        A `ROMDP` or an `MDP`.
    policy
        An action for every observation, shape (Y,); a row of probabilities for each, shape
        (Y, A); or ``"uniform"``.
    steps
        How many actions are taken. The trajectory takes 24 bytes per step; for long runs of which
        only the counts are needed, use `Simulator.run`.
    seed
        The same seed gives the same trajectory.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=1000, seed=0)
    >>> seen.n_steps
    1000
    """
    return Simulator(world, seed).trajectory(policy, steps)

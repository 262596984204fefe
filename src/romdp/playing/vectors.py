"""Agents that see vectors: codes that are learned while the agent plays.

`VectorState` is the life of such an agent. Where vectors do not repeat, actions are random at
first; from then on the encoder is fitted again whenever the steps have grown by a factor, or codes
prove to be mixed, and all that is kept is counted again under the new codes. If codes predict
better together with the step of the episode, there is from then on a code for every step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState
from romdp.agents.planners import Posterior
from romdp.clustering.clusterer import Evidence
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.vectors import find_states, is_mixed
from romdp.core.randomness import Seed, generator
from romdp.core.stored import Stored
from romdp.data.budget import Budget
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.scoring import score
from romdp.encoding.steps import ENDED, UNKNOWN, Steps
from romdp.playing.memory import COLUMNS
from romdp.playing.vector_codes import VectorCodes

_FIRST, _LAST_FIRST = 500, 5000  # steps before the first fit: ten per number, within these
_SEVERAL_FITS = 4  # times the steps before the first: there were four fits by then
_GROWTH = 1.5  # of the steps between fits, where something is at stake
_LOOK = 1.15  # growth of the steps between looks at whether codes are mixed, and between idle fits
_FIRST_LOOK = 64  # vectors after which it is first asked whether they repeat
_JUDGED = 20_000  # steps that codes are judged on
_ENCODE, _EXPLORE = 11, 12  # streams of the seed
_COUNTERS = ("due", "look", "grouped")


@dataclass(frozen=True)
class EachItsOwn:
    """A clusterer that leaves every code in the group that it was given, its own.

    Codes that lie apart are states already. Grouped by likelihood, a state that was met a few times
    would join one that it resembles so far, and hide what was not tried yet.
    """

    needs = frozenset[str]()

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return the groups as they are."""
        return previous


class VectorState(AgentState):
    """One life of an agent that sees vectors; observations are tickets of its `VectorCodes`.

    Attributes
    ----------
    due
        The step from which on the encoder is fitted again.
    look
        The step from which on it is asked whether codes must change before.
    grouped
        How many codes there were when the epoch began.
    """

    def __init__(self, agent: Agent, codes: VectorCodes, n_actions: int, seed: Seed) -> None:
        super().__init__(agent, codes.size, n_actions, seed)
        self.codes = codes
        self._given = agent
        self.due = self._first_fit
        self.look = _FIRST_LOOK if codes.names is not None else self.due
        self.grouped = 0
        if codes.names is None:
            self.partition = Partition.unseen(codes.size)

    @property
    def _first_fit(self) -> int:
        return min(max(_FIRST, 10 * self.codes.n_features), _LAST_FIRST)

    @property
    def is_in_the_dark(self) -> bool:
        """Whether vectors have told nothing in several fits, so that actions are still random."""
        return not self.codes.known and self.step > _SEVERAL_FITS * self._first_fit

    def must_think(self, observation: int, age: int | None = None) -> bool:
        """Whether codes may have to change, or the epoch is over."""
        if age is not None:
            self.codes.set_age(observation, age)
        if self.step >= self.look or not self.epoch:
            return True
        if not self.codes.known:
            return False
        code = self.codes.code(observation)  # perhaps a new one, which has no group yet
        new = self.codes.names is None and code >= self.grouped
        return new or super().must_think(code, age)

    def action(self, observation: int, age: int | None = None) -> int:
        """Return what to do: anything, until there are codes."""
        self.codes.memory.begin(observation)
        if not self.codes.known:
            rng = generator(self.seed, _EXPLORE, self.step, observation)
            return int(rng.integers(self.recorder.n_actions))
        return super().action(self.codes.code(observation), age)

    def learn(
        self,
        observation: int,
        action: int,
        reward: float,
        next_observation: int,
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        """Keep one step and count it."""
        memory = self.codes.memory
        row = memory.row(observation)
        if row >= 0:
            memory.actions[row], memory.rewards[row] = action, reward
            memory.following[row] = next_observation
            if terminated:
                memory.following[row], memory.restart[row] = ENDED, next_observation
            elif truncated:
                memory.following[row] = UNKNOWN
            else:
                self.codes.set_age(next_observation, int(memory.ages[row]) + 1)
        if not self.codes.known:
            self.step += 1
            if terminated or truncated:
                self.episode_start = self.step
            return
        code = self.codes.code(observation)
        if row >= 0:
            self.codes.join(row, observation)
        unknown = next_observation < 0 or (truncated and not terminated)
        following = -1 if unknown else self.codes.code(next_observation)
        super().learn(code, action, reward, following, terminated=terminated, truncated=truncated)

    def think(self) -> None:
        """Change codes if that is due, then begin an epoch."""
        if self.step >= self.look:
            self._look_at_codes()
        if not self.codes.known:
            self.epoch += 1
            self.last_start, self.epoch_start = self.epoch_start, self.step
            return
        if self.codes.names is None:
            self._give_groups()
        told = self.codes.book is not None or self.codes.stepwise is not None
        self.agent = self._certain if told else self._given
        super().think()
        self.grouped = self.codes.n_codes

    @cached_property
    def _certain(self) -> Agent:
        """The agent where codes are states already."""
        planner = self._given.planner
        if isinstance(planner, Posterior):
            planner = replace(planner, untried="promising")
        return replace(self._given, clusterer=EachItsOwn(), planner=planner)

    def _look_at_codes(self) -> None:
        """Give up names that do not repeat; fit again what is due, or mixed."""
        codes = self.codes
        if codes.names is not None:
            self.look = 2 * self.step
            if codes.repeat:
                return
            codes.adopt(None)
            self.due = max(self.due, self.step)
            self.look = self.due
            self._forget_counts()
            if self.step < self.due:
                return
        steps, rows = codes.memory.steps(self.recorder.n_actions)
        self.look = int(_LOOK * self.step) + 1
        mixed = self._are_mixed(steps)
        if mixed or self.step >= self.due:
            self.due = int((_LOOK if _is_idle(steps) else _GROWTH) * self.step) + 1
            self._refit(steps, rows)
            if mixed and self._are_mixed(steps):  # more steps may help, and nothing else
                self.look = self.due
        self.look = min(self.look, self.due)

    def _are_mixed(self, steps: Steps) -> bool:
        if self.codes.decoder is None:
            return False
        part = steps.last(_JUDGED)
        codes = self.codes.codes(part.vectors)
        if self.codes.stepwise is not None:
            codes = part.with_ages(codes)
        return is_mixed(codes, part)

    def _give_groups(self) -> None:
        """Give every code that has no group yet one of its own."""
        labels = self.partition.labels
        new = np.flatnonzero(labels[: self.codes.n_codes] < 0)
        if len(new):
            labels = labels.copy()
            labels[new] = self.partition.n_clusters + np.arange(len(new))
            self.partition = Partition(labels)

    def _refit(self, steps: Steps, rows: NDArray[np.int64]) -> None:
        """Learn codes from what is kept; the old ones stay if they predict it better."""
        before = self.codes.decoder
        previous = None if before is None else before.encoding
        rng = generator(self.seed, _ENCODE, self.step)
        found = find_states(steps, Likelihood(), rng, previous=previous)
        if found.n_states == 1 and not found.encoding.tells_states:
            if before is None:
                return
            found = before
        elif before is not None and _is_better(before, found, steps):
            found = before
        book = self.codes.book if found is before else None
        self.codes.adopt(replace(found, portraits=None), book)
        self._recount(steps, rows)

    def _recount(self, steps: Steps, rows: NDArray[np.int64]) -> None:
        """Count all that is kept under the present codes."""
        memory = self.codes.memory
        self._forget_counts()
        codes = np.append(self.codes.codes_in_memory(), -1)
        shown_at = memory.rows(memory.restart[rows])
        if self.codes.stepwise is not None:  # only what was acted on is a code
            plain, codes = codes, np.full_like(codes, -1)
            for row in np.union1d(rows, shown_at[shown_at >= 0]).tolist():
                codes[row] = self.codes.at_step(int(plain[row]), int(memory.ages[row]))
        after = steps.next_codes(codes[rows])
        ended = after == ENDED
        following = np.where(ended, codes[shown_at], np.maximum(after, -1))
        self.recorder.record_all(codes[rows], steps.actions, steps.rewards, following, ended)

    def _forget_counts(self) -> None:
        """Begin to count anew, with nothing grouped; the epoch is over."""
        n = self.codes.size
        self.recorder = Recorder(n, self.recorder.n_actions)
        self.partition = Partition.unseen(n)
        self.epoch_start = 0  # so that clusterers that wait for steps to grow are asked again
        self._spell_out(np.zeros(n, np.int64), np.zeros(n))
        self.budget = Budget.none(n)
        self.gain = np.nan

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold."""
        memory = self.codes.memory
        return {
            **super().arrays(),
            **{f"codes_{name}": array for name, array in self.codes.arrays().items()},
            **{f"memory_{name}": getattr(memory, name)[: memory.size].copy() for name in COLUMNS},
            "memory_met": np.array(memory.n_met, np.int64),
            **{name: np.array(getattr(self, name), np.int64) for name in _COUNTERS},
        }

    @classmethod
    def restored(
        cls,
        agent: Agent,
        codes: VectorCodes,
        n_actions: int,
        seed: Seed,
        arrays: Mapping[str, NDArray[Any]],
    ) -> Self:
        """Go on where `arrays` was taken."""
        stored = Stored(arrays, "the agent")
        own = {
            name: array
            for name, array in arrays.items()
            if not name.startswith(("codes_", "memory_")) and name not in _COUNTERS
        }
        state = cls(agent, codes, n_actions, seed)
        if any(name.startswith("codes_") for name in arrays):
            plain = AgentState.from_arrays(agent, codes.size, n_actions, seed, own)
            state.__dict__.update(plain.__dict__)
        else:  # it acts at random, and has counted nothing but steps
            for name in ("step", "epoch", "epoch_start", "last_start", "episode_start"):
                setattr(state, name, stored.number(name, 0))
        for name in _COUNTERS:
            setattr(state, name, stored.number(name, 0))
        codes.restore(stored.part("codes_"))
        codes.memory.restore(stored, n_actions)
        return state


def _is_idle(steps: Steps) -> bool:
    """Whether nothing was at stake so far, so that finding states is all there is to do."""
    return steps.pay_alike and not (steps.following == ENDED).any()


def _is_better(before: StateDecoder, found: StateDecoder, steps: Steps) -> bool:
    """Whether the codes in use predict better than those found.

    Where codes lay apart and still do, their space has been tried along with others already. What
    moved the agent to its actions is not told here: that is the codes in use, which would hardly
    ever be given up for finer ones.
    """
    if before.encoding.tells_states and found.encoding.tells_states:
        return False
    part = steps.last(_JUDGED)
    old, new = (score(_codes_seen(decoder, part), part) for decoder in (before, found))
    return old.exceeds(new) > 1


def _codes_seen(decoder: StateDecoder, steps: Steps) -> NDArray[np.int64]:
    """Return the codes that an agent would see."""
    encoding = decoder.encoding
    predict = encoding.codes if encoding.tells_states else decoder.predict
    codes = predict(steps.vectors)
    return steps.with_ages(codes) if encoding.stepwise else codes


def start_state(agent: Agent, codes: Any, n_actions: int, seed: Seed) -> AgentState:
    """Begin a life of an agent that sees these codes."""
    if isinstance(codes, VectorCodes):
        return VectorState(agent, codes, n_actions, seed)
    return agent.start(codes.size, n_actions, seed)

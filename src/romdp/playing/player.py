"""An agent in a world: epoch by epoch, with figures, checkpoints and progress."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from romdp.agents.agent import AgentLike, AgentState
from romdp.core.errors import InvalidInputError, ROMDPError
from romdp.core.formats import Format, describe, fingerprint, part
from romdp.core.randomness import Seed, seed_sequence
from romdp.core.text import in_notebook, notebook_bar
from romdp.core.validation import check, flag, function, whole_number
from romdp.data.partition import Partition
from romdp.playing.checkpoint import Checkpoint
from romdp.playing.online import Online
from romdp.playing.places import place_for
from romdp.playing.run import EpochRow, Figure, History, Run

_FORMAT = Format("checkpoint", agent=part(), place=part(), history=part())


@dataclass(frozen=True)
class Epoch:
    """One epoch as it is yielded: what was decided at its start, and how it went.

    Attributes
    ----------
    number
        The first is 1.
    start, length
        Steps before it, and its own.
    gain
        What the planner promised (optimistic or sampled).
    sweeps
        How many sweeps the planner's value iteration took.
    converged
        Whether it reached its precision.
    partition
        The grouping it planned on.
    regret, pseudo_regret, reward
        At its end, since the start of the run.
    finished
        False where the step budget and not the stopping rule ended it.
    """

    number: int
    start: int
    length: int
    n_clusters: int
    gain: float
    sweeps: int
    converged: bool
    partition: Partition
    reward: float
    regret: float
    pseudo_regret: float
    finished: bool


class Playing:
    """A run under way, also called `romdp.epochs`: iterate over it to play epoch by epoch.

    The arguments are those of `play`. ``playing.run`` holds the figures so far at any time. While
    it plays, its checkpoint is locked.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(seed=1)
    >>> playing = romdp.epochs(romdp.UCRL2(), world, steps=100, seed=0)
    >>> sum(epoch.length for epoch in playing)
    100
    """

    def __init__(
        self,
        agent: AgentLike | Online,
        world: Any,
        steps: int,
        seed: Seed = 0,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = 30.0,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        self._agent = agent.agent if isinstance(agent, Online) else agent
        check(self._agent, "agent", "start")
        self.steps, self._seed = whole_number(steps, "steps", 1), seed_sequence(seed)
        self._place = place_for(agent, world, self._seed, reward_range)
        self._place.state.total_steps = self.steps
        done = self._place.state.step
        if done >= self.steps:
            raise InvalidInputError(
                f"the agent has already played {done:,} steps, and steps={self.steps:,} in all "
                "were asked for; ask for more"
            )
        self._history = History(self.steps, done)
        if done:
            self._history.note_grouping(1, self._place.state.partition)
        identity = {} if checkpoint is None else self._identity()
        self._checkpoint = Checkpoint(checkpoint, checkpoint_seconds, identity)
        if checkpoint is not None:
            self._place.arrays()  # refuses at once where the place cannot be saved
            self._load()

    @property
    def agent(self) -> AgentLike:
        """The agent that plays."""
        return self._agent

    @property
    def state(self) -> AgentState:
        """The life of the agent."""
        return self._place.state

    def __iter__(self) -> Generator[Epoch, None, None]:
        place, history = self._place, self._history
        with self._checkpoint.lock():
            while place.state.step < self.steps:
                if place.must_think():
                    if place.state.epoch:
                        history.epochs.append(self._epoch_row())
                    place.think()
                    history.note_grouping(len(history.epochs) + 1, place.state.partition)
                while place.state.step < self.steps and not place.must_think():
                    place.advance(history.due - place.state.step)
                    if place.state.step == history.due:
                        history.note(self._figure())
                        if place.state.learns_by_step and place.state.step < self.steps:
                            yield self._epoch(finished=False)
                    if self._checkpoint.is_due:
                        self._checkpoint.save(self._arrays)
                yield self._epoch(finished=place.must_think())
            self._checkpoint.save(self._arrays)

    def _figure(self) -> Figure:
        """Return the figures of this step; exact sums, wherever a run was cut."""
        place, step = self._place, self.state.step
        optimal = step * place.gain
        regrets = optimal - place.reward, optimal - place.expected_reward
        return Figure(step, place.reward, *regrets)

    def _epoch_row(self) -> EpochRow:
        state = self.state
        length = state.step - state.epoch_start
        n_clusters = state.partition.n_clusters
        return EpochRow(
            state.epoch_start, length, n_clusters, state.gain, state.sweeps, state.converged
        )

    def _epoch(self, finished: bool) -> Epoch:
        _, reward, regret, pseudo_regret = self._figure()
        return Epoch(
            **self._epoch_row()._asdict(),
            number=self.state.epoch,
            partition=self.state.partition,
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            finished=finished,
        )

    @property
    def run(self) -> Run:
        """The figures so far."""
        return self._history.run(
            self._figure(),
            self._epoch_row() if self.state.epoch else None,
            partition=self.state.partition,
            agent=self._agent.name,
            seed=describe(self._seed.entropy),
            returns=self._place.episodes.returns,
            learned=self._place.learned,
            objective=self.state.objective,
        )

    def _identity(self) -> dict[str, str]:
        """Name what a checkpoint belongs to."""
        seed = [self._seed.entropy, list(self._seed.spawn_key)]
        return {
            "agent": fingerprint(self._agent),
            "world": fingerprint(self._place.describe()),
            "seed": json.dumps(describe(seed)),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that a checkpoint must hold."""
        parts = {"agent": self.state, "place": self._place, "history": self._history}
        return _FORMAT.pack(parts)[0]

    def _load(self) -> None:
        """Go on from the checkpoint, if there is one."""
        arrays = self._checkpoint.load()
        if arrays is None:
            return
        recorder = self.state.recorder
        sizes = recorder.n_observations, recorder.n_actions
        kind = type(self.state)  # an agent may have a state of its own kind
        try:
            found = _FORMAT.read(arrays)
            state = kind.from_arrays(self.state.agent, *sizes, self._seed, found["agent"])
            self._place.restore(found["place"] or {}, state)
            self._history.restore(found["history"], state.step, state.epoch, state.partition)
        except (ROMDPError, LookupError, TypeError, ValueError, MemoryError) as error:
            raise self._checkpoint.damaged(error) from error
        if state.step > self.steps:
            raise InvalidInputError(
                f"{self._checkpoint.path} has already played {state.step} steps, more than "
                f"steps={self.steps}"
            )


epochs = Playing


def play(
    agent: AgentLike | Online,
    world: Any,
    steps: int,
    seed: Seed = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    checkpoint_seconds: float = 30.0,
    reward_range: tuple[float, float] | None = None,
    callback: Callable[[Epoch], object] | None = None,
    progress: bool | None = None,
) -> Run:
    """Let an agent play in a world.

    Parameters
    ----------
    agent
        An `Agent`, such as ``romdp.UCRL2()``. It is not changed: one agent can play many times. Or
        an `Online`, in a Gymnasium environment: it goes on from what it has learned.
    world
        A `ROMDP` or `MDP` (compiled), or a Gymnasium environment with enumerable actions, whose
        observations are enumerable, vectors or pictures (stepped, by a loop over `Online`).
    steps
        How many actions are taken, in all: those that an `Online` or a checkpoint has taken count.
    seed
        The same seed gives the same run.
    checkpoint
        A file in which the run is kept every ``checkpoint_seconds`` and at its end. Calling
        `play` again with the same path goes on from there, to the bit as if it had never been
        interrupted; with more ``steps`` it plays on. The last checkpoint but one stays beside
        it under ``.previous``.
    checkpoint_seconds
        How often it is written.
    reward_range
        For Gymnasium environments: the smallest and the largest reward. By default any rewards, if
        the agent learns what they can be as `LCPSRL` does; else [0, 1].
    callback
        Called with each `Epoch` as it ends; if it returns False, so does the run.
    progress
        Whether to show a progress bar; by default only on a terminal and in a notebook.

    Returns
    -------
    Run
        If an exception ends it, or Ctrl-C, the run so far is the error's attribute ``run``.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    >>> run = romdp.play(romdp.Oracle(world.labels), world, steps=10_000, seed=0)
    >>> run.partition.n_clusters, int(run.steps[-1])
    (3, 10000)
    """
    check(callback, "callback", None, function)
    check(progress, "progress", None, flag)
    playing = Playing(
        agent,
        world,
        steps,
        seed,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        reward_range=reward_range,
    )
    listeners = [] if callback is None else [callback]
    if (sys.stderr.isatty() or in_notebook()) if progress is None else progress:
        with progress_bar(playing.agent.name, playing.steps) as bar:
            _drain(playing, [*listeners, bar])
    else:
        _drain(playing, listeners)
    return playing.run


def _drain(playing: Playing, listeners: list[Callable[[Epoch], object]]) -> None:
    """Play to the end, or until a listener says that it is enough."""
    try:
        for epoch in playing:
            answers = [listener(epoch) for listener in listeners]
            if any(answer is False for answer in answers):
                break
    except BaseException as error:
        with contextlib.suppress(Exception):
            error.run = playing.run  # type: ignore[attr-defined]
        raise


@contextlib.contextmanager
def progress_bar(name: str, steps: int) -> Iterator[Callable[[Epoch], None]]:
    """Show a bar on stderr, or in the notebook; yields what to call after each epoch."""
    if in_notebook():
        bar = notebook_bar(name)
        yield lambda epoch: bar(
            _done(epoch) / steps, f"{_done(epoch):,} of {steps:,} steps; {_facts(epoch)}"
        )
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as lines:
        task = lines.add_task(name, total=steps, facts="")
        yield lambda epoch: lines.update(task, completed=_done(epoch), facts=_facts(epoch))


def _done(epoch: Epoch) -> int:
    return epoch.start + epoch.length


def _facts(epoch: Epoch) -> str:
    regret = "" if math.isnan(epoch.regret) else f"regret {epoch.regret:,.0f}, "
    return f"{regret}{epoch.n_clusters} groups"

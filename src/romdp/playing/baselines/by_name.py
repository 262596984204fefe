"""Baselines by name, played and scored like agents."""

import dataclasses
from typing import Any, Protocol

import gymnasium

from romdp.core.errors import UnknownNameError
from romdp.core.randomness import Seed
from romdp.core.validation import choice
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.playing.baselines.dqn import DQN
from romdp.playing.baselines.qlearning import QLearning
from romdp.playing.baselines.score import Callback
from romdp.playing.run import Run

BASELINES: dict[str, type[DQN] | type[QLearning]] = {DQN.name: DQN, QLearning.name: QLearning}
"""The baselines by name."""


class Baseline(Protocol):
    """A frozen description of a learner with a loop of its own."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in the tables."""
        ...

    def check(self) -> None:
        """Refuse, with what to install, where something is missing."""
        ...

    def play(
        self,
        world: ROMDP | MDP | gymnasium.Env[Any, Any],
        steps: int,
        seed: Seed = 0,
        callback: Callback | None = None,
    ) -> Run:
        """Play from the start; see `play_baseline`."""
        ...


def baseline(name: str, **settings: Any) -> Baseline:
    """Make a baseline, and refuse at once what could not be played.

    Parameters
    ----------
    name
        ``"dqn"`` (needs ``pip install 'romdp[dqn]'``) or ``"q-learning"``.
    **settings
        Parameters of `DQN` or `QLearning` that differ from the tuned defaults.

    Examples
    --------
    >>> baseline("q-learning", memory=50)
    QLearning(memory=50, ...)
    """
    kind = BASELINES[choice(name, "baseline", BASELINES)]
    known = [field.name for field in dataclasses.fields(kind)]
    for setting in settings:
        if setting not in known:
            raise UnknownNameError(f"setting of {name}", setting, known)
    kind.check()
    return kind(**settings)


def play_baseline(
    name: str,
    world: ROMDP | MDP | gymnasium.Env[Any, Any],
    steps: int,
    seed: Seed = 0,
    *,
    callback: Callback | None = None,
    **settings: Any,
) -> Run:
    """Let a baseline play in a world.

    Parameters
    ----------
    name
        ``"dqn"`` or ``"q-learning"``.
    world
        A `ROMDP`, an `MDP`, or a Gymnasium environment.
    steps
        How many actions are taken.
    seed
        The same seed gives the same run.
    callback
        Called with the one long `romdp.playing.Epoch` so far at each log-spaced step.
    **settings
        As for `baseline`.

    Returns
    -------
    Run
        With the figures of `romdp.play`, one epoch, and every observation on its own.

    Notes
    -----
    A baseline has no checkpoint: interrupted, it begins again from zero.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    >>> run = play_baseline("q-learning", world, steps=10_000, seed=0)
    >>> run.partition.n_clusters, int(run.steps[-1])
    (9, 10000)
    """
    return baseline(name, **settings).play(world, steps, seed, callback)

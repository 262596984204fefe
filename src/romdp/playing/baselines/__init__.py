"""Agents with a loop of their own, as yardsticks: DQN and average-reward Q-learning."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium

from romdp.core.errors import UnknownNameError
from romdp.core.randomness import Seed
from romdp.core.validation import choice
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.playing.baselines.dqn import DQN
from romdp.playing.baselines.qlearning import QLearning
from romdp.playing.player import Epoch, play
from romdp.playing.run import Run

__all__ = ["BASELINES", "DQN", "Baseline", "QLearning", "baseline", "play_baseline"]

Baseline = DQN | QLearning
"""A frozen description of a learner that `romdp.play` and `romdp.Online` take like an agent."""

BASELINES: dict[str, type[DQN] | type[QLearning]] = {DQN.name: DQN, QLearning.name: QLearning}
"""The baselines by name."""


def baseline(name: str, **settings: Any) -> Baseline:
    """Make a baseline, and refuse at once what could not be played.

    Parameters
    ----------
    name
        ``"dqn"`` or ``"q-learning"``.
    **settings
        Parameters of `DQN` or `QLearning` that differ from the tuned defaults.

    Examples
    --------
    >>> baseline("q-learning", memory=50)
    QLearning(memory=50, ...)
    """
    kind = BASELINES[choice(name, "name", BASELINES)]
    known = [field.name for field in dataclasses.fields(kind)]
    for setting in settings:
        if setting not in known:
            raise UnknownNameError(f"setting of {name}", setting, known)
    return kind(**settings)


def play_baseline(
    name: str,
    world: ROMDP | MDP | gymnasium.Env[Any, Any],
    steps: int,
    seed: Seed = 0,
    *,
    callback: Callable[[Epoch], object] | None = None,
    **settings: Any,
) -> Run:
    """Let a baseline play in a world: ``romdp.play(baseline(name, **settings), world, ...)``.

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
    return play(baseline(name, **settings), world, steps, seed, callback=callback, progress=False)

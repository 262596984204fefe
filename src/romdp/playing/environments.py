"""Somebody's Gymnasium environments, one or a vector of them, as streams of steps."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from romdp.core.validation import flag
from romdp.exact.romdp import ROMDP
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.wrappers import ActionMask

_TRANSPARENT = (ActionMask, OrderEnforcing, PassiveEnvChecker, TimeLimit)  # and `make` adds some


class StepResult(NamedTuple):
    """What came of an action."""

    reward: Any
    shown: Any  # after an end: what the episode's last step showed, which need not be known
    terminated: Any
    truncated: Any
    restart: Any = None  # after an end: what the next episode begins with, if that is known


class Streams(Protocol):
    """Environments side by side; each is a stream."""

    observation_space: Any
    action_space: Any

    def reset(self, seed: int) -> list[Any]:
        """Start all of them; returns what they show."""
        ...

    def step(self, actions: list[Any]) -> Iterator[tuple[int, StepResult | Any]]:
        """Take an action in each; yields the number of each stream and what came of it.

        A stream that this step has only restarted yields what it shows, which is no `StepResult`.
        """
        ...


class Single:
    """One environment, which is restarted at once."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, seed: int) -> list[Any]:
        """Start it; returns what it shows."""
        return [self._env.reset(seed=seed)[0]]

    def step(self, actions: list[Any]) -> Iterator[tuple[int, Any]]:
        """Take an action."""
        shown, reward, terminated, truncated, _ = self._env.step(actions[0])
        over = flag(terminated, "terminated") | flag(truncated, "truncated")
        restart = self._env.reset()[0] if over else None
        yield 0, StepResult(reward, shown, terminated, truncated, restart)


class Several:
    """A vector of environments, which restart as their mode says.

    In the mode ``NEXT_STEP`` the step after an end only restarts the environment, and its action is
    not looked at.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._restarting = np.zeros(env.num_envs, np.bool_)

    def reset(self, seed: int) -> list[Any]:
        """Start all of them; returns what they show."""
        return self._parts(self._env.reset(seed=seed)[0])

    def _parts(self, shown: Any) -> list[Any]:
        return list(iterate(self._env.observation_space, shown))

    def step(self, actions: list[Any]) -> Iterator[tuple[int, Any]]:
        """Take an action in each."""
        room: Any = create_empty_array(self.action_space, len(actions))
        batch = concatenate(self.action_space, actions, room)
        shown, rewards, terminated, truncated, _ = self._env.step(batch)
        over = np.asarray(terminated) | np.asarray(truncated)
        restarts = shown
        if self._mode == AutoresetMode.DISABLED and over.any():
            restarts, _ = self._env.reset(options={"reset_mask": over})
        later = self._mode == AutoresetMode.NEXT_STEP
        again = self._parts(restarts)
        for place, seen in enumerate(self._parts(shown)):
            if self._restarting[place]:
                self._restarting[place] = False
                yield place, seen
                continue
            self._restarting[place] = later and over[place]
            restart = again[place] if over[place] and not later else None
            yield (
                place,
                StepResult(rewards[place], seen, terminated[place], truncated[place], restart),
            )


def streams_of(env: Any) -> Streams:
    """Return the streams of an environment, or of a vector of them."""
    return Several(env) if isinstance(env, gymnasium.vector.VectorEnv) else Single(env)


def step_limit(env: Any) -> int | None:
    """Return the most steps that an episode can have, if the environment says so."""
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    if limit is None:  # MiniGrid and others count the steps themselves
        limit = getattr(getattr(env, "unwrapped", env), "max_steps", None)
    return int(limit) if isinstance(limit, int | np.integer) and limit > 0 else None


def world_shown_by(env: Any) -> ROMDP | None:
    """Return the world behind an environment, if nothing changes what it shows and pays."""
    while isinstance(env, _TRANSPARENT):
        env = env.env
    return env.world if isinstance(env, ROMDPEnv) else None

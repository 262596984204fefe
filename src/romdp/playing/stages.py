"""Where an agent plays: a compiled world, or somebody's Gymnasium environment."""

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from romdp.agents.agent import AgentState
from romdp.core.errors import InvalidInputError, MisuseError, StructureError
from romdp.core.randomness import Seed, stream
from romdp.core.validation import real_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.playing.episodes import Episodes
from romdp.playing.spaces import Numbering
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.simulator import Simulator

_WORLD = 0  # the stream of the seed that the world draws from
_TRANSPARENT = (OrderEnforcing, PassiveEnvChecker, TimeLimit)  # what `gymnasium.make` adds


class Stage(Protocol):
    """What a run needs of the place where it happens."""

    n_observations: int
    n_actions: int
    gain: float
    episodes: Episodes

    @property
    def reward(self) -> float:
        """What was collected so far, in the place's own units."""
        ...

    @property
    def expected_reward(self) -> float:
        """The same with each reward's mean in its place; NaN where that is not known."""
        ...

    @property
    def observation(self) -> int:
        """What is seen now."""
        ...

    def advance(self, state: AgentState, steps: int) -> None:
        """Follow the agent's table until its epoch is over or the steps are used up."""
        ...

    def describe(self) -> Any:
        """Name the place, for a checkpoint's fingerprint."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back to where `arrays` was taken."""
        ...


def stage_for(world: Any, seed: Seed, reward_range: tuple[float, float] | None = None) -> Stage:
    """Choose the stage for a ROMDP, an MDP or a Gymnasium environment."""
    if isinstance(world, gymnasium.Env):
        return SteppedStage(world, seed, reward_range)
    if not isinstance(world, ROMDP | MDP):
        hint = f"gymnasium.make({world!r})" if isinstance(world, str) else "a Gymnasium environment"
        raise InvalidInputError(
            f"world is a {type(world).__name__}; pass a ROMDP, an MDP or {hint}"
        )
    if reward_range is not None:
        raise InvalidInputError("reward_range is for Gymnasium environments; a world has [0, 1]")
    return CompiledStage(world, seed)


def known_gain(world: ROMDP) -> float:
    """Return the optimal gain, NaN where there is no single one."""
    try:
        return world.hidden.gain
    except StructureError:
        return float("nan")


def _world_shown_by(env: Any) -> ROMDP | None:
    """Return the world behind an environment, if nothing changes what it shows and pays."""
    while isinstance(env, _TRANSPARENT):
        env = env.env
    return env.world if isinstance(env, ROMDPEnv) else None


class CompiledStage:
    """A `ROMDP` or `MDP`, stepped by the compiled simulator."""

    def __init__(self, world: ROMDP | MDP, seed: Seed) -> None:
        self._world = as_romdp(world)
        self._simulator = Simulator(self._world, stream(seed, _WORLD))
        self.n_observations = self._world.n_observations
        self.n_actions = self._world.n_actions
        self.gain = known_gain(self._world)
        self.episodes = Episodes()  # a world goes on for ever

    @property
    def reward(self) -> float:
        """What was collected so far."""
        return self._simulator.reward

    @property
    def expected_reward(self) -> float:
        """The sum of the mean rewards."""
        return self._simulator.expected_reward

    @property
    def observation(self) -> int:
        """What the world shows now."""
        return self._simulator.observation

    def advance(self, state: AgentState, steps: int) -> None:
        """Run the compiled loop."""
        state.advance(self._simulator, steps)

    def describe(self) -> Any:
        """Name the world by its content."""
        world = self._world
        return [
            world.transition,
            world.reward,
            world.labels,
            world.observation_chance,
            world.initial,
            world.reward_law,
        ]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Where the world stands."""
        return self._simulator.arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back there."""
        self._simulator.restore(arrays)


class SteppedStage:
    """A Gymnasium environment, restarted when an episode ends.

    A terminated step leads to the observation that the restart shows; a truncated one counts
    its reward and no transition. Rewards are rescaled from ``reward_range`` to [0, 1].
    """

    def __init__(
        self, env: Any, seed: Seed, reward_range: tuple[float, float] | None = None
    ) -> None:
        self._env = env
        self._observations = Numbering(env.observation_space, "observation")
        self._actions = Numbering(env.action_space, "action")
        self.n_observations, self.n_actions = self._observations.size, self._actions.size
        self._range = checked_range(reward_range)
        self.reward = 0.0
        self.episodes = Episodes()
        self._return, self._length = 0.0, 0  # of the episode under way
        self.gain = self.expected_reward = float("nan")
        self._mean_reward: NDArray[np.float64] | None = None
        world = _world_shown_by(env)
        if world is not None:
            self.gain, self._mean_reward = known_gain(world), world.reward[world.labels]
            self.expected_reward = 0.0
        first = int(stream(seed, _WORLD).generate_state(1)[0])
        shown, _ = env.reset(seed=first)
        self._observation = self._observations.encode(shown)

    @property
    def observation(self) -> int:
        """What the environment shows now, numbered."""
        return self._observation

    def advance(self, state: AgentState, steps: int) -> None:
        """Step the environment."""
        for _ in range(steps):
            if state.must_think(self._observation):
                return
            action = int(state.table[self._observation])
            shown, reward, terminated, truncated, _ = self._env.step(self._actions.decode(action))
            unit = unit_reward(reward, self._range, state.step)
            self.reward += float(reward)
            self._return += float(reward)
            self._length += 1
            if self._mean_reward is not None:
                self.expected_reward += self._mean_reward[self._observation, action]
            if terminated or truncated:
                self.episodes.add(state.step + 1, self._return, self._length)
                self._return, self._length = 0.0, 0
                shown, _ = self._env.reset()
            following = self._observations.encode(shown)
            unknown = truncated and not terminated
            state.learn(self._observation, action, unit, -1 if unknown else following)
            self._observation = following

    def describe(self) -> Any:
        """Name the environment; it cannot be told from another of the same name."""
        return repr(self._env)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Refuse: nobody can save somebody else's environment."""
        raise MisuseError(
            "a Gymnasium environment cannot be saved, so its run has no checkpoint; play without "
            "checkpoint=, or use romdp.Online, whose agent can be saved"
        )

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse, as `arrays` does."""
        self.arrays()


def checked_range(reward_range: tuple[float, float] | None) -> tuple[float, float]:
    """Check the range that rewards lie in; [0, 1] by default."""
    if reward_range is None:
        return 0.0, 1.0
    try:
        low, high = reward_range
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"reward_range is {reward_range!r}; pass two numbers (low, high)"
        ) from None
    low = real_number(low, "reward_range[0]")
    return low, real_number(high, "reward_range[1]", low, open_low=True)


def unit_reward(reward: Any, reward_range: tuple[float, float], step: int) -> float:
    """Rescale a reward to [0, 1]; one outside its range is refused."""
    low, high = reward_range
    unit = (real_number(reward, f"reward of step {step + 1}") - low) / (high - low)
    if not -1e-9 <= unit <= 1.0 + 1e-9:
        raise InvalidInputError(
            f"reward {reward} of step {step + 1} lies outside [{low:g}, {high:g}]; pass "
            "reward_range=(low, high) with the smallest and largest reward that can occur"
        )
    return min(max(unit, 0.0), 1.0)

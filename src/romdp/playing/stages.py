"""Where an agent plays: a compiled world, or somebody's Gymnasium environments."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from romdp.agents.agent import AgentState
from romdp.core.errors import InvalidInputError, MisuseError, StructureError
from romdp.core.randomness import Seed, stream
from romdp.core.validation import real_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.playing.episodes import Episodes, Novelty
from romdp.playing.spaces import Codes, Numbering, Numbers, actions_for, codes_for
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.simulator import Simulator

_WORLD = 0  # the stream of the seed that the world draws from
_TRANSPARENT = (OrderEnforcing, PassiveEnvChecker, TimeLimit)  # what `gymnasium.make` adds


Range: TypeAlias = tuple[float, float] | None
"""The smallest and the largest reward; None where they may be any numbers."""


class Stage(Protocol):
    """What a run needs of the place where it happens."""

    observations: Codes
    actions: Numbers | Numbering
    reward_range: tuple[float, float]
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

    def announce(self, state: AgentState) -> None:
        """Tell an agent, before its first step, whether episodes may end here."""
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
    if isinstance(world, gymnasium.Env | gymnasium.vector.VectorEnv):
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
        self.observations: Codes = Numbers(self._world.n_observations, "observation")
        self.actions: Numbers | Numbering = Numbers(self._world.n_actions, "action")
        self.reward_range = (0.0, 1.0)
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

    def announce(self, state: AgentState) -> None:
        """Say nothing: a world goes on for ever."""

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
    """A Gymnasium environment, or a vector of them, restarted whenever an episode ends.

    A terminated step ends the episode, which an average-reward agent reads as leading to the
    observation that the restart shows. A truncated step counts its reward and no transition.
    Rewards are rescaled from ``reward_range`` to [0, 1]. What the environments of a vector show is
    one agent's experience: they take turns, and a step of all of them is as many steps of the run.
    """

    def __init__(
        self, env: Any, seed: Seed, reward_range: tuple[float, float] | None = None
    ) -> None:
        self._env = env
        self._places = _Vector(env) if isinstance(env, gymnasium.vector.VectorEnv) else _One(env)
        self.actions = actions_for(self._places.action_space)
        self.observations = codes_for(self._places.observation_space)
        self.reward_range = checked_range(reward_range)
        self._range: Range = self.reward_range
        self._has_range = reward_range is not None
        self.reward = 0.0
        self.episodes = Episodes()
        self._novelty = Novelty()
        self.gain = self.expected_reward = float("nan")
        self._mean_reward: NDArray[np.float64] | None = None
        world = _world_shown_by(env)
        if world is not None:
            self.gain, self._mean_reward = known_gain(world), world.reward[world.labels]
            self.expected_reward = 0.0
        first = int(stream(seed, _WORLD).generate_state(1)[0])
        self._seen = [self.observations.encode(shown) for shown in self._places.reset(first)]
        self._ages = [0] * len(self._seen)  # steps since each episode began
        self._chosen: list[int] = []  # actions for the next step, of the first few environments
        self._taken: list[int] = []  # actions of the last step
        self._moves: deque[_Move] = deque()  # made, but not learned from yet

    @property
    def observation(self) -> int:
        """The code of what the environment shows whose turn it is."""
        return self._seen[len(self._chosen)]

    def announce(self, state: AgentState) -> None:
        """Say that episodes may end, how long they can be, and what a reward of 0 is here."""
        if not self._has_range and takes_any_reward(state.agent):
            self._range = None
        state.expect_episodes(step_limit(self._env), zero_reward(self._range))

    def advance(self, state: AgentState, steps: int) -> None:
        """Step the environments, and learn from one move after the other."""
        last = state.step + steps
        while state.step < last:
            if self._moves:
                self._learn(state, self._moves.popleft())
                continue
            while (place := len(self._chosen)) < len(self._seen):
                if place in self._places.restarting:  # it will take no action
                    self._chosen.append(self._taken[place])
                    continue
                age = self._ages[place]
                if state.must_think(self.observation, age):
                    return
                self._chosen.append(state.action(self.observation, age))
            self._move()

    def _move(self) -> None:
        """Take the chosen actions, one in each environment."""
        actions = [self.actions.decode(action) for action in self._chosen]
        for place, reward, terminated, truncated, shown in self._places.step(actions):
            following = self.observations.encode(shown)
            seen, action = self._seen[place], self._chosen[place]
            self._moves.append(_Move(place, seen, action, reward, terminated, truncated, following))
            self._seen[place] = following
        self._taken, self._chosen = self._chosen, []

    def _learn(self, state: AgentState, move: "_Move") -> None:
        unit = unit_reward(move.reward, self._range, state.step)
        reward, ended = float(move.reward), move.terminated or move.truncated
        self.reward += reward
        if self._mean_reward is not None:
            self.expected_reward += self._mean_reward[move.observation, move.action]
        self.episodes.count(reward, state.step + 1, ended, move.place)
        step = (move.observation, move.action, unit, move.following)
        if ended:
            state.learn(*step, terminated=move.terminated, truncated=move.truncated)
        else:
            state.learn(*step)
        self._ages[move.place] = 0 if ended else self._ages[move.place] + 1
        self._novelty.look(state)

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


class _Move(NamedTuple):
    """One step of one environment; after an end, it leads to what the restart shows."""

    place: int
    observation: int
    action: int
    reward: Any
    terminated: bool
    truncated: bool
    following: int


_Outcome = tuple[int, Any, bool, bool, Any]
"""What a step did in one environment: its number, the reward, whether the episode was terminated
or truncated, and what is seen then (after an end: what the restart shows)."""


class _One:
    """One environment, which is restarted at once."""

    restarting: Collection[int] = ()

    def __init__(self, env: Any) -> None:
        self._env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, seed: int) -> list[Any]:
        """Start it; returns what it shows."""
        return [self._env.reset(seed=seed)[0]]

    def step(self, actions: list[Any]) -> Iterator[_Outcome]:
        """Take an action."""
        shown, reward, terminated, truncated, _ = self._env.step(actions[0])
        if terminated or truncated:
            shown, _ = self._env.reset()
        yield 0, reward, bool(terminated), bool(truncated), shown


class _Vector:
    """A vector of environments, which restart as their mode says.

    In the mode ``NEXT_STEP`` the step after an end only restarts the environment. The step that
    ended the episode is held back until then, since it leads to what the restart shows.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._held: dict[int, tuple[Any, bool, bool]] = {}

    def reset(self, seed: int) -> list[Any]:
        """Start all of them; returns what they show."""
        return self._parts(self._env.reset(seed=seed)[0])

    def _parts(self, shown: Any) -> list[Any]:
        return list(iterate(self._env.observation_space, shown))

    def step(self, actions: list[Any]) -> Iterator[_Outcome]:
        """Take an action in each."""
        room: Any = create_empty_array(self.action_space, len(actions))
        batch = concatenate(self.action_space, actions, room)
        shown, rewards, terminated, truncated, _ = self._env.step(batch)
        over = terminated | truncated
        if self._mode == AutoresetMode.DISABLED and over.any():
            shown, _ = self._env.reset(options={"reset_mask": over})
        for place, seen in enumerate(self._parts(shown)):
            outcome = rewards[place], bool(terminated[place]), bool(truncated[place])
            if place in self._held:
                yield place, *self._held.pop(place), seen
            elif over[place] and self._mode == AutoresetMode.NEXT_STEP:
                self._held[place] = outcome
            else:
                yield place, *outcome, seen

    @property
    def restarting(self) -> Collection[int]:
        """Which environments the next step will only restart."""
        return self._held.keys()


def step_limit(env: Any) -> int | None:
    """Return the most steps that an episode can have, if the environment says so."""
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    if limit is None:  # MiniGrid and others count the steps themselves
        limit = getattr(getattr(env, "unwrapped", env), "max_steps", None)
    return int(limit) if isinstance(limit, int | np.integer) and limit > 0 else None


def takes_any_reward(agent: Any) -> bool:
    """Say whether an agent learns what rewards can be, so that no range is needed."""
    return bool(getattr(getattr(agent, "planner", None), "takes_any_reward", False))


def zero_reward(reward_range: Range) -> float:
    """Return what a reward of 0 becomes when it is rescaled."""
    if reward_range is None:
        return 0.0
    low, high = reward_range
    return -low / (high - low) + 0.0  # not -0.0


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


def unit_reward(reward: Any, reward_range: Range, step: int) -> float:
    """Rescale a reward to [0, 1]; one outside its range is refused. Without one it is kept."""
    number = real_number(reward, f"reward of step {step + 1}")
    if reward_range is None:
        return number
    low, high = reward_range
    unit = (number - low) / (high - low)
    if not -1e-9 <= unit <= 1.0 + 1e-9:
        raise InvalidInputError(
            f"reward {reward} of step {step + 1} lies outside [{low:g}, {high:g}]; pass "
            "reward_range=(low, high) with the smallest and largest reward that can occur"
        )
    return min(max(unit, 0.0), 1.0)

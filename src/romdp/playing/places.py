"""Where a run happens: a compiled world, or somebody's Gymnasium environments."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from romdp.agents.agent import AgentLike, AgentState, begin_life
from romdp.core.arrays import Floats
from romdp.core.errors import InvalidInputError, MisuseError, StructureError
from romdp.core.randomness import Seed, seed_sequence, stream
from romdp.core.validation import flag, shown
from romdp.encoding.observations import Numbers
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.playing.episodes import Episodes
from romdp.playing.online import Online
from romdp.playing.policy import Learned, learned_by
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.simulator import Simulator
from romdp.worlds.wrappers import ActionMask

_TRANSPARENT = (ActionMask, OrderEnforcing, PassiveEnvChecker, TimeLimit)  # and `make` adds some

_RESET = "observation", "info"
_STEP = "observation", "reward", "terminated", "truncated", "info"


class StepResult(NamedTuple):
    """What came of an action."""

    reward: Any
    shown: Any  # after an end: what the episode's last step showed, which need not be known
    terminated: Any
    truncated: Any
    restart: Any = None  # after an end: what the next episode begins with, if that is known


class Single:
    """One environment, which is restarted at once."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, seed: int) -> list[Any]:
        """Start it; returns what it shows."""
        return [_parts_of(self._env.reset(seed=seed), _RESET)[0]]

    def step(self, actions: list[Any]) -> Iterator[tuple[int, Any]]:
        """Take an action."""
        shown, reward, terminated, truncated, _ = _parts_of(self._env.step(actions[0]), _STEP)
        over = flag(terminated, "terminated") | flag(truncated, "truncated")
        restart = _parts_of(self._env.reset(), _RESET)[0] if over else None
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
        return self._parts(_parts_of(self._env.reset(seed=seed), _RESET)[0])

    def _parts(self, shown: Any) -> list[Any]:
        return list(iterate(self._env.observation_space, shown))

    def step(self, actions: list[Any]) -> Iterator[tuple[int, Any]]:
        """Take an action in each."""
        room: Any = create_empty_array(self.action_space, len(actions))
        batch = concatenate(self.action_space, actions, room)
        shown, rewards, terminated, truncated, _ = _parts_of(self._env.step(batch), _STEP)
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


def _parts_of(answer: Any, parts: tuple[str, ...]) -> Any:
    """Check that an environment answers with as many things as Gymnasium's do."""
    if not isinstance(answer, tuple) or len(answer) != len(parts):
        call, number = ("reset()", "two") if parts is _RESET else ("step()", "five")
        raise InvalidInputError(
            f"the environment's {call} returned {shown(answer)}; it must return {number} things, "
            f"({', '.join(parts)}), as environments of Gymnasium do"
        )
    return answer


def streams_of(env: Any) -> "Single | Several":
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


_WORLD = 0  # the stream of the seed that the world draws from


def first_seed(seed: Seed = 0) -> int:
    """Return the seed with which `play` resets an environment first; later resets have none.

    Whoever owns the loop gets the same episodes with ``env.reset(seed=romdp.first_seed(seed))``.
    """
    return int(stream(seed_sequence(seed), _WORLD).generate_state(1)[0])


def place_for(
    agent: AgentLike | Online,
    world: Any,
    seed: Seed,
    reward_range: tuple[float, float] | None = None,
) -> "CompiledPlace | DrivenPlace":
    """Choose the place for a ROMDP, an MDP or a Gymnasium environment."""
    if isinstance(world, gymnasium.Env | gymnasium.vector.VectorEnv):
        return DrivenPlace(agent, world, seed, reward_range)
    if isinstance(agent, Online):
        raise InvalidInputError(
            f"an Online plays in a Gymnasium environment, not in a {type(world).__name__}; pass "
            "the agent itself, with checkpoint= if the run is to go on later"
        )
    if not isinstance(world, ROMDP | MDP):
        hint = (
            f"gymnasium.make({shown(world)})"
            if isinstance(world, str)
            else "a Gymnasium environment"
        )
        raise InvalidInputError(
            f"world is a {type(world).__name__}; pass a ROMDP, an MDP or {hint}"
        )
    if reward_range is not None:
        raise InvalidInputError("reward_range is for Gymnasium environments; a world has [0, 1]")
    return CompiledPlace(agent, world, seed)


def known_gain(world: ROMDP) -> float:
    """Return the optimal gain, NaN where there is no single one."""
    try:
        return world.hidden.gain
    except StructureError:
        return float("nan")


class CompiledPlace:
    """A `ROMDP` or `MDP`, stepped by the compiled simulator. It goes on for ever."""

    def __init__(self, agent: AgentLike, world: ROMDP | MDP, seed: Seed) -> None:
        self._world = as_romdp(world)
        self._simulator = Simulator(self._world, stream(seed, _WORLD))
        self._agent, self.gain, self.episodes = agent, known_gain(self._world), Episodes()
        sizes = self._world.n_observations, self._world.n_actions
        self.state: AgentState = begin_life(agent, *sizes, seed)
        self.state.begin(self._simulator.observation)

    @property
    def reward(self) -> float:
        """What was collected so far."""
        return self._simulator.reward

    @property
    def expected_reward(self) -> float:
        """The sum of the mean rewards."""
        return self._simulator.expected_reward

    @property
    def learned(self) -> Learned:
        """What was learned so far: a policy and a model."""
        sizes = self._world.n_observations, self._world.n_actions
        numbers = Numbers(sizes[0], "observation"), Numbers(sizes[1], "action")
        return learned_by(self.state, *numbers, self._agent.name)

    def must_think(self) -> bool:
        """Whether the agent's epoch is over."""
        return self.state.must_think(self._simulator.observation)

    def think(self) -> None:
        """Let the agent begin an epoch."""
        self.state.think()

    def advance(self, steps: int) -> None:
        """Run the compiled loop."""
        self.state.advance(self._simulator, steps)

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

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: AgentState) -> None:
        """Go back there."""
        self._simulator.restore(arrays)
        self.state = state


class DrivenPlace:
    """A Gymnasium environment, or a vector of them: a loop over `Online` as anybody would write it.

    It restarts whenever an episode ends. What the environments of a vector show is one agent's
    experience: each is a stream of its own, and a step of all of them is as many steps of the run.
    """

    def __init__(
        self,
        agent: AgentLike | Online,
        env: Any,
        seed: Seed,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        self._env, self._streams = env, streams_of(env)
        spaces = self._streams.observation_space, self._streams.action_space
        if isinstance(agent, Online):
            if reward_range is not None:
                raise InvalidInputError("reward_range was told when the Online was made")
            agent.require_spaces(*spaces)
            self._online = agent
        else:
            limit = step_limit(env)
            self._online = Online(agent, *spaces, seed, reward_range=reward_range, step_limit=limit)
        self.gain = self.expected_reward = float("nan")
        self._mean_reward: Floats | None = None
        world = world_shown_by(env)
        if world is not None and not self.state.step:
            self.gain, self._mean_reward = known_gain(world), world.reward[world.labels]
            self.expected_reward = 0.0
        done = self.state.step  # of an agent that goes on, in other episodes than at first
        begins = first_seed(stream(seed_sequence(seed), _WORLD, done) if done else seed)
        self._seen = self._streams.reset(begins)
        for number in range(len(self._seen)):
            self._online.reset(stream=number)
        self._restarting = [False] * len(self._seen)
        self._actions: list[Any] = []  # for the next step, of the first few streams
        self._taken: list[Any] = []  # in the last step
        self._is_met = self._thinks = False  # whether it met what is shown next, and must think
        self._outcomes: deque[tuple[int, Any]] = deque()  # of the last step, not learned from yet

    @property
    def state(self) -> AgentState:
        """The life of the agent."""
        state: AgentState = self._online._state
        return state

    @property
    def reward(self) -> float:
        """What was collected so far."""
        return self._online._episodes.collected

    @property
    def episodes(self) -> Episodes:
        """The episodes that were finished."""
        return self._online._episodes

    @property
    def learned(self) -> Learned:
        """What was learned so far: a policy and a model."""
        return self._online.learned

    def must_think(self) -> bool:
        """Whether the agent's epoch is over when it meets what is shown next."""
        if self._outcomes:
            return False
        while (number := len(self._actions)) < len(self._seen) and self._restarting[number]:
            self._actions.append(self._taken[number])  # which nobody looks at
        if number == len(self._seen):
            return False
        if not self._is_met:
            self._is_met, self._thinks = True, self._online._meet(self._seen[number], number)
        return self._thinks

    def think(self) -> None:
        """Let the agent begin an epoch."""
        self._online._think()
        self._thinks = False

    def advance(self, steps: int) -> None:
        """Step the environments until the agent must think or the steps are used up."""
        last = self.state.step + steps
        while self.state.step < last:
            if self._outcomes:
                self._learn(*self._outcomes.popleft())
                continue
            while len(self._actions) < len(self._seen):
                if self.must_think():
                    return
                if self._is_met:
                    self._actions.append(self._online._choose(len(self._actions)))
                    self._is_met = False
            self._taken, self._actions = self._actions, []
            self._outcomes.extend(self._streams.step(self._taken))

    def _learn(self, number: int, outcome: Any) -> None:
        """Learn from what came of a stream's action."""
        if not isinstance(outcome, StepResult):  # it was only restarted
            self._seen[number], self._restarting[number] = outcome, False
            return
        reward, shown, terminated, truncated, restart = outcome
        over = terminated or truncated
        following = None if over else shown
        ends = {"terminated": terminated, "truncated": truncated}
        self._online.observe(reward, following, **ends, stream=number)
        if self._mean_reward is not None:
            self.expected_reward += float(
                self._mean_reward[self._seen[number], self._taken[number]]
            )
        self._restarting[number] = bool(over) and restart is None
        self._seen[number] = restart if over else shown

    def describe(self) -> Any:
        """Name the environment; it cannot be told from another of the same name."""
        return repr(self._env)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Refuse: nobody can save somebody else's environment."""
        raise MisuseError(
            "a Gymnasium environment cannot be saved, so its run has no checkpoint; play without "
            "checkpoint=, or use romdp.Online, whose agent can be saved"
        )

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: AgentState) -> None:
        """Refuse, as `arrays` does."""
        self.arrays()

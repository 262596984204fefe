"""DQN as the paper compares with it: stable-baselines3's, on the Gymnasium form of a world.

PyTorch is not part of the default install: ``pip install 'romdp[dqn]'``.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, stream
from romdp.core.validation import freeze, real_number, whole_number
from romdp.data.trajectory import END
from romdp.planning.backup import Plan
from romdp.playing.baselines.learner import Learner

_LEARNER = 1  # a stream of the seed; 0 is the world's
_LAYERS = (30, 30, 30)  # the paper's "network of size 30 x 30 x 30"


@dataclass(frozen=True)
class DQN:
    """Deep Q-learning (Mnih et al. 2013) with the paper's network, RMSprop and a replay buffer.

    The network (three layers of 30, ReLU) sees observations one-hot and nothing else. The task
    goes on forever, so values are discounted. Exploration falls linearly from 1 to
    ``exploration_floor``.

    Parameters
    ----------
    learning_rate
        Of RMSprop, whose other settings are PyTorch's defaults.
    discount
        Per step, below 1.
    exploration_steps
        How many steps the exploration takes to fall to its floor.
    exploration_floor
        The share of random actions from then on.
    target_interval
        Steps between two copies of the network to the target network.
    train_interval
        Steps between two gradient steps.
    batch_size
        The number of steps in a batch.
    buffer_size
        Steps that the replay buffer holds.
    learning_starts
        Steps before the first gradient step; actions are drawn at random until then.

    Notes
    -----
    The defaults are the best that ``benchmarks/dqn_tuning.py`` found. A run has no
    checkpoint: one that was interrupted begins again from zero on resume. The same seed gives
    the same run, on the CPU and one thread; while it plays, the global generators of Python,
    NumPy and PyTorch, which stable-baselines3 draws from, are borrowed and then given back, so
    do not play two in threads of one process.
    """

    learning_rate: float = 3e-4
    discount: float = 0.8
    exploration_steps: int = 2_000
    exploration_floor: float = 0.01
    target_interval: int = 250
    train_interval: int = 4
    batch_size: int = 64
    buffer_size: int = 100_000
    learning_starts: int = 500

    name: ClassVar[str] = "dqn"
    takes_any_reward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        real_number(self.learning_rate, "learning_rate", 0, open_low=True)
        real_number(self.discount, "discount", 0, 1, open_high=True)
        real_number(self.exploration_floor, "exploration_floor", 0, 1)
        for setting in ("exploration_steps", "target_interval", "train_interval", "batch_size"):
            whole_number(getattr(self, setting), setting, 1)
        whole_number(self.buffer_size, "buffer_size", 1)
        whole_number(self.learning_starts, "learning_starts")

    @staticmethod
    def check() -> None:
        """Refuse, with what to install, where PyTorch or stable-baselines3 is missing."""
        _libraries()

    def start(self, n_observations: int, n_actions: int, seed: Seed = 0) -> "DQNState":
        """Begin a life: a network with random weights and an empty buffer."""
        return DQNState(self, n_observations, n_actions, seed)


class DQNState(Learner):
    """One life of `DQN`: stable-baselines3's network, buffer and gradient steps, in our loop."""

    agent: DQN

    def __init__(self, agent: DQN, n_observations: int, n_actions: int, seed: Seed) -> None:
        super().__init__(agent, n_observations, n_actions, seed)
        self._torch, self._library = _libraries()
        self._word = int(stream(self.seed, _LEARNER).generate_state(1)[0])
        self._global: list[Any] | None = None  # the state of the borrowed generators
        self.forget()

    def forget(self) -> None:
        """Forget all that was learned."""
        agent, torch = self.agent, self._torch
        with self._borrowed():
            self._model = self._library.DQN(
                "MlpPolicy",
                _Shape(self.n_observations, self.n_actions),
                learning_rate=float(agent.learning_rate),
                gamma=float(agent.discount),
                batch_size=int(agent.batch_size),
                buffer_size=int(agent.buffer_size),
                policy_kwargs={"net_arch": list(_LAYERS), "optimizer_class": torch.optim.RMSprop},
                seed=self._word,
                device="cpu",
            )
            logger = self._library.common.logger.Logger(folder=None, output_formats=[])
            self._model.set_logger(logger)
            self._model.policy.set_training_mode(False)
            # The network has no layer that acts differently in training; switching every module
            # to and fro at each step takes a quarter of the time.
            self._model.policy.set_training_mode = lambda mode: None

    def action(self, observation: int, age: int = 0) -> int:
        """Return the network's best action, the less often any other the later it is."""
        agent = self.agent
        fallen = min(1.0, self.step / agent.exploration_steps)
        exploring = 1.0 + fallen * (agent.exploration_floor - 1.0)
        with self._borrowed():
            if self.step < agent.learning_starts or np.random.random() < exploring:  # noqa: NPY002
                return int(np.random.randint(self.n_actions))  # noqa: NPY002
            return int(self._values(np.array([observation])).argmax())

    def _values(self, observations: NDArray[np.int64]) -> NDArray[np.float64]:
        with self._torch.no_grad():
            shown, _ = self._model.policy.obs_to_tensor(observations)
            values: NDArray[np.float64] = self._model.q_net(shown).numpy().astype(np.float64)
        return values

    def learn(self, observation: int, action: int, reward: float, following: int) -> None:
        """Put a step into the buffer, and make a gradient step if it is time."""
        agent, model = self.agent, self._model
        self.step += 1
        over = following == END
        if following >= 0 or over:  # what a cut step led to is not known
            after = observation if over else following
            columns = (observation, after, action, reward, over)
            model.replay_buffer.add(*(np.array([column]) for column in columns), [{}])
        with self._borrowed():
            if self.step % agent.target_interval == 0:
                update = self._library.common.utils.polyak_update
                update(model.q_net.parameters(), model.q_net_target.parameters(), 1.0)
            trains = self.step > agent.learning_starts and self.step % agent.train_interval == 0
            if trains and model.replay_buffer.size() > 0:
                model.train(gradient_steps=1, batch_size=int(agent.batch_size))

    def best_plan(self) -> Plan:
        """Return the greedy policy of the network."""
        values = self._values(np.arange(self.n_observations))
        worth = values.max(axis=1)
        policy, span = freeze(values.argmax(axis=1)), float(np.ptp(worth))
        return Plan(policy, np.nan, span, 0, freeze(worth), converged=True, gap=0.0)

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        """Let stable-baselines3 draw from the global generators, and put them back afterwards."""
        torch = self._torch
        before = _take(torch)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums in one order: the same seed gives the same network
        if self._global is not None:
            _put(torch, self._global)
        try:
            yield
        finally:
            self._global = _take(torch)
            _put(torch, before)
            torch.set_num_threads(threads)


class _Shape(gymnasium.Env[Any, Any]):
    """What observations and actions look like; nobody plays in it."""

    def __init__(self, n_observations: int, n_actions: int) -> None:
        self.observation_space = gymnasium.spaces.Discrete(n_observations)
        self.action_space = gymnasium.spaces.Discrete(n_actions)


def _take(torch: Any) -> list[Any]:
    """Return where the global generators stand."""
    return [random.getstate(), np.random.get_state(), torch.get_rng_state()]  # noqa: NPY002


def _put(torch: Any, states: list[Any]) -> None:
    """Set the global generators."""
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])


def _libraries() -> tuple[Any, Any]:
    """Import PyTorch and stable-baselines3, which are heavy and optional."""
    try:
        return import_module("torch"), import_module("stable_baselines3")
    except ImportError as error:
        raise InvalidInputError(
            "agent 'dqn' needs PyTorch and stable-baselines3, which are not installed "
            f"({error}); install them with: pip install 'romdp[dqn]'"
        ) from None

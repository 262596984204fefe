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

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, stream
from romdp.core.validation import real_number, whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.playing.baselines.episodes import EnvScore, ScoredEnv
from romdp.playing.baselines.score import Callback, Score
from romdp.playing.run import Run
from romdp.worlds.environments import ROMDPEnv

_WORLD, _LEARNER = 0, 1  # streams of the seed: the world's is the one that agents meet
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

    def play(
        self,
        world: ROMDP | MDP | gymnasium.Env[Any, Any],
        steps: int,
        seed: Seed = 0,
        callback: Callback | None = None,
    ) -> Run:
        """Play in a world; the arguments are those of `play_baseline`."""
        torch, baselines = _libraries()
        n_steps = whole_number(steps, "steps", 1)
        score: Score
        env: Any
        if isinstance(world, gymnasium.Env):
            score = EnvScore(self.name, world, n_steps, seed, callback)
            env = ScoredEnv(world, score)
        else:
            place = as_romdp(world)
            score = Score(self.name, place, n_steps, seed, callback)
            env = _ScoredEnv(place, _word(seed, _WORLD), score)
        with _borrowed_generators(torch):
            model = baselines.DQN(
                "MlpPolicy",
                # already vectorised, so that no monitor keeps every reward forever
                baselines.common.vec_env.DummyVecEnv([lambda: env]),
                learning_rate=float(self.learning_rate),
                gamma=float(self.discount),
                # may exceed 1: the schedule must not depend on how long the run is
                exploration_fraction=self.exploration_steps / score.steps,
                exploration_final_eps=float(self.exploration_floor),
                target_update_interval=int(self.target_interval),
                train_freq=int(self.train_interval),
                batch_size=int(self.batch_size),
                buffer_size=int(self.buffer_size),
                learning_starts=int(self.learning_starts),
                policy_kwargs={"net_arch": list(_LAYERS), "optimizer_class": torch.optim.RMSprop},
                seed=_word(seed, _LEARNER),
                device="cpu",
            )
            # The network has no layer that acts differently in training; switching every module
            # to and fro at each step takes a quarter of the time.
            model.policy.set_training_mode = lambda mode: None
            model.learn(score.steps, callback=lambda *_: score.step < score.steps)
        return score.run


class _ScoredEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A world that keeps the score and takes the truth out of what the learner is shown."""

    def __init__(self, world: ROMDP, seed: int, score: Score) -> None:
        super().__init__(ROMDPEnv(world, reveal_hidden_state=True))
        self._world_seed, self._score = seed, score
        self._hidden_state = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start the world from its own stream, whatever seed the learner has."""
        observation, info = self.env.reset(seed=self._world_seed)
        self._hidden_state = info["hidden_state"]
        return observation, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the world; the score sees the hidden state, the learner does not."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        score = self._score
        score.taken[self._hidden_state, action] += 1
        score.reward[0] += float(reward)
        score.step += 1
        self._hidden_state = info["hidden_state"]
        if score.step == score.due:
            score.note()
        return observation, reward, terminated, truncated, {}


def _word(seed: Seed, key: int) -> int:
    """Derive the 32 bits that seed a library which takes whole numbers only."""
    return int(stream(seed, key).generate_state(1)[0])


def _libraries() -> tuple[Any, Any]:
    """Import PyTorch and stable-baselines3, which are heavy and optional."""
    try:
        return import_module("torch"), import_module("stable_baselines3")
    except ImportError as error:
        raise InvalidInputError(
            "agent 'dqn' needs PyTorch and stable-baselines3, which are not installed "
            f"({error}); install them with: pip install 'romdp[dqn]'"
        ) from None


@contextmanager
def _borrowed_generators(torch: Any) -> Iterator[None]:
    """Let stable-baselines3 seed the global generators, and put them back afterwards."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - they are global
    words, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order: the same seed gives the same network
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(words)
        torch.set_num_threads(threads)

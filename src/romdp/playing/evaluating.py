"""What a policy earns: the mean return of whole episodes."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np

from romdp.core.errors import InvalidInputError, MisuseError
from romdp.core.randomness import Seed
from romdp.core.validation import shown, whole_number
from romdp.playing.places import first_seed

_MOST_STEPS = 1_000_000  # of an episode: a minute of a quick environment


class Evaluation(NamedTuple):
    """The mean return of some episodes, and its standard error (NaN of a single episode)."""

    mean: float
    error: float


def evaluate_policy(policy: Any, env: Any, episodes: int = 100, seed: Seed = 0) -> Evaluation:
    """Play whole episodes by a policy, which learns nothing from them.

    Parameters
    ----------
    policy
        A `Policy`, such as ``run.policy``; an agent of stable-baselines3, or anything else with its
        ``predict``; or a function from an observation to an action.
    env
        A Gymnasium environment whose episodes end.
    episodes
        How many.
    seed
        The first reset is ``env.reset(seed=romdp.first_seed(seed))``, those after it have no seed.

    Returns
    -------
    Evaluation
        ``mean`` and ``error``, its standard error.

    Examples
    --------
    >>> import romdp
    >>> env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> run = romdp.play(romdp.LCPSRL(), env, steps=4_000, seed=0)
    >>> evaluate_policy(run.policy, env, episodes=10)
    Evaluation(mean=1.0, error=0.0)
    """
    count = whole_number(episodes, "episodes", 1)
    if not isinstance(env, gymnasium.Env):
        raise InvalidInputError(f"env is {shown(env)}; pass a Gymnasium environment")
    ask = _question(policy)
    returns, begins = np.zeros(count), first_seed(seed)
    for episode in range(count):
        seen, _ = env.reset(seed=None if episode else begins)
        state, over, steps = None, False, 0
        while not over:
            if steps == _MOST_STEPS:
                raise MisuseError(
                    f"episode {episode + 1} has not ended after {steps:,} steps; wrap the "
                    "environment in gymnasium.wrappers.TimeLimit"
                )
            action, state = ask(seen, state, np.array([steps == 0]))
            if isinstance(action, np.ndarray):
                action = action[()]  # stable-baselines3 says a number as an array without axes
            seen, reward, terminated, truncated, _ = env.step(action)
            returns[episode] += float(reward)
            over, steps = bool(terminated or truncated), steps + 1
    error = returns.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    return Evaluation(float(returns.mean()), float(error))


def _question(policy: Any) -> Any:
    """Return a function of an observation, a state and whether an episode begins."""
    from romdp.logs.model.latent import LatentModel

    if callable(getattr(policy, "predict", None)) and not isinstance(policy, LatentModel):
        return lambda shown, state, begins: policy.predict(
            shown, state=state, episode_start=begins, deterministic=True
        )
    if callable(policy):
        return lambda shown, state, begins: (policy(shown), None)
    raise InvalidInputError(
        f"policy is {shown(policy)}; pass run.policy, an object with predict() as "
        "stable-baselines3 has it, or a function from an observation to an action"
    )

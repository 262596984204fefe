import subprocess
import sys

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from romdp.core.errors import InvalidInputError
from romdp.worlds.catalogue import WORLDS
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.random import random_romdp
from romdp.worlds.registration import (
    ENVIRONMENTS,
    VECTOR_ENVIRONMENTS,
    register_environments,
)

register_environments()


def run(code: str) -> None:
    """Run code in a fresh interpreter where warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("identifier", ENVIRONMENTS)
def test_check_env_passes(identifier: str) -> None:
    env = gymnasium.make(identifier)
    assert isinstance(env.unwrapped, ROMDPEnv)
    check_env(env.unwrapped)  # render modes included


@pytest.mark.parametrize("identifier", VECTOR_ENVIRONMENTS)
def test_check_env_passes_with_vectors(identifier: str) -> None:
    check_env(gymnasium.make(identifier, reveal_hidden_state=True).unwrapped)


def test_every_world_has_an_environment() -> None:
    assert sorted(ENVIRONMENTS.values()) == sorted(WORLDS)


def test_arguments_make_the_world() -> None:
    env = gymnasium.make(
        "romdp/RandomROMDP-v0",
        n_states=3,
        n_actions=2,
        n_observations=9,
        world_seed=5,
        concentration=0.5,
        reveal_hidden_state=True,
    )
    assert env.unwrapped.world == random_romdp(3, 2, 9, seed=5, concentration=0.5)
    _, info = env.reset(seed=0)
    assert set(info) == {"hidden_state"}


def test_a_spec_makes_the_same_environment_again() -> None:
    env = gymnasium.make("romdp/Grid-v0", views=2, world_seed=1, max_episode_steps=10)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.world == env.unwrapped.world
    assert again.spec.max_episode_steps == 10


def test_a_wrong_argument_names_the_world() -> None:
    with pytest.raises(InvalidInputError, match=r"river-swim.*n_stats"):
        gymnasium.make("romdp/RiverSwim-v0", n_stats=3)


def test_lists_of_renderings() -> None:
    env = gymnasium.make("romdp/RiverSwim-v0", render_mode="ansi_list")
    env.reset(seed=0)
    env.step(0)
    assert len(env.render()) == 2


def test_several_at_once() -> None:
    envs = gymnasium.make_vec("romdp/RandomROMDP-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (3,)
    envs.step(envs.action_space.sample())
    envs.close()


def test_registering_twice_changes_nothing() -> None:
    both = ENVIRONMENTS | VECTOR_ENVIRONMENTS
    before = {identifier: gymnasium.spec(identifier) for identifier in both}
    register_environments()  # Gymnasium's warning would be an error here
    assert all(gymnasium.spec(identifier) is spec for identifier, spec in before.items())


def test_registering_imports_nothing_heavy() -> None:
    run(
        "import sys; from romdp.worlds.registration import register_environments as register\n"
        "register(); register()\n"
        "heavy = {'numba', 'scipy', 'romdp.exact.mdp', 'romdp.worlds.simulator'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium; gymnasium.make('romdp:romdp/RiverSwim-v0').reset(seed=0)",
        "import romdp, gymnasium; gymnasium.make('romdp/RiverSwim-v0').reset(seed=0)",
        "import gymnasium, romdp; gymnasium.make('romdp/RiverSwim-v0').reset(seed=0)",
    ],
)
def test_the_package_registers_them(code: str) -> None:
    run(code)

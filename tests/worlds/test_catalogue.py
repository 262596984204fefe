"""Worlds and environments by name: the catalogue, what Gymnasium registers, other packages."""

import subprocess
import sys

import gymnasium
import icu_sepsis  # noqa: F401 - registers its environments
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import romdp
from romdp.core.errors import InvalidInputError, StorageError, UnknownNameError
from romdp.core.storage import write_arrays
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.named import WORLDS, grid, load_world, make, random_mdp, random_romdp
from romdp.worlds.registration import ENVIRONMENTS, VECTOR_ENVIRONMENTS, register_environments


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_can_be_made_saved_and_loaded(tmp_path, name):
    world = make(name)
    assert isinstance(world, MDP if name == "random-mdp" else ROMDP)
    assert world == WORLDS[name]()
    world.save(tmp_path / "w.npz")
    assert load_world(tmp_path / "w.npz") == world


def test_arguments_are_passed_on():
    assert make("grid", views=2, seed=5) == grid(views=2, seed=5)
    assert make("random-mdp", n_states=4, seed=1) == random_mdp(4, seed=1)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("river-swin", "river-swim"),
        ("riverswim", "river-swim"),
        ("random_romdp", "random-romdp"),
        ("Grid", "grid"),
    ],
)
def test_the_nearest_name_is_suggested(name, near):
    with pytest.raises(UnknownNameError, match=f"unknown world '{name}': did you mean '{near}'"):
        make(name)


def test_without_a_near_name_all_are_listed():
    with pytest.raises(UnknownNameError, match=r"choose from combination-lock, .*river-swim"):
        make("zzz")


@pytest.mark.parametrize("name", [None, 3, ["grid"], {"grid"}], ids=repr)
def test_a_name_that_is_no_word(name):
    with pytest.raises(InvalidInputError, match=r"world is .*; choose from combination-lock"):
        make(name)


def test_arguments_that_a_world_does_not_take():
    with pytest.raises(InvalidInputError, match=r"world 'river-swim': .*'seed'"):
        make("river-swim", seed=1)
    with pytest.raises(InvalidInputError, match="n_states is 0"):
        make("river-swim", n_states=0)


def test_other_files_are_refused(tmp_path):
    write_arrays(tmp_path / "f.npz", "counts", 1, {})
    with pytest.raises(StorageError, match="holds a counts, not a romdp world"):
        load_world(tmp_path / "f.npz")
    with pytest.raises(StorageError, match="cannot read"):
        load_world(tmp_path / "none.npz")


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
    check_env(env.unwrapped)


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


@pytest.mark.parametrize("name", ["MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-5x5-v0"])
def test_a_grid_is_played_as_it_is_shown(name):
    run = romdp.play(romdp.LCPSRL(), gymnasium.make(name), 400, seed=0)
    shown, _ = gymnasium.make(name).reset(seed=5)
    assert run.policy.act(shown) in range(7)
    met = int(np.isfinite(run.policy.values).sum())
    assert 10 < met < 400  # pictures repeat


def test_patients_are_treated():
    env = gymnasium.make("Sepsis/ICU-Sepsis-v2")
    run = romdp.play(romdp.LCPSRL(), env, 150, seed=0)
    assert len(run.returns) > 10
    assert set(np.unique(run.returns["return"])) <= {0.0, 1.0}
    assert 0.0 <= run.success_rate <= 1.0

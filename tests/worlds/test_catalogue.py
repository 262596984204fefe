import pytest

from romdp.core.errors import InvalidInputError, StorageError, UnknownNameError
from romdp.core.storage import write_arrays
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.worlds.catalogue import WORLDS, load_world, make
from romdp.worlds.named import grid
from romdp.worlds.random import random_mdp


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

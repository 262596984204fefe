import numpy as np
import pytest

import romdp
from romdp.core.errors import ROMDPError, StorageError, UnknownNameError

TWO_CLASSES = np.eye(2)[:, None, :], np.array([[0.0], [1.0]])


@pytest.mark.parametrize(
    ("ordinary", "call"),
    [
        (ValueError, lambda: romdp.MDP(np.ones((2, 1, 2)), np.zeros((2, 1)))),
        (ValueError, lambda: romdp.worlds.make("river-swin")),
        (ArithmeticError, lambda: romdp.MDP(*TWO_CLASSES).gain),
        (MemoryError, lambda: romdp.worlds.random_romdp(5, 4, 10_000_000, seed=0).observable),
        (OSError, lambda: romdp.MDP.load("no-such-file.npz")),
        (OSError, lambda: romdp.MDP(*TWO_CLASSES).save("no-such-folder/mdp.npz")),
        (RuntimeError, lambda: romdp.Online(romdp.UCRL2(), 2, 1).observe(0.0, 1)),
    ],
)
def test_who_catches_the_ordinary_error_catches_ours(ordinary, call):
    with pytest.raises(ordinary) as caught:
        call()
    assert isinstance(caught.value, ROMDPError)


def test_a_storage_error_keeps_its_message():
    """OSError treats two arguments in a way of its own; ours always have one."""
    assert str(StorageError("cannot read x: gone")) == "cannot read x: gone"


def test_the_nearest_name_is_suggested():
    error = UnknownNameError("world", "river-swin", ["grid", "river-swim", "random-mdp"])
    assert str(error) == "unknown world 'river-swin': did you mean 'river-swim'?"


def test_without_a_near_name_all_are_listed_in_order():
    error = UnknownNameError("world", "zzz", ["grid", "cube"])
    assert str(error) == "unknown world 'zzz': choose from cube, grid"

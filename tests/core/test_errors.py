import inspect

import pytest

from romdp.core import errors
from romdp.core.errors import ROMDPError, StorageError, UnknownNameError


def test_every_error_is_a_romdp_error_and_an_ordinary_one():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    own = [kind for kind in kinds if kind is not ROMDPError and issubclass(kind, Exception)]
    assert len(own) >= 7
    for kind in own:
        assert issubclass(kind, ROMDPError)
        ordinary = [base for base in kind.__mro__ if base.__module__ == "builtins"]
        assert set(ordinary) - {Exception, BaseException, object}, kind


@pytest.mark.parametrize(
    ("kind", "ordinary"),
    [
        (errors.InvalidInputError, ValueError),
        (errors.UnknownNameError, ValueError),
        (errors.StructureError, ArithmeticError),
        (errors.TooLargeError, MemoryError),
        (errors.StorageError, OSError),
        (errors.WriteError, OSError),
        (errors.MisuseError, RuntimeError),
    ],
)
def test_who_catches_the_ordinary_error_catches_ours(kind, ordinary):
    assert issubclass(kind, ordinary)


def test_a_storage_error_keeps_its_message():
    """OSError treats two arguments in a way of its own; ours always have one."""
    assert str(StorageError("cannot read x: gone")) == "cannot read x: gone"


def test_the_nearest_name_is_suggested():
    error = UnknownNameError("world", "river-swin", ["grid", "river-swim", "random-mdp"])
    assert str(error) == "unknown world 'river-swin': did you mean 'river-swim'?"


def test_without_a_near_name_all_are_listed_in_order():
    error = UnknownNameError("world", "zzz", ["grid", "cube"])
    assert str(error) == "unknown world 'zzz': choose from cube, grid"

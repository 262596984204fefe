"""Settings that all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# A kernel that is compiled inside a property test takes longer than any deadline. The examples are
# the same every time, so that more of them find something new only once.
settings.register_profile("romdp", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)

# Folders and files whose tests run whole commands, play, draw figures, start processes or damage
# files: `make quick` leaves them out.
SLOW = {
    "experiments",
    "reports",
    "fuzz",
    "cli",
    "logs",
    "playing",
    "test_catalogue.py",
    "test_compiled.py",
    "test_docs.py",
    "test_hitting.py",
    "test_likelihood.py",
    "test_sampling.py",
    "test_scripts.py",
    "test_sl_ucrl.py",
    "test_spectral.py",
    "test_vector_worlds.py",
}

# Of two workers one begins with the docs and the other with kernels that the docs do not use, so
# that a fresh clone compiles each kernel once. Files that take long come next, lest one worker
# waits for the other at the end.
FIRST = ("test_docs.py", "planning", "exact", "test_scripts.py", "cli", "playing", "logs")


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of every property in `make quick`."""
    settings.load_profile("quick" if _is_quick(config) else "romdp")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `make quick` leaves out."""
    return True if _is_quick(config) and collection_path.name in SLOW else None


def _is_quick(config: pytest.Config) -> bool:
    return "not slow" in config.option.markexpr


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    places = [item.path.name] + ([item.path.parent.name] if "tests" in item.path.parts else [])
    return min((FIRST.index(place) for place in places if place in FIRST), default=len(FIRST))

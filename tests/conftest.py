"""Settings that all tests share."""

import pytest
from hypothesis import settings

# A kernel that is compiled inside a property test takes longer than any deadline.
settings.register_profile("romdp", deadline=None, derandomize=True)
settings.load_profile("romdp")

# Folders whose tests run whole commands, draw figures or start processes.
SLOW_FOLDERS = {"experiments", "reports"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave whole folders out of `make quick`."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS and "tests" in item.path.parts:
            item.add_marker(pytest.mark.slow)

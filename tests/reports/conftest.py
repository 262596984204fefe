"""What the tests of the reports share: one small experiment, played once."""

import pytest
from report_cases import make_run_directory, problems, resize, start

from romdp.reports.reading import read_results


def pytest_configure(config):
    config.addinivalue_line("markers", "page: needs Chromium and its driver; `make test-page`")


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory):
    """Three agents, two numbers of observations, two seeds. Do not change it: copy it."""
    return make_run_directory(tmp_path_factory.mktemp("reports") / "runs")


@pytest.fixture(scope="session")
def results(run_directory):
    return read_results(run_directory)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    browser = start(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium, page):
    """The page, freshly opened from disk on a wide screen; nothing may be on the console."""
    resize(chromium, 1280, 900)
    chromium.get(page.as_uri())
    yield chromium
    assert problems(chromium) == []

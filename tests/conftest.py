"""What every test shares: how hypothesis runs, how seldom garbage is looked for, and how figures are told.

Laws are about answers; how long one takes is for the benches to say. What was loaded to collect four thousand tests
stays until the end: looking through it again and again for garbage is a fifth of the time they take.
"""

import gc
import os

import pytest
from hypothesis import settings

settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)  # the same examples every time
settings.load_profile("ci" if os.environ.get("CI") else "explore")


def pytest_collection_finish() -> None:
    """Everything is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their argument: compressed data holds the time, and every worker must collect the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture
def tell(record_property):
    """Tell figures; they are shown when all tests are over, whichever worker this is."""
    return lambda text: record_property("figures", text)


def pytest_terminal_summary(terminalreporter) -> None:
    """Show the figures that tests told."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in getattr(report, "user_properties", ()):
            if name == "figures" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid}\n{text}")

"""What every test shares: how hypothesis runs, and how seldom garbage is looked for.

Laws are about answers; how long one takes is for the benches to say. What was loaded to collect four thousand tests
stays until the end: looking through it again and again for garbage is a fifth of the time they take.
"""

import gc
import os

from hypothesis import settings

settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)  # the same examples every time
settings.load_profile("ci" if os.environ.get("CI") else "explore")


def pytest_collection_finish() -> None:
    """Everything is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)

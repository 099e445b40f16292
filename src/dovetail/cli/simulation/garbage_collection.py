"""When a process that lives through stories looks for garbage in cycles: next to never.

A world is large, lives to the end of its story and hardly makes cycles, so that every look is in vain. What is left of
a world when its story is over goes before the next story begins; after the last one the process ends.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
COLLECTIONS_BETWEEN_OLDER = (4, 4)


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Collect as rarely as memory allows while inside, and pass over everything that is there at the end."""
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *COLLECTIONS_BETWEEN_OLDER)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*usual)

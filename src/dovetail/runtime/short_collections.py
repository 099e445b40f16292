"""Keeps the pauses of Python's cyclic garbage collector short in a process that holds a large cluster.

A full collection examines every container object and holds the interpreter lock meanwhile: a third of a second with
10,000 nodes, every few seconds of planning, in which no thread runs. Almost nothing that it examines is garbage: values
of the model have no cycles and are freed by their reference counts.

So the objects that survive a full collection are frozen: later ones do not examine them, only what is newer. Reference
counts still free frozen objects. Frozen objects that became cyclic garbage stay until everything is examined again,
which happens when the number of frozen objects has grown by `GROWTH` since the last time. So garbage at most multiplies
the memory by that, and a cluster of constant size has no long pause.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OLDEST = 2  # the generation of a full collection
GROWTH = 2.0
LEAST = 100_000  # objects; examining fewer takes a few milliseconds
COLLECTIONS_PER_CHECK = 20  # counting frozen objects takes some milliseconds as well


@contextmanager
def short_collections() -> Iterator[None]:
    """Freeze what survives full collections, while inside the context."""
    after_collection = _Freezer().after_collection
    gc.callbacks.append(after_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(after_collection)
        gc.unfreeze()


class _Freezer:
    """Called by the garbage collector, in the thread that it interrupts."""

    def __init__(self) -> None:
        self._collections = 0
        self._everything = True  # whether the next full collection examines every object
        self._survivors = 0  # of the last collection that examined every object

    def after_collection(self, phase: str, info: dict[str, Any]) -> None:
        """Freeze the survivors of a full collection; unfreeze all objects if they have become many more."""
        if phase != "stop" or info["generation"] != OLDEST:
            return
        gc.freeze()
        self._collections += 1
        if self._everything:
            self._everything, self._survivors = False, gc.get_freeze_count()
        elif self._collections % COLLECTIONS_PER_CHECK == 0:
            self._everything = gc.get_freeze_count() > GROWTH * max(self._survivors, LEAST)
            if self._everything:
                gc.unfreeze()

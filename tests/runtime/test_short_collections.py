"""Full garbage collections examine what is new, everything when there is much more of it, and still free garbage."""

import gc
import weakref

import pytest

from dovetail.runtime import short_collections as module
from dovetail.runtime.short_collections import short_collections


class Knot:
    """Something that holds itself, so that only a collection frees it."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def as_before():
    """Leave the collector as it was."""
    usual = gc.get_threshold()
    gc.disable()  # collections happen where a test asks for them
    yield
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*usual)


def test_survivors_are_frozen_inside_the_context_only():
    with short_collections():
        kept = Knot()
        gc.collect()
        assert gc.get_freeze_count() > 0
        assert gc.is_tracked(kept)
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_younger_generations_freeze_nothing():
    with short_collections():
        gc.collect(0)
        gc.collect(1)
        assert gc.get_freeze_count() == 0


def test_new_garbage_is_collected():
    with short_collections():
        gc.collect()
        left = weakref.ref(Knot())
        gc.collect()
        assert left() is None


def test_garbage_among_frozen_objects_is_collected_once_they_are_many_more(monkeypatch):
    monkeypatch.setattr(module, "LEAST", 1)
    with short_collections():
        gc.collect()
        knot = Knot()
        left = weakref.ref(knot)
        gc.collect()  # freezes it
        del knot
        gc.collect()
        assert left() is not None
        more = [Knot() for _ in range(3 * gc.get_freeze_count())]
        for _ in range(module.COLLECTIONS_PER_CHECK + 1):
            gc.collect()
        assert left() is None
        assert more
        assert gc.get_freeze_count() > 0, "and what survives is frozen again"

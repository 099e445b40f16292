"""Garbage collection during and after simulation runs."""

import gc
import weakref

import pytest

from dovetail.cli.simulation.runner import OBJECTS_BETWEEN_COLLECTIONS, infrequent_gc


class Knot:
    """Something that holds itself, as a world does."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def as_before():
    """Leave the collector as it was."""
    usual = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*usual)


def interrupted():
    with infrequent_gc():
        assert gc.get_threshold()[0] == OBJECTS_BETWEEN_COLLECTIONS
        raise KeyboardInterrupt


def test_gc_is_infrequent_during_a_run_and_restored_after_a_failure():
    usual = gc.get_threshold()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert gc.get_threshold() == usual


def test_the_objects_of_a_run_are_collected_before_the_next_run():
    with infrequent_gc():
        left = weakref.ref(Knot())
    gc.collect()
    assert left() is not None
    with infrequent_gc():
        assert left() is None

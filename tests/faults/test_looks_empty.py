"""A node that only looks empty, because the watch of pods is late or silent, is not ended under its new pods."""

from faults.injected import Late, Silent
from faults.survival import survive


def test_the_watch_is_late():
    """The pods leave, and others come 30 s later; the watch tells of the one while the other has happened."""
    survive(Late, empty=30.0)


def test_the_watch_is_silent():
    survive(Silent, empty=3.0, known_empty=True)

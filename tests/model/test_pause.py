"""What the annotation that pauses disruption means."""

from datetime import UTC, datetime

import pytest

from dovetail.model.pause import UNREAD, read_pause

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "paused"),
    [
        (None, False),
        ("false", False),
        ("true", True),
        ("2026-01-05T12:00:01Z", True),
        ("2026-01-05T12:00:00Z", False),
        ("2026-01-05T13:30:00+02:00", False),
        ("2026-01-05T14:30:00+02:00", True),
    ],
)
def test_a_pause_lasts_until_it_is_lifted_or_its_instant_has_come(written, paused):
    found = read_pause(written, "NodePool a", NOON)
    assert (found is not None) is paused
    assert found is None or not found.fault


@pytest.mark.parametrize(
    "written", ["", "True", "yes", "1", "5m", "2026-01-05", "2026-01-05T13:00:00", "0001-01-01T00:00:00+20:00"]
)
def test_an_invalid_value_pauses_and_is_reported(written):
    found = read_pause(written, "NodePool a", NOON)
    assert found is not None
    assert found.until is None
    assert repr(written) in str(found)


def test_a_value_that_was_not_read_yet_pauses():
    assert read_pause(UNREAD, "ConfigMap dovetail", NOON) is not None


def test_the_words_name_who_paused_and_until_when():
    found = read_pause("2026-01-05T13:00:00Z", "NodePool a", NOON)
    assert str(found) == "disruption is paused by NodePool a until 2026-01-05T13:00:00Z"

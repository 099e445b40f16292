"""What each warning asks for, and by when."""

from datetime import timedelta

import pytest

from builders import NOON
from dovetail.core.lifecycle.interruption import RESPONSES, drain_by, respond
from dovetail.ports.interruption import InterruptionKind

SOON = NOON + timedelta(minutes=2)


def test_every_kind_has_a_response_and_nothing_else_does():
    assert set(RESPONSES) == {str(kind) for kind in InterruptionKind}


@pytest.mark.parametrize("kind", sorted(RESPONSES))
def test_only_a_recommendation_is_published_without_action(kind):
    assert respond(kind, rebalance=False).acts is (kind != "rebalance_recommendation")
    assert respond(kind, rebalance=True).acts


@pytest.mark.parametrize("kind", sorted(RESPONSES))
def test_only_failed_status_checks_are_forceful(kind):
    assert respond(kind, rebalance=True).forceful is (kind in {"instance_status", "system_status"})


def test_offerings_about_to_run_short_are_avoided():
    avoiding = {kind for kind in RESPONSES if respond(kind, rebalance=False).avoids}
    assert avoiding == {"spot_interrupted", "capacity_reservation_interrupted"}
    assert respond("rebalance_recommendation", rebalance=True).avoids


@pytest.mark.parametrize(
    ("kind", "at", "expected"),
    [
        ("spot_interrupted", SOON, SOON),
        ("spot_interrupted", None, None),
        ("spot_interrupted", NOON, None),
        ("spot_interrupted", NOON - timedelta(minutes=1), None),
        ("instance_status", None, NOON),
        ("system_status", SOON, NOON),
        ("event_status", None, None),
    ],
)
def test_a_drain_ends_by_the_event_it_is_ahead_of(kind, at, expected):
    assert drain_by(respond(kind, rebalance=False), at, NOON) == expected

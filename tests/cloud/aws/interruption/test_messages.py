"""Strict parsing of EventBridge events."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.aws.interruption.events import SENT, change, event, health, rebalance, reservation, spot
from dovetail.cloud.aws.interruption.sqs import NOTICE, Malformed, parse_message
from dovetail.ports.interruption import Interruption, InterruptionKind

KIND = InterruptionKind
RECLAIM = SENT + timedelta(minutes=2)
MONDAY = datetime(2026, 3, 9, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        (spot("i-0abc"), Interruption(KIND.SPOT_INTERRUPTED, ("i-0abc",), RECLAIM)),
        (reservation("i-0abc"), Interruption(KIND.CAPACITY_RESERVATION_INTERRUPTED, ("i-0abc",), RECLAIM)),
        (rebalance("i-0abc"), Interruption(KIND.REBALANCE_RECOMMENDATION, ("i-0abc",))),
        (change("i-0abc", "stopping"), Interruption(KIND.INSTANCE_STOPPED, ("i-0abc",))),
        (change("i-0abc", "stopped"), Interruption(KIND.INSTANCE_STOPPED, ("i-0abc",))),
        (change("i-0abc", "Stopped"), Interruption(KIND.INSTANCE_STOPPED, ("i-0abc",))),
        (change("i-0abc", "shutting-down"), Interruption(KIND.INSTANCE_TERMINATED, ("i-0abc",))),
        (change("i-0abc", "terminated"), Interruption(KIND.INSTANCE_TERMINATED, ("i-0abc",))),
        (health("i-0abc"), Interruption(KIND.SCHEDULED_CHANGE, ("i-0abc",))),
        (health("i-1", "vol-2", "i-3"), Interruption(KIND.SCHEDULED_CHANGE, ("i-1", "i-3"))),
        (
            health("i-1", startTime="Mon, 09 Mar 2026 05:00:00 GMT"),
            Interruption(KIND.SCHEDULED_CHANGE, ("i-1",), MONDAY),
        ),
        (health("i-1", startTime="2026-03-09T05:00:00Z"), Interruption(KIND.SCHEDULED_CHANGE, ("i-1",), MONDAY)),
        (health("i-1", startTime="soon"), Interruption(KIND.SCHEDULED_CHANGE, ("i-1",))),
    ],
)
def test_every_documented_kind_is_understood(body, meant):
    read = parse_message(body)
    assert read.interruption == meant
    assert read.sent_at == SENT


@pytest.mark.parametrize(
    "body",
    [
        "",
        "  \n",
        change("i-0abc", "pending"),
        change("i-0abc", "running"),
        health("i-0abc", service="RDS"),
        health("i-0abc", eventTypeCategory="issue"),
        health("i-0abc", statusCode="closed"),
        health("vol-1"),
        health(),
        spot("i-0abc").replace('"version": "0"', '"version": "1"'),
        event("aws.ec2", "EC2 Something New", {"instance-id": 7}),
        event("aws.s3", "EC2 Spot Instance Interruption Warning", {"instance-id": "i-1", "instance-action": "stop"}),
    ],
)
def test_what_is_not_about_us_asks_for_nothing(body):
    assert parse_message(body).interruption is None


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "hello",
        "[]",
        "null",
        "{}",
        '"i-0abc"',
        spot("i-0abc")[:-1],
        spot("i-0abc") + "}",
        spot("i-0abc").replace("2026", "twenty"),
        spot("i-0abc").replace("59Z", "59"),
        spot("i-0abc").replace("2026-03-04T11", "9999-12-31T23"),
        spot(7),
        spot(""),
        spot("i-0abc; drop"),
        event("aws.ec2", "EC2 Spot Instance Interruption Warning", {"instance-id": "i-0abc"}),
        event("aws.ec2", "EC2 Spot Instance Interruption Warning", "i-0abc"),
        event("aws.ec2", "EC2 Instance State-change Notification", {"instance-id": "i-0abc"}),
        event("aws.health", "AWS Health Event", {"service": "EC2"}),
        event("aws.health", "AWS Health Event", {"service": "EC2", "eventTypeCategory": ["scheduledChange"]}),
        "[" * 100_000,
    ],
)
def test_what_does_not_look_as_documented_is_malformed_and_never_guessed_at(body):
    with pytest.raises(Malformed):
        parse_message(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KNOWN = [json.loads(each) for each in (spot("i-1"), rebalance("i-1"), change("i-1", "stopped"), health("i-1"))]


@given(st.sampled_from(KNOWN), st.dictionaries(st.sampled_from(sorted(KNOWN[0])), json_values, max_size=2), json_values)
def test_no_message_content_breaks_the_parser(known, changed, detail):
    for body in (known | changed, known | {"detail": detail}, known["detail"] | changed):
        with suppress(Malformed):
            parse_message(json.dumps(body))


@given(st.text())
def test_no_text_breaks_the_reader(body):
    with suppress(Malformed):
        assert parse_message(body).interruption is None


def test_a_warning_leaves_two_minutes():
    assert timedelta(minutes=2) == NOTICE

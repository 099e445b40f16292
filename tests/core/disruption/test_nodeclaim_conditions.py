"""What the conditions of a claim should say at each instant."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from builders import LARGE, NOON, claim, nodepool, pod, stamped
from dovetail.core.disruption.nodeclaim_conditions import (
    RECHECK,
    ProviderFindings,
    conditions_apply,
    equal_condition_inputs,
    marked,
    marks,
    pod_notice,
)
from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION, template_hash
from dovetail.model.conditions import find

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
READY = {"Launched": "True", "Registered": "True", "Initialized": "True"}
SOLD = {
    "node.kubernetes.io/instance-type": "m.large",
    "karpenter.sh/capacity-type": "on-demand",
    "topology.kubernetes.io/zone": "zone-a",
}
FINE = ProviderFindings(types=(LARGE,), provider_reason="")
LARGE_ELSEWHERE = replace(LARGE, name="x.large")
SILENT = ProviderFindings(types=None, provider_reason=None)
CLOSED = ProviderFindings(types=(), provider_reason="", drift_gate=False)


def worker(pool, *, conditions=None, age=timedelta(), event_at=None, **fields):
    """An initialized claim with the hash of its pool."""
    stamp = {"karpenter.sh/nodepool-hash": template_hash(pool), "karpenter.sh/nodepool-hash-version": HASH_VERSION}
    status = {"lastPodEventTime": stamped(event_at)} if event_at is not None else {}
    return claim(
        conditions={**READY, **(conditions or {})},
        age=age,
        labels={**SOLD, **fields.pop("labels", {})},
        metadata={"annotations": {**stamp, **fields.pop("annotations", {})}},
        status=status,
    )


def quiet_pool(after="5m", **fields):
    return nodepool(disruption={"consolidateAfter": after, **fields.pop("disruption", {})}, **fields)


def said(of, pool, findings=FINE, now=NOON):
    """The conditions after one look, as type and reason, leaving aside how the claim came to be."""
    conditions = marked(of, marks(of, pool, findings, now), now)
    return {each.type: each.reason for each in conditions if each.type not in READY}


def drifting(of, reason, since=NOON):
    """The claim as it is once that drift has been written."""
    conditions = marked(
        of, marks(of, quiet_pool("Never"), ProviderFindings(types=(), provider_reason=reason), since), since
    )
    return msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, conditions=conditions))


@pytest.mark.parametrize(
    ("after", "elapsed", "consolidatable"),
    [
        ("0s", timedelta(), True),
        ("5m", timedelta(), False),
        ("5m", 5 * MINUTE - SECOND, False),
        ("5m", 5 * MINUTE, True),
        ("5m", 5 * MINUTE + SECOND, True),
        ("Never", timedelta(days=30), False),
    ],
)
def test_a_node_is_consolidatable_from_the_very_end_of_its_window(after, elapsed, consolidatable):
    pool = quiet_pool(after)
    assert ("Consolidatable" in said(worker(pool), pool, now=NOON + elapsed)) == consolidatable
    eventful = worker(pool, age=timedelta(days=3), event_at=NOON)
    assert ("Consolidatable" in said(eventful, pool, now=NOON + elapsed)) == consolidatable


@pytest.mark.parametrize(("elapsed", "left"), [(0, 120), (119, 1), (120, 3480), (500, 3100), (3601, None)])
def test_time_alone_changes_the_answer_when_the_window_ends_and_when_the_node_is_no_longer_young(elapsed, left):
    pool, now = quiet_pool("2m"), NOON + elapsed * SECOND
    changes_at = marks(worker(pool), pool, FINE, now).changes_at
    assert (changes_at and changes_at.replace(microsecond=0)) == (left and now + left * SECOND)


@pytest.mark.parametrize("later", [SECOND, 5 * MINUTE - SECOND, 5 * MINUTE, 60 * MINUTE, 60 * MINUTE + SECOND])
@pytest.mark.parametrize("types", [(LARGE,), (LARGE_ELSEWHERE,)], ids=["still sold", "no longer sold"])
def test_marks_that_hold_are_those_one_would_make_again(types, later):
    pool, findings = quiet_pool("5m"), ProviderFindings(types=types, provider_reason="")
    made = marks(worker(pool), pool, findings, NOON)
    again = marks(worker(pool), pool, findings, NOON + later)
    same = (made.verdicts, made.cleared) == (again.verdicts, again.cleared)
    assert same or not made.holds(NOON + later)
    assert made.holds(NOON + later) is (later < 5 * MINUTE)


def test_a_young_claim_holds_until_it_is_held_against_the_catalogue():
    pool, findings = quiet_pool("Never"), ProviderFindings(types=(LARGE_ELSEWHERE,), provider_reason="")
    made = marks(worker(pool), pool, findings, NOON)
    assert made.holds(NOON + 60 * MINUTE)
    assert not made.holds(NOON + 60 * MINUTE + SECOND)
    assert said(worker(pool), pool, findings, NOON + 60 * MINUTE + SECOND) == {"Drifted": "InstanceTypeNotFound"}


def test_the_longer_of_field_and_action_control_counts():
    controls = {"actionControls": {"Consolidation": {"disruptAfter": "10m"}}}
    pool = quiet_pool("5m", disruption=controls)
    assert "Consolidatable" not in said(worker(pool), pool, now=NOON + 9 * MINUTE)
    assert said(worker(pool), pool, now=NOON + 10 * MINUTE)["Consolidatable"] == "Consolidatable"


@pytest.mark.parametrize(
    ("conditions", "spec"),
    [({"Initialized": "Unknown"}, {}), ({"Initialized": "False"}, {}), ({}, {"replicas": 2})],
    ids=["initialization unknown", "not initialized", "static"],
)
def test_consolidatable_is_removed_from_what_cannot_be(conditions, spec):
    pool = quiet_pool("0s", **spec)
    of = worker(pool, conditions={"Consolidatable": "True", **conditions}, event_at=NOON)
    assert "Consolidatable" not in said(of, pool, now=NOON + timedelta(days=1))


def test_a_pod_event_removes_consolidatable():
    pool = quiet_pool("5m")
    of = worker(pool, conditions={"Consolidatable": "True"}, age=timedelta(hours=1), event_at=NOON)
    assert said(of, pool, now=NOON + SECOND) == {}


CHANGED = quiet_pool("Never", template_metadata={"labels": {"team": "a"}})
NARROWED = quiet_pool(
    "Never",
    template={"requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}]},
)


@pytest.mark.parametrize(
    ("pool", "findings", "reason"),
    [
        (quiet_pool("Never"), FINE, None),
        (CHANGED, FINE, "NodePoolDrifted"),
        (NARROWED, FINE, "RequirementsDrifted"),
        (quiet_pool("Never"), ProviderFindings(types=(LARGE,), provider_reason="ImageDrift"), "ImageDrift"),
        (CHANGED, ProviderFindings(types=(LARGE,), provider_reason="ImageDrift"), "NodePoolDrifted"),
        (CHANGED, SILENT, "NodePoolDrifted"),
        (CHANGED, CLOSED, None),
    ],
)
def test_drift_is_named_by_its_first_reason(pool, findings, reason):
    of = worker(quiet_pool("Never"))
    assert said(of, pool, findings).get("Drifted") == reason


@pytest.mark.parametrize(("age", "drifted"), [(60 * MINUTE, False), (60 * MINUTE + SECOND, True)])
def test_a_type_no_longer_sold_counts_once_the_node_has_settled(age, drifted):
    pool = quiet_pool("Never")
    of = worker(pool, age=age, labels={"node.kubernetes.io/instance-type": "m.gone"})
    assert (said(of, pool).get("Drifted") == "InstanceTypeNotFound") == drifted


@pytest.mark.parametrize("reason", ["ImageDrift", "NodePoolDrifted", "InstanceTypeNotFound"])
def test_a_drift_that_ends_is_removed_whatever_its_reason(reason):
    pool = quiet_pool("Never")
    of = drifting(worker(pool), reason)
    assert of.has("Drifted")
    assert said(of, pool) == {}


@pytest.mark.parametrize("reason", ["ImageDrift", "InstanceTypeNotFound"])
def test_a_provider_without_an_answer_changes_nothing(reason):
    pool = quiet_pool("Never")
    of = drifting(worker(pool), reason)
    assert marked(of, marks(of, pool, SILENT, NOON + MINUTE), NOON + MINUTE) == of.status.conditions
    assert said(worker(pool), pool, SILENT) == {}


def test_drift_is_removed_before_launch_and_behind_a_closed_gate():
    pool = quiet_pool("Never")
    unlaunched = worker(pool, conditions={"Launched": "Unknown", "Drifted": "True"})
    assert said(unlaunched, pool, ProviderFindings(types=(), provider_reason="ImageDrift")) == {}
    assert marks(unlaunched, pool, FINE, NOON).changes_at is None
    assert said(drifting(worker(pool), "ImageDrift"), pool, CLOSED) == {}


def test_another_reason_keeps_the_instant_the_drift_began():
    of = drifting(worker(quiet_pool("Never")), "ImageDrift", since=NOON)
    later = NOON + timedelta(hours=2)
    found = find(marked(of, marks(of, CHANGED, FINE, later), later), "Drifted")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", "NodePoolDrifted", "NodePoolDrifted")
    assert found.last_transition_time == NOON


def test_a_second_look_writes_nothing():
    pool = CHANGED
    of = drifting(worker(pool, conditions={"Consolidatable": "True"}), "ImageDrift")
    for instant in (NOON, NOON + MINUTE, NOON + RECHECK):
        conditions = marked(of, marks(of, pool, ProviderFindings(types=(), provider_reason="X"), instant), instant)
        of = msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, conditions=conditions))
        assert (
            marked(of, marks(of, pool, ProviderFindings(types=(), provider_reason="X"), instant), instant) == conditions
        )


@pytest.mark.parametrize(
    ("value", "elapsed", "reason"),
    [
        (None, 0, None),
        ("true", 0, None),
        ("false", 0, None),
        ("10m", 0, "DoNotDisruptUntil"),
        ("10m", 599, "DoNotDisruptUntil"),
        ("10m", 600, "DoNotDisruptGracePeriodElapsed"),
        ("yes", 0, "InvalidDoNotDisruptAnnotation"),
        ("", 0, "InvalidDoNotDisruptAnnotation"),
        ("0s", 0, "InvalidDoNotDisruptAnnotation"),
        ("-5m", 9999, "InvalidDoNotDisruptAnnotation"),
        ("1d", 9999, "InvalidDoNotDisruptAnnotation"),
    ],
)
def test_the_event_about_the_annotation_of_a_pod(value, elapsed, reason):
    annotations = {"karpenter.sh/do-not-disrupt": value} if value is not None else {}
    notice = pod_notice(pod(on="a", metadata={"annotations": annotations}), NOON + elapsed * SECOND)
    assert (notice.reason if notice is not None else None) == reason
    if notice is not None and notice.warning:
        assert repr(value) in notice.message
        assert "protected until this is corrected" in notice.message
    if reason == "DoNotDisruptUntil":
        assert notice is not None
        assert notice.message.endswith("will elapse at 2026-01-05T12:10:00Z")
        assert notice.until == NOON + 600 * SECOND


@pytest.mark.parametrize(
    ("fields", "alike"),
    [
        ({}, True),
        ({"conditions": {"DisruptionReason": "True"}}, True),
        ({"annotations": {"example.com/owner": "me"}}, True),
        ({"conditions": {"Launched": "Unknown"}}, False),
        ({"conditions": {"Initialized": "False"}}, False),
        ({"conditions": {"Initialized": "Unknown"}}, False),
        ({"conditions": {"Consolidatable": "True"}}, False),
        ({"conditions": {"Drifted": "True"}}, False),
        ({"annotations": {"karpenter.sh/nodepool-hash": "other"}}, False),
        ({"annotations": {"karpenter.sh/nodepool-hash-version": "v0"}}, False),
        ({"labels": {"topology.kubernetes.io/zone": "zone-b"}}, False),
        ({"age": MINUTE}, False),
        ({"event_at": NOON}, False),
    ],
)
def test_a_claim_is_judged_again_only_when_an_input_changes(fields, alike):
    pool = quiet_pool()
    assert equal_condition_inputs(worker(pool), worker(pool, **fields)) is alike


def test_what_a_claim_still_waits_for_does_not_matter():
    awaiting = [claim(conditions={"Launched": "True", **more}) for more in ({}, {"Initialized": "Unknown"})]
    assert equal_condition_inputs(*awaiting)
    assert not equal_condition_inputs(awaiting[0], claim(conditions={"Launched": "True", "Initialized": "True"}))


@pytest.mark.parametrize(
    ("conditions", "something"),
    [
        ({}, False),
        ({"Launched": "Unknown", "Initialized": "Unknown"}, False),
        ({"Launched": "True"}, True),
        ({"Initialized": "True"}, True),
        ({"Consolidatable": "Unknown"}, True),
        ({"Drifted": "False"}, True),
    ],
)
def test_of_a_claim_that_waits_for_its_instance_there_is_nothing_to_say(conditions, something):
    assert conditions_apply(claim(conditions=conditions)) is something

"""What ails a node, whose word on its toleration counts, and when the breaker holds back."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, build, claim, nodepool, snapshot, stamped
from dovetail.core.explain.repair import explain_repair
from dovetail.core.lifecycle.repair import Breaker, RepairTerms, find_unhealthy_conditions, read_breaker, symptoms
from dovetail.core.lifecycle.termination import deadline_patch, read_deadline
from dovetail.model.kinds import NODE
from dovetail.model.labels import TERMINATION_TIMESTAMP
from dovetail.model.repair import GENERAL, ProviderRepairPolicy, unready
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import DecisionOptions

PROVIDER = (*unready(timedelta(minutes=10)), *GENERAL)
SINCE = datetime(2024, 11, 1, 15, 2, 48, tzinfo=UTC)


def node(*conditions, name="node-1"):
    """A node with conditions given as (type, status[, since])."""
    written = [
        {"type": kind, "status": status, "lastTransitionTime": stamped(since[0] if since else SINCE)}
        for kind, status, *since in conditions
    ]
    return build(NODE, {"metadata": {"name": name}, "status": {"conditions": written}})


def repair(**block):
    return nodepool(repair=block).spec.repair


def minutes(found):
    return [(each.condition.type, each.toleration.total_seconds() / 60, each.said_by) for each in found]


READY = ("Ready", "True")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({}, (10, "the provider")),
        ({"defaultTolerationDuration": "30m"}, (30, "repair.defaultTolerationDuration")),
        ({"policies": [{"conditionType": "Ready", "toleration": "45m"}]}, (45, "repair.policies")),
        (
            {
                "defaultTolerationDuration": "30m",
                "policies": [{"conditionType": "Ready", "toleration": "45m"}],
            },
            (45, "repair.policies"),
        ),
        (
            {"policies": [{"conditionType": "DiskPressure", "toleration": "45m"}]},
            (10, "the provider"),
        ),
        (
            {
                "policies": [
                    {"conditionType": "Ready", "toleration": "1m"},
                    {"conditionType": "Ready", "toleration": "45m"},
                ]
            },
            (1, "repair.policies"),
        ),
    ],
    ids=["provider", "default", "policy", "policy before default", "policy of another condition", "first of two"],
)
@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_toleration_is_the_policys_then_the_pools_then_the_providers(block, expected, status):
    assert minutes(find_unhealthy_conditions(node(("Ready", status)), repair(**block), PROVIDER)) == [
        ("Ready", *expected)
    ]


@pytest.mark.parametrize(
    ("condition", "status", "due_at"),
    [
        ("NetworkUnavailable", "True", datetime(2024, 11, 1, 15, 12, 48, tzinfo=UTC)),
        ("Ready", "False", datetime(2024, 11, 1, 15, 47, 48, tzinfo=UTC)),
    ],
)
def test_worked_examples_of_the_design(condition, status, due_at):
    block = repair(
        defaultTolerationDuration="30m",
        policies=[
            {"conditionType": "Ready", "toleration": "45m"},
            {"conditionType": "NetworkUnavailable", "toleration": "10m"},
        ],
    )
    (unhealthy_condition,) = find_unhealthy_conditions(node((condition, status)), block, PROVIDER)
    assert unhealthy_condition.due_at == due_at


def test_what_is_due_first_comes_first():
    late = SINCE + timedelta(minutes=5)
    found = find_unhealthy_conditions(node(("MemoryPressure", "True"), ("Ready", "False", late)), repair(), PROVIDER)
    assert [each.condition.type for each in found] == ["Ready", "MemoryPressure"]


@pytest.mark.parametrize(
    "condition", [READY, ("DiskPressure", "False"), ("DiskPressure", "Unknown"), ("PIDPressure", "True")]
)
def test_a_condition_without_provider_policy_is_healthy(condition):
    assert symptoms(node(condition), PROVIDER) == []


def test_a_policy_for_a_condition_the_provider_does_not_name_changes_nothing():
    block = repair(policies=[{"conditionType": "Sunspots", "toleration": "1m"}])
    assert find_unhealthy_conditions(node(("Sunspots", "True")), block, PROVIDER) == ()


def test_a_condition_that_does_not_say_since_when_is_never_due():
    sick = build(NODE, {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert find_unhealthy_conditions(sick, repair(), PROVIDER) == ()
    assert read_breaker([sick], PROVIDER).unhealthy == 1


@pytest.mark.parametrize(("total", "allowed"), [(0, 0), (1, 1), (3, 1), (5, 1), (6, 2), (10, 2), (11, 3)])
def test_breaker_allows_a_fifth_rounded_up(total, allowed):
    assert Breaker(0, total).allowed == allowed
    assert not Breaker(allowed, total).open
    assert Breaker(allowed + 1, total).open


@given(st.integers(0, 500), st.integers(0, 500))
def test_breaker_never_opens_for_fewer_unhealthy_nodes(total, unhealthy):
    if not Breaker(unhealthy, total).open:
        assert not any(Breaker(fewer, total).open for fewer in range(unhealthy))


def test_breaker_counts_a_node_with_two_ailments_once_and_one_still_tolerated_too():
    nodes = [node(("Ready", "False", NOON), ("DiskPressure", "True", NOON)), node(READY), node(READY)]
    assert read_breaker(nodes, PROVIDER) == Breaker(1, 3)


@pytest.mark.parametrize(
    ("pool", "terms", "on"),
    [
        (nodepool(), {}, False),
        (nodepool(repair={}), {}, True),
        (nodepool(repair={}), {"node_repair": False}, False),
        (nodepool(), {"repair_without_block": True}, True),
        (nodepool(), {"repair_without_block": True, "node_repair": False}, False),
        (None, {}, False),
        (None, {"repair_without_block": True}, True),
    ],
)
def test_pools_opt_in_unless_the_operator_says_otherwise(pool, terms, on):
    assert (
        RepairTerms((ProviderRepairPolicy("Ready", "False", timedelta(0)),), DecisionOptions(**terms)).of(pool)
        is not None
    ) is on


@pytest.mark.parametrize(
    ("written", "wanted", "expected"),
    [
        (None, NOON, "2026-01-05T12:00:00Z"),
        ("2026-01-05T12:00:01Z", NOON, "2026-01-05T12:00:00Z"),
        ("2026-01-05T12:00:00Z", NOON, None),
        ("2026-01-05T11:59:59Z", NOON, None),
        ("2026-01-05T13:30:00+02:00", NOON, None),
        ("soon", NOON, "2026-01-05T12:00:00Z"),
        ("2026-01-05T11:00:00", NOON, "2026-01-05T12:00:00Z"),
    ],
)
def test_a_deadline_is_only_ever_moved_forward(written, wanted, expected):
    marked = claim(metadata={"annotations": {TERMINATION_TIMESTAMP: written} if written else {}})
    patch = deadline_patch(marked, wanted)
    assert patch == ({"metadata": {"annotations": {TERMINATION_TIMESTAMP: expected}}} if expected else {})


def test_a_deadline_is_read_back_as_written():
    marked = claim(metadata={"annotations": deadline_patch(claim(), NOON)["metadata"]["annotations"]})
    assert read_deadline(marked) == NOON


def sick(name, *conditions):
    """A managed node of the default pool with these conditions."""
    marks = {"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true"}
    written = [{"type": kind, "status": status, "lastTransitionTime": stamped(SINCE)} for kind, status in conditions]
    made = build(NODE, {"metadata": {"name": name, "labels": marks}, "status": {"conditions": written}})
    return ClusterNode(made, claim(name))


def explained(nodes, pool, **terms):
    found = snapshot(nodes=nodes, pools=[pool])
    return explain_repair(nodes[0], found, RepairTerms(PROVIDER, DecisionOptions(**terms)))


def test_explanation_names_every_ailment_and_the_first_instant():
    told = explained([sick("a", ("DiskPressure", "True"), ("KernelDeadlock", "True"))], nodepool(repair={}))
    assert [each.condition.type for each in told.unhealthy_conditions] == ["KernelDeadlock", "DiskPressure"]
    assert told.due_at == SINCE + timedelta(minutes=10)
    assert not told.breaker.open


@pytest.mark.parametrize(
    ("pool", "terms", "off"),
    [
        (nodepool(), {}, "nodepool default has no repair block"),
        (nodepool(repair={}), {"node_repair": False}, "the feature gate NodeRepair is off"),
        (nodepool(), {"repair_without_block": True}, ""),
    ],
)
def test_explanation_says_why_a_node_is_not_repaired(pool, terms, off):
    told = explained([sick("a", ("Ready", "Unknown"))], pool, **terms)
    assert told.off == off
    assert (told.due_at is None) is bool(off)


def test_explanation_says_that_the_breaker_is_open():
    told = explained([sick(name, ("Ready", "False")) for name in "ab"] + [sick("c", READY)], nodepool(repair={}))
    assert told.breaker == Breaker(2, 3)
    assert told.breaker.open


def test_a_healthy_node_needs_no_explanation():
    assert explained([sick("a", READY)], nodepool(repair={})) is None

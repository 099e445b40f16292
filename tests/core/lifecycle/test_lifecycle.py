"""Rules on the way from claim to node."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from builders import NOON, claim, node, nodepool, pod
from dovetail.core.lifecycle.nodepool_hash import template_hash
from dovetail.core.lifecycle.nodepool_status import RegistrationHealth, count, judge_node_class
from dovetail.core.lifecycle.pod_events import pod_event_at, write_at
from dovetail.core.lifecycle.registration import (
    find_inconsistencies,
    judge_initialization,
    judge_liveness,
    plan_registration,
)
from dovetail.core.merge_patches import conditions_patch
from dovetail.model.conditions import ConditionList, ConditionVerdict, find
from dovetail.model.kube_object import Condition
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode

LAUNCHED = {"Launched": "True"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("conditions", "minutes", "reason"),
    [
        ({}, 4.9, ""),
        ({}, 5, "launch_timeout"),
        (LAUNCHED, 14.9, ""),
        (LAUNCHED, 15, "registration_timeout"),
        ({**LAUNCHED, "Registered": "True"}, 600, ""),
    ],
)
def test_a_claim_is_given_up_after_five_minutes_without_launch_and_fifteen_without_node(conditions, minutes, reason):
    overdue = judge_liveness(claim(age=timedelta(minutes=minutes), conditions=conditions), NOON)
    assert overdue.reason == reason


def test_the_wait_ends_at_the_nearest_deadline():
    assert judge_liveness(claim(age=timedelta(minutes=1)), NOON).wait == timedelta(minutes=4)
    assert judge_liveness(claim(age=timedelta(minutes=1), conditions=LAUNCHED), NOON).wait == timedelta(minutes=14)


def test_registration_takes_over_labels_taints_owner_and_finalizer_and_lifts_the_unregistered_taint():
    wanted = claim(
        labels={"team": "a"},
        spec={
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cni", "effect": "NoSchedule"}],
        },
    )
    joined = node(taints=[UNREGISTERED, {"key": "team", "value": "other", "effect": "NoSchedule"}])
    patch = plan_registration(wanted, (joined,)).node_patch
    assert patch["metadata"]["labels"] == {
        "karpenter.sh/nodepool": "default",
        "team": "a",
        "karpenter.sh/registered": "true",
    }
    assert patch["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert patch["metadata"]["ownerReferences"][0]["uid"] == "uid-default-1"
    assert [taint["key"] for taint in patch["spec"]["taints"]] == ["team", "cni"]


def test_registration_keeps_the_finalizers_of_others():
    there = node(metadata={"finalizers": ["example.com/audit"]}, taints=[UNREGISTERED])
    patch = plan_registration(claim(), (there,)).node_patch
    assert patch["metadata"]["finalizers"] == ["example.com/audit", "karpenter.sh/termination"]


def test_taints_are_not_synced_when_the_node_says_so():
    joined = node(taints=[UNREGISTERED], labels={"karpenter.sh/do-not-sync-taints": "true"})
    wanted = claim(spec={"taints": [{"key": "team", "effect": "NoSchedule"}]})
    assert plan_registration(wanted, (joined,)).node_patch["spec"]["taints"] == []


def test_no_node_is_awaited_and_two_nodes_are_a_fault():
    assert plan_registration(claim(), ()).verdict.reason == "NodeNotFound"
    two = plan_registration(claim(), (node("a"), node("b"))).verdict
    assert (two.status, two.reason) == ("False", "MultipleNodesFound")


def test_a_missing_unregistered_taint_is_noticed_only_before_registration():
    assert plan_registration(claim(), (node(),)).taint_was_missing
    assert not plan_registration(claim(), (node(labels={"karpenter.sh/registered": "true"}),)).taint_was_missing


@pytest.mark.parametrize(
    ("joined", "reason"),
    [
        (None, "NodeNotFound"),
        (node(ready=False), "NodeNotReady"),
        (node(taints=[{"key": "cni", "effect": "NoSchedule"}]), "StartupTaintsExist"),
        (node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), "KnownEphemeralTaintsExist"),
    ],
)
def test_initialisation_says_what_it_waits_for(joined, reason):
    wanted = claim(spec={"startupTaints": [{"key": "cni", "effect": "NoSchedule"}]})
    verdict = judge_initialization(wanted, joined)
    assert (verdict.status, verdict.reason) == ("Unknown", reason)


def test_a_requested_resource_must_be_registered():
    wanted = claim(spec={"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}})
    assert judge_initialization(wanted, node()).reason == "ResourceNotRegistered"
    assert judge_initialization(claim(spec={"resources": {"requests": {"cpu": "1"}}}), node()).status == "True"


def test_pod_events_that_count_and_those_that_do_not():
    waiting, bound = pod(), pod(on="n")
    ended = pod(on="n", status={"phase": "Succeeded"})
    owners = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}
    assert pod_event_at(waiting, bound, NOON) == NOON
    assert pod_event_at(bound, ended, NOON) == NOON
    assert pod_event_at(bound, None, NOON) == NOON
    assert pod_event_at(bound, bound, NOON) is None
    assert pod_event_at(ended, None, NOON) is None
    assert pod_event_at(waiting, pod(on="n", metadata=owners), NOON) is None


def test_a_restart_does_not_restart_the_clock():
    """A pod first seen already bound counts from when it was bound."""
    old = pod(on="n", status={"phase": "Running", "startTime": "2026-01-05T09:00:00Z"})
    seen_at = pod_event_at(None, old, NOON)
    assert seen_at == NOON - timedelta(hours=3)
    assert write_at(claim(status={"lastPodEventTime": "2026-01-05T09:30:00Z"}), seen_at) is None


@pytest.mark.parametrize("seconds", [1, 7, 10, 12])
def test_frequent_events_are_written_once_in_ten_seconds_and_none_is_lost(seconds):
    stored = claim(status={"lastPodEventTime": "2026-01-05T12:00:00Z"})
    assert write_at(stored, NOON + timedelta(seconds=seconds)) == NOON + timedelta(seconds=10)


@pytest.mark.parametrize("seconds", [-1, 0, 0.9])
def test_an_event_that_is_written_already_is_no_news(seconds):
    stored = claim(status={"lastPodEventTime": "2026-01-05T12:00:00Z"})
    assert write_at(stored, NOON + timedelta(seconds=seconds)) is None


def test_pod_events_of_a_deleted_claim_are_not_written():
    going = claim(metadata={"deletionTimestamp": "2026-01-05T11:59:00Z"})
    assert write_at(claim(), NOON) == NOON
    assert write_at(going, NOON) is None


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [("F", "Unknown"), ("FF", "False"), ("TTFF", "False"), ("FFTTT", "True"), ("", "Unknown"), ("T", "True")],
)
def test_two_failures_among_the_last_four_registrations_are_one_too_many(outcomes, status):
    health = RegistrationHealth()
    for outcome in outcomes:
        health.note(succeeded=outcome == "T")
    assert health.verdict().status == status


def test_node_class_readiness_has_its_reason():
    ready = Condition(type="Ready", status="True")
    assert judge_node_class(found=True, deleting=False, ready=ready).status == "True"
    assert judge_node_class(found=False, deleting=False, ready=None).reason == "NodeClassNotFound"
    assert judge_node_class(found=True, deleting=True, ready=ready).reason == "NodeClassTerminating"
    assert judge_node_class(found=True, deleting=False, ready=None).reason == "NodeClassReadinessUnknown"


def test_counts_leave_out_nodes_on_their_way_out():
    going = claim("old", metadata={"name": "old", "deletionTimestamp": "2026-01-05T11:00:00Z"})
    resources, number = count([ClusterNode(node(), claim()), ClusterNode(None, going)])
    assert number == 1
    assert {name: str(amount) for name, amount in resources.items()} == {
        "cpu": "4",
        "memory": "16Gi",
        "pods": "110",
        "ephemeral-storage": "0",
        "nodes": "1",
    }


def test_the_fingerprint_ignores_behaviour_order_and_spelling_but_not_the_template():
    base = nodepool(template={"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]})
    turned = nodepool(template={"taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]})
    behavior = nodepool(template=_taints("a", "b"), weight=5, limits={"cpu": "10"}, disruption={"budgets": []})
    spelling = nodepool(template={**_taints("a", "b"), "expireAfter": "720h0m"})
    assert template_hash(base) == template_hash(turned) == template_hash(behavior) == template_hash(spelling)
    assert template_hash(base) != template_hash(nodepool(template=_taints("a")))
    assert template_hash(base) != template_hash(nodepool(template={**_taints("a", "b"), "expireAfter": "1h"}))


def _taints(*keys: str) -> dict[str, object]:
    return {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys]}


def _list(*conditions: Condition, dependents=("A", "B"), generation=1, now=NOON):
    return ConditionList(conditions, dependents, NOON - timedelta(hours=1), generation, now)


def test_ready_follows_from_its_dependents():
    waiting = _list().set(ConditionVerdict("A"))
    assert find(waiting, "Ready").status == "Unknown"
    assert find(_list(*waiting).set(ConditionVerdict("B")), "Ready").status == "True"
    assert find(_list(*waiting).set(ConditionVerdict("B", "False", "Broken")), "Ready").status == "False"


def test_ready_waits_for_the_current_generation():
    both = _list().set(ConditionVerdict("A"), ConditionVerdict("B"))
    assert find(_list(*both, generation=2).set(ConditionVerdict("A")), "Ready").status == "Unknown"


def test_a_transition_time_moves_only_with_the_status():
    first = _list().set(ConditionVerdict("A"))
    later = _list(*first, now=NOON + timedelta(hours=1)).set(ConditionVerdict("A", reason="Other"))
    assert find(later, "A").last_transition_time == NOON
    assert find(later, "A").reason == "Other"


def test_a_new_dependent_is_as_old_as_its_object():
    assert find(_list().set(), "A").last_transition_time == NOON - timedelta(hours=1)


def test_conditions_are_written_whole_as_the_crds_of_karpenter_require():
    written = conditions_patch(
        [Condition(type="Launched", status="True", reason="Launched", last_transition_time=NOON)]
    )
    (launched,) = written["status"]["conditions"]
    assert launched == {
        "type": "Launched",
        "status": "True",
        "reason": "Launched",
        "message": "",
        "lastTransitionTime": "2026-01-05T12:00:00Z",
        "observedGeneration": 0,
    }


@pytest.mark.parametrize(
    ("requested", "actual", "found"),
    [("1", "900", 0), ("1", "899", 1), ("1", "0", 1), ("1", "1500", 0), ("0", "0", 0), (None, "0", 0)],
)
def test_a_node_needs_nine_tenths_of_the_capacity_of_what_was_requested(requested, actual, found):
    requests = {"example.com/gpu": Quantity.parse(requested)} if requested is not None else {}
    wanted = claim()
    wanted = replace(
        wanted,
        spec=replace(wanted.spec, resources=replace(wanted.spec.resources, requests=requests)),
        status=replace(wanted.status, capacity={"example.com/gpu": Quantity.parse("1000")}),
    )
    joined = node()
    joined = replace(joined, status=replace(joined.status, capacity={"example.com/gpu": Quantity.parse(actual)}))
    assert len(find_inconsistencies(wanted, joined)) == found

"""When a new node is closed for the pods it was launched for, and when it is opened."""

from datetime import timedelta

import pytest

from builders import NOON, claim, daemon_set, node, pod
from dovetail.core.lifecycle.opening import (
    LONGEST_QUEUED,
    LONGEST_START,
    MOST_PLANNED_PODS,
    is_closed,
    is_openable,
    judge_opening,
    opened_patch,
    planned_pods,
    with_planned_pods,
)
from dovetail.core.lifecycle.registration import judge_initialization, plan_registration
from dovetail.model.labels import PLANNED_PODS

CLOSED = {"key": "dovetail.sh/closed", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
CNI = {"key": "cni", "effect": "NoSchedule"}
PLANNED = {"annotations": {PLANNED_PODS: "uid-a,uid-b"}}
SECOND = timedelta(seconds=1)


def tolerating(key):
    return daemon_set(tolerations=[{"key": key, "operator": "Exists"}])


def test_a_claim_carries_the_uids_of_its_pending_pods():
    found = with_planned_pods(claim(metadata={"annotations": {"a": "1"}}), [pod("b"), pod("a"), pod("c", on="x")], [])
    assert planned_pods(found) == {"uid-a", "uid-b"}
    assert found.metadata.annotations["a"] == "1"
    assert found.spec == claim().spec


def test_a_claim_without_pending_pods_is_left_as_it_is():
    assert with_planned_pods(claim(), [pod("c", on="x")], []) == claim()
    assert planned_pods(claim()) == frozenset()


def test_more_pods_than_an_annotation_holds_are_not_written():
    assert planned_pods(with_planned_pods(claim(), [pod(f"p{n}") for n in range(MOST_PLANNED_PODS + 1)], [])) == set()


@pytest.mark.parametrize(
    ("daemon", "closed"),
    [
        (daemon_set(), True),
        (tolerating("node.kubernetes.io/not-ready"), False),
        (tolerating("cni"), False),
        (tolerating("other"), True),
        (daemon_set(tolerations=[{"operator": "Exists"}]), True),
        (daemon_set(tolerations=[{"key": key, "operator": "Exists"} for key in ("cni", "dovetail.sh/closed")]), True),
    ],
)
def test_a_node_is_not_closed_to_a_daemon_that_has_to_start_it(daemon, closed):
    found = with_planned_pods(claim(spec={"startupTaints": [CNI]}), [pod()], [daemon])
    assert bool(planned_pods(found)) == closed


def test_registration_closes_the_node_in_the_patch_that_lifts_the_unregistered_taint():
    patch = plan_registration(claim(metadata=PLANNED), (node(taints=[UNREGISTERED]),)).node_patch
    assert patch["spec"]["taints"] == [CLOSED]
    assert PLANNED_PODS not in patch["metadata"].get("annotations", {})


def test_registration_closes_no_node_without_planned_pods_nor_one_whose_taints_are_not_synced():
    assert plan_registration(claim(), (node(taints=[UNREGISTERED]),)).node_patch["spec"]["taints"] == []
    left_alone = node(taints=[UNREGISTERED], labels={"karpenter.sh/do-not-sync-taints": "true"})
    assert plan_registration(claim(metadata=PLANNED), (left_alone,)).node_patch["spec"]["taints"] == []


def test_a_closed_node_is_not_initialized():
    verdict = judge_initialization(claim(metadata=PLANNED), node(taints=[CLOSED]))
    assert (verdict.status, verdict.reason) == ("Unknown", "KnownEphemeralTaintsExist")


@pytest.mark.parametrize(
    ("found", "openable"),
    [
        (node(taints=[CLOSED]), True),
        (node(taints=[CLOSED, {"key": "team", "effect": "NoSchedule"}]), True),
        (node(taints=[CLOSED], ready=False), False),
        (node(taints=[CLOSED, NOT_READY]), False),
        (node(taints=[CLOSED, CNI]), False),
    ],
)
def test_a_node_can_be_opened_once_every_other_taint_of_a_starting_node_is_gone(found, openable):
    assert is_openable(found, claim(spec={"startupTaints": [CNI]})) == openable


def test_a_ready_node_is_opened_at_once_with_its_pods():
    opening = judge_opening(node(taints=[CLOSED]), claim(metadata=PLANNED), NOON, NOON + LONGEST_QUEUED)
    assert (opening.wait, opening.problem) == (None, "")


def test_a_node_that_waited_too_long_for_its_turn_is_opened_without_nominations():
    opening = judge_opening(node(taints=[CLOSED]), claim(metadata=PLANNED), NOON, NOON + LONGEST_QUEUED + SECOND)
    assert opening.wait is None
    assert opening.problem


def test_a_starting_node_is_opened_after_a_while_even_if_it_is_not_ready():
    starting = node(taints=[CLOSED], ready=False)
    assert judge_opening(starting, claim(metadata=PLANNED), None, NOON + SECOND).wait == LONGEST_START - SECOND
    late = judge_opening(starting, claim(metadata=PLANNED), None, NOON + LONGEST_START)
    assert late.wait is None
    assert late.problem


@pytest.mark.parametrize("known", [None, claim()])
def test_a_closed_node_without_a_plan_is_opened_at_once(known):
    opening = judge_opening(node(taints=[CLOSED], ready=False), known, None, NOON)
    assert opening.wait is None
    assert opening.problem


def test_opening_removes_one_taint():
    closed = node(taints=[CLOSED, CNI])
    assert is_closed(closed)
    assert opened_patch(closed) == {"spec": {"taints": [CNI]}}

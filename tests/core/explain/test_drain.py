"""What a drain waits for: slow or stuck, since when, until when."""

from dataclasses import replace
from datetime import timedelta

import msgspec

from acceptance.fleet import cluster, owned, pdb, running, shielded, worker
from builders import NOON, claim, node, pod, stamped
from dovetail.core.explain.drain import PodState, explain_drain, place_drained_pods
from dovetail.core.lifecycle.drain import Tier
from dovetail.model.kube_object import Condition
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import DecisionOptions

HOUR = timedelta(hours=1)
GOING = {"deletionTimestamp": stamped(NOON - HOUR), "finalizers": ["karpenter.sh/termination"]}
DEADLINE = {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": stamped(NOON + HOUR)}}


def going(*pods, conditions=None, **metadata):
    owner = claim(metadata={**GOING, **metadata}, conditions=conditions or {})
    return ClusterNode(node("a", metadata={**GOING}), owner, pods)


def closed(since, **fields):
    """A budget that says itself since when it allows nothing."""
    found = pdb(**fields)
    said = Condition(type="DisruptionAllowed", status="False", last_transition_time=since)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=(said,)))


def test_a_budget_that_never_allows_anything_makes_a_drain_stuck_and_one_that_may_open_makes_it_slow():
    web = running("web", "a")
    stuck = explain_drain(going(web), [pdb(spec={"maxUnavailable": 0})], NOON)
    assert (stuck.verdict, stuck.stuck[0].pod.name) == ("stuck", "web")
    slow = explain_drain(going(web), [pdb()], NOON)
    assert (slow.verdict, slow.stuck) == ("slow", ())
    assert slow.pods[0].state == PodState.BLOCKED
    assert explain_drain(going(web), [], NOON).verdict == "moving"


def test_a_deadline_turns_stuck_into_slow_with_the_instant_it_ends():
    pods = (running("web", "a"), shielded("forever", "a"))
    view = explain_drain(going(*pods, **DEADLINE), [pdb(spec={"maxUnavailable": 0})], NOON)
    assert (view.verdict, view.deadline) == ("slow", NOON + HOUR)
    assert {each.until for each in view.waiting} == {NOON + HOUR - timedelta(seconds=30)}


def test_blocked_counts_from_when_the_budget_closed_but_not_from_before_the_drain():
    web = running("web", "a")
    late = explain_drain(going(web), [closed(NOON - timedelta(minutes=5))], NOON)
    assert late.pods[0].since == NOON - timedelta(minutes=5)
    early = explain_drain(going(web), [closed(NOON - 5 * HOUR)], NOON)
    assert early.pods[0].since == early.since == NOON - HOUR


def test_protection_is_slow_when_it_ends_and_stuck_when_it_does_not():
    held = shielded(
        "build",
        "a",
        metadata={"creationTimestamp": stamped(NOON), "annotations": {"karpenter.sh/do-not-disrupt": "4h"}},
    )
    (view,) = explain_drain(going(held), [], NOON).pods
    assert (view.state, view.until, view.permanent) == (PodState.PROTECTED, NOON + 4 * HOUR, False)
    (view,) = explain_drain(going(shielded("odd", "a", "soon")), [], NOON).pods
    assert view.permanent
    assert "cannot be understood" in view.why


def test_a_stopping_pod_says_since_when_and_until_when():
    ends = NOON + timedelta(seconds=20)
    told = pod("web", on="a", metadata={"deletionTimestamp": stamped(ends), "deletionGracePeriodSeconds": 30})
    (view,) = explain_drain(going(told), [], NOON).pods
    assert (view.state, view.since, view.until) == (PodState.STOPPING, NOON - timedelta(seconds=10), ends)


def test_pods_are_in_the_order_they_go_and_those_left_alone_come_last():
    pods = (
        pod(
            "z-static",
            on="a",
            metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u"}]},
        ),
        pod("dns", on="a", spec={"priorityClassName": "system-cluster-critical"}),
        pod("web", on="a"),
        pod("done", on="a", status={"phase": "Succeeded"}),
    )
    view = explain_drain(going(*pods), [], NOON)
    assert [(each.pod.name, each.tier, each.state) for each in view.pods] == [
        ("web", Tier.PODS, PodState.NEXT),
        ("dns", Tier.CRITICAL_PODS, PodState.LATER),
        ("z-static", Tier.PODS, PodState.LEFT_ALONE),
    ]


def test_after_the_drain_the_conditions_say_what_the_termination_waits_for():
    assert explain_drain(going(), [], NOON).step == ""
    assert "bound just before" in explain_drain(going(conditions={"Drained": "Unknown"}), [], NOON).step
    attached = explain_drain(going(conditions={"Drained": "True", "VolumesDetached": "Unknown"}), [], NOON)
    assert attached.step == "volumes are still attached"
    ending = {"Drained": "True", "VolumesDetached": "True", "InstanceTerminating": "True"}
    assert explain_drain(going(conditions=ending), [], NOON).step == "the instance is being terminated"


def test_a_preview_counts_the_grace_period_from_now():
    bounded = ClusterNode(node("a"), claim(spec={"terminationGracePeriod": "2h"}), (shielded("forever", "a"),))
    view = explain_drain(bounded, [], NOON)
    assert (view.since, view.deadline, view.verdict) == (None, NOON + 2 * HOUR, "slow")


def test_homes_are_other_nodes_new_ones_or_none():
    sizes = {"small": "1", "large": "16", "vast": "640"}
    small, large, vast = (owned(name, "a", "ReplicaSet", cpu=cpu) for name, cpu in sizes.items())
    leaving = worker("a", small, large, vast)
    found = cluster(leaving, worker("b"))
    homes = place_drained_pods(leaving, replace(found), DecisionOptions())
    assert homes.node_by_pod[small.key] == "b"
    assert [draft.pod_keys for draft in homes.drafts] == [(large.key,)]
    assert list(homes.refusals) == [vast.key]


def test_a_pod_without_an_owner_is_evicted_like_others_and_has_no_home_to_go_to():
    leaving = worker("a", running("bare", "a"), owned("web", "a", "ReplicaSet"))
    bare, web = explain_drain(leaving, [], NOON).pods
    assert (bare.state, bare.why) == (PodState.NEXT, "it has no owner: it will not be recreated")
    assert (web.state, web.why) == (PodState.NEXT, "")
    assert list(place_drained_pods(leaving, cluster(leaving, worker("b")), DecisionOptions()).node_by_pod) == [
        web.pod.key
    ]

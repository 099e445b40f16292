"""Which pods go, in which order, and when the deadline of their node leaves no choice."""

from datetime import timedelta

import pytest

from builders import NOON, build, claim, node, nodepool, pod, stamped
from dovetail.core.lifecycle.drain import (
    Tier,
    attached_volumes_message,
    drain_message,
    drain_patch,
    find_attached,
    grace_left,
    must_be_forced,
    plan_drain,
    tier_of,
)
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.core.lifecycle.termination import grace_period_patch
from dovetail.model.kinds import PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from dovetail.model.kube_object import Key
from dovetail.model.snapshot import ClusterNode

DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}
STATIC = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}
CRITICAL = {"priorityClassName": "system-node-critical"}
PROTECTED = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
FOUR_HOURS = {"annotations": {"karpenter.sh/do-not-disrupt": "4h"}}


def on_node(*pods):
    return ClusterNode(node("n"), None, pods)


def names(pods):
    return [each.name for each in pods]


def leaving(name, ends_at, grace=30):
    return pod(name, on="n", metadata={"deletionTimestamp": stamped(ends_at), "deletionGracePeriodSeconds": grace})


def test_drain_leaves_finished_static_tolerating_and_stuck_pods_alone_and_waits_for_protected_ones():
    drain = plan_drain(
        on_node(
            pod("plain", on="n"),
            pod("done", on="n", status={"phase": "Succeeded"}),
            pod("old", on="n", spec={"tolerations": [{"key": "karpenter.sh/disruption", "operator": "Exists"}]}),
            pod("new", on="n", spec={"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}),
            pod("blanket", on="n", spec={"tolerations": [{"operator": "Exists"}]}),
            pod("static", on="n", metadata=STATIC),
            leaving("stuck", NOON - timedelta(seconds=61)),
            leaving("late", NOON - timedelta(seconds=60)),
            leaving("leaving", NOON + timedelta(seconds=10)),
            pod("protected", on="n", metadata=PROTECTED),
        ),
        NOON,
    )
    assert names(drain.evict) == ["plain"]
    assert names(drain.waiting) == ["plain", "late", "leaving", "protected"]
    assert not drain.done
    assert plan_drain(on_node(pod("static", on="n", metadata=STATIC)), NOON).done


def test_tiers_go_one_after_the_other():
    pods = {
        Tier.PODS: pod("web", on="n"),
        Tier.DAEMONS: pod("agent", on="n", metadata=DAEMON),
        Tier.CRITICAL_PODS: pod("dns", on="n", spec=CRITICAL),
        Tier.CRITICAL_DAEMONS: pod("proxy", on="n", spec=CRITICAL, metadata=DAEMON),
    }
    assert {tier: tier_of(each) for tier, each in pods.items()} == {tier: tier for tier in pods}
    left = list(pods.values())
    while left:
        drain = plan_drain(on_node(*reversed(left)), NOON)
        assert drain.evict == (left[0],)
        going = leaving(left[0].name, NOON + timedelta(seconds=30))
        assert tier_of(left[0]) != Tier.PODS or plan_drain(on_node(going, *left[1:]), NOON).evict == ()
        left = left[1:]


def test_the_largest_pods_of_a_tier_are_asked_first():
    """A small one leaves the large gap to the pod that needs it."""
    pods = [
        pod("small", on="n", cpu="500m"),
        pod("large", on="n", cpu="700m"),
        pod("roomy", on="n", cpu="500m", memory="2Gi"),
    ]
    assert names(plan_drain(on_node(*pods), NOON).evict) == ["large", "roomy", "small"]


def test_a_protected_pod_holds_back_the_tiers_behind_it():
    drain = plan_drain(on_node(pod("job", on="n", metadata=PROTECTED), pod("agent", on="n", metadata=DAEMON)), NOON)
    assert drain.evict == ()
    assert drain.tier == Tier.PODS


def test_protection_with_a_time_ends_by_itself_at_that_very_instant():
    job = pod("job", on="n", metadata=FOUR_HOURS)
    end = NOON + timedelta(hours=4)
    before = plan_drain(on_node(job), end - timedelta(microseconds=1))
    assert (before.evict, before.changes_at) == ((), end)
    assert plan_drain(on_node(job), end).evict == (job,)


@pytest.mark.parametrize(
    ("grace", "minutes", "forced"), [(300, 54.99, False), (300, 55, True), (7200, 0, True), (0, 59.99, False)]
)
def test_a_pod_is_deleted_when_its_own_grace_still_fits_before_the_deadline(grace, minutes, forced):
    """An hour from noon: 300 s of grace begin at 12:55, two hours of it begin at once."""
    web = pod("web", on="n", spec={"terminationGracePeriodSeconds": grace}, metadata=PROTECTED)
    now, deadline = NOON + timedelta(minutes=minutes), NOON + timedelta(hours=1)
    drain = plan_drain(on_node(web), now, deadline)
    assert (drain.force == (web,)) is forced
    assert drain.evict == ()


def test_forced_pods_of_all_tiers_go_at_once_and_the_first_tier_left_is_asked():
    slow = pod("slow", on="n", spec={"terminationGracePeriodSeconds": 7200, **CRITICAL})
    web, agent = pod("web", on="n"), pod("agent", on="n", metadata=DAEMON)
    drain = plan_drain(on_node(agent, slow, web), NOON, NOON + timedelta(hours=1))
    assert (drain.force, drain.evict) == ((slow,), (web,))


def test_pods_that_are_forced_hold_back_the_tiers_behind_them():
    """Told to stop is not gone: until the last ordinary pod has stopped, DaemonSets and critical pods stay."""
    slow = pod("slow", on="n", spec={"terminationGracePeriodSeconds": 7200})
    agent, dns = pod("agent", on="n", metadata=DAEMON), pod("dns", on="n", spec=CRITICAL)
    drain = plan_drain(on_node(agent, slow, dns), NOON, NOON + timedelta(hours=1))
    assert (drain.force, drain.evict, drain.tier) == ((slow,), (), Tier.PODS)


def test_a_pod_keeps_all_the_seconds_there_are_and_never_none():
    assert grace_left(NOON + timedelta(seconds=300), NOON) == 300
    assert grace_left(NOON + timedelta(seconds=300), NOON + timedelta(milliseconds=1)) == 300
    assert grace_left(NOON, NOON) == 1
    assert grace_left(NOON, NOON + timedelta(hours=1)) == 1


def test_a_pod_that_would_end_too_late_is_deleted_again_but_only_if_that_helps():
    deadline = NOON + timedelta(minutes=60)
    late = leaving("late", NOON + timedelta(minutes=70), grace=7200)
    assert must_be_forced(late, NOON, deadline)
    assert not must_be_forced(leaving("fine", deadline, grace=7200), NOON, deadline)
    assert not must_be_forced(leaving("told", NOON + timedelta(seconds=1), grace=1), NOON, NOON)


def test_the_plan_says_when_it_changes_by_itself():
    deadline = NOON + timedelta(hours=6)
    job, web = pod("job", on="n", metadata=FOUR_HOURS), pod("web", on="n")
    assert plan_drain(on_node(job, web), NOON, deadline).changes_at == NOON + timedelta(hours=4)
    assert plan_drain(on_node(web), NOON, deadline).changes_at == deadline - timedelta(seconds=30)
    assert plan_drain(on_node(web), NOON).changes_at is None
    gone = leaving("gone", NOON)
    at = plan_drain(on_node(gone), NOON).changes_at
    assert plan_drain(on_node(gone), at).done


def test_a_draining_node_carries_both_taints_and_leaves_load_balancers():
    patch = drain_patch(node(taints=[{"key": "karpenter.sh/disrupted", "effect": "NoExecute"}, {"key": "own"}]))
    assert patch["spec"]["taints"] == [
        {"key": "own"},
        {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
        {"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"},
    ]
    assert patch["metadata"]["labels"] == {"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"}
    done = node(taints=patch["spec"]["taints"], labels=patch["metadata"]["labels"])
    assert drain_patch(done) == {}


def test_the_grace_period_is_written_once_from_the_deletion_on():
    bounded = {"terminationGracePeriod": "1h"}
    deleted = {"deletionTimestamp": stamped(NOON), "finalizers": ["karpenter.sh/termination"]}
    key = "karpenter.sh/nodeclaim-termination-timestamp"
    wanted = {"metadata": {"annotations": {key: "2026-01-05T13:00:00Z"}}}
    assert grace_period_patch(claim(spec=bounded)) == {}
    assert grace_period_patch(claim(metadata=deleted)) == {}
    assert grace_period_patch(claim(spec=bounded, metadata=deleted)) == wanted
    hasty = {**deleted, "annotations": {key: "2026-01-05T12:00:00Z"}}
    assert grace_period_patch(claim(spec=bounded, metadata=hasty)) == {}
    assert grace_period_patch(claim(spec=bounded, metadata={**deleted, **wanted["metadata"]})) == {}


@pytest.mark.parametrize(("written", "due"), [("720h", timedelta(hours=720)), ("Never", None), (None, None)])
def test_a_claim_expires_its_lifetime_after_its_creation(written, due):
    spec = {"expireAfter": written} if written else {}
    assert expires_at(claim(spec=spec), nodepool()) == expires_at(claim(spec=spec)) == (NOON + due if due else None)


def test_a_claim_of_a_static_pool_does_not_expire_because_nothing_would_replace_it():
    assert expires_at(claim(spec={"expireAfter": "1h"}), nodepool(replicas=1)) is None


def attachment(name, volume="pv", on="n"):
    source = {"persistentVolumeName": volume} if volume else {}
    spec = {"attacher": "csi", "nodeName": on, "source": source}
    return build(VOLUME_ATTACHMENT, {"metadata": {"name": name}, "spec": spec})


def bound(name, volume):
    plain = {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": volume}}
    return {Key("default", name): build(PERSISTENT_VOLUME_CLAIM, plain)}


def test_volumes_are_waited_for_unless_the_drain_leaves_their_pod_alone():
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "kept"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ]
    tolerations = [{"operator": "Exists"}]
    staying = pod("agent", on="n", spec={"volumes": volumes, "tolerations": tolerations})
    claims = {**bound("kept", "pv-kept"), **bound("agent-scratch", "pv-scratch"), **bound("web", "pv-web")}
    attachments = [
        attachment("a", "pv-kept"),
        attachment("b", "pv-scratch"),
        attachment("c", "pv-web"),
        attachment("d", ""),
        attachment("e", "pv-web", on="other"),
    ]
    assert find_attached(on_node(staying), attachments, claims, NOON) == ("c",)
    assert find_attached(on_node(), attachments, claims, NOON) == ("a", "b", "c")


def test_at_most_five_volumes_are_named():
    words = attached_volumes_message(tuple("abcdefg"))
    assert words == "Awaiting deletion of bound volumeattachments (a, b, c, d, e and 2 more)"


def test_the_event_has_the_number_of_waiting_pods_and_the_longest_protection():
    plain, job, forever = (
        pod("plain", on="n"),
        pod("job", on="n", metadata=FOUR_HOURS),
        pod("forever", on="n", metadata=PROTECTED),
    )

    def words(*pods):
        return drain_message(plan_drain(on_node(*pods), NOON), NOON).removeprefix("Failed to drain node, ")

    assert words(plain) == "1 pod is waiting to be evicted"
    held = "protected by karpenter.sh/do-not-disrupt"
    assert words(plain, job) == (
        f"2 pods are waiting to be evicted, 1 {held} (Pod=default/job, until 2026-01-05T16:00:00Z)"
    )
    assert words(job, forever) == (
        f"2 pods are waiting to be evicted, 2 {held} (Pod=default/forever, permanent: needs a manual change)"
    )

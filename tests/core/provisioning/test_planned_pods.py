"""Pods keep their place on the closed node that was launched for them."""

from datetime import timedelta

from msgspec.structs import replace

from builders import claim, node, nodepool, pod, snapshot
from dovetail.core.provisioning.eligible_pods import needs_node
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.provisioning.planned_pods import BINDING_TIME
from dovetail.model.labels import PLANNED_PODS
from dovetail.model.snapshot import ClusterNode

CLOSED = {"key": "dovetail.sh/closed", "effect": "NoSchedule"}
REGISTERED = {"karpenter.sh/registered": "true", "karpenter.sh/nodepool": "default"}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}


def launched_for(*names, on=None, metadata=None, **fields):
    annotations = {PLANNED_PODS: ",".join(f"uid-{name}" for name in names)}
    return ClusterNode(
        on, claim(metadata={"annotations": annotations, **(metadata or {})}, status={"providerID": "x"}, **fields)
    )


def starting(*names, **metadata):
    return launched_for(
        *names, on=node(taints=[CLOSED], labels=REGISTERED, spec={"providerID": "x"}), metadata=metadata
    )


def opened(*names, age=BINDING_TIME):
    labels = {**REGISTERED, "karpenter.sh/initialized": "true"}
    ready = {"conditions": {"Initialized": "True"}, "age": age}
    return launched_for(*names, on=node(labels=labels, spec={"providerID": "x"}), **ready)


def plan(pods, *nodes):
    return plan_provisioning(snapshot(pods, nodes=nodes, pools=[nodepool()]))


def nominated_to(node_name, **fields):
    waiting = pod(**fields)
    return replace(waiting, status=replace(waiting.status, nominated_node_name=node_name))


def test_a_planned_pod_keeps_its_place_although_another_is_placed_first():
    small, large = pod("small", cpu="1"), pod("large", cpu="4")
    found = plan([small, large], starting("small"))
    assert found.node_by_pod == ((small.key, "node-1"),)
    assert [each.pods for each in found.launches] == [(large,)]


def test_without_other_pods_nothing_is_planned():
    found = plan([pod("small")], starting("small"))
    assert (len(found.node_by_pod), found.launches, found.refusals) == (1, (), ())


def test_a_claim_without_node_keeps_its_pods_too():
    requests = {"requests": {"cpu": "1", "memory": "1Gi", "pods": "1"}}
    without_node = ClusterNode(
        None, claim(metadata={"annotations": {PLANNED_PODS: "uid-small"}}, spec={"resources": requests})
    )
    small = pod("small")
    assert plan([small, pod("other")], without_node).node_by_pod == ((small.key, "default-1"),)


def test_other_pods_take_what_the_planned_ones_leave():
    found = plan([pod("small"), pod("other")], starting("small"))
    assert len(found.node_by_pod) == 2
    assert found.launches == ()


def test_rules_between_pods_count_the_planned_ones():
    apart = {"metadata": {"labels": {"app": "web"}}, "spec": APART}
    planned = pod("a", **{**apart, "metadata": {**apart["metadata"], "uid": "uid-a"}})
    found = plan([planned, pod("b", **{**apart, "metadata": {**apart["metadata"], "uid": "uid-b"}})], starting("a"))
    assert len(found.launches) == 1


def test_pods_that_are_not_bound_soon_after_the_opening_are_planned_like_others():
    large = pod("large", cpu="8")
    assert plan([large], opened("large", age=BINDING_TIME - timedelta(seconds=1))).launches == ()
    assert len(plan([large], opened("large")).launches) == 1
    assert len(plan([nominated_to("node-1", name="large", cpu="8")], opened("large")).launches) == 1


def test_the_pods_of_a_leaving_node_are_planned_again():
    leaving = starting("small", deletionTimestamp="2026-01-05T11:00:00Z")
    assert len(plan([pod("small")], leaving).launches) == 1


def test_a_nominated_pod_needs_no_node_while_its_node_stays():
    there = snapshot(nodes=[ClusterNode(node(), None)])
    leaving = snapshot(nodes=[ClusterNode(node(metadata={"deletionTimestamp": "2026-01-05T11:00:00Z"}), None)])
    assert needs_node(pod(), there)
    assert not needs_node(nominated_to("node-1"), there)
    assert needs_node(nominated_to("node-1"), leaving)
    assert needs_node(nominated_to("gone"), there)
    assert not needs_node(nominated_to("gone", on="node-1"), there)


def test_a_nomination_to_the_node_that_was_launched_for_the_pod_counts_for_nothing():
    waiting = nominated_to("node-1", name="small")
    assert needs_node(waiting, snapshot(nodes=[opened("small")]))
    assert not needs_node(waiting, snapshot(nodes=[opened("other")]))

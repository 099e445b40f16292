"""Why a pod is pending: the filter of kube-scheduler that each node fails, then every NodePool."""

import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, owned, pdb, running, worker
from builders import NOON, pod
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.explain.pod import explain_pod, find_pod
from dovetail.core.verdict_wording import mismatch_words, pod_line
from dovetail.model.kube_object import Key

ZONE = "topology.kubernetes.io/zone"
TAINTED = {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}


def verdict(found, name="x"):
    return explain_pod(*find_pod(found, Key("default", name)), PassContext(found)).verdict


def tainted(name):
    return worker(name, spec={"providerID": name, **TAINTED})


def cordoned(name):
    return worker(name, spec={"providerID": name, "unschedulable": True})


def counts(found):
    return {each.reason: each.nodes for each in verdict(found).refusal.scheduling.constraints}


def test_each_node_counts_with_the_first_filter_it_fails_in_the_order_of_kube_scheduler():
    """Node c fails the taint, the selector and cpu: the taint comes first. Node b fails the selector before cpu."""
    wants = pod("x", cpu="60", spec={"nodeSelector": {ZONE: "zone-b"}})
    found = cluster(worker("a", zone="zone-b"), worker("b"), tainted("c"), pods=[wants])
    assert counts(found) == {
        "Insufficient cpu": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
        "node(s) had untolerated taint {dedicated=gpu:NoSchedule}": 1,
    }


def test_the_line_is_the_message_of_kube_scheduler_then_what_excludes_new_nodes():
    found = cluster(*(worker(name) for name in "abc"), tainted("d"), pods=[pod("x", cpu="64")])
    assert pod_line(verdict(found), NOON) == (
        "Pending: 0/4 nodes are available: 1 node(s) had untolerated taint {dedicated=gpu:NoSchedule}, "
        "3 Insufficient cpu; no new node can take it: no instance type has enough resources; "
        "closest: m.huge is short of 48000m cpu"
    )


def test_a_node_selector_that_no_node_matches_is_named_with_the_values_that_nodes_have():
    wants = pod("x", spec={"nodeSelector": {ZONE: "zone-q", "kubernetes.io/os": "linux"}})
    found = verdict(cluster(worker("a"), worker("b", zone="zone-b"), pods=[wants]))
    (mismatch,) = found.labels
    assert mismatch_words(mismatch) == f"{ZONE} In [zone-q]: 2 nodes have zone-a, zone-b"
    (pool,) = found.refusal.scheduling.nodepools
    assert pool.nodepool == "default"
    assert "zone-q" in pool.reason


def test_a_label_that_no_node_has_is_said_to_be_missing():
    found = verdict(cluster(worker("a"), pods=[pod("x", spec={"nodeSelector": {"team": "ml"}})]))
    assert [mismatch_words(each) for each in found.labels] == ["team In [ml]: 1 node has no such label"]


def test_a_short_resource_is_named_with_the_most_that_a_node_has_free():
    found = verdict(cluster(worker("a", running("y", "a")), worker("b"), pods=[pod("x", cpu="64")]))
    (short,) = found.resources
    assert (short.resource, short.requested, short.most_free) == ("cpu", "64", "4")


def test_every_nodepool_says_why_it_launches_nothing():
    wants = pod("x", spec={"nodeSelector": {"karpenter.sh/capacity-type": "spot"}})
    pools = [free(template=ON_DEMAND), free("tainted", template=TAINTED)]
    found = verdict(cluster(cordoned("a"), pools=pools, pods=[wants]))
    reasons = {each.nodepool: each.reason for each in found.refusal.scheduling.nodepools}
    assert {*reasons} == {"default", "tainted"}
    assert "karpenter.sh/capacity-type" in reasons["default"]
    assert "dedicated=gpu:NoSchedule" in reasons["tainted"]
    assert counts(cluster(cordoned("a"), pools=pools, pods=[wants])) == {"node(s) were unschedulable": 1}


@pytest.mark.parametrize(
    ("pending", "line"),
    [
        (pod("x"), "Pending: fits node a"),
        (pod("x", cpu="8"), "Pending: a node of NodePool default would be launched for it"),
        (pod("x", status={"phase": "Succeeded"}), "Not pending: it has ended (Succeeded)"),
    ],
)
def test_a_pod_that_needs_nothing_more_says_so(pending, line):
    assert pod_line(verdict(cluster(worker("a"), pods=[pending])), NOON) == line


def test_a_running_pod_says_what_prevents_its_eviction():
    found = cluster(worker("a", running("x", "a")), pdbs=[pdb()])
    assert pod_line(verdict(found), NOON) == "Runs on node a: PDB default/web allows no eviction (pod default/x)"
    free_to_go = cluster(worker("a", owned("x", "a", "ReplicaSet")))
    assert pod_line(verdict(free_to_go), NOON) == "Runs on node a: it can be evicted now"

"""Consolidation by deletion: all pods fit on other nodes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, owned, planned, running, said, taken, worker
from builders import LARGE, NOON, node, pod, stamped
from dovetail.core import wording
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import DecisionOptions

FIXED = [free(template=ON_DEMAND)]
ONLY = (LARGE,)
MINUTE = timedelta(minutes=1)
ANTI = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}


def fixed(*nodes, **fields):
    return cluster(*nodes, **{"pools": FIXED, "types": ONLY, **fields})


def test_a_node_whose_pods_fit_elsewhere_goes():
    found = fixed(worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2")))
    assert planned(found) == [("single-node", ["a"])]
    assert plan_disruption(found).commands[0].replacements == ()


def test_a_second_pool_that_is_not_ready_does_not_matter():
    pair = worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2"))
    assert taken(fixed(*pair, pools=[*FIXED, free("other", ready=False)])) == ["a"]


def test_unmanaged_room_is_a_destination():
    foreign = ClusterNode(node("foreign"), None)
    assert taken(fixed(worker("a", running("x", "a", cpu="3")), foreign)) == ["a"]


def test_pods_without_owner_are_moved_like_others():
    orphan = running("x", "a")
    assert orphan.metadata.owner_references == ()
    assert taken(fixed(worker("a", orphan), worker("b", owned("y", "b", "ReplicaSet", cpu="2")))) == ["a"]


def test_an_uninitialised_node_is_no_destination():
    coming = worker("b", without=("karpenter.sh/initialized",))
    assert taken(fixed(worker("a", running("x", "a", cpu="3")), coming)) == []


@pytest.mark.parametrize(("minutes", "names"), [(29, []), (30, ["a"])])
def test_a_node_inside_its_own_consolidate_after_window_is_no_destination(minutes, names):
    """In another pool, so that the source itself is not held back."""
    slow = free("slow", consolidateAfter="30m", template=ON_DEMAND)
    recent = {"lastPodEventTime": stamped(NOON - minutes * MINUTE)}
    busy = worker("b", running("y", "b", cpu="2"), pool="slow", status=recent)
    held = worker("a", running("x", "a", cpu="2"))
    assert taken(fixed(held, busy, pools=[*FIXED, slow])) == names


def test_a_node_of_a_pool_that_never_consolidates_is_a_destination():
    never = free("never", consolidateAfter="Never", template=ON_DEMAND)
    nodeclass_reconciler = worker("b", running("y", "b"), pool="never")
    assert taken(fixed(worker("a", running("x", "a", cpu="3")), nodeclass_reconciler, pools=[*FIXED, never])) == ["a"]


def test_drift_may_use_a_destination_that_consolidation_leaves_alone():
    slow = free(consolidateAfter="30m", template=ON_DEMAND)
    recent = {"lastPodEventTime": stamped(NOON)}
    plan = plan_disruption(fixed(drifted("a", running("x", "a")), worker("b", status=recent), pools=[slow]))
    assert [len(command.replacements) for command in plan.commands] == [0]


def test_an_unschedulable_pod_blocks_nothing():
    hopeless = pod("hopeless", cpu="500")
    pair = worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2"))
    assert taken(fixed(*pair, pods=[hopeless])) == ["a"]


def test_nothing_goes_if_a_running_pod_would_be_left_without_a_place():
    nodes = worker("a", running("x", "a", cpu="3")), worker("b", running("y", "b", cpu="3"))
    assert taken(fixed(*nodes)) == []


def test_a_pod_with_no_other_place_is_named():
    pinned = running("x", "a", spec={"nodeSelector": {"disk": "rare"}})
    found = fixed(worker("a", pinned, labels={"disk": "rare"}), worker("b"))
    refusal = said(found, "single-node", "a")
    assert refusal.code == "Unschedulable"
    assert "default/x" in wording.message(refusal)


def test_a_pool_whose_types_cannot_be_had_blocks_nothing():
    pair = worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2"))
    found = fixed(*pair, pools=[*FIXED, free("broken")])
    assert taken(replace(found, catalogs={"default": ONLY})) == ["a"]


def test_required_anti_affinity_keeps_pods_apart():
    nodes = [worker(name, running(f"p{name}", name, spec=ANTI, metadata={"labels": {"app": "web"}})) for name in "ab"]
    assert taken(fixed(*nodes)) == []


def test_a_node_on_which_displaced_pods_will_run_is_not_consolidated_away():
    """Launched for the pods of a node that is going, and empty until they come."""
    going = worker(
        "a", running("x", "a", cpu="3"), claim={"metadata": {"name": "a", "deletionTimestamp": stamped(NOON)}}
    )
    found = fixed(going, worker("b"))
    assert taken(found) == []
    assert said(found, "emptiness", "b").code == "Expecting"


def test_displaced_pods_take_their_room_first():
    going = worker(
        "z", running("x", "z", cpu="3"), claim={"metadata": {"name": "z", "deletionTimestamp": stamped(NOON)}}
    )
    nodes = worker("a", running("y", "a", cpu="2")), worker("b", running("w", "b"))
    assert taken(fixed(*nodes)) == ["a"]
    assert taken(fixed(*nodes, going)) == []


def test_static_pools_are_never_consolidated():
    pair = worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2"))
    assert taken(fixed(*pair, pools=[free(replicas=2, template=ON_DEMAND)])) == []


@pytest.mark.parametrize("policy", ["WhenEmpty"])
def test_when_empty_leaves_nodes_with_pods_alone_and_says_so(policy):
    pair = worker("a", running("x", "a")), worker("b", running("y", "b"))
    found = fixed(*pair, pools=[free(consolidationPolicy=policy)])
    assert taken(found) == []
    for method in ("multi-node", "single-node"):
        assert wording.message(said(found, method, "a")) == (
            'NodePool "default" has consolidation policy WhenEmpty, but node is not empty'
        )


def test_never_is_said_by_all_three_methods():
    found = fixed(worker("a", running("x", "a")), pools=[free(consolidateAfter="Never")])
    for method in ("emptiness", "multi-node", "single-node"):
        assert wording.message(said(found, method, "a")) == 'NodePool "default" has consolidation disabled'


@pytest.mark.parametrize(
    ("label", "code"),
    [
        ("node.kubernetes.io/instance-type", "InstanceTypeUnknown"),
        ("karpenter.sh/capacity-type", "LabelMissing"),
        ("topology.kubernetes.io/zone", "LabelMissing"),
    ],
)
def test_a_missing_type_zone_or_capacity_type_is_said_by_multi_and_single(label, code):
    found = fixed(worker("a", running("x", "a"), without=(label,)))
    for method in ("multi-node", "single-node"):
        assert said(found, method, "a", DecisionOptions(drift=False)).code == code


def test_an_empty_node_is_not_called_unconsolidatable():
    found = fixed(worker("a"))
    assert said(found, "single-node", "a").code == "Empty"

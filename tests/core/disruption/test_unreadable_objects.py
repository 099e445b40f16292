"""One object that cannot be read, or at which an error is met, concerns itself and no other."""

from dataclasses import replace

import msgspec
import pytest

from builders import LARGE, NOON, claim, node, nodepool, pod
from dovetail.core import wording
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.failure import find_culprits
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.manifest.codec import from_plain, to_plain
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET
from dovetail.model.labels import CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED, ZONE
from dovetail.model.snapshot_builder import ClusterObjects, build_snapshot
from dovetail.model.unreadable_objects import completed, unread

FREELY = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
READY = {"Launched": "True", "Registered": "True", "Initialized": "True"}


def a_node(name, **fields):
    labels = {
        NODEPOOL: "default",
        INSTANCE_TYPE: LARGE.name,
        CAPACITY_TYPE: "on-demand",
        ZONE: "zone-a",
        REGISTERED: "true",
        INITIALIZED: "true",
    }
    return node(name, labels=labels, spec={"providerID": f"kwok://{name}"}, **fields)


def a_claim(name):
    status = {"providerID": f"kwok://{name}", "nodeName": name, "capacity": {"cpu": "4"}}
    return claim(f"claim-{name}", conditions=READY, status=status)


def cluster(*bad, pods=(), limits=None, names="ab"):
    """Empty nodes of one pool; of each bad (kind, plain object) no more is known than can be read."""
    items = {
        POD: list(pods),
        NODE: [a_node(name) for name in names],
        NODE_CLAIM: [a_claim(name) for name in names],
        NODE_POOL: [nodepool(disruption=FREELY, **({"limits": limits} if limits else {}))],
    }
    unreadable = {}
    for kind, plain in bad:
        value = from_plain(kind, plain)
        unreadable.setdefault(kind, []).append(value)
        items[kind] = [each for each in items.get(kind, ()) if each.key != value.key]
    kinds = {*items, *unreadable}
    inventory = ClusterObjects({kind: completed(kind, items.get(kind, ()), unreadable.get(kind, ())) for kind in kinds})
    built = build_snapshot(inventory, NOON, {"default": (LARGE,)})
    return replace(built, unreadable=tuple(unread(kind, bad) for kind, odd in unreadable.items() for bad in odd))


def changed(kind, value, **parts):
    plain = to_plain(kind, value)
    for part, fields in parts.items():
        plain[part] = {**plain.get(part, {}), **fields}
    return kind, plain


def bad_pod(name="odd", **spec):
    metadata = {"name": name, "namespace": "default"}
    containers = [{"name": "main", "resources": {"requests": {"cpu": "about-two"}}}]
    return POD, {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": {"phase": "Running"}}


BAD_CLAIM = changed(NODE_CLAIM, a_claim("a"), spec={"requirements": [{"key": "x", "operator": "Near"}]})
BAD_NODE = changed(NODE, a_node("a"), status={"capacity": {"cpu": "four"}})


def going(found):
    return {each.name for command in plan_disruption(found).commands for each in command.candidates}


@pytest.mark.parametrize(
    ("bad", "left"),
    [
        (bad_pod(nodeName="a"), {"b"}),
        (bad_pod(nodeName=7), set()),
        (bad_pod(), {"a", "b"}),
        (BAD_CLAIM, {"b"}),
        (BAD_NODE, {"b"}),
        ((POD_DISRUPTION_BUDGET, {"metadata": {"name": "odd", "namespace": "x"}, "spec": 5}), {"a", "b"}),
    ],
    ids=["pod on a", "pod somewhere", "pod nowhere", "claim of a", "node a", "budget elsewhere"],
)
def test_what_cannot_be_read_is_left_alone_with_its_node_and_nothing_else(bad, left):
    found = cluster(bad)
    assert going(found) == left
    plan = plan_disruption(found, thorough=True)
    told = {str(each.object) for each in plan.refusals_by_method["emptiness"] if each.code == "Unreadable"}
    assert told == {f"node/{name}" for name in {"a", "b"} - left}


def test_a_pool_that_cannot_be_read_holds_its_nodes_and_says_so():
    found = cluster(changed(NODE_POOL, nodepool(), spec={"disruption": {"budgets": 5}}))
    (first, *_) = plan_disruption(found).refusals_by_method["emptiness"]
    assert (first.code, first.permanent) == ("Unreadable", True)
    assert "NodePool default cannot be read" in wording.message(first)


@pytest.mark.parametrize("bad", [BAD_CLAIM, BAD_NODE], ids=["claim", "node"])
def test_a_node_of_which_not_all_can_be_read_still_counts_against_limits(bad):
    whole, partly = cluster(limits={"cpu": "9"}), cluster(bad, limits={"cpu": "9"})
    assert partly.usage("default")["nodes"] == whole.usage("default")["nodes"]
    full = replace(cluster(bad, limits={"nodes": "2"}), unbound_pods=(pod("new", cpu="3"), pod("newer", cpu="3")))
    assert not plan_provisioning(full).launches


@pytest.mark.parametrize("bad", [bad_pod(nodeName="a"), BAD_CLAIM, BAD_NODE], ids=["pod", "claim", "node"])
def test_no_pod_is_sent_to_a_node_whose_room_is_not_known(bad):
    found = replace(cluster(bad, names="a"), unbound_pods=(pod("new"),))
    plan = plan_provisioning(found)
    assert not plan.node_by_pod
    assert len(plan.launches) == 1


def test_a_claim_that_cannot_be_read_before_it_is_launched_is_no_room_and_counts_as_one_node():
    waiting = NODE_CLAIM, to_plain(NODE_CLAIM, claim("new", spec={"requirements": []}))
    waiting[1]["spec"]["requirements"] = [{"key": "x", "operator": "Gt", "values": ["many"]}]
    found = replace(cluster(waiting, names=""), unbound_pods=(pod("late"),))
    assert [each.name for each in found.nodes] == ["new"]
    assert found.usage("default")["nodes"].units == 1
    assert not plan_provisioning(found).node_by_pod


class Explosive(dict):
    """Unexpected content."""

    def get(self, *_):
        raise RuntimeError("boom")

    def items(self):
        raise RuntimeError("boom")


def test_an_error_at_one_node_is_a_refusal_of_that_node():
    found = cluster()
    (first, second) = found.nodes
    metadata = msgspec.structs.replace(first.node.metadata, annotations=Explosive())
    broken = replace(first, node=msgspec.structs.replace(first.node, metadata=metadata))
    found = replace(found, nodes=(broken, second))
    plan = plan_disruption(found)
    assert {each.name for command in plan.commands for each in command.candidates} == {"b"}
    (refusal,) = [each for each in plan.refusals_by_method["emptiness"] if str(each.object) == "node/a"]
    assert refusal.code == "InternalError"
    assert "RuntimeError at test_unreadable_objects.py" in wording.message(refusal)


def test_an_error_at_one_pod_is_a_refusal_of_that_pod():
    pods = [pod(f"pod-{number}") for number in range(9)]
    broken = msgspec.structs.replace(pods[4], spec=msgspec.structs.replace(pods[4].spec, overhead=Explosive(x=1)))
    pods[4] = broken
    plan = plan_provisioning(replace(cluster(names=""), unbound_pods=tuple(pods)))
    assert sum(len(launch.pods) for launch in plan.launches) == 8
    (refusal,) = plan.refusals
    assert (refusal.code, str(refusal.object)) == ("InternalError", "pod/default/pod-4")


def test_an_assertion_is_never_taken_for_the_fault_of_an_object():
    def work(some):
        assert not some

    with pytest.raises(AssertionError):
        find_culprits([1, 2], work)


def test_culprits_are_found_by_halving():
    calls = []

    def work(some):
        calls.append(some)
        if {5, 77} & {*some}:
            raise ValueError

    assert [item for item, _ in find_culprits(range(100), work)] == [5, 77]
    assert len(calls) < 40

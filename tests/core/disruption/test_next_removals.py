"""Nodes that consolidation will delete next, which get a taint so that evicted pods go elsewhere."""

from datetime import timedelta

import msgspec
import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, running, taken, worker
from builders import LARGE, NOON, SMALL, stamped
from dovetail.core.disruption.next_removals import next_removals
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.lifecycle.drain import removed_next_patch
from dovetail.model.taints import PREFER_NO_SCHEDULE, REMOVED_NEXT_TAINT, Taint

TYPES = (SMALL, LARGE)
HINT = {"key": REMOVED_NEXT_TAINT.key, "effect": PREFER_NO_SCHEDULE}


def settled(name, on, cpu="500m", age=timedelta(minutes=10)):
    return running(name, on, cpu, metadata={"creationTimestamp": stamped(NOON - age)})


def nodes(found):
    return sorted(next_removals(PassContext(found)))


def halved(on_c="3", age=timedelta(minutes=10), spec=None, **disruption):
    """Three nodes of $1 with 4 CPUs: `a` and `b` have a pod each that fits beside that of `c`."""
    small = [worker(name, settled(f"p{name}", name, age=age), spec=spec or {}) for name in "ab"]
    pools = [free(template=ON_DEMAND, **disruption)]
    return cluster(*small, worker("c", settled("pc", "c", on_c)), pools=pools, types=TYPES)


def test_nodes_that_can_be_deleted_together_are_removed_next():
    assert nodes(halved("2500m", minSavings="100%")) == ["a", "b"]


def test_only_as_many_as_have_room_for_their_pods_together():
    assert nodes(halved("3300m", minSavings="100%")) == ["a"]


@pytest.mark.parametrize("restraint", [{"minSavings": "0%"}, {"minSavings": None, "consolidationPolicy": "Balanced"}])
def test_without_min_savings_no_node_is_marked(restraint):
    assert nodes(halved("2500m", **restraint)) == []


def test_nodes_whose_deletion_saves_too_little_are_not_marked():
    assert nodes(halved("2500m", minSavings="9999%")) == []


def test_budgets_and_the_cool_down_do_not_matter():
    young = timedelta(seconds=5)
    found = halved("2500m", age=young, minSavings="100%", budgets=[{"nodes": "0"}])
    assert taken(found) == []
    assert nodes(found) == ["a", "b"]


@pytest.mark.parametrize(
    "disruption", [{"consolidationPolicy": "WhenEmpty"}, {"consolidateAfter": "Never"}, {"consolidateAfter": "48h"}]
)
def test_nodes_that_are_not_consolidated_are_not_marked(disruption):
    assert nodes(halved("2500m", minSavings="100%", **disruption)) == []


def test_the_mark_itself_changes_no_decision():
    plain = halved("2500m", minSavings="100%")
    marked = halved("2500m", minSavings="100%", spec={"taints": [HINT]})
    assert marked != plain
    assert taken(marked) == taken(plain) == ["a", "b"]
    assert nodes(marked) == nodes(plain)
    assert [node.all_taints for node in marked.nodes] == [(), (), ()]


def test_the_patch_adds_and_removes_the_taint_and_keeps_others():
    node = halved().nodes[0].node
    kept = Taint("dedicated", "x", "NoSchedule")
    spec = msgspec.structs.replace(node.spec, taints=(kept, REMOVED_NEXT_TAINT))
    tainted = msgspec.structs.replace(node, spec=spec)
    assert removed_next_patch(node, wanted=False) == {}
    assert removed_next_patch(node, wanted=True) == {"spec": {"taints": [HINT]}}
    assert removed_next_patch(tainted, wanted=True) == {}
    assert removed_next_patch(tainted, wanted=False) == {
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
    }

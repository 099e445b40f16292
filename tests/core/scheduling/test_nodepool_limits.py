"""Limits of NodePools in plans: what is replaced does not count, and a limit that blocks is named."""

import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, planned, running, worker
from builders import HUGE, LARGE, SMALL, nodepool, pod, snapshot
from dovetail.core import wording
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.provisioning.plan import plan_provisioning

TYPES = (SMALL, LARGE, HUGE)


def drifted(name, *pods, **fields):
    """A node that is no longer what its pool asks for: its zone is not."""
    return worker(name, *pods, zone="zone-b", **fields)


def only_zone_a(**fields):
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}
    return free(template={"requirements": [*ON_DEMAND["requirements"], zone]}, consolidateAfter="Never", **fields)


@pytest.mark.parametrize(
    ("limits", "acts"),
    [({"cpu": "8"}, True), ({"nodes": "2"}, True), ({"cpu": "7"}, False), ({"nodes": "1"}, False)],
    ids=str,
)
def test_drift_in_a_pool_at_its_limit(limits, acts):
    nodes = [drifted(name, running(f"p-{name}", name, cpu="3")) for name in "ab"]
    found = cluster(*nodes, pools=[only_zone_a(limits=limits)], types=(LARGE, HUGE))
    assert bool(planned(found)) is acts


def refusal(found, method, about="node/a"):
    plan = plan_disruption(found)
    return next(each for each in plan.refusals_by_method[method] if str(each.object) == about)


def test_a_limit_that_blocks_drift_is_named():
    nodes = [drifted(name, running(f"p-{name}", name, cpu="3")) for name in "ab"]
    said = refusal(cluster(*nodes, pools=[only_zone_a(limits={"cpu": "7"})], types=(LARGE, HUGE)), "drift")
    assert wording.message(said) == (
        "not all pods would schedule, default/p-a fits on no other node because limits block a new node "
        "(nodepool default: cpu limit 7, 4 used, at least 4 needed)"
    )


def test_a_pod_that_has_no_place_anyway_does_not_blame_limits():
    nodes = [drifted(name, running(f"p-{name}", name, cpu="3")) for name in "ab"]
    said = refusal(cluster(*nodes, pools=[only_zone_a(limits={"cpu": "7"})], types=(SMALL,)), "drift")
    assert "limit" not in wording.message(said)


def test_consolidation_replaces_in_a_pool_at_its_limit_and_names_it_beyond():
    nodes = [
        worker(name, running(f"p-{name}", name, cpu=cpu), type_="m.huge") for name, cpu in (("a", "3"), ("b", "16"))
    ]

    def pool(cpu):
        return free(template=ON_DEMAND, limits={"cpu": cpu})

    assert planned(cluster(*nodes, pools=[pool("20")], types=TYPES))
    beyond = cluster(*nodes, pools=[pool("19")], types=TYPES)
    assert not planned(beyond)
    assert "cpu limit 19, 16 used, at least 4 needed" in wording.message(refusal(beyond, "single-node"))


def test_a_smaller_node_may_replace_a_larger_one_in_a_pool_beyond_its_limit():
    """Without the node the pool is within its limit again, and leaves room for a smaller one."""
    one = worker("a", running("p", "a", cpu="3"), type_="m.huge")
    assert planned(cluster(one, pools=[free(template=ON_DEMAND, limits={"cpu": "4"})], types=TYPES))


def said_of(cpu, limits, *nodes):
    waiting = pod("new", cpu=cpu)
    (said,) = plan_provisioning(snapshot([waiting], nodes, [nodepool(limits=limits)], TYPES)).refusals
    return wording.message(said)


def test_the_refusal_of_a_pending_pod_names_the_limit():
    full = worker("a", running("p", "a", cpu="4"))
    assert "exceed limits for nodepool; nodepool default: cpu limit 5, 4 used, at least 2 needed" in said_of(
        "1", {"cpu": "5"}, full
    )
    assert "nodes limit 1, 1 used, at least 1 needed" in said_of("1", {"nodes": "1"}, full)


def test_the_refusal_says_if_a_limit_leaves_only_types_that_are_too_small():
    full = worker("a", running("p", "a", cpu="4"))
    said = said_of("3", {"cpu": "6"}, full)
    assert "no instance type has enough resources" in said
    assert "exceed limits (nodepool default: cpu limit 6, 4 used, at least 4 needed)" in said
    assert "limits" not in said_of("17", {"cpu": "6"}, full)


def test_each_new_node_of_a_pass_spends_limits_before_the_next():
    pods = [pod(f"p-{number}", cpu="3") for number in range(2)]
    pools = [nodepool(limits={"cpu": "6"}, template=ON_DEMAND)]
    plan = plan_provisioning(snapshot(pods, pools=pools, types=(LARGE,)))
    assert len(plan.launches) == 1
    assert len(plan.refusals) == 1

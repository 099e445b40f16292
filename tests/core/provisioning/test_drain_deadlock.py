"""Pods that wait for nodes which do not go are looked at as the scheduler sees the cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, UNSCHEDULABLE, build, claim, node, nodepool, pod, snapshot, stamped
from dovetail.core import wording
from dovetail.core.provisioning.drain_deadlock import PATIENCE
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.model.kinds import POD_DISRUPTION_BUDGET
from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.snapshot import ClusterNode

WEB = {"matchLabels": {"app": "web"}}
MOMENT = timedelta(seconds=1)
CLOSED = {"allowed": 0}
PROTECTED = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}


def spread(key=ZONE, skew=3, **fields):
    rule = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB, **fields}
    return {"topologySpreadConstraints": [rule]}


def web(name, spec=None, *, on="", waiting=PATIENCE, cpu="1", **metadata):
    """A pod of the web workload; without `on` it has waited that long."""
    status = {"phase": "Pending", "conditions": [{**UNSCHEDULABLE, "lastTransitionTime": stamped(NOON - waiting)}]}
    metadata = {"labels": {"app": "web"}, "creationTimestamp": stamped(NOON - timedelta(hours=1)), **metadata}
    return pod(name, on=on, cpu=cpu, spec=spec or {}, metadata=metadata, status=None if on else status)


def standing(name, *pods, **fields):
    """A node that stays."""
    return ClusterNode(node(name, **fields), None, pods)


def going(name, *pods, there=True, **fields):
    """A node whose claim is deleted; with `there`, it is still to be seen."""
    deleted = {"deletionTimestamp": stamped(NOON - timedelta(hours=1)), "name": f"claim-{name}"}
    labels = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", **fields.pop("labels", {})}
    bought = claim(metadata=deleted, status={"providerID": name}, conditions={"Registered": "True"})
    seen = node(name, spec={"providerID": name}, labels=labels, **fields) if there else None
    return ClusterNode(seen, bought, pods)


def guard(allowed=0, selects="web"):
    """The budget of a workload."""
    spec = {"selector": {"matchLabels": {"app": selects}}, "maxUnavailable": 1}
    metadata = {"name": selects, "namespace": "default"}
    plain = {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed}}
    return build(POD_DISRUPTION_BUDGET, plain)


def plan(waiting, *nodes, pool=None, guards=(CLOSED,)):
    cluster = snapshot(waiting, nodes=nodes, pools=[pool or nodepool()])
    return plan_provisioning(replace(cluster, pdbs=tuple(guard(**each) for each in guards)))


def zones(launch):
    return next(each.values for each in launch.claim.spec.requirements if each.key == ZONE)


def bought_for(found):
    return [sorted(each.name for each in launch.pods) for launch in found.launches]


def roomy(spec, pods=4):
    """A node with room for more."""
    return standing("y", *(web(f"y{n}", on="y", spec=spec) for n in range(pods)), cpu="8", labels={ZONE: "zone-a"})


def full(spec, pods=3):
    """A node of another zone that has no room left."""
    here = (web(f"f{n}", on="full", spec=spec) for n in range(pods))
    return standing("full", *here, cpu=str(pods), labels={ZONE: "zone-b"})


def uneven(spec=None):
    """One pod is left in the zone of a node that goes, and nothing can be bought there. While that zone counts, four
    pods in the zone of the node with room are enough; once it is gone, there may be two more.
    """
    spec = spec or spread()
    left = going("n", web("left", on="n", spec=spec), labels={ZONE: "zone-c"})
    return left, roomy(spec), full(spec)


@pytest.mark.parametrize(("waiting", "bought"), [(PATIENCE, [["new"]]), (PATIENCE - MOMENT, [])])
def test_a_node_is_launched_for_a_deadlocked_pod_after_two_minutes(waiting, bought):
    found = plan([web("new", spread(), waiting=waiting)], *uneven())
    assert bought_for(found) == bought
    assert [key.name for key, _ in found.node_by_pod] == (["left"] if bought else ["left", "new"])


def test_a_pod_without_a_condition_has_waited_since_its_creation():
    new = pod("new", spec=spread(), metadata={"labels": {"app": "web"}, "creationTimestamp": stamped(NOON - PATIENCE)})
    assert bought_for(plan([new], *uneven())) == [["new"]]


@pytest.mark.parametrize("guards", [[], [{"allowed": 1}], [{"selects": "other"}]])
def test_a_pod_whose_pdbs_do_not_block_the_drain_waits_for_it(guards):
    assert bought_for(plan([web("new", spread(), waiting=timedelta(hours=1))], *uneven(), guards=guards)) == []


def test_a_blocking_pdb_that_does_not_select_the_pod_is_ignored():
    other = pod("other", on="n", metadata={"labels": {"app": "other"}})
    going_on = going("n", web("left", on="n", spec=spread()), other, labels={ZONE: "zone-c"})
    nodes = going_on, *uneven()[1:]
    assert bought_for(plan([web("new", spread())], *nodes, guards=[{"selects": "other"}, {"allowed": 1}])) == []


def test_a_node_whose_pods_are_all_evicted_counts_as_gone():
    """Its pods are evicted and end slowly. That another node is kept by the budget is no reason to buy, either."""
    rule = spread(skew=4)
    other = going("m", web("kept", on="m"), labels={ZONE: "zone-d"})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web"}
    ending = {"deletionTimestamp": stamped(NOON + PATIENCE), "ownerReferences": [owner]}
    slow = going("n", web("left", on="n", **ending), labels={ZONE: "zone-c"})
    stays = roomy(rule), full(rule)
    assert bought_for(plan([web("new", rule)], other, slow, *stays)) == []
    evicted_never = going("n", pod("stuck", on="n"), labels={ZONE: "zone-c"})
    assert bought_for(plan([web("new", rule)], other, evicted_never, *stays)) == [["new"]]


def test_a_node_that_is_gone_blocks_no_pod():
    vanished = going("n", web("left", on="n", spec=spread()), there=False)
    assert bought_for(plan([web("new", spread())], vanished, *uneven()[1:])) == []


def test_no_second_node_is_launched_while_the_first_starts():
    first = plan([web("new", spread())], *uneven())
    has = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    status = {"providerID": "bought", "allocatable": has}
    starting = ClusterNode(None, claim("bought", labels={ZONE: "zone-b"}, status=status))
    again = plan([web("new", spread())], *uneven(), starting)
    assert bought_for(first) == [["new"]]
    assert bought_for(again) == []
    assert {key.name: where for key, where in again.node_by_pod}["new"] == "bought"


def test_nothing_is_launched_if_an_existing_node_accepts_the_pod():
    found = plan([web("new", spread(skew=4))], *uneven(spread(skew=4)))
    assert bought_for(found) == []
    assert {key.name: where for key, where in found.node_by_pod}["new"] == "y"


def test_a_spread_that_honors_taints_does_not_count_a_draining_node():
    rule = spread(nodeTaintsPolicy="Honor")
    drained = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    nodes = going("n", web("left", on="n", spec=rule), labels={ZONE: "zone-c"}, **drained), *uneven(rule)[1:]
    assert bought_for(plan([web("new", rule)], *nodes)) == []


def test_a_planned_node_can_also_take_the_deadlocked_pods():
    """Three pods of a zone go and two are in the other, where a node is bought for one of the three."""
    rule = spread(skew=1)
    left = [web(f"left{n}", on="n", spec=rule, creationTimestamp=stamped(NOON)) for n in range(3)]
    empty = standing("empty", labels={ZONE: "zone-a"})
    nodes = (going("n", *left, labels={ZONE: "zone-a"}), empty, full(rule, 2))
    patient = plan([web("new", rule, waiting=PATIENCE - MOMENT)], *nodes)
    assert {key.name: where for key, where in patient.node_by_pod}["new"] == "empty"
    found = plan([web("new", rule)], *nodes)
    assert bought_for(found) == [["left2"]]
    assert zones(found.launches[0]) == ("zone-b",)
    assert "new" not in [key.name for key, _ in found.node_by_pod], "the claim has no name yet"


def test_protected_pods_on_a_deleted_node_count_for_anti_affinity():
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(ZONE)]}}
    nodes = (going("n", web("left", on="n", **PROTECTED), labels={ZONE: "zone-a"}), standing("y"))
    assert bought_for(plan([web("new", {"affinity": far}, waiting=PATIENCE - MOMENT)], *nodes)) == []
    found = plan([web("new", {"affinity": far})], *nodes)
    assert bought_for(found) == [["new"]]
    assert zones(found.launches[0]) == ("zone-b",)


def test_protected_pods_on_a_deleted_node_count_for_affinity():
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(ZONE)]}}
    friend = web("new", {"affinity": near}, labels={"app": "friend"})
    left = [web("left", on="n", **PROTECTED), web("other", on="n", labels={"app": "friend"}, **PROTECTED)]
    found = plan([friend], going("n", *left, labels={ZONE: "zone-b"}), guards=[{"selects": "friend"}])
    assert bought_for(found) == [["new"]]
    assert zones(found.launches[0]) == ("zone-b",)


def test_min_domains_do_not_count_the_deleted_node():
    """With `minDomains` a plan without the node asks for more than the scheduler does: nobody has to wait for it."""
    rule = spread(minDomains=3)
    nodes = going("n", web("left", on="n", spec=rule), labels={ZONE: "zone-c"}), roomy(rule, 3), full(rule, 1)
    assert bought_for(plan([web("new", rule, waiting=timedelta())], *nodes)) == [["left", "new"]]


def test_hostname_spread_does_not_wait_for_a_deleted_node():
    """A node more is always possible, so no more than maxSkew pods are sent to one that is there."""
    rule = spread(HOSTNAME, skew=1)
    nodes = going("n", web("left", on="n", spec=rule, **PROTECTED)), standing("y", web("y1", on="y", spec=rule))
    assert bought_for(plan([web("new", rule, waiting=timedelta())], *nodes)) == [["new"]]


def test_a_pod_that_nothing_accepts_is_refused_as_the_scheduler_counts():
    found = plan([web("new", spread())], *uneven(), pool=nodepool(limits={"nodes": "0"}))
    refusal = next(each for each in found.refusals if str(each.object) == "pod/default/new")
    assert "1 node(s) didn't match pod topology spread constraints, 1 node(s) were being deleted" in wording.message(
        refusal
    )
    assert "new" not in [key.name for key, _ in found.node_by_pod]


def test_limits_hold_for_the_plan_and_its_revision_together():
    """One node is bought for a pod that fits nowhere, another for one that is held up: the limit is one."""
    elsewhere = pod("elsewhere", cpu="16")
    both = [elsewhere, web("new", spread())]
    assert bought_for(plan(both, *uneven())) == [["elsewhere"], ["new"]]
    one = plan(both, *uneven(), pool=nodepool(limits={"nodes": "1"}))
    assert bought_for(one) == [["elsewhere"]]
    assert [str(each.object) for each in one.refusals] == ["pod/default/new"]


def _term(key):
    return {"topologyKey": key, "labelSelector": WEB}

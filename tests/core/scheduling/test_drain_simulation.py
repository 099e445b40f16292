"""Consolidation does not start a drain that would wait for a pod which waits for the drain."""

import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, worker
from builders import HUGE, LARGE, SMALL, build, pod
from dovetail.core import wording
from dovetail.core.disruption.in_flight import look_ahead
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption, plan_pass
from dovetail.model.kinds import POD_DISRUPTION_BUDGET
from dovetail.model.labels import ZONE
from dovetail.settings import DecisionOptions

HOSTNAME = "kubernetes.io/hostname"
RACK = "example.com/rack"
"""A key that existing nodes have, each a value of its own. The minimum is that of the racks there are."""
WEB = {"matchLabels": {"app": "web"}}


def spread(skew=1, **fields):
    rule = {"maxSkew": skew, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {"topologySpreadConstraints": [{**rule, **fields}]}


def near(kind="podAffinity"):
    term = {"topologyKey": HOSTNAME, "labelSelector": WEB}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def web(on, count, spec, cpu="100m"):
    named = [(f"{on}-{number}", {"labels": {"app": "web"}}) for number in range(count)]
    return [pod(name, cpu=cpu, memory="1Mi", on=on, metadata=metadata, spec=spec) for name, metadata in named]


def small_one(name, count, spec):
    """A node of the cheapest kind."""
    return worker(name, *web(name, count, spec), type_="m.small", labels={RACK: name})


def budget(allowed):
    status = {"disruptionsAllowed": allowed, "expectedPods": 4, "desiredHealthy": 3, "currentHealthy": 4}
    metadata, spec = {"name": "web", "namespace": "default"}, {"selector": WEB, "maxUnavailable": 1}
    return build(POD_DISRUPTION_BUDGET, {"metadata": metadata, "spec": spec, "status": status})


def plan(spec, small=2, large=2, allowed=1, **others):
    """What happens to a small node beside a large one that has room for everything and cannot go itself."""
    kept = pod("kept", on="large", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
    guards = [budget(allowed)] if allowed is not None else []
    nodes = small_one("small", small, spec), worker("large", kept, *web("large", large, spec), labels={RACK: "large"})
    return plan_disruption(cluster(*nodes, *others.get("beside", ()), pdbs=guards))


def gone(found):
    return sorted(each.name for command in found.commands for each in command.candidates)


def test_a_node_whose_drain_would_deadlock_stays():
    found = plan(spread())
    assert gone(found) == []
    refusal = next(each for each in found.refusals_by_method["single-node"] if str(each.object) == "node/small")
    assert refusal.code == "DrainWouldStall"
    assert wording.message(refusal) == (
        "the drain would not end: pod default/small-0, once evicted, cannot be scheduled before a drained node is gone,"
        " and until it runs its pdb prevents other evictions (PodDisruptionBudget=[default/web])"
    )


@pytest.mark.parametrize(
    "easier",
    [
        {"allowed": 2},
        {"allowed": None},
        {"small": 1},
        {"spec": spread(2)},
        {"spec": spread(nodeTaintsPolicy="Honor")},
        {"spec": spread(whenUnsatisfiable="ScheduleAnyway")},
        {"spec": {}},
        {"large": 0},
    ],
    ids=str,
)
def test_a_node_whose_drain_would_end_is_removed(easier):
    assert gone(plan(**{"spec": spread(), **easier})) == ["small"]


def test_a_drain_may_deadlock_after_some_evictions():
    assert gone(plan(spread(2), small=3, large=1)) == ["small"]
    assert gone(plan(spread(2), small=3, large=2)) == []


def test_pods_that_must_be_together_are_not_moved_one_by_one():
    assert gone(plan(near(), small=2, large=0)) == []
    assert gone(plan(near(), small=2, large=0, allowed=2)) == ["small"]
    assert gone(plan(near(), small=2, large=1)) == ["small"]


def test_a_node_that_is_drained_goes_and_is_no_domain_any_more():
    """The pods of two nodes go one after the other, and none waits for both nodes; that of a third would."""
    nodes = [small_one(name, 1, spread()) for name in ("one", "two")]
    assert gone(plan(spread(), small=1, large=1, beside=nodes)) == ["one", "small"]
    assert gone(plan(spread(), small=1, large=1, beside=nodes, allowed=2)) == ["one", "small", "two"]


def test_several_nodes_that_would_stall_together_stay():
    assert gone(plan(spread(), beside=[small_one("other", 2, spread())])) == []


def single(look, before=()):
    """What single-node consolidation would do as well beside these commands."""
    method = next(each for each in METHODS if each.name == "single-node")
    return plan_pass(look_ahead(look, before), methods=[method]).commands


def test_evictions_of_other_drains_count_against_a_pdb():
    """Each of two nodes alone has all the budget it needs; the second beside the first has not."""

    def beside(allowed):
        held = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
        kept = {name: pod(f"kept-{name}", on=name, metadata=held) for name in ("a1", "a2")}
        large = [worker(name, each, *web(name, 2, spread()), labels={RACK: name}) for name, each in kept.items()]
        small = [small_one(name, 2, spread()) for name in ("a", "b")]
        look = PassContext(cluster(*small, *large, pdbs=[budget(allowed)]))
        first = single(look)
        return [each.name for command in (*first, *single(look, first)) for each in command.candidates]

    assert beside(4) == ["a", "b"]
    assert beside(3) == ["a"]


def test_a_replacement_does_not_help_a_drain_that_would_not_end():
    """It is an empty node, and takes as many as it may before the old one is gone: then both wait for each other."""
    zones = [{"key": ZONE, "operator": "In", "values": ["zone-a"]}]
    pool = free(template={"requirements": [*ON_DEMAND["requirements"], *zones]})

    def replaced(spec):
        pods = web("old", 5, spec, cpu="250m")
        node = worker("old", *pods, size=("8", "32Gi"), type_="m.huge", zone="zone-b")
        found = cluster(node, pools=[pool], types=(SMALL, LARGE, HUGE), pdbs=[budget(1)])
        return gone(plan_disruption(found, DecisionOptions(drift=False)))

    assert replaced(spread(topologyKey=ZONE)) == []
    assert replaced({}) == ["old"]


def test_hostname_spread_keeps_a_node_whose_pods_would_be_too_many_elsewhere():
    """The scheduler would put them there once the node is gone; a plan does not rely on that."""
    assert gone(plan(spread(topologyKey=HOSTNAME), allowed=None)) == []
    assert gone(plan(spread(4, topologyKey=HOSTNAME), allowed=None)) == ["small"]
    assert gone(plan(spread(4, topologyKey=HOSTNAME), allowed=1)) == ["small"]

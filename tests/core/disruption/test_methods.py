"""Which nodes are disrupted, in which order, and why the others are not."""

from datetime import timedelta

import pytest

from acceptance.fleet import cluster, free, worker
from builders import LARGE, NOON, SMALL, build, node, nodepool, pod, stamped
from dovetail.core import wording
from dovetail.core.disruption.budgets import NodeCounts, allowance
from dovetail.core.disruption.disruption_cost import disruption_cost, eviction_cost
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import consider, plan_disruption
from dovetail.model.do_not_disrupt import protection
from dovetail.model.kinds import POD_DISRUPTION_BUDGET
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import DecisionOptions

DAY = timedelta(days=1)
PROTECTED = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}


def chosen(plan):
    return [(command.method, sorted(each.name for each in command.candidates)) for command in plan.commands]


def said(plan, method, name):
    return next(each for each in plan.refusals_by_method[method] if str(each.object) == f"node/{name}")


def pdb(name="web", allowed=0, **fields):
    status = {"disruptionsAllowed": allowed, "expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3}
    return build(
        POD_DISRUPTION_BUDGET,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {}}, **fields.pop("spec", {})},
            "status": {**status, **fields},
        },
    )


def test_empty_nodes_go_together():
    plan = plan_disruption(cluster(worker("a"), worker("b"), worker("c", pod("x", on="c"))))
    assert chosen(plan) == [("emptiness", ["a", "b"])]
    assert plan.saving == 2.0


def test_a_budget_bounds_how_many_nodes_go_and_refuses_the_rest():
    pool = nodepool(disruption={"budgets": [{"nodes": "1"}]})
    plan = plan_disruption(cluster(worker("a"), worker("b"), pools=[pool]))
    assert chosen(plan) == [("emptiness", ["a"])]
    assert "budget '1' of NodePool default allows 1 for Empty: 0 in use, 1 ahead of it" in wording.message(
        said(plan, "emptiness", "b")
    )


def test_nodes_already_going_use_up_the_budget():
    pool = nodepool(disruption={"budgets": [{"nodes": "1"}]})
    going = worker("old", claim={"metadata": {"name": "old", "deletionTimestamp": stamped(NOON)}})
    assert plan_disruption(cluster(worker("a"), going, pools=[pool])).commands == ()


@pytest.mark.parametrize(
    ("written", "active"),
    [("true", True), ("false", False), ("4h", True), ("3h", False), ("2h59m", False), ("soon", True), ("-1h", True)],
)
def test_protection_runs_from_creation_and_what_is_unreadable_protects_for_ever(written, active):
    """Created three hours before noon; over at equality."""
    created = {"creationTimestamp": stamped(NOON - timedelta(hours=3))}
    held = pod(on="a", metadata={**created, "annotations": {"karpenter.sh/do-not-disrupt": written}})
    assert protection(held, NOON).active is active
    assert bool(protection(held, NOON).fault) is (written in {"soon", "-1h"})


def test_a_protected_pod_keeps_its_node_and_an_ended_one_does_not():
    held = pod("held", on="a", metadata={"name": "held", **PROTECTED})
    assert said(plan_disruption(cluster(worker("a", held))), "single-node", "a").code == "DoNotDisruptPod"
    ended = pod("held", on="a", metadata={"name": "held", **PROTECTED}, status={"phase": "Succeeded"})
    assert chosen(plan_disruption(cluster(worker("a", ended)))) == [("emptiness", ["a"])]


def test_a_protected_node_stays_whatever_happens():
    shielded = worker("a", metadata=PROTECTED)
    assert said(plan_disruption(cluster(shielded)), "emptiness", "a").code == "DoNotDisruptNode"


def test_a_pdb_that_allows_nothing_keeps_the_node_and_annotations_are_reported_first():
    plain, held = pod("plain", on="a"), pod("held", on="a", metadata={"name": "held", **PROTECTED})
    assert said(plan_disruption(cluster(worker("a", plain), pdbs=[pdb()])), "single-node", "a").code == (
        "PodDisruptionBudget"
    )
    both = plan_disruption(cluster(worker("a", plain, held), pdbs=[pdb()]))
    assert said(both, "single-node", "a").code == "DoNotDisruptPod"
    two = plan_disruption(cluster(worker("a", plain), pdbs=[pdb("one", 1), pdb("two", 1)]))
    assert "multiple PDBs" in wording.message(said(two, "single-node", "a"))


def test_a_node_whose_pods_fit_elsewhere_goes():
    pods = [pod("x", on="a"), pod("y", on="b", cpu="2")]
    plan = plan_disruption(cluster(worker("a", pods[0]), worker("b", pods[1])))
    assert chosen(plan) == [("single-node", ["a"])]
    assert plan.commands[0].replacements == ()


def test_several_nodes_become_one_cheaper_one():
    nodes = [worker(name, pod(f"p{name}", on=name, cpu="1500m"), type_="m.large") for name in "abcde"]
    plan = plan_disruption(cluster(*nodes))
    assert plan.commands[0].method == "multi-node"
    assert plan.saving > 0


def test_a_full_node_is_not_replaced_by_its_twin():
    full = worker("a", pod("x", on="a", cpu="3800m", memory="15Gi"))
    plan = plan_disruption(cluster(full, pools=[_on_demand()], types=(LARGE,)))
    assert plan.commands == ()


def _on_demand():
    """A pool that may not buy spot, which would be cheaper even as the same type."""
    wanted = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    return nodepool(template={"requirements": [wanted]}, disruption={"budgets": [{"nodes": "100%"}]})


def test_a_node_too_large_for_its_pods_is_replaced_by_a_cheaper_one():
    plan = plan_disruption(cluster(worker("a", pod("x", on="a")), types=(SMALL, LARGE)))
    assert chosen(plan) == [("single-node", ["a"])]
    replacement = plan.commands[0].replacements[0]
    assert replacement.type_names == {"m.small", "m.large"}
    assert replacement.requirements.labels()["karpenter.sh/capacity-type"] == "spot"
    assert plan.saving == pytest.approx(0.8)


def test_spot_is_replaced_by_spot_only_behind_its_gate_and_with_enough_choice():
    spot = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]
    only_spot = free(template={"requirements": spot})
    lone = cluster(worker("a", pod("x", on="a"), sold="spot"), pools=[only_spot])
    assert "SpotToSpotConsolidation is disabled" in wording.message(said(plan_disruption(lone), "single-node", "a"))
    gated = plan_disruption(lone, DecisionOptions(spot_to_spot=True))
    assert "requires 15 cheaper instance type options" in wording.message(said(gated, "single-node", "a"))


@pytest.mark.parametrize(
    ("disruption", "code"),
    [
        ({"consolidationPolicy": "WhenEmpty"}, "PolicyWhenEmpty"),
        ({"consolidateAfter": "Never"}, "ConsolidationDisabled"),
        ({"consolidateAfter": "48h"}, "Waiting"),
        ({"consolidationGracePeriod": "48h"}, "Waiting"),
        ({"actionControls": {"Consolidation": {"disruptAfter": "48h"}}}, "Waiting"),
        ({"budgets": [{"nodes": "nonsense"}]}, "BudgetUnreadable"),
    ],
)
def test_what_a_pool_writes_against_consolidation_is_heard(disruption, code):
    pool = nodepool(disruption={"minSavings": "0%", **disruption})
    plan = plan_disruption(cluster(worker("a", pod("x", on="a")), pools=[pool], types=(SMALL, LARGE)))
    assert said(plan, "single-node", "a").code == code


def test_a_settling_node_is_neither_source_nor_destination():
    settle = free("settling", ready=False, consolidationGracePeriod="30m")
    open_pool = _on_demand()
    recent = {"lastPodEventTime": stamped(NOON - timedelta(minutes=10))}
    busy = worker("b", pod("y", on="b"), pool="settling", status=recent)
    plan = plan_disruption(
        cluster(worker("a", pod("x", on="a", cpu="3")), busy, pools=[open_pool, settle], types=(LARGE,))
    )
    assert plan.commands == ()
    assert wording.message(said(plan, "single-node", "b")).endswith("until 2026-01-05T12:20:00Z")
    later = {"lastPodEventTime": stamped(NOON - timedelta(minutes=30))}
    quiet = worker("b", pod("y", on="b"), pool="settling", status=later)
    moved = plan_disruption(
        cluster(worker("a", pod("x", on="a", cpu="3")), quiet, pools=[open_pool, settle], types=(LARGE,))
    )
    assert moved.commands != ()


def test_no_method_disrupts_a_node_of_a_static_pool():
    """An empty node, a drifted and expired one, and one that runs little."""
    pool = nodepool(replicas=3, disruption={"expireAfter": "1h", "budgets": [{"nodes": "100%"}]})
    old = {"annotations": {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"}}
    nodes = (worker("a"), worker("b", pod("x", on="b"), claim={"metadata": old}), worker("c", pod("y", on="c")))
    plan = plan_disruption(cluster(*nodes, pools=[pool]))
    assert plan.commands == ()
    assert "keeps a fixed number of nodes" in wording.message(said(plan, "expiration", "b"))
    assert plan_disruption(cluster(*nodes, pools=[free(expireAfter="1h")])).commands


def test_soft_expiration_comes_first_replaces_first_and_respects_protection():
    pool = nodepool(disruption={"expireAfter": "12h", "budgets": [{"nodes": "100%"}]})
    due, young = worker("a", pod("x", on="a", cpu="3")), worker("b", age=timedelta(hours=1))
    plan = plan_disruption(cluster(due, young, pools=[pool]), thorough=True)
    assert plan.commands[0].method == "expiration"
    assert plan.commands[0].reason == Reason.EXPIRED
    assert "until 2026-01-05T23:00:00Z" in wording.message(said(plan, "expiration", "b"))
    shielded = worker("a", pod("x", on="a", metadata={"name": "x", **PROTECTED}))
    assert plan_disruption(cluster(shielded, pools=[pool])).commands == ()


def test_drift_by_requirements_and_by_type_and_not_by_widening():
    narrowed = nodepool(template={"requirements": [_types("m.small")]}, disruption={"budgets": [{"nodes": "100%"}]})
    widened = nodepool(
        template={"requirements": [_types("m.small", "m.large")]},
        disruption={"budgets": [{"nodes": "100%"}], "consolidateAfter": "Never"},
    )
    full = pod("x", on="a", cpu="3800m")
    assert plan_disruption(cluster(worker("a", full), pools=[widened])).commands == ()
    held = plan_disruption(cluster(worker("a", pod("x", on="a")), pools=[narrowed]))
    assert held.commands[0].method == "drift"
    gone = plan_disruption(cluster(worker("a", full), types=(SMALL,)))
    assert gone.commands == () or gone.commands[0].method == "drift"
    closed = plan_disruption(cluster(worker("a", full), pools=[narrowed]), DecisionOptions(drift=False), thorough=True)
    assert said(closed, "drift", "a").code == "GateClosed"


def _types(*names):
    return {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(names)}


def test_every_managed_node_ends_in_a_command_or_with_a_refusal():
    nodes = [
        worker("a"),
        worker("b", pod("x", on="b")),
        worker("c", pod("y", on="c", metadata={"name": "y", **PROTECTED})),
        worker("d", conditions={"Initialized": "Unknown"}),
        ClusterNode(node("unmanaged"), None),
    ]
    context = PassContext(cluster(*nodes))
    for method in METHODS:
        proposal = consider(method, context)
        taken = {each.name for command in proposal.commands for each in command.candidates}
        told = [each.object.name for each in proposal.refusals]
        assert sorted([*taken, *told]) == ["a", "b", "c", "d"], method.name


@pytest.mark.parametrize(
    ("nodes", "total", "limit"), [("20%", 19, 4), ("10%", 1, 1), ("0%", 10, 0), ("5", 100, 5), (15, 3, 15)]
)
def test_percentages_round_up_and_counts_are_ceilings(nodes, total, limit):
    pool = nodepool(disruption={"budgets": [{"nodes": nodes}]})
    assert allowance(pool, Reason.EMPTY, NodeCounts(total=total, disrupting=0), NOON).limit == limit


def test_the_tightest_budget_in_force_wins_and_a_specific_one_never_loosens_a_general_one():
    budgets = [{"nodes": "20%"}, {"nodes": "5"}, {"nodes": "15", "action": "Drift"}]
    pool = nodepool(disruption={"budgets": budgets})
    counts = NodeCounts(total=100, disrupting=0)
    assert allowance(pool, Reason.DRIFTED, counts, NOON).limit == 5
    assert allowance(nodepool(), Reason.DRIFTED, counts, NOON).limit == 10
    none = allowance(nodepool(disruption={"budgets": []}), Reason.EMPTY, counts, NOON)
    assert none.limit is None
    assert none.permits(1000)


@pytest.mark.parametrize(("minutes", "blocked"), [(181, True), (180, False), (60, False)])
def test_a_window_is_half_open(minutes, blocked):
    """Opened at 09:00, a three-hour window is shut at noon exactly."""
    written = {"nodes": "0", "schedule": "0 9 * * *", "duration": f"{minutes}m"}
    pool = nodepool(disruption={"budgets": [written]})
    allowed = allowance(pool, Reason.EMPTY, NodeCounts(total=10, disrupting=0), NOON)
    assert allowed.permits() is not blocked


def test_consolidation_budgets_cover_empty_nodes_and_emptiness_covers_them_alone():
    counts = NodeCounts(total=10, disrupting=0)
    both = nodepool(disruption={"budgets": [{"nodes": "1", "action": "Consolidation"}]})
    alone = nodepool(disruption={"budgets": [{"nodes": "1", "action": "Emptiness"}]})
    assert allowance(both, Reason.EMPTY, counts, NOON).limit == 1
    assert allowance(both, Reason.DRIFTED, counts, NOON).limit is None
    assert allowance(alone, Reason.UNDERUTILIZED, counts, NOON).limit is None


def test_costs_are_clamped_and_negative_ones_count_as_nothing():
    assert eviction_cost(pod(on="a")) == 1.0
    assert eviction_cost(pod(on="a", spec={"priority": 10**9})) == 10.0
    cheap = pod(on="a", metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-2147483647"}})
    assert disruption_cost([cheap]) == 1.0
    assert chosen(plan_disruption(cluster(worker("a", cheap)))) == [("emptiness", ["a"])]

"""Decisions and eligible nodes as figures, and that no node goes unseen whatever there is to look at."""

import pytest

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, running, shielded, worker
from acceptance.hearing import Figures
from builders import node
from dovetail.controllers.metrics.disruption import DisruptionMetrics, count_rejected, count_started
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_methods, plan_pass
from dovetail.core.disruption.validation import revalidate
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import Settings, read_environment

ROOM = ClusterNode(node("foreign", "16", "64Gi"), None)
POOLS = [free(template=ON_DEMAND)]
DECISIONS = "karpenter_voluntary_disruption_decisions_total"
BY_POOL = "karpenter_voluntary_disruption_decisions_by_nodepool_total"
ELIGIBLE = "karpenter_voluntary_disruption_eligible_nodes"
FAILED = "karpenter_voluntary_disruption_failed_validations_total"


def huge(name, *pods):
    return worker(name, *pods, type_="m.huge")


@pytest.mark.parametrize(
    ("nodes", "decision", "reason", "kind"),
    [
        ([worker("a")], "delete", "empty", "empty"),
        ([worker("a"), worker("b")], "delete", "empty", "empty"),
        ([drifted("a")], "delete", "drifted", ""),
        ([drifted("a", running("x", "a"))], "replace", "drifted", ""),
        ([huge(name, running(f"x{name}", name)) for name in "ab"], "replace", "underutilized", "multi"),
        ([huge("a", running("x", "a"))], "replace", "underutilized", "single"),
        ([*(worker(name, running(f"x{name}", name)) for name in "ab"), ROOM], "delete", "underutilized", "multi"),
    ],
)
def test_a_command_counts_once_and_once_for_its_pool(nodes, decision, reason, kind):
    context, figures = PassContext(cluster(*nodes, pools=POOLS)), Figures()
    (command,) = plan_pass(context).commands
    count_started(figures, command, context)
    labels = {"decision": decision, "reason": reason, "consolidation_type": kind}
    assert figures.counted(DECISIONS, **labels) == 1
    assert figures.counted(BY_POOL, nodepool="default", **labels) == 1


def eligible(found, reason):
    context, figures = PassContext(found), Figures()
    noted = DisruptionMetrics(figures)
    for plan in plan_methods(context):
        noted.record_pass(plan, context, 0.0)
    return figures.gauges[ELIGIBLE][reason,]


def test_the_gauge_of_empty_nodes_follows_the_pod():
    assert eligible(cluster(worker("a", running("x", "a"))), "empty") == 0
    assert eligible(cluster(worker("a")), "empty") == 1


def test_the_gauge_of_drifted_nodes_counts_drifted_candidates_only():
    nodes = [drifted("a"), worker("b"), drifted("c", shielded("x", "c"))]
    assert eligible(cluster(*nodes), "drifted") == 1


def test_the_gauge_of_underutilised_nodes_follows_the_annotation():
    assert eligible(cluster(worker("a", shielded("x", "a"))), "underutilized") == 0
    assert eligible(cluster(worker("a", running("x", "a"))), "underutilized") == 1


@pytest.mark.parametrize(("names", "kind"), [("a", "single"), ("ab", "multi")])
def test_a_validation_that_fails_counts_every_candidate(names, kind):
    nodes = [huge(name, running(f"x{name}", name)) for name in names]
    (command,) = plan_pass(PassContext(cluster(*nodes, pools=POOLS))).commands
    figures = Figures()
    nominated = PassContext(cluster(*nodes, pools=POOLS, nominated={"a"}))
    count_rejected(figures, command, revalidate(command, nominated))
    assert figures.counted(FAILED, consolidation_type=kind) == len(names)


def test_no_search_is_cut_short_and_no_node_goes_unseen():
    """More nodes than one move may take: every method has a word for each of them."""
    nodes = [worker(f"n{each:03}", running(f"p{each}", f"n{each:03}", cpu="3")) for each in range(130)]
    found = cluster(*nodes, pools=[free(template=ON_DEMAND, budgets=[{"nodes": "100%"}])])
    plan = plan_pass(PassContext(found), thorough=True)
    for method in METHODS:
        taken = {each.name for command in plan.commands_by_method[method.name] for each in command.candidates}
        refused = {each.object.name for each in plan.refusals_by_method[method.name]}
        assert taken | refused == {each.name for each in nodes}


@pytest.mark.parametrize("gate", ["CapacityBuffer", "StaticCapacity", "DynamicResources"])
def test_what_is_not_built_is_reported_when_its_gate_is_on(gate):
    settings, notices = read_environment({"feature_gates": f"{gate}=true"}, {})
    assert settings.options == Settings().options
    assert [each.setting for each in notices if gate in each.text and each.warning] == ["FEATURE_GATES"]

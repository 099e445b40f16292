"""A refusal is one value: it has a code, evidence and words, and whoever shows it shows the same."""

from collections import Counter
from pathlib import Path

import pytest

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, pdb, running, said, shielded, why_not, worker
from builders import HUGE, LARGE, NOON, SMALL, nodepool, pod, snapshot
from core.disruption.test_recheck import marked, record
from dovetail.cli.view.explain import node_document
from dovetail.cli.view.plan import plan_document
from dovetail.controllers.ledger_entries import considered_for_command
from dovetail.core import wording
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.drift import replacement_annotation
from dovetail.core.disruption.events import TOLD, refused
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption, plan_pass
from dovetail.core.disruption.validation import revalidate
from dovetail.core.explain.node import explain_node, refusals_by_node
from dovetail.core.explain.obstacles import MethodView
from dovetail.core.explain.verdict import find_verdict
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.verdict_wording import verdict_line
from dovetail.dashboard.waiting_for import reasons_in_plan, waits_in
from dovetail.model.command import REPLACES_ANNOTATION
from dovetail.model.conditions import find
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import DRIFTED
from dovetail.model.reason import Reason
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, SmallSaving, SpentBudget, node_ref, pod_ref
from dovetail.settings import DecisionOptions
from properties.test_planning import Story

TESTS = Path(__file__).parents[1]
POD = Key("shop", "web")
BUDGET = SpentBudget(nodes="10%", limit=1, disrupting=1)


@pytest.mark.parametrize("code", RefusalCode)
def test_every_code_has_words(code):
    evidence = Refusal(
        code,
        node_ref("a"),
        NOON,
        nodepool="default",
        pod=POD,
        pdbs=(Key("shop", "guard"),),
        other=ObjectRef("nodeclaim", "b"),
        reason=Reason.DRIFTED,
        budget=BUDGET,
        small_saving=SmallSaving(saving=0.1, required=0.2, evictions=2, min_savings="60%", turnover=0.4),
        limits="cpu limit 4",
        command="c0ffee",
        setting="setting",
        count=2,
        detail="detail",
    )
    for words in (wording.message(evidence), wording.obstacle(evidence)):
        assert words
        assert "None" not in words
        assert "{" not in words


def test_every_code_is_produced_in_a_test():
    """A code that no test names is not checked by any: this is where a new one is noticed."""
    written = "".join(path.read_text() for path in TESTS.rglob("*.py"))
    assert [code for code in RefusalCode if f'"{code}"' not in written] == []


def test_a_node_that_replaces_others_waits_for_their_end():
    new = worker("a", claim={"metadata": {"annotations": {REPLACES_ANNOTATION: "c0ffee"}}})
    refusal = why_not(cluster(new, marked(worker("old"), record(id="c0ffee"))))
    assert (refusal.code, refusal.command) == ("Replacement", "c0ffee")


def test_a_node_without_the_label_of_a_nodepool_has_none():
    assert why_not(cluster(worker("a", without=("karpenter.sh/nodepool",)))).code == "NoNodePool"


def test_drift_that_a_replacement_has_as_well_names_it():
    pool = nodepool(disruption={"budgets": [{"nodes": "100%"}]})
    marks = replacement_annotation(find(drifted("b").claim.status.conditions, DRIFTED).reason, pool)
    found = cluster(
        drifted("a", running("x", "a", cpu="3")),
        drifted("b", running("y", "b", cpu="3"), claim={"metadata": {"annotations": marks}}),
        pools=[pool],
        types=(LARGE,),
    )
    refusal = said(found, "drift", "a")
    assert (refusal.code, refusal.other, refusal.nodepool) == ("DriftNotFixed", node_ref("b"), "default")


def test_a_node_that_no_method_speaks_of_waits_for_another_command():
    verdict = find_verdict([MethodView("drift", Reason.DRIFTED)], None, NOON, in_set=False)
    assert (verdict.outcome, verdict.code) == ("CanLeave", "AnotherFirst")
    assert verdict_line(verdict, NOON) == "Can leave in a later pass by drift: another command goes first"


def test_a_command_whose_simulation_differs_by_now_keeps_what_hinders_it():
    nodes = [worker("a", running("x", "a", cpu="1500m")), worker("b", running("y", "b", cpu="3500m"))]
    pools = [free(template=ON_DEMAND)]
    (command,) = plan_disruption(cluster(*nodes, pools=pools, types=(SMALL, LARGE))).commands
    refusal = revalidate(command, PassContext(cluster(*nodes, pools=pools, types=(LARGE, HUGE))))
    assert not isinstance(refusal, Command)
    assert (refusal.code, refusal.object) == ("SimulationChanged", node_ref("a"))
    assert wording.message(refusal).startswith("scheduling: ")


def test_provisioning_says_of_pods_and_pools_what_cannot_be():
    devices = pod("x", spec={"resourceClaims": [{"name": "gpu"}]})
    none = nodepool(template={"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["riscv"]}]})
    plan = plan_provisioning(snapshot([devices, pod("y")], [], [none]))
    by_pod = {each.object: each.code for each in plan.refusals}
    assert by_pod[pod_ref(Key("default", "x"))] == "InvalidPod"
    assert [(each.code, str(each.object)) for each in plan.pool_refusals] == [
        ("NoCompatibleInstanceTypes", "nodepool/default")
    ]


def scene(seed):
    """A random cluster; the first one has what random ones lack: protected pods and PodDisruptionBudgets."""
    if seed:
        return Story(seed).now
    protected = worker("a", shielded("x", "a")), worker("b", running("y", "b"))
    return cluster(*protected, worker("c"), pdbs=[pdb()], types=(LARGE,))


@pytest.mark.parametrize("seed", range(24))
def test_every_consumer_shows_the_same_refusal_of_a_node(seed):
    """Plan, page, `explain`, metric, ledger and event are made from the values the planner produced."""
    found = scene(seed)
    context = PassContext(found, DecisionOptions(spot_to_spot=bool(seed % 3)))
    plan = plan_pass(context, thorough=True)
    document = plan_document(plan, found)
    page = waits_in(document, found, RepairTerms(found.repair_statements, DecisionOptions()))
    refusals = refusals_by_node(plan)
    for left in document["leftAlone"]:
        name = left["node"]
        explained = node_document(explain_node(_node(found, name), context))
        assert left["verdict"] == explained["verdict"]
        shown = (left["code"], left["because"])
        assert left["because"] in explained["verdict"]["line"]
        assert (reasons_in_plan(document)[name]["code"], reasons_in_plan(document)[name]["because"]) == shown
        assert page[name]["code"] in {left["code"], "Draining", "Disrupting", "Unhealthy", "Coming"}
        for method in explained["methods"]:
            refusal = refusals[name].get(method["method"])
            told = {each["code"]: each["message"] for each in method["obstacles"]}
            assert refusal is None or refusal.code in told or refusal.code is RefusalCode.BUDGET
    _agree_on_numbers(plan, found)


def _node(found, name):
    return next(each for each in found.nodes if each.name == name)


def _agree_on_numbers(plan, found):
    """What the ledger counts is what the metric counts, and every event has the words of its refusal."""
    counted = {
        (method, str(code)): number
        for method, said in plan.refusals_by_method.items()
        for code, number in Counter(each.code for each in said).items()
    }
    kept = considered_for_command(Command("drift", Reason.DRIFTED, ()), plan.refusals_by_method, PassContext(found))
    assert {(each.method, each.code): each.nodes for each in kept.counts} == counted
    for method, refusals in plan.refusals_by_method.items():
        for each in refusals:
            if each.code in TOLD - {RefusalCode.INSTANCE_TYPE_UNKNOWN}:
                assert wording.sentence(wording.message(each)) in refused(method, each)[1]

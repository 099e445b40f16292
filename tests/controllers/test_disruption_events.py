"""Which of the documented events are published, by whom, in which words; and that a cluster at rest is quiet."""

import ast
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

import dovetail
from acceptance.fleet import ON_DEMAND, cluster, drifted, free, pdb, running, shielded, worker
from acceptance.hearing import Listener, told
from builders import NOON, claim, nodepool, stamped
from dovetail.controllers.disruption_events import REPEAT_AFTER, REPEAT_NAMING_AFTER, DisruptionEvents
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_pass
from dovetail.core.disruption.validation import revalidate
from dovetail.model.kube_object import Key
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode

SOURCE = Path(dovetail.__file__).parent
PUBLISHED = {
    "DisruptionBlocked": "core/disruption/events.py",
    "Unconsolidatable": "core/disruption/events.py",
    "ConsolidationCandidate": "core/disruption/events.py",
    "ConsolidationRejected": "core/disruption/events.py",
    "ConsolidationApproved": "core/disruption/events.py",
    "DisruptionLaunching": "controllers/disruption_queue.py",
    "DisruptionWaitingReadiness": "controllers/command_steps.py",
    "DisruptionTerminating": "controllers/command_steps.py",
    "InvalidDoNotDisruptAnnotation": "core/disruption/nodeclaim_conditions.py",
    "DoNotDisruptUntil": "core/disruption/nodeclaim_conditions.py",
    "DoNotDisruptGracePeriodElapsed": "core/disruption/nodeclaim_conditions.py",
    "Evicted": "controllers/eviction_queue.py",
    "Disrupted": "controllers/eviction_queue.py",
    "FailedDraining": "controllers/eviction_queue.py",
    "TerminationGracePeriodExpiring": "controllers/termination.py",
    "AwaitingVolumeDetachment": "controllers/termination_steps.py",
    "NodeRepairBlocked": "controllers/node_repair.py",
    "Nominated": "controllers/provisioner.py",
}
"""Every reason Karpenter documents for disruption, and the module that has it."""

DIFFERENT = {
    'Node "<node>" has buffer pods': "there are no capacity buffers, so no node has their pods",
    "Can't remove without creating <n> candidates": "the simulation stops at the first pod that needs a second node,"
    " and that pod is named: Can't replace with a cheaper node: <pod> fits on no other node",
    "Filtering by price: <minValues error>": "what minValues leaves nothing of is not cheaper: Can't replace with a"
    " cheaper node",
    "... ignoring annotation": "an annotation that cannot be understood protects, and its event says so",
}
"""Documented words that are not ours, and why."""


@pytest.mark.parametrize("reason", PUBLISHED)
def test_every_documented_reason_has_one_who_says_it(reason):
    tree = ast.parse((SOURCE / PUBLISHED[reason]).read_text())
    assert reason in {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)}


@pytest.mark.parametrize("words", DIFFERENT)
def test_words_that_are_not_ours_are_said_by_nobody(words):
    written = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert words.partition("<")[0].strip(". ") not in written


def on_both(message):
    return {("Node", message), ("NodeClaim", message)}


BORN = {"creationTimestamp": stamped(NOON - timedelta(hours=1))}
ANNOTATED = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
FOR_AN_HOUR = {**BORN, "annotations": {"karpenter.sh/do-not-disrupt": "2h"}}
LASTING = " - permanent: needs a manual change"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            cluster(worker("a", metadata=ANNOTATED)),
            'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation' + LASTING,
        ),
        (
            cluster(worker("a", shielded("x", "a"))),
            'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/x)' + LASTING,
        ),
        (
            cluster(worker("a", shielded("x", "a", metadata=FOR_AN_HOUR))),
            'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/x) - until 2026-01-05T13:00:00Z',
        ),
        (
            cluster(worker("a", running("x", "a")), pdbs=[pdb()]),
            "Pdb prevents pod evictions (PodDisruptionBudget=[default/web]) for pod default/x - may change",
        ),
        (
            cluster(worker("a", running("x", "a")), pdbs=[pdb(expectedPods=1, desiredHealthy=1, currentHealthy=1)]),
            "Pdb prevents pod evictions (PodDisruptionBudget=[default/web]) for pod default/x" + LASTING,
        ),
        (cluster(worker("a"), nominated={"a"}), "Node is nominated for a pending pod"),
        (cluster(worker("a", pool="gone")), "NodePool not found (NodePool=gone)" + LASTING),
    ],
)
def test_what_blocks_a_node_is_told_on_it_and_its_claim_with_whether_waiting_helps(found, message):
    assert told(found).said("DisruptionBlocked") == on_both(message)


def test_a_claim_without_node_is_told_alone():
    coming = ClusterNode(None, claim("a", age=timedelta(hours=1)))
    said = told(cluster(coming)).said("DisruptionBlocked")
    assert said == {("NodeClaim", "Nodeclaim does not have an associated node")}


def test_a_drifted_node_whose_pod_has_no_other_place_is_blocked():
    stuck = running("x", "a", cpu="300m", spec={"nodeSelector": {"only": "here"}})
    said = told(cluster(drifted("a", stuck, labels={"only": "here"}))).said("DisruptionBlocked")
    assert said == on_both("Not all pods would schedule, default/x fits on no other node")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            cluster(worker("a", running("x", "a")), pools=[free(consolidateAfter="Never")]),
            'NodePool "default" has consolidation disabled',
        ),
        (
            cluster(worker("a", running("x", "a")), pools=[free(consolidationPolicy="WhenEmpty")]),
            'NodePool "default" has consolidation policy WhenEmpty, but node is not empty',
        ),
        (
            cluster(worker("a", running("x", "a"), type_="unheard-of")),
            'Instance Type "unheard-of" not found',
        ),
        (
            cluster(worker("a", running("x", "a"), without=("topology.kubernetes.io/zone",))),
            'Node does not have label "topology.kubernetes.io/zone"',
        ),
        (
            cluster(worker("a", running("x", "a"), type_="m.huge", sold="spot"), pools=[free()]),
            "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
        ),
        (
            cluster(worker("a", running("x", "a"), type_="m.small"), pools=[free(template=ON_DEMAND)]),
            "Can't replace with a cheaper node: default/x fits on no other node",
        ),
    ],
)
def test_what_keeps_a_node_from_being_consolidated_is_told_on_it_and_its_claim(found, message):
    listener = told(found)
    assert listener.said("Unconsolidatable") == on_both(message)
    assert not listener.said("DisruptionBlocked")


def test_a_pool_whose_budget_allows_nothing_is_told_for_which_reason():
    pool = nodepool(disruption={"budgets": [{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted"]}]})
    said = told(cluster(worker("a"), pools=[pool])).said("DisruptionBlocked")
    assert said == {("NodePool", "No allowed disruptions for disruption reason Drifted due to blocking budget")}


@pytest.mark.parametrize(("expiry", "blocked"), [({}, False), ({"expireAfter": "9h"}, True)])
def test_a_budget_is_not_said_to_block_expiration_where_none_applies_to_it(expiry, blocked):
    found = cluster(worker("a"), pools=[nodepool(disruption={"budgets": [{"nodes": "0"}], **expiry})])
    said = {message.split()[6] for _, message in told(found).said("DisruptionBlocked")}
    assert said == {"Drifted", "Empty", "Underutilized", *(["Expired"] if blocked else [])}


def test_a_pool_without_nodes_is_told_nothing():
    assert not told(cluster(pools=[nodepool(disruption={"budgets": [{"nodes": "0"}]})])).notices


def test_a_pool_that_cannot_be_understood_is_warned_with_path_and_remedy():
    pool = nodepool(disruption={"budgets": [{"nodes": "100%"}, {"nodes": "5", "action": "Boredom"}]})
    (notice,) = told(cluster(worker("a"), pools=[pool])).notices
    assert (notice.kind.name, notice.reason, notice.warning) == ("NodePool", "DisruptionBlocked", True)
    assert "spec.disruption.budgets[1]: action 'Boredom' is not known; use one of All, Consolidation" in notice.message


def test_a_replacement_is_announced_before_it_is_looked_at_again_and_a_rejection_says_why():
    found = cluster(worker("a", running("x", "a"), type_="m.huge"), pools=[free(template=ON_DEMAND)])
    listener = told(found)
    (announced,) = {message for _, message in listener.said("ConsolidationCandidate")}
    assert announced.startswith("Consolidation candidate: replace: [a] -> [1 replacement] (savings: $")
    assert {kind for kind, _ in listener.said("ConsolidationCandidate")} == {"Node", "NodeClaim"}

    (command,) = plan_pass(PassContext(found)).commands
    changed = PassContext(cluster(worker("a", shielded("x", "a"), type_="m.huge"), pools=[free(template=ON_DEMAND)]))
    events = DisruptionEvents(SimpleNamespace(recorder=listener, clock=listener))
    events.report_rejected(command, revalidate(command, changed))
    (said,) = {message for _, message in listener.said("ConsolidationRejected")}
    assert said.startswith("Consolidation rejected: replace: [a] -> [1 replacement], reason: churn: ")
    assert "(savings: $" in said


def test_several_nodes_are_each_told_that_they_are_part_of_it():
    small = [worker(name, running(f"x{name}", name, cpu="1"), type_="m.huge") for name in "abc"]
    said = told(cluster(*small, pools=[free(template=ON_DEMAND)])).said("ConsolidationCandidate")
    assert any("replace: [b] (part of 3-node consolidation)" in message for _, message in said)


def test_a_balanced_pool_says_what_it_approved_of():
    found = cluster(
        worker("a", running("x", "a"), type_="m.huge"), pools=[free(template=ON_DEMAND, consolidationPolicy="Balanced")]
    )
    (said,) = {message for _, message in told(found).said("ConsolidationApproved")}
    assert said.startswith("score 0.")
    assert ">= threshold 0.50 (k: 2, savings " in said
    assert said.endswith("disruption 100.0%)")


def test_a_cluster_at_rest_is_told_again_only_after_a_while():
    listener = Listener()
    events = DisruptionEvents(SimpleNamespace(recorder=listener, clock=listener))
    found = cluster(worker("a", shielded("x", "a")))
    for _ in range(3):
        told(found, listener, events)
    assert len(listener.notices) == 2, "one on the node, one on its claim"
    listener.at += REPEAT_AFTER
    told(found, listener, events)
    assert len(listener.notices) == 4


def test_which_pod_has_no_other_place_is_told_once_in_a_while():
    listener = Listener()
    events = DisruptionEvents(SimpleNamespace(recorder=listener, clock=listener))
    context = PassContext(cluster(worker("a", running("x", "a"))))

    def stands(pod):
        refusal = Refusal(RefusalCode.UNSCHEDULABLE, node_ref("a"), pod=Key("default", pod))
        events.report_refusals("single-node", [refusal], context)
        return len(listener.notices)

    assert stands("x") == 2, "one on the node, one on its claim"
    assert stands("y") == 2
    listener.at += REPEAT_NAMING_AFTER
    assert stands("y") == 4
    listener.at += REPEAT_NAMING_AFTER
    assert stands("y") == 4, "that it still holds is told after twice as long"
    listener.at += REPEAT_NAMING_AFTER
    assert stands("y") == 6

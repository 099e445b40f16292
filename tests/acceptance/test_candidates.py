"""Which nodes are candidates: the node's own state first, then annotations of its pods, then their budgets."""

import pytest

from acceptance.fleet import (
    BLOCKING,
    DO_NOT_DISRUPT,
    LEAVING,
    NODE_LABELS,
    TERMINATION,
    candidate_names,
    cluster,
    owned,
    pdb,
    running,
    shielded,
    taken,
    why_not,
    worker,
)
from builders import NOON, node, stamped
from dovetail.core import wording
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, write_record
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode

ENDED = [{"phase": "Succeeded"}, {"phase": "Failed"}]
KINDS = {"daemon": ("DaemonSet", "apps/v1"), "mirror": ("Node", "v1"), "plain": ("ReplicaSet", "apps/v1")}
ANNOTATED = {"annotations": {DO_NOT_DISRUPT: "true"}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_do_not_disrupt_pod_of_any_kind_keeps_its_node(kind):
    held = owned("x", "a", *KINDS[kind], metadata=ANNOTATED)
    refusal = why_not(cluster(worker("a", held)))
    assert (refusal.code, wording.message(refusal)) == (
        "DoNotDisruptPod",
        'pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/x)',
    )


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("eventual", [True, False])
@pytest.mark.parametrize("block", ["annotation", "pdb"])
def test_budgets_alone_yield_to_an_eventual_method_on_a_claim_that_bounds_its_drain(block, eventual, bounded):
    """A protected pod never does: the annotation prevents drift, too."""
    held = shielded("x", "a") if block == "annotation" else running("x", "a")
    found = cluster(
        worker("a", held, claim=TERMINATION if bounded else {}), pdbs=[] if block == "annotation" else [pdb()]
    )
    assert candidate_names(found, eventual=eventual) == (["a"] if eventual and bounded and block == "pdb" else [])


def test_a_zero_allowance_budget_is_named_with_its_pod():
    refusal = why_not(cluster(worker("a", running("x", "a")), pdbs=[pdb("web")]))
    assert refusal.code == "PodDisruptionBudget"
    assert "pdb prevents pod evictions (PodDisruptionBudget=[default/web])" in wording.message(refusal)
    assert "default/x" in wording.message(refusal)


def test_do_not_disrupt_on_a_terminating_pod_does_not_count():
    leaving = running("x", "a", metadata={**ANNOTATED, **LEAVING})
    assert candidate_names(cluster(worker("a", leaving))) == ["a"]


@pytest.mark.parametrize("status", ENDED, ids=["succeeded", "failed"])
def test_do_not_disrupt_on_a_pod_that_has_ended_does_not_count(status):
    assert candidate_names(cluster(worker("a", shielded("x", "a", status=status)))) == ["a"]


def test_do_not_disrupt_true_on_the_node_keeps_it_with_the_documented_words():
    refusal = why_not(cluster(worker("a", metadata=ANNOTATED)))
    assert wording.message(refusal) == 'disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'


@pytest.mark.parametrize("value", ["false", "True", "1h", ""])
def test_only_exactly_true_protects_a_node(value):
    assert candidate_names(cluster(worker("a", metadata={"annotations": {DO_NOT_DISRUPT: value}}))) == ["a"]


def test_two_budgets_on_one_pod_block_whatever_they_allow_and_both_are_named():
    refusal = why_not(cluster(worker("a", running("x", "a")), pdbs=[pdb("one", 1), pdb("two", 1)]))
    assert "eviction does not support multiple PDBs" in wording.message(refusal)
    assert "default/one" in wording.message(refusal)
    assert "default/two" in wording.message(refusal)


@pytest.mark.parametrize("spec", [{"maxUnavailable": 0}, {"maxUnavailable": "0%"}, {"minAvailable": "100%"}])
def test_a_fully_blocking_budget_keeps_the_node_of_plain_and_daemon_pods(spec):
    for kind in ("plain", "daemon"):
        found = cluster(worker("a", owned("x", "a", *KINDS[kind])), pdbs=[pdb(spec=spec)])
        assert candidate_names(found) == []


def test_a_fully_blocking_budget_does_not_matter_for_a_mirror_pod():
    found = cluster(worker("a", owned("x", "a", *KINDS["mirror"])), pdbs=[pdb(**BLOCKING)])
    assert candidate_names(found) == ["a"]


@pytest.mark.parametrize("status", ENDED, ids=["succeeded", "failed"])
def test_a_fully_blocking_budget_does_not_matter_for_a_pod_that_has_ended(status):
    assert candidate_names(cluster(worker("a", running("x", "a", status=status)), pdbs=[pdb(**BLOCKING)])) == ["a"]


def test_a_fully_blocking_budget_does_not_matter_for_a_terminating_pod():
    leaving = running("x", "a", metadata=LEAVING)
    assert candidate_names(cluster(worker("a", leaving), pdbs=[pdb(**BLOCKING)])) == ["a"]


def test_a_node_without_claim_is_none_of_our_business():
    assert candidate_names(cluster(ClusterNode(node("foreign"), None))) == []


def test_a_claim_without_node_is_refused():
    found = worker("a")
    assert why_not(cluster(ClusterNode(None, found.claim))).code == "NodeMissing"


def test_a_nominated_node_is_refused():
    assert why_not(cluster(worker("a"), nominated=["a"])).code == "Nominated"


def test_a_deleting_node_is_refused():
    going = worker("a", claim={"metadata": {"name": "a", "deletionTimestamp": stamped(NOON)}})
    assert why_not(cluster(going)).code == "Deleting"


def test_a_node_whose_instance_is_terminating_is_refused():
    assert why_not(cluster(worker("a", conditions={"InstanceTerminating": "True"}))).code == "Deleting"


def test_an_uninitialised_node_is_refused():
    assert why_not(cluster(worker("a", without=("karpenter.sh/initialized",)))).code == "NotInitialized"


def marked(name, command="c1", *pods, replacements=0):
    record = CommandRecord(id=command, reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=replacements)
    return worker(
        name, *pods, claim={"metadata": {"name": name, "annotations": {RECORD_ANNOTATION: write_record(record)}}}
    )


def test_a_node_that_a_command_is_taking_is_refused():
    refusal = why_not(cluster(marked("a")))
    assert (refusal.code, wording.message(refusal)) == (
        "AlreadyDisrupting",
        "candidate is already being disrupted (Command=c1)",
    )


def test_a_node_without_pool_label_is_refused_with_an_event():
    found = worker("a", pool="", without=("karpenter.sh/nodepool",))
    assert wording.message(why_not(cluster(found))) == "node doesn't have required label (label=karpenter.sh/nodepool)"


def test_a_node_of_a_pool_that_does_not_exist_is_refused_with_an_event():
    assert wording.message(why_not(cluster(worker("a", pool="lost")))) == "NodePool not found (NodePool=lost)"


@pytest.mark.parametrize("label", NODE_LABELS)
def test_a_node_without_type_zone_or_capacity_type_is_a_candidate_all_the_same(label):
    found = cluster(worker("a", without=(label,)))
    assert candidate_names(found) == ["a"]
    assert taken(found) == ["a"], "empty: neither price nor type matter"


def test_a_node_of_an_unknown_type_is_a_candidate_all_the_same():
    assert candidate_names(cluster(worker("a", type_="x.gone"))) == ["a"]

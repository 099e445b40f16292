"""What a node waits for, in one line: its drain and its repair take precedence over the plan."""

import pytest

from acceptance.fleet import BLOCKING, LEAVING, cluster, owned, pdb, running, shielded, worker
from builders import NOON, claim, stamped
from cli.test_explain_repair import BLOCK, found, unhealthy
from dovetail.cli.view.plan import plan_document
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.dashboard.waiting_for import waits_in
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, write_record
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import DecisionOptions

YOUNG = {"launching": {}, "registering": {"providerID": "kwok://registering"}}
GOING = {"metadata": {"deletionTimestamp": stamped(NOON), "finalizers": ["karpenter.sh/termination"]}}


def waits(snapshot, **options):
    plan = plan_document(plan_disruption(snapshot, thorough=True), snapshot)
    return waits_in(plan, snapshot, RepairTerms(snapshot.repair_statements, DecisionOptions(**options)))


def going(name, *pods):
    return worker(name, *pods, claim=GOING)


@pytest.mark.parametrize(
    ("pods", "budgets", "because", "permanent"),
    [
        ((), (), "draining: ", False),
        ((running("x", "a"),), (), "draining: 1 pod to go", False),
        ((running("x", "a", metadata=LEAVING), running("y", "a")), (), "draining: 2 pods to go", False),
        ((owned("d", "a", "DaemonSet"), running("x", "a")), (), " to go", False),
        ((running("x", "a"),), (pdb(**BLOCKING),), "drain is stuck: default/x blocked: ", True),
        ((running("x", "a"),), (pdb(),), "drain waits: default/x blocked: ", False),
        ((running("x", "a"), shielded("y", "a")), (), "drain is stuck: default/y protected: ", True),
    ],
)
def test_a_draining_node_waits_for_its_pods(pods, budgets, because, permanent):
    said = waits(cluster(going("a", *pods), pdbs=budgets))["a"]
    assert because in said["because"]
    assert (said["code"], said["permanent"]) == ("Draining", permanent)


def test_temporary_protection_has_its_end():
    shield = shielded("y", "a", value="1h", metadata={"creationTimestamp": "2026-01-05T11:30:00Z"})
    said = waits(cluster(going("a", shield)))["a"]
    assert (said["until"], said["permanent"]) == ("2026-01-05T12:30:00Z", False)


def test_an_unhealthy_node_waits_for_its_repair():
    said = waits(found(unhealthy("a"), worker("b"), repair=BLOCK))
    assert said["a"] == {
        "because": "NetworkUnavailable is True: repaired unless it recovers",
        "code": "Unhealthy",
        "until": "2026-01-05T12:06:00Z",
        "permanent": False,
    }
    assert said["b"]["code"] != "Unhealthy"


def test_an_unhealthy_node_that_is_not_repaired_has_the_reason():
    assert "nodepool default has no repair block" in waits(found(unhealthy("a")))["a"]["because"]
    off = waits(found(unhealthy("a"), repair=BLOCK), node_repair=False)["a"]
    assert ("NodeRepair is off" in off["because"], off["permanent"]) == (True, True)


def test_too_many_unhealthy_nodes_block_repair():
    said = waits(found(unhealthy("a"), unhealthy("b"), repair=BLOCK))["a"]
    assert "too many nodes of its pool are unhealthy" in said["because"]
    assert said["until"] is None


def marked(name, replacements):
    record = CommandRecord(id="c0ffee", reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=replacements)
    return worker(name, claim={"metadata": {"annotations": {RECORD_ANNOTATION: write_record(record)}}})


def replacement(name, conditions):
    return ClusterNode(
        None, claim(name, "default", conditions=conditions, metadata={"annotations": {REPLACES_ANNOTATION: "c0ffee"}})
    )


def test_a_node_in_a_command_waits_for_its_replacements():
    coming = [
        replacement("r1", {"Launched": "True"}),
        replacement("r2", {}),
        replacement("r3", {"Initialized": "True"}),
    ]
    assert waits(cluster(marked("a", 3), *coming))["a"] == {
        "because": "Drifted: waits for 2 replacements to be ready (command c0ffee)",
        "code": "Disrupting",
        "until": None,
        "permanent": False,
    }
    assert waits(cluster(marked("a", 1), coming[0]))["a"]["because"].startswith("Drifted: waits for 1 replacement to")
    assert waits(cluster(marked("a", 1), coming[2]))["a"]["because"].startswith("Drifted: is about to be terminated")


def test_a_new_node_waits_for_its_instance_or_registration():
    young = [ClusterNode(None, claim(name, "default", status=status)) for name, status in YOUNG.items()]
    said = waits(cluster(*young))
    assert [said[name]["because"] for name in YOUNG] == ["waits for its instance", "waits for its node to register"]
    assert said["registering"]["code"] == "Coming"


def test_an_unmanaged_node_is_marked():
    snapshot = cluster(worker("a"), ClusterNode(worker("c").node, None))
    assert waits(snapshot)["c"]["code"] == "Unmanaged"
    assert waits(snapshot)["a"]["code"] == "Next"

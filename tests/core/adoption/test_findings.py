"""What has to be fixed before the switch, and what does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from acceptance.fleet import drifted, free, worker
from builders import NOON
from core.adoption.known import KARPENTER, LEASE, facts, stamped
from dovetail.core.adoption.facts import (
    ActionCheck,
    CheckedObject,
    ClassHash,
    IamChecks,
    InstalledCrd,
    Permission,
    PermissionChecks,
    UncheckedPart,
    VariableEffect,
)
from dovetail.core.adoption.findings import FindingLevel, find_all, gate_is_on
from dovetail.model.kube_object import Fault
from dovetail.model.unreadable_objects import UnreadableEntry

FIX, NOTE, OK, UNCHECKED = FindingLevel


def of(known, area, level=None):
    """The messages of an area."""
    return [each.message for each in find_all(known) if each.area == area and level in {None, each.level}]


def gates(text):
    return replace(KARPENTER, environment={"FEATURE_GATES": text})


def test_a_cluster_without_anything_special_has_nothing_to_fix():
    found = find_all(facts(pools=[stamped()]))
    assert {each.level for each in found} == {OK}


def test_those_to_fix_come_first():
    fault = Fault("spec.weight", "must be at most 100")
    known = facts(objects=(CheckedObject(kind="NodePool", name="a", faults=(fault,)),))
    assert [each.level for each in find_all(known)][:2] == [FIX, OK]
    assert of(known, "Objects") == ["NodePool a: spec.weight: must be at most 100"]


@pytest.mark.parametrize(
    ("gate", "known"),
    [
        ("NodeOverlay", {"overlays": ("cheap",)}),
        ("CapacityBuffer", {"buffers": ("default/spare",)}),
        ("StaticCapacity", {"pools": [free(replicas=3)]}),
    ],
)
def test_what_dovetail_does_not_have_counts_where_karpenter_uses_it(gate, known):
    assert of(facts(karpenter=gates(f"{gate}=true"), **known), "Objects", FIX)
    ignored = facts(karpenter=gates(f"{gate}=false"), **known)
    assert not of(ignored, "Objects", FIX)
    assert "Karpenter ignores it too" in of(ignored, "Objects", NOTE)[0]
    assert of(facts(karpenter=None, **known), "Objects", FIX), "nothing says that Karpenter ignores it"


@pytest.mark.parametrize(
    ("text", "found"),
    [("", True), ("ReservedCapacity=false", False), (" Drift=true , ReservedCapacity=T ", True), ("Other=true", True)],
)
def test_a_gate_has_karpenters_default_unless_it_is_named(text, found):
    assert gate_is_on(gates(text), "ReservedCapacity") is found


def test_an_unreadable_object_has_to_be_corrected():
    known = facts()
    bad = UnreadableEntry(kind="NodePool", name="odd", problem="spec: is missing")
    known = replace(known, snapshot=replace(known.snapshot, unreadable=(bad,)))
    assert of(known, "Objects", FIX) == ["NodePool odd cannot be read: spec: is missing"]


def test_another_hash_of_the_same_version_would_make_nodes_drift():
    wrong = facts(worker("a"), worker("b"), pools=[stamped(**{"karpenter.sh/nodepool-hash": "1"})])
    assert "2 nodes would drift" in of(wrong, "Drift", FIX)[0]
    older = facts(pools=[stamped(**{"karpenter.sh/nodepool-hash-version": "v2"})])
    assert not of(older, "Drift", FIX)
    assert "without drift" in of(older, "Drift", NOTE)[0]


def test_the_hash_of_a_node_class_is_compared_within_a_version():
    same = {"name": "default", "written": "1", "version": "v4"}
    assert of(facts(class_hashes=(ClassHash(**same, own_version="v4", computed="2"),)), "Drift", FIX)
    assert not of(facts(class_hashes=(ClassHash(**same, own_version="v4", computed="1"),)), "Drift", FIX)
    unsure = facts(class_hashes=(ClassHash(**same, own_version="v4", computed="2", certain=False),))
    assert not of(unsure, "Drift", FIX)
    assert "cannot be confirmed" in of(unsure, "Drift", NOTE)[0]
    other = facts(class_hashes=(ClassHash(**same, own_version="v5", computed="2"),))
    assert not of(other, "Drift", FIX)
    assert "without drift" in of(other, "Drift", NOTE)[0]


def test_drift_that_only_dovetail_finds_is_noted():
    known = facts(drifted("marked"), worker("gone", type_="m.discontinued"), worker("a"), pools=[stamped()])
    (message,) = of(known, "Drift", NOTE)
    assert message.startswith("Karpenter marks 1 of 3 nodes as drifted; Dovetail finds 1 drifted")
    assert message.endswith("1 of them not marked by Karpenter")


def test_a_lease_that_nobody_holds_and_a_karpenter_without_one():
    idle = replace(LEASE, held_until=NOON - timedelta(seconds=1))
    assert of(facts(lease=idle), "Lease", NOTE) == [
        "kube-system/karpenter-leader-election is held by no process: Karpenter does not run"
    ]
    alone = replace(KARPENTER, environment={"DISABLE_LEADER_ELECTION": "true"})
    assert of(facts(karpenter=alone), "Lease", FIX)


def test_settings_that_stop_dovetail_and_settings_without_effect():
    known = facts(
        variables=(
            VariableEffect(name="A", value="1", effect="is not a number", refused=True),
            VariableEffect(name="B", value="2", effect="has no effect here"),
            VariableEffect(name="C", value="3", effect=""),
        )
    )
    assert of(known, "Settings", FIX) == ["A=1: Dovetail does not start with it: is not a number"]
    assert of(known, "Settings", NOTE) == ["B=2: has no effect here"]
    assert of(known, "Settings", OK) == ["1 of Karpenter's variables have the same effect in Dovetail"]


def test_definitions_say_whose_they_are_and_what_they_drop():
    crd = {"name": "nodepools.karpenter.sh", "controller_gen": "v0.20.0", "helm_release": "karpenter-crd"}
    theirs = facts(crds=(InstalledCrd(**crd, served=("v1",), dropped=("spec.repair",)),))
    assert of(theirs, "CRDs") == [
        "nodepools.karpenter.sh (v1) is Karpenter's, of Helm release karpenter-crd; drops Dovetail's fields spec.repair"
    ]
    assert not of(theirs, "CRDs", FIX)
    assert "is Dovetail's" in of(facts(crds=(InstalledCrd(**crd, served=("v1", "v1beta1")),)), "CRDs", OK)[0]
    assert of(facts(crds=(InstalledCrd(**crd, served=("v1beta1",)),)), "CRDs", FIX)


def test_an_old_karpenter_is_upgraded_first():
    assert of(facts(karpenter=replace(KARPENTER, image="karpenter:v0.37.0")), "Karpenter", FIX)
    assert not of(facts(), "Karpenter", FIX)


SCALE = Permission("patch", "deployments/scale", "apps", "kube-system")
LACKING = PermissionChecks(asked=(SCALE, Permission("list", "pods")), lacking=(SCALE,))


def test_what_the_account_of_the_command_lacks_is_no_fault_of_the_cluster():
    assert not of(facts(steps_rbac=LACKING), "RBAC", FIX)
    (note,) = of(facts(steps_rbac=LACKING), "RBAC", NOTE)
    assert note.startswith("this account lacks 1 of 2 permissions (patch deployments/scale.apps in namespace kube")
    assert of(facts(steps_rbac=replace(LACKING, lacking=())), "RBAC", OK) == [
        "this account has all 2 permissions that the steps need"
    ]


def test_what_the_service_account_of_dovetail_run_lacks_is_a_fault():
    (fault,) = of(facts(run_rbac=LACKING), "RBAC", FIX)
    assert fault.startswith("service account dovetail/dovetail is bound to its roles, but lacks 1 of 2 permissions")
    assert of(facts(run_rbac=replace(LACKING, lacking=())), "RBAC", OK)


def test_a_denied_dry_run_counts_if_it_was_made_with_karpenters_role():
    denied = (ActionCheck(action="ec2:RunInstances", allowed=False, detail="UnauthorizedOperation"),)
    role = replace(KARPENTER, role_arn="arn:aws:iam::1:role/karpenter")
    session = IamChecks(caller="arn:aws:sts::1:assumed-role/karpenter/me", actions=denied)
    assert of(facts(karpenter=role, iam=session), "IAM", FIX)
    mine = IamChecks(caller="arn:aws:iam::1:user/me", actions=denied)
    assert not of(facts(karpenter=role, iam=mine), "IAM", FIX)
    assert "of arn:aws:iam::1:user/me, not of Karpenter's role" in of(facts(karpenter=role, iam=mine), "IAM", NOTE)[0]


def test_an_action_without_an_answer_is_not_checked():
    actions = [ActionCheck(action=f"sqs:{each}", allowed=None, detail="there is no dry run") for each in "AB"]
    known = facts(iam=IamChecks(caller="arn:aws:iam::1:user/me", actions=tuple(actions)))
    assert of(known, "IAM") == of(known, "IAM", UNCHECKED) == ["sqs:A, sqs:B, because there is no dry run"]


def test_a_cluster_without_karpenter_is_not_ready():
    (why,) = of(facts(karpenter=None, karpenter_missing=True), "Karpenter", FIX)
    assert "there is nothing to switch from" in why
    assert of(facts(karpenter=None), "Karpenter") == [], "it may be there: it could not be read"


def test_every_part_that_was_not_checked_is_listed():
    known = facts(unchecked=tuple(UncheckedPart(what=each, why="it is late") for each in ("IAM", "RBAC")))
    assert of(known, "IAM", UNCHECKED) == of(known, "RBAC", UNCHECKED) == ["because it is late"]

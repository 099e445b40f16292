"""Limits are asked once more when a claim is made."""

from datetime import timedelta

import msgspec

from acceptance.fleet import worker
from builders import NOON, claim, instance_type, nodepool, snapshot
from dovetail.core.provisioning.plan import beyond_limits
from dovetail.core.scheduling.nodepool_limits import limit_usage
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, write_record
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode

TYPES = (instance_type("m.large", "4"), instance_type("m.huge", "16"))
EITHER = {
    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.large", "m.huge"]}]
}


def asked(limits, *there, leaving=()):
    wanted = claim("next", spec=EITHER, conditions={})
    return beyond_limits(snapshot(nodes=there, pools=[nodepool(limits=limits)], types=TYPES), wanted, leaving)


def bought(name, **annotations):
    return ClusterNode(None, claim(name, spec=EITHER, conditions={}, metadata={"annotations": annotations}))


def replaced(name, command, type_="m.large"):
    """A node that a command removes."""
    record = CommandRecord(id=command, reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=1)
    node = worker(name, type_=type_, age=timedelta(days=1))
    metadata = msgspec.structs.replace(node.claim.metadata, annotations={RECORD_ANNOTATION: write_record(record)})
    return ClusterNode(node.node, msgspec.structs.replace(node.claim, metadata=metadata), ())


def used(*nodes, leaving=(), resource="cpu"):
    found = snapshot(nodes=nodes, pools=[nodepool(limits={"cpu": "99"})], types=TYPES)
    return str(limit_usage(found, "default", leaving)[resource])


def test_a_claim_counts_as_the_largest_it_may_become():
    assert asked({"cpu": "16"}) == ""
    assert asked({"cpu": "15"}) == (
        "a new node would exceed the limits of NodePool default: cpu limit 15, 0 used, up to 16 needed"
    )


def test_claims_created_after_the_plan_count():
    assert asked({"cpu": "32", "nodes": "2"}, bought("other")) == ""
    said = asked({"cpu": "31", "nodes": "1"}, bought("other"))
    assert said.endswith("cpu limit 31, 16 used, up to 16 needed; nodes limit 1, 1 used, up to 1 needed")


def test_a_pool_without_limits_is_never_exceeded():
    assert asked({}, bought("other")) == ""


def test_what_the_command_itself_removes_does_not_count():
    old = worker("old", type_="m.huge")
    assert asked({"cpu": "16", "nodes": "1"}, old, leaving=["old"]) == ""
    assert asked({"cpu": "16", "nodes": "1"}, old).startswith(
        "a new node would exceed the limits of NodePool default: cpu"
    )
    assert "cpu limit 16, 16 used" in asked({"cpu": "16"}, old, bought("first"), leaving=["old"])


def test_a_node_and_its_replacement_count_once_as_the_larger():
    huge = {REPLACES_ANNOTATION: "c1"}
    assert used(replaced("old", "c1"), worker("other")) == "8"
    assert used(replaced("old", "c1"), worker("other"), bought("new", **huge)) == "20"
    assert used(replaced("old", "c1", "m.huge"), worker("other"), bought("new", **huge)) == "20"
    assert used(replaced("old", "c1"), worker("other"), bought("new", **huge), resource="nodes") == "2"


def test_a_replacement_whose_command_is_over_counts_beside_the_node_that_stayed():
    assert used(worker("old"), bought("new", **{REPLACES_ANNOTATION: "c1"})) == "20"
    assert used(replaced("old", "c2"), bought("new", **{REPLACES_ANNOTATION: "c1"})) == "20"

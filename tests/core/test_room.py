"""Limits are asked once more when a claim is made."""

from builders import claim, instance_type, nodepool, snapshot
from dovetail.core.provisioning.room import beyond_limits
from dovetail.model.snapshot import ClusterNode

TYPES = (instance_type("m.large", "4"), instance_type("m.huge", "16"))
EITHER = {
    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.large", "m.huge"]}]
}


def asked(limits, *there):
    wanted = claim("next", spec=EITHER, conditions={})
    return beyond_limits(snapshot(nodes=there, pools=[nodepool(limits=limits)], types=TYPES), wanted)


def bought(name):
    return ClusterNode(None, claim(name, spec=EITHER, conditions={}))


def test_a_claim_counts_as_the_largest_it_may_become():
    assert asked({"cpu": "16"}) == ""
    assert asked({"cpu": "15"}) == "nodepool default has no room left within its limits for cpu"


def test_what_others_bought_meanwhile_counts():
    assert asked({"cpu": "32", "nodes": "2"}, bought("other")) == ""
    assert asked({"cpu": "31", "nodes": "1"}, bought("other")).endswith("for cpu, nodes")


def test_a_pool_without_limits_has_room():
    assert asked({}, bought("other")) == ""

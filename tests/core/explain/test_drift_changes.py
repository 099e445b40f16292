"""What drifted: the fields of a NodeClaim that differ from its NodePool, with both values."""

from acceptance.fleet import ON_DEMAND, cluster, drifted, worker
from builders import LARGE, SMALL, nodepool
from dovetail.core.explain.drift_changes import UNKNOWN_CHANGE, drift_cause
from dovetail.core.explain.shared_causes import find_drifted
from dovetail.core.lifecycle.nodepool_hash import hash_annotations
from dovetail.core.verdict_wording import drift_words
from dovetail.model.verdict import FieldChange

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
METADATA = "spec.template.metadata"


def launched_from(pool, name="a", **fields):
    return worker(name, claim={"metadata": {"name": name, "annotations": hash_annotations(pool)}, **fields})


def cause(node, pool, **fields):
    return drift_cause(node, cluster(node, pools=[pool], **fields))


def changes(before, after, **spec):
    return cause(launched_from(before, spec=spec), after).changes


def test_a_node_that_matches_its_nodepool_has_no_cause():
    pool = nodepool()
    assert cause(launched_from(pool), pool) is None


def test_changed_taints_and_durations_have_both_values():
    before = nodepool(template={"terminationGracePeriod": "1h"})
    after = nodepool(template={"taints": [TAINT], "terminationGracePeriod": "2h"})
    assert changes(before, after, terminationGracePeriod="1h") == (
        FieldChange("spec.template.spec.taints", "none", "team=a:NoSchedule"),
        FieldChange("spec.template.spec.terminationGracePeriod", "1h", "2h"),
    )


def test_labels_and_the_node_class_are_compared_with_the_claim():
    after = nodepool(
        template={"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "other"}},
        template_metadata={"labels": {"team": "a"}},
    )
    kind = "karpenter.kwok.sh/KWOKNodeClass"
    assert changes(nodepool(), after) == (
        FieldChange("spec.template.spec.nodeClassRef", f"{kind}/default", f"{kind}/other"),
        FieldChange(f"{METADATA}.labels[team]", "none", "a"),
    )


def test_a_change_that_the_claim_does_not_keep_is_admitted():
    before = nodepool(template_metadata={"labels": {"team": "a"}})
    found = cause(launched_from(before), nodepool())
    assert (found.reason, found.changes, found.detail) == ("NodePoolDrifted", (), UNKNOWN_CHANGE)


def test_a_requirement_that_the_labels_do_not_meet_is_named():
    found = cause(worker("a", sold="spot"), nodepool(template=ON_DEMAND))
    words = "RequirementsDrifted: karpenter.sh/capacity-type: spot -> In [on-demand]"
    assert drift_words(found) == words


def test_an_instance_type_that_is_no_longer_offered_is_named():
    found = cause(worker("a", type_="m.large"), nodepool(), types=(SMALL,))
    assert drift_words(found) == "InstanceTypeNotFound: instance type: m.large, on-demand, zone-a -> not offered"


def test_nodes_that_drifted_for_the_same_cause_are_one_group():
    pool = nodepool(template=ON_DEMAND)
    nodes = [worker("a", sold="spot"), worker("b", sold="spot"), worker("c"), drifted("d")]
    found = find_drifted(nodes, cluster(*nodes, pools=[pool], types=(LARGE,)))
    assert [each.nodes for each in found] == [("a", "b"), ("d",)]

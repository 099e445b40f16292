"""What the controllers know of the cluster is made anew where something changed that anybody decides by."""

import pytest

from builders import NOON, claim, node, pod, stamped
from dovetail.controllers.cluster_state import ClusterState
from dovetail.model.kinds import NODE, NODE_CLAIM, POD

HOME = {"providerID": "kwok://node-1"}
READY = {"Launched": "True", "Registered": "True", "Initialized": "True"}


def told(version="1", *, conditions=None, status=None, annotations=None):
    metadata = {"resourceVersion": version, "annotations": annotations or {}}
    return claim(conditions=READY | (conditions or {}), metadata=metadata, status=HOME | (status or {}))


@pytest.fixture
def state():
    """A node and its claim."""
    known = ClusterState(cluster=None)
    known.observe(NODE, node(spec=HOME))
    known.observe(NODE_CLAIM, told())
    return known


def test_a_condition_that_only_people_read_makes_nothing_new_but_is_known(state):
    joined, revision = state.cluster_nodes(), state.revision
    quiet = state.observe(NODE_CLAIM, told("2", conditions={"Consolidatable": "True"}))
    assert (state.cluster_nodes(), state.revision) == (joined, revision)
    assert state.cluster_nodes() is joined
    assert state.claim_of(node(spec=HOME)) is quiet


@pytest.mark.parametrize(
    "change",
    [
        {"conditions": {"Drifted": "True"}},
        {"conditions": {"Consolidatable": "True", "Drifted": "True"}},
        {"status": {"lastPodEventTime": stamped(NOON)}},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
    ],
)
def test_whatever_somebody_may_decide_by_does(state, change):
    joined, revision = state.cluster_nodes(), state.revision
    changed = state.observe(NODE_CLAIM, told("2", **change))
    assert state.revision > revision
    assert [each.claim for each in state.cluster_nodes()] == [changed]
    assert state.cluster_nodes() is not joined


def test_another_version_of_a_node_is_joined_anew(state):
    state.cluster_nodes()
    changed = state.observe(NODE, node(spec=HOME, labels={"disk": "ssd"}, metadata={"resourceVersion": "2"}))
    assert [each.node for each in state.cluster_nodes()] == [changed]


def test_a_pod_that_is_bound_is_on_its_node_at_once(state):
    assert [each.pods for each in state.cluster_nodes()] == [()]
    bound = state.observe(POD, pod(on="node-1", metadata={"resourceVersion": "2"}))
    assert [each.pods for each in state.cluster_nodes()] == [(bound,)]


def test_a_claim_without_an_instance_is_part_of_the_cluster(state):
    waiting = state.observe(NODE_CLAIM, claim("default-2"))
    assert [each.claim for each in state.cluster_nodes() if each.node is None] == [waiting]

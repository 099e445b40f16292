"""Pods that ask for devices by resourceClaims: no simulation knows them, so nothing is bought or given up for them."""

from acceptance.fleet import TERMINATION, candidate_names, cluster, running, why_not, worker
from builders import NOON, pod, stamped
from dovetail.core import wording
from dovetail.core.provisioning.eligible_pods import displaced_pods
from dovetail.core.provisioning.plan import plan_provisioning

CLAIMS = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}}


def test_no_node_is_launched_for_a_pod_that_requests_devices_and_an_event_says_why():
    plan = plan_provisioning(cluster(pods=[pod("x", **CLAIMS)]))
    assert not plan.launches
    (refusal,) = plan.refusals
    assert str(refusal.object) == "pod/default/x"
    assert "Dynamic Resource Allocation" in wording.message(refusal)


def test_nothing_is_bought_ahead_for_one_whose_node_is_going():
    going = {"metadata": {"name": "a", "deletionTimestamp": stamped(NOON)}}
    plain, claiming = running("x", "a"), running("y", "a", **CLAIMS)
    assert [each.name for each in displaced_pods(cluster(worker("a", plain, claiming, claim=going)))] == ["x"]


def test_its_node_is_no_candidate_unless_the_claim_bounds_its_drain_and_the_method_is_eventual():
    """Whether the devices can be had elsewhere is not known: when in doubt, the node stays."""
    held = running("x", "a", **CLAIMS)
    refusal = why_not(cluster(worker("a", held)))
    assert (refusal.code, refusal.permanent) == ("UnknownDevices", True)
    assert "(Pod=default/x)" in wording.message(refusal)
    bounded = cluster(worker("a", held, claim=TERMINATION))
    assert candidate_names(bounded, eventual=True) == ["a"]
    assert candidate_names(bounded) == []


def test_one_that_has_ended_holds_nothing():
    assert candidate_names(cluster(worker("a", running("x", "a", status={"phase": "Succeeded"}, **CLAIMS)))) == ["a"]

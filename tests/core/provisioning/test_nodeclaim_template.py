"""The form of the NodeClaims that are created."""

import pytest

from builders import nodepool, pod, snapshot
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.manifest import codec
from dovetail.model.kinds import NODE_CLAIM


def spec_for(waiting, **template):
    """The spec of the NodeClaim for a pod, as it is sent to the API server."""
    (launch,) = plan_provisioning(snapshot([waiting], pools=[nodepool(template=template)])).launches
    return codec.to_plain(NODE_CLAIM, launch.claim)["spec"]


# The right side is what encoding/json gives for Karpenter's NodeClaimSpec after it has read the left side. The spec is
# immutable, so a Go client that updates a NodeClaim must not change it.


@pytest.mark.parametrize("written", [{}, {"taints": [], "startupTaints": []}])
def test_lists_without_taints_are_absent(written):
    assert not {"taints", "startupTaints"} & spec_for(pod(), **written).keys()


@pytest.mark.parametrize(
    ("cpu", "memory", "in_go"),
    [
        ("0.5", "1024Mi", {"cpu": "500m", "memory": "1Gi", "pods": "1"}),
        ("1000m", "1.5Gi", {"cpu": "1", "memory": "1536Mi", "pods": "1"}),
        ("1", "1000M", {"cpu": "1", "memory": "1G", "pods": "1"}),
    ],
)
def test_requests_are_in_the_canonical_format_of_kubernetes(cpu, memory, in_go):
    assert spec_for(pod(cpu=cpu, memory=memory))["resources"] == {"requests": in_go}


@pytest.mark.parametrize(
    ("written", "in_go"), [("30s", "30s"), ("1h", "1h0m0s"), ("90m", "1h30m0s"), ("0.5s", "500ms")]
)
def test_the_termination_grace_period_is_in_the_format_of_go(written, in_go):
    assert spec_for(pod(), terminationGracePeriod=written)["terminationGracePeriod"] == in_go


@pytest.mark.parametrize("written", ["30h", "720h0m0s", "Never"])
def test_expire_after_is_kept_as_written(written):
    assert spec_for(pod(), expireAfter=written)["expireAfter"] == written

"""The migration guide has the commands that `dovetail adopt` prints."""

from pathlib import Path

from builders import nodepool
from core.adoption.known import facts
from dovetail.core.adoption.facts import KarpenterDeployment
from dovetail.core.adoption.steps import steps_back, switch_steps

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "migrate-from-karpenter.md"
EC2 = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}


def test_the_guide_has_every_command_in_order():
    karpenter = KarpenterDeployment(
        namespace="kube-system",
        name="karpenter",
        replicas=2,
        service_account="karpenter",
        environment={"CLUSTER_NAME": "demo", "INTERRUPTION_QUEUE": "demo"},
    )
    known = facts(pools=[nodepool(template=EC2)], karpenter=karpenter)
    steps = [*switch_steps(known, "registry.example.com/dovetail:0.1.0"), *steps_back(known)]
    written = iter([line.strip() for line in GUIDE.read_text().splitlines()])
    missing = [each for step in steps for each in step.commands if each not in written]
    assert missing == []

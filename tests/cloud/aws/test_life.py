"""The life of EC2 nodes from claim to end, with everything alive."""

import pytest

from cloud.aws.living import ON_DEMAND, alive, ec2_pool
from stories import deployment


@pytest.fixture
def life(moto, monkeypatch):
    return lambda story, *manifests, **given: alive(story, moto, monkeypatch, *manifests, **given)


def test_pods_get_an_instance_and_when_they_go_it_goes(life):
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled(), within=120)
        [instance] = await life.instances()
        [claim], [node] = life.claims, life.nodes
        assert claim.provider_id == node.provider_id == instance.provider_id
        assert claim.status.image_id == instance.image_id
        assert node.metadata.labels["karpenter.k8s.aws/instance-family"]
        assert node.metadata.labels["karpenter.sh/capacity-type"] == "on-demand"

    life(story, ec2_pool(ON_DEMAND), deployment(replicas=2, cpu="500m"))

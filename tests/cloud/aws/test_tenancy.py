"""Tenancy, over HTTP: the requirement of a NodeClaim is requested from EC2 and becomes a label of the node."""

import asyncio
from datetime import UTC, datetime

import pytest

from builders import nodepool
from cloud.aws.claims import ON_DEMAND, asked_for, launched_as, next_process, requests, types, wants
from cloud.aws.living import ON_DEMAND as ON_DEMAND_POOL
from cloud.aws.living import alive, ec2_pool
from dovetail.core.disruption.drift import deviation
from dovetail.model.nodeclaim import DRIFTED
from stories import deployment

TENANCY = "karpenter.k8s.aws/instance-tenancy"
DEDICATED = {"key": TENANCY, "operator": "In", "values": ["dedicated"]}
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("requirement", "tenancy"),
    [
        (None, "default"),
        (wants(TENANCY, "default", "dedicated"), "default"),
        (wants(TENANCY, "default"), "default"),
        (wants(TENANCY, "dedicated"), "dedicated"),
        (wants(TENANCY, "default", operator="NotIn"), "dedicated"),
    ],
)
def test_the_required_tenancy_is_requested_and_is_a_label_of_the_node(ready, requirement, tenancy):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND, types("m5.large"), *filter(None, [requirement]))
        instance = await account.provider.launch(asked)
        [template] = requests(account, "CreateLaunchTemplate")
        assert template["LaunchTemplateData.Placement.Tenancy"] == tenancy
        assert instance.labels[TENANCY] == tenancy
        assert (await next_process(account).launch(asked)).labels[TENANCY] == tenancy
        return launched_as(asked, instance)

    claim = ready(story)
    pool = nodepool(template={"requirements": [{"key": TENANCY, "operator": "In", "values": [tenancy]}]})
    assert deviation(claim, pool, None, NOW) == ""


def test_a_placement_group_and_a_tenancy_go_together(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND, types("m5.large"), wants(TENANCY, "dedicated"))
        await account.provider.launch(asked)
        [template] = requests(account, "CreateLaunchTemplate")
        placement = {name: value for name, value in template.items() if ".Placement." in name}
        assert placement == {
            "LaunchTemplateData.Placement.Tenancy": "dedicated",
            "LaunchTemplateData.Placement.GroupName": "near",
        }

    ready(story, node_class={"placementGroupSelector": {"name": "near"}})


def test_dedicated_nodes_do_not_drift(moto, monkeypatch):
    """Otherwise each replacement of a drifted node would be drifted, too."""

    async def story(life):
        await life.until(lambda: life.running(2) and life.settled(), within=1800)
        launched = len(life.proxy.fleets.launched)
        await asyncio.sleep(300)
        assert not any(claim.has(DRIFTED) for claim in life.claims)
        assert len(life.proxy.fleets.launched) == launched

    at_once = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    pool = ec2_pool(ON_DEMAND_POOL, DEDICATED, disruption=at_once)
    alive(story, moto, monkeypatch, pool, deployment(replicas=2, cpu="500m"), disruption="on")

"""When EC2 refuses, over HTTP: shortages are remembered, faults are told apart, templates come back or go."""

import pytest

from cloud.aws.claims import ON_DEMAND, SPOT, asked_for, next_process, requests, types
from cloud.aws.fleets import ICE
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import InsufficientCapacity, LaunchFailed, NodeClassNotReady


def test_the_next_best_is_taken_and_what_was_short_is_remembered_for_three_minutes(ready):
    async def story(account):
        fleets = account.proxy.fleets
        wanted = types("m5.large", "m5.xlarge")
        fleets.short = {"m5.large": ICE}
        instance = await account.provider.launch(await asked_for(account, ON_DEMAND, wanted))
        assert instance.labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
        fleets.short = {}
        for minutes, types_asked in ((0, {"m5.xlarge"}), (3, {"m5.large", "m5.xlarge"})):
            account.clock.pass_(minutes=minutes)
            await account.kept()
            await account.provider.launch(await asked_for(account, ON_DEMAND, wanted))
            assert {name for name, _ in fleets.asked[-1]} == types_asked

    ready(story)


def test_nothing_to_be_had_says_so_and_the_next_claim_asks_for_something_else(ready):
    async def story(account):
        account.proxy.fleets.short = {"m5.large": ICE}
        with pytest.raises(InsufficientCapacity, match=ICE):
            await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        with pytest.raises(InsufficientCapacity, match="all requested instance types were unavailable"):
            await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        assert account.proxy.calls["CreateFleet"] == 1

    ready(story)


def test_a_full_subnet_is_left_alone_for_a_while(ready):
    async def story(account):
        fleets = account.proxy.fleets
        fleets.short = {("m5.large", "us-east-1a"): "InsufficientFreeAddressesInSubnet"}
        instance = await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        assert instance.labels["topology.kubernetes.io/zone"] == "us-east-1b"
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.xlarge")))
        assert fleets.asked[-1] == [("m5.xlarge", "us-east-1b")]

    ready(story)


REFUSALS = [
    ("UnauthorizedOperation", LaunchFailed, "Unauthorized"),
    ("RequestLimitExceeded", LaunchFailed, "RequestLimitExceeded"),
    ("InvalidAMIID.NotFound", LaunchFailed, "AMINotFound"),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", LaunchFailed, "SpotSLRCreationFailed"),
    ("SomethingElse", LaunchFailed, "LaunchFailed"),
    ("VcpuLimitExceeded", InsufficientCapacity, None),
    ("MaxSpotInstanceCountExceeded", InsufficientCapacity, None),
]


@pytest.mark.parametrize("whole", [False, True], ids=["in the fleet", "of the request"])
def test_refusals_are_told_apart(ready, whole):
    async def story(account):
        for code, error, reason in REFUSALS:
            if whole:
                account.proxy.refuse("CreateFleet", code, times=1)
            else:
                account.proxy.fleets.short = {"*": code}
            with pytest.raises(error) as caught:
                await account.provider.launch(await asked_for(account, SPOT))
            assert getattr(caught.value, "reason", None) == reason
            account.clock.pass_(minutes=3)  # what was short is for sale again
            await account.kept()
        assert account.proxy.fleets.launched == []

    ready(story)


def test_what_cannot_even_be_sent_is_told_by_name(ready):
    async def story(account):
        with pytest.raises(LaunchFailed, match="UdpTimeout") as caught:
            await account.provider.launch(await asked_for(account, ON_DEMAND))
        assert caught.value.reason == "LaunchFailed"

    ready(story, node_class={"connectionTracking": {"udpTimeout": "a while"}})


def test_without_the_role_for_spot_all_spot_is_left_alone(ready):
    async def story(account):
        code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
        account.proxy.fleets.only, account.proxy.fleets.short = "spot", {"*": code}
        asked = await asked_for(account)
        with pytest.raises(LaunchFailed):
            await account.provider.launch(asked)
        instance = await account.provider.launch(asked)
        assert instance.labels["karpenter.sh/capacity-type"] == "on-demand"

    ready(story)


def test_a_template_that_somebody_deleted_is_made_again_once(ready):
    async def story(account):
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        [template] = requests(account, "CreateLaunchTemplate")
        name = template["LaunchTemplateName"]
        await account.aws.call("ec2", "delete_launch_template", LaunchTemplateName=name)
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        assert account.proxy.calls["CreateLaunchTemplate"] == 2
        assert len(account.proxy.fleets.launched) == 2
        account.proxy.refuse("CreateFleet", "InvalidLaunchTemplateName.NotFoundException")
        with pytest.raises(LaunchFailed):
            await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        assert account.proxy.calls["CreateLaunchTemplate"] == 3

    ready(story)


async def template_names(account):
    filters = [{"Name": "tag:eks:eks-cluster-name", "Values": [account.name]}]
    found = await account.aws.collect("ec2", "describe_launch_templates", "LaunchTemplates", Filters=filters)
    return [each["LaunchTemplateName"] for each in found]


def test_templates_nobody_uses_are_removed_also_those_of_a_process_that_died(ready):
    async def story(account):
        templates = account.parts.templates
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        account.clock.pass_(minutes=9)
        await templates.sweep()
        assert len(await template_names(account)) == 1
        heir = next_process(account).parts.templates
        await heir.adopt()
        account.clock.pass_(minutes=9)
        await heir.sweep()
        assert len(await template_names(account)) == 1
        account.clock.pass_(minutes=1)
        await heir.sweep()
        assert await template_names(account) == []
        account.proxy.refuse("DeleteLaunchTemplate", "InvalidLaunchTemplateName.NotFoundException")
        await templates.sweep()  # gone already, and no fault

    ready(story)


def test_a_class_that_goes_takes_its_templates_along(ready):
    async def story(account):
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        await account.world.delete(EC2_NODE_CLASS, Key("", "default"))
        await account.kept()
        assert await template_names(account) == []

    ready(story)


def test_a_class_that_is_not_ready_launches_nothing(ready):
    async def story(account):
        asked = await asked_for(account)
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"userData": "echo"}}))
        with pytest.raises(LaunchFailed) as caught:
            await account.provider.launch(asked)
        assert caught.value.reason == "NodeClassReadinessUnknown"
        nowhere = Patch({"spec": {"subnetSelectorTerms": [{"id": "subnet-0"}]}})
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), nowhere)
        await account.kept()
        with pytest.raises(NodeClassNotReady):
            await account.provider.launch(asked)
        await account.world.delete(EC2_NODE_CLASS, Key("", "default"))
        with pytest.raises(InsufficientCapacity):
            await account.provider.launch(asked)
        assert account.proxy.calls["CreateFleet"] == 0

    ready(story)

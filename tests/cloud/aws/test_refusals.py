"""Launch failures, over HTTP: shortages, errors, and missing launch templates."""

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


def test_a_shortage_fails_the_claim_and_the_next_one_requests_other_offerings(ready):
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
def test_launch_errors_are_distinguished(ready, whole):
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


def test_invalid_parameters_are_reported_by_name(ready):
    async def story(account):
        wrong = Patch({"spec": {"connectionTracking": {"udpTimeout": "a while"}}})
        with account.world.api.unchecked():
            account.world.api.patch(("karpenter.k8s.aws", "EC2NodeClass"), Key("", "default"), wrong)
        await account.kept()
        with pytest.raises(LaunchFailed, match="UdpTimeout") as caught:
            await account.provider.launch(await asked_for(account, ON_DEMAND))
        assert caught.value.reason == "LaunchFailed"

    ready(story)


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


def test_a_deleted_template_is_created_again_once(ready):
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


def test_unused_templates_are_deleted_including_those_of_an_earlier_process(ready):
    async def story(account):
        templates = account.parts.templates
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        account.clock.pass_(minutes=9)
        await templates.delete_unused()
        assert len(await template_names(account)) == 1
        heir = next_process(account).parts.templates
        await heir.adopt()
        account.clock.pass_(minutes=9)
        await heir.delete_unused()
        assert len(await template_names(account)) == 1
        account.clock.pass_(minutes=1)
        await heir.delete_unused()
        assert await template_names(account) == []
        account.proxy.refuse("DeleteLaunchTemplate", "InvalidLaunchTemplateName.NotFoundException")
        await templates.delete_unused()  # gone already, and no fault

    ready(story)


def test_templates_are_deleted_with_their_class(ready):
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

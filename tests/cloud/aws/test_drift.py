"""Drift, over HTTP: fields that shape the instance, resolved fields, and fields that cause no drift."""

import pytest
from msgspec.structs import replace

from cloud.aws.account import parameter
from cloud.aws.claims import ON_DEMAND, asked_for, launched_as, types
from dovetail.cloud.aws.drift import DriftUnknown
from dovetail.cloud.aws.instances import instance_id
from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import InstanceNotFound

CLASS = Key("", "default")


async def grown(account, **spec):
    """A claim with its instance, under a class that is ready."""
    await account.create(account.node_class(**spec))
    await account.kept()
    asked = await asked_for(account, ON_DEMAND, types("m5.large"))
    return launched_as(asked, await account.provider.launch(asked))


async def changed(account, **spec):
    """Change the class and reconcile it with empty caches."""
    await account.world.patch(EC2_NODE_CLASS, CLASS, Patch({"spec": spec}))
    account.clock.pass_(minutes=5)
    await account.kept()


VOLUME = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "30Gi"}}
STATIC = {
    "role": lambda account: {"role": f"{account.name}-other"},
    "userData": lambda _: {"userData": "echo"},
    "tags": lambda _: {"tags": {"team": "b"}},
    "blockDeviceMappings": lambda _: {"blockDeviceMappings": [VOLUME]},
    "metadataOptions": lambda _: {"metadataOptions": {"httpTokens": "optional"}},
    "kubelet": lambda _: {"kubelet": {"maxPods": 50}},
    "kubelet, not in Karpenter": lambda _: {"kubelet": {"containerLogMaxSize": "10Mi"}},
    "detailedMonitoring": lambda _: {"detailedMonitoring": True},
    "instanceStorePolicy": lambda _: {"instanceStorePolicy": "RAID0"},
    "associatePublicIPAddress": lambda _: {"associatePublicIPAddress": True},
}


def test_every_field_that_makes_an_instance_is_drift_when_it_changes(live):
    async def story(account):
        await account.add_role(f"{account.name}-other")
        claim = await grown(account)
        assert await account.provider.drift(claim) == ""
        original = account.node_class()["spec"]
        for field, change in STATIC.items():
            await changed(account, **change(account))
            assert await account.provider.drift(claim) == "NodeClassDrift", field
            back = {name: original.get(name) for name in change(account)}
            await changed(account, **back)
            assert await account.provider.drift(claim) == "", field

    live(story)


async def other_subnet(account):
    [instance] = await account.parts.instances.list()
    [subnet] = [each for each in account.subnets if each != instance.subnet_id]
    return {"subnetSelectorTerms": [{"id": subnet}]}


async def other_group(account):
    described = await account.aws.call("ec2", "describe_subnets", SubnetIds=account.subnets[:1])
    given = {"GroupName": f"{account.name}-other", "Description": "x", "VpcId": described["Subnets"][0]["VpcId"]}
    made = await account.aws.call("ec2", "create_security_group", **given)
    return {"securityGroupSelectorTerms": [{"id": made["GroupId"]}]}


async def one_group_more(account):
    other = await other_group(account)
    return {"securityGroupSelectorTerms": [{"id": account.group}, *other["securityGroupSelectorTerms"]]}


async def other_image(account):
    image = await account.new_image("/mine", "x86_64")
    return {"amiFamily": "AL2023", "amiSelectorTerms": [{"id": image}]}


RESOLVED = [
    (other_subnet, "SubnetDrift"),
    (other_group, "SecurityGroupDrift"),
    (one_group_more, "SecurityGroupDrift"),
    (other_image, "AMIDrift"),
]


@pytest.mark.parametrize(("change", "reason"), RESOLVED, ids=lambda each: getattr(each, "__name__", each))
def test_what_terms_resolve_to_is_drift_when_it_is_something_else(live, change, reason):
    async def story(account):
        claim = await grown(account)
        await changed(account, **await change(account))
        assert await account.provider.drift(claim) == reason

    live(story)


def test_an_equivalent_spec_is_no_drift(live):
    async def story(account):
        claim = await grown(account)
        await changed(
            account,
            subnetSelectorTerms=[{"id": subnet} for subnet in account.subnets],
            securityGroupSelectorTerms=[{"name": f"{account.name}-nodes"}],
            amiFamily="AL2023",
            amiSelectorTerms=[{"id": image} for image in account.images.values()],
        )
        assert await account.provider.drift(claim) == ""
        await changed(account, ipPrefixCount=4)
        assert await account.provider.drift(claim) == ""

    live(story)


def test_a_new_image_behind_the_alias_is_drift_without_a_change_of_the_class(live):
    async def story(account):
        claim = await grown(account)
        generation = (await account.read()).metadata.generation
        state = (await account.provider.node_class(claim.spec.node_class_ref)).state
        await changed(account)
        assert (await account.provider.node_class(claim.spec.node_class_ref)).state == state
        await account.new_image(parameter("arm64"), "arm64")
        await changed(account)
        assert await account.provider.drift(claim) == ""  # it is not for this machine
        await account.new_image(parameter("x86_64"), "x86_64")
        await changed(account)
        assert await account.provider.drift(claim) == "AMIDrift"
        assert (await account.provider.node_class(claim.spec.node_class_ref)).state != state  # so it is no loop
        assert (await account.read()).metadata.generation == generation

    live(story)


def test_a_reservation_that_is_no_longer_selected_is_drift(live):
    async def story(account):
        place = {"availabilityZone": "us-east-1a", "instanceType": "m5.large", "state": "active"}
        more = {"availableInstanceCount": 2, "reservationType": "default"}
        account.proxy.reserves({"capacityReservationId": "cr-1"} | place | more)
        await account.create(account.node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}]))
        await account.kept()
        asked = await asked_for(account, types("m5.large"))
        claim = launched_as(asked, await account.provider.launch(asked))
        assert claim.metadata.labels["karpenter.sh/capacity-type"] == "reserved"
        assert await account.provider.drift(claim) == ""
        account.proxy.heal()
        account.proxy.reserves({"capacityReservationId": "cr-2"} | place | more)
        await changed(account, capacityReservationSelectorTerms=[{"id": "cr-2"}])
        assert await account.provider.drift(claim) == "CapacityReservationDrift"

    live(story)


def test_stamps_of_another_version_are_not_compared(live):
    async def story(account):
        claim = await grown(account)
        claim.metadata.annotations[CLASS_HASH_VERSION] = "v6"
        await changed(account, userData="echo")
        assert await account.provider.drift(claim) == ""

    live(story)


def test_an_undecidable_comparison_is_not_drift(live):
    async def story(account):
        claim = await grown(account)
        await account.world.patch(EC2_NODE_CLASS, CLASS, Patch({"spec": {"subnetSelectorTerms": [{"id": "subnet-0"}]}}))
        with pytest.raises(DriftUnknown, match="not been reconciled"):
            await account.provider.drift(claim)
        await changed(account)
        with pytest.raises(DriftUnknown, match="no subnets"):
            await account.provider.drift(claim)
        await account.aws.call("ec2", "terminate_instances", InstanceIds=[claim.provider_id.rpartition("/")[2]])
        await account.provider.list()
        await changed(account, subnetSelectorTerms=account.node_class()["spec"]["subnetSelectorTerms"])
        with pytest.raises(InstanceNotFound):
            await account.provider.drift(claim)
        await account.world.patch(EC2_NODE_CLASS, CLASS, Patch({"metadata": {"finalizers": None}}))
        await account.world.delete(EC2_NODE_CLASS, CLASS)
        assert await account.provider.drift(claim) == ""

    live(story)


def test_the_definition_changes_with_the_drift_verdict_and_not_with_an_equivalent_spec(live):
    async def story(account):
        await grown(account)
        defined, made = account.parts.nodeclass_reconciler.definition, await account.read()
        turned = replace(made, status=replace(made.status, subnets=made.status.subnets[::-1]))
        assert defined(turned) == defined(made)  # their order changes with every address that is taken
        seen = [defined(made)]
        for change in (other_subnet, other_group, other_image):
            await changed(account, **await change(account))
            assert defined(await account.read()) not in seen
            seen.append(defined(await account.read()))
        await changed(account, userData="echo")
        assert defined(await account.read()) not in seen

    live(story)


def test_drift_of_listed_instances_needs_no_request(live):
    async def story(account):
        claim = await grown(account)
        await account.provider.list()
        account.proxy.calls.clear()
        for _ in range(50):
            assert await account.provider.drift(claim) == ""
        assert account.proxy.calls.total() == 0

    live(story)


def test_a_launch_that_is_found_again_has_the_hashes_of_its_launch(live):
    async def story(account):
        claim = await grown(account)
        first = claim.metadata.annotations[CLASS_HASH]
        await changed(account, userData="echo")
        again = await account.provider.launch(claim)
        assert again.annotations[CLASS_HASH] == first
        assert await account.provider.drift(launched_as(claim, again)) == "NodeClassDrift"

    live(story)


def test_a_launch_with_a_hash_of_another_version_does_not_drift(live):
    """Its instance was launched by an earlier version of Dovetail, whose tag had no version."""

    async def story(account):
        claim = await grown(account)
        resource = {"Resources": [instance_id(claim.provider_id)]}
        await account.aws.call("ec2", "create_tags", **resource, Tags=[{"Key": CLASS_HASH, "Value": "1"}])
        await account.aws.call("ec2", "delete_tags", **resource, Tags=[{"Key": CLASS_HASH_VERSION}])
        again = await account.provider.launch(claim)
        assert again.annotations[CLASS_HASH] == (await account.read()).metadata.annotations[CLASS_HASH]
        assert await account.provider.drift(launched_as(claim, again)) == ""

    live(story)


def test_a_launch_before_the_class_was_reconciled_has_the_current_hash(live):
    """A newer Karpenter stamped the class, and it is Ready: launches do not wait for the first reconcile."""

    async def story(account):
        theirs = {CLASS_HASH: "1", CLASS_HASH_VERSION: "v6"}
        claim = await grown(account)
        written = claim.metadata.annotations[CLASS_HASH]
        await account.world.patch(EC2_NODE_CLASS, CLASS, Patch({"metadata": {"annotations": theirs}}))
        asked = await asked_for(account, ON_DEMAND, types("m5.large"))
        made = await account.provider.launch(asked)
        assert (made.annotations[CLASS_HASH], made.annotations[CLASS_HASH_VERSION]) == (written, "v5")

    live(story)

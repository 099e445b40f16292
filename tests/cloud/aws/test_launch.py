"""Launching, over HTTP: the requests to EC2, its errors, and that nothing is launched twice."""

import asyncio
import base64

import pytest

from cloud.aws.claims import ON_DEMAND, RESERVED, SPOT, asked_for, next_process, requests, types, values, wants
from cloud.aws.nodes import node_config
from cloud.aws.proxy import ec2_reply
from dovetail.cloud.aws.labels import CLAIM_UID_TAG, CLASS_HASH, CLASS_HASH_VERSION
from dovetail.model.taints import Taint
from dovetail.ports.errors import InsufficientCapacity, LaunchFailed

MANY = tuple(
    f"{family}.{size}"
    for family in ("m5", "r5", "m6i", "r6i", "m5a", "r5a", "m5d", "r5d", "c6i", "m6a")
    for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge")
)


def test_one_request_asks_for_the_cheapest_types_in_every_zone(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND)
        instance = await account.provider.launch(asked)
        [request] = requests(account)
        assert request["Type"] == "instant"
        assert request["ClientToken"] == f"{asked.metadata.uid}-0"
        assert request["TargetCapacitySpecification.TotalTargetCapacity"] == "1"
        assert request["OnDemandOptions.AllocationStrategy"] == "lowest-price"
        assert not any(name.startswith("SpotOptions") for name in request)
        bought = values(request, ".InstanceType")
        assert "p4d.24xlarge" not in bought  # nobody wants it by accident
        assert "g5.xlarge" not in bought
        assert {"m5.large", "m6g.large", "c5.xlarge"} <= set(bought)
        assert set(values(request, ".SubnetId")) == set(account.subnets)
        assert instance.labels["node.kubernetes.io/instance-type"] in bought
        assert instance.image_id in account.images.values()

    ready(story)


def test_spot_is_left_to_ec2_to_choose_by_price_and_capacity(ready):
    async def story(account):
        await account.provider.launch(await asked_for(account, SPOT))
        [request] = requests(account)
        assert request["SpotOptions.AllocationStrategy"] == "price-capacity-optimized"
        assert request["TargetCapacitySpecification.DefaultTargetCapacityType"] == "spot"

    ready(story)


def test_no_more_than_sixty_types_are_requested(ready):
    async def story(account):
        account.proxy.narrow = MANY
        await account.provider.launch(await asked_for(account, ON_DEMAND, wants("kubernetes.io/arch", "amd64")))
        [request] = requests(account)
        bought = values(request, ".InstanceType")
        assert len(set(bought)) == 60
        assert bought[0] == "c6i.large"
        assert "r5.16xlarge" not in bought

    ready(story)


def test_everything_made_is_tagged_so_that_it_is_found_again(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND)
        await account.provider.launch(asked)
        [instance] = await account.parts.instances.list()
        made = await account.read()
        assert instance.tags == {
            "Name": "mine",
            "team": "a",
            f"kubernetes.io/cluster/{account.name}": "owned",
            "eks:eks-cluster-name": account.name,
            "karpenter.sh/nodepool": "default",
            "karpenter.sh/nodeclaim": asked.name,
            "karpenter.k8s.aws/ec2nodeclass": "default",
            CLAIM_UID_TAG: asked.metadata.uid,
            **{name: made.metadata.annotations[name] for name in (CLASS_HASH, CLASS_HASH_VERSION)},
        }
        [request] = requests(account)
        assert set(values(request, ".ResourceType")) == {"instance", "volume", "fleet"}
        [template, *_] = requests(account, "CreateLaunchTemplate")
        own = [value for name, value in template.items() if name.startswith("TagSpecification.1.Tag.")]
        assert {"karpenter.sh/nodepool", "eks:eks-cluster-name", f"kubernetes.io/cluster/{account.name}"} <= set(own)

    ready(story, node_class={"tags": {"team": "a", "Name": "mine"}})


def test_a_template_has_the_settings_of_the_class_and_the_bootstrap_of_the_node(ready):
    async def story(account):
        taint = Taint("dedicated", "a", "NoSchedule")
        await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large"), taints=(taint,)))
        [template] = requests(account, "CreateLaunchTemplate")
        data = {name.removeprefix("LaunchTemplateData."): value for name, value in template.items()}
        assert data["ImageId"] == account.images["x86_64"]
        assert data["SecurityGroupId.1"] == account.group
        assert data["MetadataOptions.HttpTokens"] == "required"
        assert data["BlockDeviceMapping.1.Ebs.VolumeSize"] == "20"
        assert data["CapacityReservationSpecification.CapacityReservationPreference"] == "none"
        config = node_config(data["UserData"])["spec"]
        assert config["cluster"]["name"] == account.name
        assert config["kubelet"]["config"]["maxPods"] == 29
        assert config["kubelet"]["config"]["registerWithTaints"] == [
            {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        ]
        [flag] = config["kubelet"]["flags"]
        assert "karpenter.sh/nodepool=default" in flag
        assert "team=a" in flag
        assert "echo mine" in base64.b64decode(data["UserData"]).decode()

    ready(story, node_class={"userData": "#!/bin/bash\necho mine"})


def test_connection_tracking_and_context_of_the_class_are_passed_on(ready):
    async def story(account):
        await account.provider.launch(await asked_for(account, ON_DEMAND))
        [fleet], [template, *_] = requests(account), requests(account, "CreateLaunchTemplate")
        assert fleet["Context"] == "capacity-1"
        told = "LaunchTemplateData.NetworkInterface.1.ConnectionTrackingSpecification"
        assert template[f"{told}.UdpTimeout"] == "30"
        assert template[f"{told}.TcpEstablishedTimeout"] == "350"
        types = await account.provider.types_of(await account.read())
        unsold = {each.name for each in types if not any(offering.available for offering in each.offerings)}
        assert "t2.large" in unsold  # only Nitro keeps track that way
        assert "m5.large" not in unsold

    tracked = {"udpTimeout": 30, "tcpEstablishedTimeout": 350}
    ready(
        story,
        node_class={"context": "capacity-1", "connectionTracking": tracked},
        narrow=("a1.large", "m5.large", "t2.large"),
    )


def test_a_repeated_launch_returns_the_same_instance(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND)
        first = await account.provider.launch(asked)
        again = await next_process(account).launch(asked)
        assert (again.provider_id, again.annotations, again.labels) == (
            first.provider_id,
            first.annotations,
            first.labels,
        )
        assert len(account.proxy.fleets.launched) == account.proxy.calls["CreateFleet"] == 1

    ready(story)


def hide_instances(account):
    """EC2's lists lag behind."""
    account.proxy.on("DescribeInstances", lambda _: ec2_reply("DescribeInstances", "<reservationSet/>"))


def test_while_lists_lag_the_token_gives_the_same_instance(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND)
        first = await account.provider.launch(asked)
        hide_instances(account)
        again = await next_process(account).launch(asked)
        assert again.provider_id == first.provider_id
        assert len(account.proxy.fleets.launched) == 1
        assert account.proxy.calls["CreateFleet"] == 2

    ready(story)


def test_while_lists_lag_changed_parameters_launch_nothing_more(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND)
        first = await account.provider.launch(asked)
        hide_instances(account)
        new = next_process(account)
        new.avoid("m5.large", "us-east-1a", "on-demand")  # so that the request differs
        for _ in range(3):
            with pytest.raises(LaunchFailed) as caught:
                await new.launch(asked)
            assert caught.value.reason == "LaunchUnsettled"
            account.clock.pass_(seconds=15)
        account.proxy.heal()
        assert (await new.launch(asked)).provider_id == first.provider_id
        assert len(account.proxy.fleets.launched) == 1

    ready(story)


def test_a_launch_with_a_lost_response_is_repeated_and_finds_its_instance(ready):
    async def story(account):
        account.proxy.fleets.lose = 1
        asked = await asked_for(account, ON_DEMAND)
        with pytest.raises(LaunchFailed):
            await account.provider.launch(asked)
        instance = await account.provider.launch(asked)
        assert [instance.provider_id.rpartition("/")[2]] == account.proxy.fleets.launched

    ready(story)


def test_a_failed_try_is_followed_by_one_with_another_token(ready):
    async def story(account):
        fleets, asked = account.proxy.fleets, await asked_for(account, ON_DEMAND, types("m5.large"))
        fleets.short = {"*": "UnauthorizedOperation"}
        with pytest.raises(LaunchFailed) as caught:
            await account.provider.launch(asked)
        assert caught.value.reason == "Unauthorized"
        fleets.short = {}
        instance = await account.provider.launch(asked)
        again = await next_process(account).launch(asked)
        assert again.provider_id == instance.provider_id
        assert [request["ClientToken"][-2:] for request in requests(account)] == ["-0", "-1"]

    ready(story)


def test_a_next_process_walks_the_tries_of_the_last_even_while_lists_lag(ready):
    async def story(account):
        fleets, asked = account.proxy.fleets, await asked_for(account, ON_DEMAND, types("m5.large"))
        fleets.short = {"*": "UnauthorizedOperation"}
        with pytest.raises(LaunchFailed):
            await account.provider.launch(asked)
        fleets.short = {}
        first = await account.provider.launch(asked)
        hide_instances(account)
        new = next_process(account)
        with pytest.raises(LaunchFailed):
            await new.launch(asked)  # what EC2 answered to the first try
        assert (await new.launch(asked)).provider_id == first.provider_id
        assert len(fleets.launched) == 1

    ready(story)


def test_an_instance_that_died_before_it_was_written_down_gives_the_claim_up(ready):
    async def story(account):
        asked = await asked_for(account, ON_DEMAND)
        await account.provider.launch(asked)
        await account.aws.call("ec2", "terminate_instances", InstanceIds=account.proxy.fleets.launched)
        with pytest.raises(InsufficientCapacity, match="terminated before"):
            await next_process(account).launch(asked)

    ready(story)


def test_reserved_capacity_comes_first_and_is_used_only_on_purpose(live):
    async def story(account):
        place = {"capacityReservationId": "cr-1", "availabilityZone": "us-east-1a", "instanceType": "m5.large"}
        account.proxy.reserves(place | {"state": "active", "availableInstanceCount": 2, "reservationType": "default"})
        await account.create(account.node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}]))
        await account.kept()
        capacity = wants("karpenter.sh/capacity-type", "reserved", "on-demand")
        instance = await account.provider.launch(await asked_for(account, capacity, types("m5.large", "m5.xlarge")))
        [template] = requests(account, "CreateLaunchTemplate")
        told = "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
        assert template[told] == "cr-1"
        assert instance.labels["karpenter.k8s.aws/capacity-reservation-id"] == "cr-1"
        assert instance.labels["karpenter.sh/capacity-type"] == "reserved"
        account.proxy.fleets.short = {"m5.large": "ReservationCapacityExceeded"}
        with pytest.raises(InsufficientCapacity):
            await account.provider.launch(await asked_for(account, capacity, types("m5.large", "m5.xlarge")))
        account.proxy.fleets.short = {}
        other = await account.provider.launch(await asked_for(account, capacity, types("m5.large", "m5.xlarge")))
        assert other.labels["karpenter.sh/capacity-type"] == "on-demand"
        with pytest.raises(InsufficientCapacity):
            await account.provider.launch(await asked_for(account, RESERVED, types("m5.xlarge")))

    live(story)


def test_a_hundred_launches_cost_little_more_than_a_hundred_requests(ready):
    async def story(account):
        asked = [await asked_for(account, ON_DEMAND) for _ in range(100)]
        account.proxy.calls.clear()
        await asyncio.gather(*(account.provider.launch(each) for each in asked))
        calls = account.proxy.calls
        assert calls["CreateFleet"] == 100
        assert calls["DescribeInstances"] <= 2
        assert calls.total() <= 100 + 10

    ready(story)

"""EC2 instances that boot: each reads its own user data and joins the cluster as the node it describes.

Stands where the machine, its kubelet and the cloud controller would be. It goes to moto directly, so that what it asks
is not counted as asked by the program.
"""

import asyncio
import base64
from contextlib import asynccontextmanager, suppress
from email import message_from_string

import yaml
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError

from dovetail.model.kinds import NODE_CLAIM
from dovetail.sim.kubernetes.kubelet import FAKE_NODE

ROOM = {"cpu": "4", "memory": "7Gi", "ephemeral-storage": "20Gi"}
"""Capacity of an instance type without a description."""


@asynccontextmanager
async def booting(moto, world, cluster_name, deaf=()):
    """Every instance registers as a node, except those of the types in `deaf`."""
    async with get_session().create_client("ec2", region_name="us-east-1", endpoint_url=moto) as ec2:
        boots = asyncio.create_task(_boot_all(ec2, world, cluster_name, deaf))
        try:
            yield ec2
        finally:
            boots.cancel()
            await asyncio.wait([boots])
            if not boots.cancelled():
                boots.result()


async def _boot_all(ec2, world, cluster_name, deaf):
    filters = [{"Name": "tag:eks:eks-cluster-name", "Values": [cluster_name]}]
    booted = set()
    while True:
        with suppress(BotoCoreError):  # time-outs are hurried: a slow moto is asked again
            await _boot_some(ec2, world, filters, booted, deaf)
        await asyncio.sleep(1)


async def _boot_some(ec2, world, filters, booted, deaf):
    said = await ec2.describe_instances(Filters=filters)
    for each in [each for reservation in said["Reservations"] for each in reservation["Instances"]]:
        alive = each["State"]["Name"] in ("pending", "running")
        if alive and each["InstanceId"] not in booted and each["InstanceType"] not in deaf:
            world.apply(await _node(ec2, world, each))
            booted.add(each["InstanceId"])


async def _node(ec2, world, instance):
    id_ = instance["InstanceId"]
    told = await ec2.describe_instance_attribute(InstanceId=id_, Attribute="userData")
    config = node_config(told["UserData"]["Value"])
    zone = instance["Placement"]["AvailabilityZone"]
    kubelet = config["spec"]["kubelet"]
    [flag] = kubelet["flags"]
    labels = dict(pair.split("=") for pair in flag.removeprefix("--node-labels=").split(","))
    uid = next(tag["Value"] for tag in instance["Tags"] if tag["Key"] == "dovetail.sh/nodeclaim-uid")
    claimed = [claim.status.capacity for claim in world.values(NODE_CLAIM) if claim.metadata.uid == uid]
    told = claimed[0] if claimed and claimed[0] else ROOM
    room = {name: str(amount) for name, amount in told.items()}
    room |= {"pods": str(kubelet["config"]["maxPods"])}
    told = {
        "topology.kubernetes.io/zone": zone,
        "node.kubernetes.io/instance-type": instance["InstanceType"],
        "kubernetes.io/hostname": f"node-{id_}",
        "kubernetes.io/os": "linux",
        FAKE_NODE: "fake",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{id_}", "labels": labels | told, "annotations": {FAKE_NODE: "fake"}},
        "spec": {"providerID": f"aws:///{zone}/{id_}", "taints": kubelet["config"]["registerWithTaints"]},
        "status": {"capacity": room, "allocatable": room},
    }


def node_config(user_data):
    """The generated NodeConfig: the last part of the archive."""
    archive = message_from_string(base64.b64decode(user_data).decode())
    parts = [part for part in archive.walk() if part.get_content_type() == "application/node.eks.aws"]
    return yaml.safe_load(parts[-1].get_payload())

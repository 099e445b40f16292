"""Instance profiles made from the role of a node class.

The name follows from cluster, class and role, so a creation that was cut short is found and finished, and another role
makes another profile: instances keep the one they were started with. All of a class live under one IAM path, by which
they are found again when the class goes.
"""

import hashlib
from datetime import timedelta

from dovetail.cloud.aws.labels import CLUSTER_NAME_TAG, NODE_CLASS_TAG, cluster_tag
from dovetail.cloud.aws.remembered import Remembered
from dovetail.cloud.aws.session import Aws, AwsError
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=15)
_LONGEST_NAME = 128


class InstanceProfiles:
    """Makes, finds and removes instance profiles."""

    def __init__(self, aws: Aws, clock: Clock, cluster_name: str) -> None:
        self._aws = aws
        self._cluster_name = cluster_name
        self._kept: Remembered[str, bool] = Remembered(clock, LIFETIME)

    async def ensure(self, node_class: EC2NodeClass) -> str:
        """The name of the profile the class runs with, made if it has to be."""
        if node_class.spec.instance_profile:
            return node_class.spec.instance_profile
        name = self._name(node_class)
        await self._kept.get(name, lambda: self._make(name, node_class))
        return name

    async def exists(self, name: str) -> bool:
        """Whether there is a profile of that name; asked at most every quarter of an hour while there is."""
        found = await self._kept.get(name, lambda: self._found(name))
        if not found:
            self._kept.forget(name)
        return found

    async def remove_all(self, node_class: EC2NodeClass) -> None:
        """Remove every profile that was made for the class."""
        path = self._path(node_class)
        for each in await self._aws.collect("iam", "list_instance_profiles", "InstanceProfiles", PathPrefix=path):
            name = each["InstanceProfileName"]
            for role in each["Roles"]:
                given = {"InstanceProfileName": name, "RoleName": role["RoleName"]}
                await self._quietly("remove_role_from_instance_profile", **given)
            await self._quietly("delete_instance_profile", InstanceProfileName=name)
            self._kept.forget(name)

    async def _make(self, name: str, node_class: EC2NodeClass) -> bool:
        role = node_class.spec.role
        try:
            answer = await self._aws.call("iam", "get_instance_profile", InstanceProfileName=name)
        except AwsError as error:
            if not error.missing:
                raise
            tags = {
                cluster_tag(self._cluster_name): "owned",
                CLUSTER_NAME_TAG: self._cluster_name,
                NODE_CLASS_TAG: node_class.name,
            }
            listed = [{"Key": key, "Value": value} for key, value in tags.items()]
            path = self._path(node_class)
            answer = await self._aws.call(
                "iam", "create_instance_profile", InstanceProfileName=name, Path=path, Tags=listed
            )
        if not answer["InstanceProfile"]["Roles"]:
            await self._aws.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role)
        return True

    async def _found(self, name: str) -> bool:
        try:
            await self._aws.call("iam", "get_instance_profile", InstanceProfileName=name)
        except AwsError as error:
            if error.missing:
                return False
            raise
        return True

    async def _quietly(self, operation: str, **given: str) -> None:
        """Remove something that may be gone already."""
        try:
            await self._aws.call("iam", operation, **given)
        except AwsError as error:
            if not error.missing:
                raise

    def _path(self, node_class: EC2NodeClass) -> str:
        return f"/karpenter/{self._aws.region}/{self._cluster_name}/{node_class.metadata.uid}/"

    def _name(self, node_class: EC2NodeClass) -> str:
        told = f"{self._aws.region}/{self._cluster_name}/{node_class.metadata.uid}/{node_class.spec.role}"
        digest = hashlib.sha256(told.encode()).hexdigest()[:20]
        return f"{self._cluster_name[: _LONGEST_NAME - len(digest) - 1]}_{digest}"

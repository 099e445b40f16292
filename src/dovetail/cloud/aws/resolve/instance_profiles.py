"""Instance profiles made from the role of a node class.

The name follows from cluster, class and role, so a creation that was cut short is found and finished, and another role
makes another profile: instances keep the one they were started with. All of a class live under one IAM path, by which
they are found again when the class goes.
"""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError, TtlCache
from dovetail.cloud.aws.labels import CLUSTER_NAME_TAG, NODE_CLASS_TAG, cluster_tag
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=15)
PROTECTED = timedelta(hours=1)
_LONGEST_NAME = 128


class InstanceProfiles:
    """Makes, finds and removes instance profiles."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._kept: TtlCache[str, bool] = TtlCache(clock, LIFETIME)

    async def ensure(self, node_class: EC2NodeClass, in_use: frozenset[str] | None = None) -> str:
        """The name of the profile the class runs with, made if it has to be.

        `in_use` are those its instances were started with, None if that is not known. Others that were made for it
        are removed an hour after they were: an instance may be starting with one that nobody has told of yet.
        """
        if node_class.spec.instance_profile:
            return node_class.spec.instance_profile
        name = self._name(node_class)
        await self._kept.get(name, lambda: self._make(name, node_class, in_use))
        return name

    async def exists(self, name: str) -> bool:
        """Whether there is a profile of that name; asked at most every quarter of an hour while there is."""
        found = await self._kept.get(name, lambda: self._found(name))
        if not found:
            self._kept.forget(name)
        return found

    async def remove_all(self, node_class: EC2NodeClass) -> None:
        """Remove every profile that was made for the class."""
        for each in await self._made_for(node_class):
            await self._remove(each)

    async def _make(self, name: str, node_class: EC2NodeClass, in_use: frozenset[str] | None) -> bool:
        made = {each["InstanceProfileName"]: each for each in await self._made_for(node_class)}
        if name not in made or not made[name]["Roles"]:
            await self._complete(name, node_class, exists=name in made)
        for other, profile in made.items():
            old = profile["CreateDate"] <= self._clock.now() - PROTECTED
            if in_use is not None and other != name and other not in in_use and old:
                await self._remove(profile)
        return True

    async def _complete(self, name: str, node_class: EC2NodeClass, *, exists: bool) -> None:
        if not exists:
            tags = {
                cluster_tag(self._cluster_name): "owned",
                CLUSTER_NAME_TAG: self._cluster_name,
                NODE_CLASS_TAG: node_class.name,
            }
            listed = [{"Key": key, "Value": value} for key, value in tags.items()]
            path = self._path(node_class)
            await self._aws.call("iam", "create_instance_profile", InstanceProfileName=name, Path=path, Tags=listed)
        role = node_class.spec.role
        await self._aws.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role)

    async def _made_for(self, node_class: EC2NodeClass) -> list[Mapping[str, Any]]:
        path = self._path(node_class)
        return await self._aws.collect("iam", "list_instance_profiles", "InstanceProfiles", PathPrefix=path)

    async def _remove(self, profile: Mapping[str, Any]) -> None:
        name = profile["InstanceProfileName"]
        for role in profile["Roles"]:
            given = {"InstanceProfileName": name, "RoleName": role["RoleName"]}
            await self._quietly("remove_role_from_instance_profile", **given)
        await self._quietly("delete_instance_profile", InstanceProfileName=name)
        self._kept.forget(name)

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

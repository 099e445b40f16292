"""Creates and deletes the IAM instance profiles of EC2NodeClasses that specify a role.

The name is a hash of cluster, class and role. An interrupted creation therefore finds its profile again and completes
it, and a changed role gets a new profile while existing instances keep theirs. All profiles of a class have one IAM
path, by which they are found when the class is deleted.
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
MIN_AGE_TO_DELETE = timedelta(hours=1)
_MAX_NAME_LENGTH = 128


class InstanceProfiles:
    """Creates, finds and deletes instance profiles."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._cache: TtlCache[str, bool] = TtlCache(clock, LIFETIME)

    async def ensure(self, node_class: EC2NodeClass, in_use: frozenset[str] | None = None) -> str:
        """Return the name of the class's profile; create the profile if it does not exist.

        `in_use` are the profiles of the existing instances, None if unknown. Other profiles of the class are deleted
        once they are an hour old: an instance that is just launching may use one that `in_use` does not have yet.
        """
        if node_class.spec.instance_profile:
            return node_class.spec.instance_profile
        name = self._name(node_class)
        await self._cache.get(name, lambda: self._ensure_created(name, node_class, in_use))
        return name

    async def exists(self, name: str) -> bool:
        """Whether a profile of that name exists; a positive answer is cached for 15 minutes."""
        found = await self._cache.get(name, lambda: self._lookup(name))
        if not found:
            self._cache.forget(name)
        return found

    async def delete_all(self, node_class: EC2NodeClass) -> None:
        """Delete every profile that was created for the class."""
        for each in await self._list_for_class(node_class):
            await self._delete(each)

    async def _ensure_created(self, name: str, node_class: EC2NodeClass, in_use: frozenset[str] | None) -> bool:
        existing = {each["InstanceProfileName"]: each for each in await self._list_for_class(node_class)}
        if name not in existing or not existing[name]["Roles"]:
            await self._complete(name, node_class, exists=name in existing)
        for other, profile in existing.items():
            old = profile["CreateDate"] <= self._clock.now() - MIN_AGE_TO_DELETE
            if in_use is not None and other != name and other not in in_use and old:
                await self._delete(profile)
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

    async def _list_for_class(self, node_class: EC2NodeClass) -> list[Mapping[str, Any]]:
        path = self._path(node_class)
        return await self._aws.collect("iam", "list_instance_profiles", "InstanceProfiles", PathPrefix=path)

    async def _delete(self, profile: Mapping[str, Any]) -> None:
        name = profile["InstanceProfileName"]
        for role in profile["Roles"]:
            parameters = {"InstanceProfileName": name, "RoleName": role["RoleName"]}
            await self._delete_if_exists("remove_role_from_instance_profile", **parameters)
        await self._delete_if_exists("delete_instance_profile", InstanceProfileName=name)
        self._cache.forget(name)

    async def _lookup(self, name: str) -> bool:
        try:
            await self._aws.call("iam", "get_instance_profile", InstanceProfileName=name)
        except AwsError as error:
            if error.missing:
                return False
            raise
        return True

    async def _delete_if_exists(self, operation: str, **parameters: str) -> None:
        """Call a delete operation, and ignore that the resource does not exist."""
        try:
            await self._aws.call("iam", operation, **parameters)
        except AwsError as error:
            if not error.missing:
                raise

    def _path(self, node_class: EC2NodeClass) -> str:
        return f"/karpenter/{self._aws.region}/{self._cluster_name}/{node_class.metadata.uid}/"

    def _name(self, node_class: EC2NodeClass) -> str:
        identity = f"{self._aws.region}/{self._cluster_name}/{node_class.metadata.uid}/{node_class.spec.role}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:20]
        return f"{self._cluster_name[: _MAX_NAME_LENGTH - len(digest) - 1]}_{digest}"

"""Creates and deletes the IAM instance profiles of EC2NodeClasses that specify a role.

The profile in the status of the class is kept while it has the role of the class, even if Karpenter created it.
Otherwise the name is a hash of cluster, class and role: an interrupted creation finds its profile again and completes
it, and a changed role gets a new profile while existing instances keep theirs. All profiles of a class have one IAM
path, by which they are found when the class is deleted. Path and tags are those of Karpenter; its IAM policy requires
the tags.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError, TtlCache
from dovetail.cloud.aws.labels import CLUSTER_NAME_TAG, NODE_CLASS_TAG, cluster_tag
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import REGION
from dovetail.model.struct_hash import struct_hash
from dovetail.ports.clock import Clock

log = logging.getLogger(__name__)
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
        self._names: TtlCache[tuple[str, str], str] = TtlCache(clock, LIFETIME)

    async def ensure(self, node_class: EC2NodeClass, in_use: frozenset[str] | None = None) -> str:
        """Return the name of the class's profile; create the profile if it does not exist.

        `in_use` are the profiles of the existing instances, None if unknown. Other profiles of the class are deleted
        once they are an hour old: an instance that is just launching may use one that `in_use` does not have yet.
        """
        if node_class.spec.instance_profile:
            return node_class.spec.instance_profile
        key = (node_class.metadata.uid, node_class.spec.role)
        return await self._names.get(key, lambda: self._ensure_created(node_class, in_use))

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

    async def _ensure_created(self, node_class: EC2NodeClass, in_use: frozenset[str] | None) -> str:
        existing = {each["InstanceProfileName"]: each for each in await self._list_for_class(node_class)}
        name = node_class.status.instance_profile
        if name not in existing or _roles(existing[name]) != [_role_name(node_class)]:
            name = self._name(node_class)
            if name not in existing or not existing[name]["Roles"]:
                await self._complete(name, node_class, exists=name in existing)
        for other, profile in existing.items():
            old = profile["CreateDate"] <= self._clock.now() - MIN_AGE_TO_DELETE
            if in_use is not None and other != name and other not in in_use and old:
                await self._delete_unused(profile)
        return name

    async def _delete_unused(self, profile: Mapping[str, Any]) -> None:
        """Delete a profile that nothing uses. A denial, for example for want of tags, is only logged."""
        try:
            await self._delete(profile)
        except AwsError as error:
            if not error.unauthorized:
                raise
            name = profile["InstanceProfileName"]
            log.warning("could not delete an unused instance profile", extra={"profile": name, "error": str(error)})

    async def _complete(self, name: str, node_class: EC2NodeClass, *, exists: bool) -> None:
        if not exists:
            tags = {
                **node_class.spec.tags,
                cluster_tag(self._cluster_name): "owned",
                CLUSTER_NAME_TAG: self._cluster_name,
                NODE_CLASS_TAG: node_class.name,
                REGION: self._aws.region,
            }
            listed = [{"Key": key, "Value": value} for key, value in tags.items()]
            path = self._path(node_class)
            await self._aws.call("iam", "create_instance_profile", InstanceProfileName=name, Path=path, Tags=listed)
        role = _role_name(node_class)
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
        digest = str(struct_hash(identity))
        return f"{self._cluster_name[: _MAX_NAME_LENGTH - len(digest) - 1]}_{digest}"


def _role_name(node_class: EC2NodeClass) -> str:
    """The name of the role; a class may write its path too."""
    return node_class.spec.role.rpartition("/")[2]


def _roles(profile: Mapping[str, Any]) -> list[str]:
    return [role["RoleName"] for role in profile["Roles"]]

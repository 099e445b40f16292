"""Launch templates: made when a launch needs them, named by their content, removed when nobody has used them a while.

The name follows from what is in it, so making one that exists already is no fault, and two processes that launch alike
share it. Those of a process that died are found by their tags and go the same way.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.cloud.aws.labels import CLUSTER_NAME_TAG, NODE_CLASS_TAG
from dovetail.cloud.aws.resolve.selector_terms import named
from dovetail.cloud.aws.ttl_cache import TtlCache
from dovetail.model.ec2nodeclass import GROUP, EC2NodeClass
from dovetail.ports.clock import Clock

UNUSED_FOR = timedelta(minutes=10)
_EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
_GONE = frozenset(
    {
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


@dataclass(frozen=True)
class LaunchTemplate:
    """A launch template as it should be."""

    name: str
    data: Mapping[str, Any]
    tags: Mapping[str, str]


def template(tags: Mapping[str, str], data: Mapping[str, Any]) -> LaunchTemplate:
    """The template with this content. `tags` say whose it is, and are what permissions are bound to."""
    told = json.dumps([tags, data], sort_keys=True)
    return LaunchTemplate(f"{GROUP}/{hashlib.sha256(told.encode()).hexdigest()[:24]}", data, tags)


def is_gone(code: str) -> bool:
    """Whether a launch failed because its template is not there any more."""
    return code in _GONE


class LaunchTemplates:
    """Makes and removes launch templates."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._made: TtlCache[str, bool] = TtlCache(clock, timedelta(days=1))
        self._used_at: dict[str, datetime] = {}

    async def ensure(self, wanted: LaunchTemplate) -> None:
        """Have it at EC2. What was made before is not asked for again; a launch says if it is gone."""
        self._used_at[wanted.name] = self._clock.now()
        await self._made.get(wanted.name, lambda: self._make(wanted))

    def forget(self, wanted: LaunchTemplate) -> None:
        """It is not there, whatever we thought."""
        self._made.forget(wanted.name)

    async def adopt(self) -> None:
        """Take over those that an earlier process left: they go when nobody uses them."""
        for name in await self._find({CLUSTER_NAME_TAG: self._cluster_name}):
            self._used_at.setdefault(name, self._clock.now())

    async def sweep(self) -> None:
        """Remove those nobody has used for a while."""
        limit = self._clock.now() - UNUSED_FOR
        for name in [name for name, used_at in self._used_at.items() if used_at <= limit]:
            self._made.forget(name)
            await self._delete(name)
            self._used_at.pop(name, None)

    async def remove_all(self, node_class: EC2NodeClass) -> None:
        """Remove those of a class that goes."""
        for name in await self._find({CLUSTER_NAME_TAG: self._cluster_name, NODE_CLASS_TAG: node_class.name}):
            self._used_at.pop(name, None)
            self._made.forget(name)
            await self._delete(name)

    async def _make(self, wanted: LaunchTemplate) -> bool:
        tags = wanted.tags
        listed = [{"ResourceType": "launch-template", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        given: dict[str, Any] = {
            "LaunchTemplateName": wanted.name,
            "LaunchTemplateData": wanted.data,
            "TagSpecifications": listed,
        }
        try:
            await self._aws.call("ec2", "create_launch_template", **given)
        except AwsError as error:
            if error.code != _EXISTS:
                raise
        return True

    async def _find(self, tags: Mapping[str, str]) -> list[str]:
        filters = [named(f"tag:{key}", value) for key, value in tags.items()]
        found = await self._aws.collect("ec2", "describe_launch_templates", "LaunchTemplates", Filters=filters)
        return [each["LaunchTemplateName"] for each in found if each["LaunchTemplateName"].startswith(f"{GROUP}/")]

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.call("ec2", "delete_launch_template", LaunchTemplateName=name)
        except AwsError as error:
            if not is_gone(error.code):
                raise

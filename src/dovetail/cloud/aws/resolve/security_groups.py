"""The security groups of a node class."""

from datetime import timedelta

from dovetail.cloud.aws.clients import AwsClients, TtlCache
from dovetail.cloud.aws.resolve.selector_terms import find, key_of, requests
from dovetail.model.ec2nodeclass import ResolvedSecurityGroup, SecurityGroupSelectorTerm
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=5)
_FILTERS = {"id": "group-id", "name": "group-name"}


class SecurityGroups:
    """Finds security groups, and asks again after five minutes."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._kept: TtlCache[bytes, tuple[ResolvedSecurityGroup, ...]] = TtlCache(clock, LIFETIME)

    async def find(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[ResolvedSecurityGroup, ...]:
        """Those the terms select, by id."""
        return await self._kept.get(key_of(terms), lambda: self._ask(terms))

    async def _ask(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[ResolvedSecurityGroup, ...]:
        found = await find(self._aws, "describe_security_groups", "SecurityGroups", requests(terms, _FILTERS))
        by_id = {each["GroupId"]: each["GroupName"] for each in found}
        return tuple(ResolvedSecurityGroup(id=id_, name=name) for id_, name in sorted(by_id.items()))

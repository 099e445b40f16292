"""Tries whether nodes of a class could be launched, without launching any: EC2 says of each step whether we may.

A launch template is really made, because the steps after it name it; it goes with those nobody uses. Only a refusal of
permission counts against the class: what else EC2 finds fault with may be due to the type that was tried, and a real
launch says it better. What is tried is something the NodePools of the class could ask for: whoever forbids an account
some types need not permit them for our sake. What went well is good for half an hour, or until something it depends on
changes.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.cloud.aws.clients import NO_CREDENTIALS, UNREACHABLE, AwsClients, AwsError, TtlCache
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, Option
from dovetail.cloud.aws.launch.launch_templates import image_of
from dovetail.cloud.aws.launch.launcher import FleetLaunch, Launcher
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.conditions import ConditionVerdict
from dovetail.model.ec2nodeclass import VALIDATION_SUCCEEDED, EC2NodeClass
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import INSTANCE_TYPE, ON_DEMAND, ZONE
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirements
from dovetail.ports.clock import Clock
from dovetail.ports.errors import InsufficientCapacity

log = logging.getLogger(__name__)
LIFETIME = timedelta(minutes=30)
_WOULD_WORK = "DryRunOperation"
_ENCODED = "Encoded authorization failure message"
_ACTIONS = {
    "create_launch_template": "CreateLaunchTemplate",
    "create_fleet": "CreateFleet",
    "run_instances": "RunInstances",
}
Offered = Callable[[EC2NodeClass], Awaitable[Sequence[Option]]]


class _Unclear(Exception):
    """EC2 neither said yes nor that we may not."""


class _Refused(Exception):
    """EC2 said that we may not."""

    def __init__(self, step: str, error: AwsError) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error


class LaunchDryRun:
    """Goes through a launch for a class that is resolved."""

    def __init__(self, aws: AwsClients, clock: Clock, launcher: Launcher, offered: Offered) -> None:
        self._aws = aws
        self._launcher = launcher
        self._offered = offered
        self._went_well: TtlCache[bytes, bool] = TtlCache(clock, LIFETIME)

    async def __call__(self, node_class: EC2NodeClass) -> ConditionVerdict | None:
        """Why nothing can be launched, or None. `AwsError` if EC2 cannot be asked now."""
        try:
            await self._went_well.get(_key(node_class), lambda: self._try(node_class))
        except _Refused as refused:
            action, said = _ACTIONS[refused.step], refused.error.message.partition(_ENCODED)[0].strip()
            told = f"the controller may not ec2:{action}, or what it comes with: {refused.error.code}: {said}"
            return ConditionVerdict(VALIDATION_SUCCEEDED, "False", f"{action}AuthCheckFailed", told)
        except _Unclear as unclear:
            log.warning("a launch could not be tried", extra={"nodeclass": node_class.name, "why": str(unclear)})
        return None

    async def _try(self, node_class: EC2NodeClass) -> bool:
        order = await self._order(node_class)
        try:
            await self._launcher.make_templates(order)
        except AwsError as error:
            raise _judged("create_launch_template", error) from error
        fleet = order.request("")
        await self._may("create_fleet", **{name: value for name, value in fleet.items() if name != "ClientToken"})
        await self._may("run_instances", **_instance_request(order, fleet["TagSpecifications"]))
        return True

    async def _order(self, node_class: EC2NodeClass) -> FleetLaunch:
        """A launch of the cheapest machine there is."""
        fitting = [option for option in await self._offered(node_class) if image_of(option, node_class)]
        if not fitting:
            raise _Unclear("nothing that the NodePools of the class ask for is for sale on demand")
        purchase = FleetPurchase(ON_DEMAND, (min(fitting, key=lambda option: option.rank),))
        nobody = NodeClaim(metadata=ObjectMeta(name="dry-run"), spec=NodeClaimSpec())
        try:
            return await self._launcher.order(nobody, node_class, purchase)
        except InsufficientCapacity as error:
            raise _Unclear(str(error)) from error

    async def _may(self, operation: str, **request: Any) -> None:
        try:
            await self._aws.call("ec2", operation, DryRun=True, **request)
        except AwsError as error:
            if error.code != _WOULD_WORK:
                raise _judged(operation, error) from error


def worth_trying(types: Iterable[InstanceType], pools: Sequence[NodePool]) -> list[Option]:
    """What could be tried: on demand, of what one of these pools may buy, or of anything if there is none."""
    wanted = [pool.requirements for pool in pools]
    return [
        Option(each, offering)
        for each in types
        for offering in each.offerings
        if offering.available
        and offering.capacity_type == ON_DEMAND
        and (not wanted or any(_may_buy(some, each, offering) for some in wanted))
    ]


def _may_buy(wanted: Requirements, instance_type: InstanceType, offering: Offering) -> bool:
    """Whether a pool may buy this type in this zone, one way or another."""
    named = wanted.get(INSTANCE_TYPE).has(instance_type.name) and wanted.get(ZONE).has(offering.zone)
    return named and instance_type.requirements.intersects(wanted) is None


def _judged(step: str, error: AwsError) -> Exception:
    if error.unauthorized:
        return _Refused(step, error)
    return error if error.throttled or error.code in (UNREACHABLE, NO_CREDENTIALS) else _Unclear(str(error))


def _instance_request(order: FleetLaunch, tags: Iterable[Any]) -> dict[str, Any]:
    """What the fleet would do by itself: one instance from the template. Volumes and instances alone are tagged."""
    [bid] = order.bids
    interfaces = bid.template.data.get("NetworkInterfaces")
    place: dict[str, Any] = {"SubnetId": bid.subnet_id}
    if interfaces:
        place = {"NetworkInterfaces": [{**interfaces[0], **place}]}
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": bid.option.instance_type.name,
        "LaunchTemplate": {"LaunchTemplateName": bid.template.name, "Version": "$Latest"},
        "TagSpecifications": [each for each in tags if each["ResourceType"] != "fleet"],
        **place,
    }


def _key(node_class: EC2NodeClass) -> bytes:
    """What the outcome depends on; the order of subnets changes with every address taken."""
    status = node_class.status
    subnets = sorted(subnet.id for subnet in status.subnets)
    found = (status.amis, status.security_groups, subnets, status.instance_profile)
    return msgspec.json.encode((node_class.metadata.uid, node_class.spec, found), order="deterministic")

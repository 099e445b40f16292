"""Checks with EC2 dry runs that the controller has the permissions to launch instances of an EC2NodeClass.

The launch template is created for real, because the requests after it name it; it is deleted with the unused ones.
CreateFleet and RunInstances run with `DryRun`. Only a denied permission fails the class: any other error may be due to
the instance type that was tried, and a real launch reports it better. The instance type is one that the NodePools of
the class allow, because an account may deny other types on purpose. A success is cached for 30 minutes, or until an
input of the check changes.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.cloud.aws.access import without_encoded_part
from dovetail.cloud.aws.clients import NO_CREDENTIALS, UNREACHABLE, AwsClients, AwsError, TtlCache
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, LaunchOption
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
_DRY_RUN_SUCCEEDED = "DryRunOperation"
_ACTIONS = {
    "create_launch_template": "CreateLaunchTemplate",
    "create_fleet": "CreateFleet",
    "run_instances": "RunInstances",
}
ListOptions = Callable[[EC2NodeClass], Awaitable[Sequence[LaunchOption]]]


class _Inconclusive(Exception):
    """The dry run neither succeeded nor was denied."""


class _Denied(Exception):
    """EC2 denied a permission."""

    def __init__(self, step: str, error: AwsError) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error


class LaunchDryRun:
    """Runs the check for a class that is resolved."""

    def __init__(self, aws: AwsClients, clock: Clock, launcher: Launcher, list_options: ListOptions) -> None:
        self._aws = aws
        self._launcher = launcher
        self._options = list_options
        self._succeeded: TtlCache[bytes, bool] = TtlCache(clock, LIFETIME)

    async def __call__(self, node_class: EC2NodeClass) -> ConditionVerdict | None:
        """The failed condition, or None. Raises `AwsError` if EC2 is unreachable or throttles."""
        try:
            await self._succeeded.get(_key(node_class), lambda: self._run(node_class))
        except _Denied as denied:
            action, reply = _ACTIONS[denied.step], without_encoded_part(denied.error.message)
            message = (
                f"the controller lacks permission for ec2:{action}, or for an action it implies:"
                f" {denied.error.code}: {reply}"
            )
            return ConditionVerdict(VALIDATION_SUCCEEDED, "False", f"{action}AuthCheckFailed", message)
        except _Inconclusive as inconclusive:
            log.warning("launch dry run inconclusive", extra={"nodeclass": node_class.name, "why": str(inconclusive)})
        return None

    async def _run(self, node_class: EC2NodeClass) -> bool:
        fleet = await self._prepare(node_class)
        try:
            await self._launcher.create_templates(fleet)
        except AwsError as error:
            raise _classified("create_launch_template", error) from error
        request = fleet.request("")
        await self._check("create_fleet", **{name: value for name, value in request.items() if name != "ClientToken"})
        await self._check("run_instances", **_instance_request(fleet, request["TagSpecifications"]))
        return True

    async def _prepare(self, node_class: EC2NodeClass) -> FleetLaunch:
        """A launch of the cheapest option."""
        options = [option for option in await self._options(node_class) if image_of(option, node_class)]
        if not options:
            raise _Inconclusive("no instance type that the NodePools of the class allow is available on demand")
        purchase = FleetPurchase(ON_DEMAND, (min(options, key=lambda option: option.rank),))
        claim = NodeClaim(metadata=ObjectMeta(name="dry-run"), spec=NodeClaimSpec())
        try:
            return await self._launcher.prepare(claim, node_class, purchase)
        except InsufficientCapacity as error:
            raise _Inconclusive(str(error)) from error

    async def _check(self, operation: str, **request: Any) -> None:
        try:
            await self._aws.call("ec2", operation, DryRun=True, **request)
        except AwsError as error:
            if error.code != _DRY_RUN_SUCCEEDED:
                raise _classified(operation, error) from error


def dry_run_options(types: Iterable[InstanceType], pools: Sequence[NodePool]) -> list[LaunchOption]:
    """The available on-demand options that one of the pools allows, or all of them if there are no pools."""
    requirements = [pool.requirements for pool in pools]
    return [
        LaunchOption(each, offering)
        for each in types
        for offering in each.offerings
        if offering.available
        and offering.capacity_type == ON_DEMAND
        and (not requirements or any(_is_allowed(pool, each, offering) for pool in requirements))
    ]


def _is_allowed(pool: Requirements, instance_type: InstanceType, offering: Offering) -> bool:
    """Whether the requirements of a pool allow this type in this zone, whatever the capacity type."""
    named = pool.get(INSTANCE_TYPE).has(instance_type.name) and pool.get(ZONE).has(offering.zone)
    return named and instance_type.requirements.intersects(pool) is None


def _classified(step: str, error: AwsError) -> Exception:
    if error.unauthorized:
        return _Denied(step, error)
    return error if error.throttled or error.code in (UNREACHABLE, NO_CREDENTIALS) else _Inconclusive(str(error))


def _instance_request(fleet: FleetLaunch, tags: Iterable[Any]) -> dict[str, Any]:
    """The RunInstances request that the fleet implies. RunInstances tags instances and volumes, not fleets."""
    [override] = fleet.overrides
    interfaces = override.template.data.get("NetworkInterfaces")
    network: dict[str, Any] = {"SubnetId": override.subnet_id}
    if interfaces:
        network = {"NetworkInterfaces": [{**interfaces[0], **network}]}
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": override.option.instance_type.name,
        "LaunchTemplate": {"LaunchTemplateName": override.template.name, "Version": "$Latest"},
        "TagSpecifications": [each for each in tags if each["ResourceType"] != "fleet"],
        **network,
    }


def _key(node_class: EC2NodeClass) -> bytes:
    """The inputs of the check as a cache key. Subnets are sorted: their order changes with free addresses."""
    status = node_class.status
    subnets = sorted(subnet.id for subnet in status.subnets)
    found = (status.amis, status.security_groups, subnets, status.instance_profile)
    return msgspec.json.encode((node_class.metadata.uid, node_class.spec, found), order="deterministic")

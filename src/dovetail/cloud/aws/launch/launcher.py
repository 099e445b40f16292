"""Launches exactly one EC2 instance for a NodeClaim, across retries and restarts.

A launch first looks for instances tagged with the claim's uid. The client token of CreateFleet is the claim's uid plus
the attempt number, and the number grows only after an attempt that launched nothing. A restarted process therefore
repeats the earlier requests and receives their responses. If EC2 reports that it knows the token with other parameters,
an earlier process sent the request: the launch waits up to a minute for its instance to appear before the attempt
counts as failed.

`SubnetSelection` picks the subnet of each zone: the one with the most free addresses. EC2 reports free addresses up to
a minute late, so addresses that running launches will use are reserved for that time.
"""

from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.offerings import UnavailableOfferings
from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.cloud.aws.eks_cluster import EksCluster, SelfManagedCluster
from dovetail.cloud.aws.instances import Ec2Instance, Instances
from dovetail.cloud.aws.launch.fleet import (
    SHORTAGES,
    FleetError,
    FleetInstance,
    FleetOverride,
    fleet_errors,
    fleet_request,
    launch_error,
    launch_tags,
    launched_instance,
    reason_of,
    record_shortages,
)
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, plan_purchase
from dovetail.cloud.aws.launch.launch_templates import (
    LaunchTemplate,
    LaunchTemplates,
    TemplateConfig,
    image_of,
    is_not_found,
    template,
    template_data,
    tenancy_of,
)
from dovetail.cloud.aws.launch.userdata import bootstrap_config
from dovetail.cloud.aws.resolve.network import SUBNET_LIFETIME, Subnet, Subnets
from dovetail.model.catalog import InstanceType
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import PODS
from dovetail.ports.clock import Clock
from dovetail.ports.errors import InsufficientCapacity, LaunchFailed


class SubnetSelection:
    """Chooses subnets, and reserves the addresses of launches that EC2 does not count yet."""

    def __init__(self, clock: Clock, unavailable: UnavailableOfferings) -> None:
        self._clock = clock
        self._unavailable = unavailable
        self._reserved: list[tuple[datetime, str, int]] = []

    def choose(self, subnets: Iterable[Subnet]) -> Mapping[str, str]:
        """One subnet id for each zone, by zone; subnets without free addresses are left out."""
        self._drop_expired()
        chosen: dict[str, Subnet] = {}
        for subnet in sorted(subnets, key=lambda each: (-self._free_addresses(each), each.id)):
            if not self._unavailable.is_subnet_full(subnet.id):
                chosen.setdefault(subnet.zone, subnet)
        return {zone: subnet.id for zone, subnet in chosen.items()}

    def reserve(self, subnet_ids: Sequence[str], count: int) -> datetime:
        """Reserve addresses in all subnets that a launch may use. Returns the expiry, which `release` needs."""
        now = self._clock.now()
        self._reserved.extend((now + SUBNET_LIFETIME, each, count) for each in subnet_ids)
        return now + SUBNET_LIFETIME

    def release(self, expires_at: datetime, subnet_ids: Iterable[str], count: int) -> None:
        """Release the addresses in subnets that the launch did not use."""
        for each in subnet_ids:
            if (expires_at, each, count) in self._reserved:
                self._reserved.remove((expires_at, each, count))

    def _free_addresses(self, subnet: Subnet) -> int:
        return subnet.free_addresses - sum(count for _, id_, count in self._reserved if id_ == subnet.id)

    def _drop_expired(self) -> None:
        now = self._clock.now()
        self._reserved = [each for each in self._reserved if each[0] > now]


VISIBILITY_DELAY = timedelta(minutes=1)
"""An instance may be missing from DescribeInstances for this long after its launch."""
_PARAMETER_MISMATCH = "IdempotentParameterMismatch"
_MAX_CLAIMS = 5000
_WELL_KNOWN_LABELS = WELL_KNOWN | labels.INSTANCE_LABELS | labels.OFFERING_LABELS


@dataclass(frozen=True, kw_only=True)
class LaunchDependencies:
    """The collaborators of the launcher."""

    aws: AwsClients
    clock: Clock
    cluster: EksCluster | SelfManagedCluster
    subnets: Subnets
    instances: Instances
    templates: LaunchTemplates
    unavailable: UnavailableOfferings


@dataclass
class _Attempts:
    """The launch attempts of one claim in this process."""

    number: int = 0
    waiting_since: datetime | None = None  # for the instance of an earlier request with the same token


@dataclass(frozen=True)
class FleetLaunch:
    """One launch: the claim, and every override that may fulfill it."""

    claim: NodeClaim
    purchase: FleetPurchase
    overrides: tuple[FleetOverride, ...]
    tags: Mapping[str, str]
    context: str = ""

    def request(self, token: str) -> dict[str, Any]:
        """The CreateFleet request."""
        return fleet_request(self.purchase, self.overrides, self.tags, token, self.context)


class Launcher:
    """Launches instances for NodeClaims."""

    def __init__(self, dependencies: LaunchDependencies) -> None:
        self._dependencies = dependencies
        self._subnet_selection = SubnetSelection(dependencies.clock, dependencies.unavailable)
        self._attempts: OrderedDict[str, _Attempts] = OrderedDict()
        self._userdata_bytes: dict[tuple[str, ...], float] = {}  # by name of the node class

    async def find(self, claim: NodeClaim) -> Ec2Instance | None:
        """The instance of an earlier launch, or None; `InsufficientCapacity` if it is already terminating."""
        found = await self._dependencies.instances.list_for_claim(claim.metadata.uid)
        alive = sorted((each for each in found if not each.terminating), key=lambda each: each.id)
        if found and not alive:
            raise InsufficientCapacity(f"instance {found[0].id} was terminated before it became a node")
        return alive[0] if alive else None

    async def launch(self, claim: NodeClaim, node_class: EC2NodeClass, types: Sequence[InstanceType]) -> Ec2Instance:
        """Launch one instance, or return the one of an earlier attempt."""
        purchase = plan_purchase(claim, types, _WELL_KNOWN_LABELS)
        if isinstance(purchase, str):
            raise InsufficientCapacity(purchase)
        fleet = await self.prepare(claim, node_class, purchase)
        subnets = sorted({each.subnet_id for each in fleet.overrides})
        pods = min(int(each.option.instance_type.capacity[PODS].units) for each in fleet.overrides)
        expires_at = self._subnet_selection.reserve(subnets, pods)
        used_subnet = ""
        try:
            instance = await self._create_fleet(fleet)
            used_subnet = instance.subnet_id
        finally:
            self._subnet_selection.release(expires_at, [each for each in subnets if each != used_subnet], pods)
        self._dependencies.instances.add_to_cache(instance)
        return instance

    async def prepare(self, claim: NodeClaim, node_class: EC2NodeClass, purchase: FleetPurchase) -> FleetLaunch:
        """Build the launch, including the content of its templates. Creates nothing at AWS."""
        name = self._dependencies.cluster.name
        facts = await self._dependencies.cluster.facts()
        tags = launch_tags(claim, node_class, name)
        shared = {key: value for key, value in tags.items() if key in _shared_tag_keys(name)}
        bootstrap = bootstrap_config(claim, purchase.capacity_type, node_class.spec, (name, facts))
        config = TemplateConfig(
            node_class,
            purchase,
            bootstrap,
            tags={**node_class.spec.tags, **shared},
            efa=labels.EFA in claim.spec.resources.requests,
            tenancy=tenancy_of(claim),
        )
        subnets = await self._dependencies.subnets.find(node_class.spec.subnet_selector_terms)
        subnet_by_zone = self._subnet_selection.choose(subnets)
        overrides = tuple(
            FleetOverride(
                option, subnet_by_zone[option.offering.zone], template(config.tags, template_data(option, config))
            )
            for option in purchase.options
            if option.offering.zone in subnet_by_zone and image_of(option, node_class)
        )
        if not overrides:
            raise InsufficientCapacity("no subnet has free addresses in a zone where the instance types are available")
        self._show_userdata(node_class.name, overrides[0].template)
        return FleetLaunch(claim, purchase, overrides, tags, node_class.spec.context or "")

    def _show_userdata(self, node_class: str, launch_template: LaunchTemplate) -> None:
        self._userdata_bytes[node_class,] = float(len(b64decode(launch_template.data["UserData"])))
        self._dependencies.aws.metrics.show("karpenter_ec2nodeclasses_userdata_bytes", dict(self._userdata_bytes))

    async def forget_class(self, node_class: EC2NodeClass) -> None:
        """Drop the metric of a deleted class."""
        self._userdata_bytes.pop((node_class.name,), None)
        self._dependencies.aws.metrics.show("karpenter_ec2nodeclasses_userdata_bytes", dict(self._userdata_bytes))

    async def _create_fleet(self, fleet: FleetLaunch) -> Ec2Instance:
        """Create the fleet; retry once with new templates if EC2 reports them missing."""
        for last in (False, True):
            response = await self._request_fleet(fleet, last=last)
            if isinstance(response, Ec2Instance):
                return response
            if response is None:
                continue
            errors = fleet_errors(response, fleet.overrides)
            self._count_failures(errors, fleet)
            record_shortages(errors, fleet.purchase.capacity_type, self._dependencies.unavailable)
            launched = launched_instance(response, fleet.overrides)
            if launched is not None:
                return self._pending_instance(fleet, launched)
            self._attempts_of(fleet.claim).number += 1
            if not last and errors and all(is_not_found(error.code) for error in errors):
                self._forget_templates(fleet)
                continue
            raise launch_error(errors, fleet.purchase.capacity_type)
        raise AssertionError("the second attempt returns or raises")

    def _count_failures(self, errors: Iterable[FleetError], fleet: FleetLaunch) -> None:
        offerings = (each.option.offering for each in fleet.overrides)
        zone_ids = {each.zone: each.requirements.labels().get(labels.ZONE_ID, "") for each in offerings}
        for error in errors:
            where = {"zone": error.zone, "zone_id": zone_ids.get(error.zone, "")}
            why = {"capacity_type": fleet.purchase.capacity_type, "reason": error.code}
            metric = "karpenter_cloudprovider_instance_launch_failures_total"
            self._dependencies.aws.metrics.count(metric, **where, **why)

    async def _request_fleet(self, fleet: FleetLaunch, *, last: bool) -> Mapping[str, Any] | Ec2Instance | None:
        """The response, the instance of an earlier attempt, or None if the templates have to be created again."""
        try:
            await self.create_templates(fleet)
        except AwsError as error:
            raise LaunchFailed(reason_of(error.code, error.message), str(error)) from error
        attempts = self._attempts_of(fleet.claim)
        request = fleet.request(f"{fleet.claim.metadata.uid}-{attempts.number}")
        try:
            return await self._dependencies.aws.call("ec2", "create_fleet", **request)
        except AwsError as error:
            if error.code == _PARAMETER_MISMATCH:
                return await self._find_earlier_launch(fleet.claim, attempts)
            if is_not_found(error.code) and not last:
                self._forget_templates(fleet)
                return None
            if error.code in SHORTAGES:
                errors = _shortage_of_all(fleet, error)
                self._count_failures(errors, fleet)
                record_shortages(errors, fleet.purchase.capacity_type, self._dependencies.unavailable)
                raise InsufficientCapacity(str(error)) from error
            raise LaunchFailed(reason_of(error.code, error.message), str(error)) from error

    async def create_templates(self, fleet: FleetLaunch) -> None:
        """Create every launch template that the launch uses."""
        for each in {override.template.name: override.template for override in fleet.overrides}.values():
            await self._dependencies.templates.ensure(each)

    async def _find_earlier_launch(self, claim: NodeClaim, attempts: _Attempts) -> Ec2Instance:
        """The instance of an earlier request with the same token; raises `LaunchFailed` until it appears."""
        found = await self.find(claim)
        if found is not None:
            return found
        now = self._dependencies.clock.now()
        attempts.waiting_since = attempts.waiting_since or now
        if now - attempts.waiting_since >= VISIBILITY_DELAY:
            attempts.number, attempts.waiting_since = attempts.number + 1, None
        raise LaunchFailed(
            "LaunchUnsettled", "an earlier launch may have succeeded; waiting for its instance to appear"
        )

    def _forget_templates(self, fleet: FleetLaunch) -> None:
        for override in fleet.overrides:
            self._dependencies.templates.forget(override.template)

    def _pending_instance(self, fleet: FleetLaunch, launched: FleetInstance) -> Ec2Instance:
        option, data = launched.override.option, launched.override.template.data
        groups = data.get("SecurityGroupIds") or [g for each in data["NetworkInterfaces"] for g in each["Groups"]]
        return Ec2Instance(
            id=launched.instance_id,
            instance_type=option.instance_type.name,
            zone=option.offering.zone,
            capacity_type=fleet.purchase.capacity_type,
            state="pending",
            image_id=data["ImageId"],
            subnet_id=launched.override.subnet_id,
            security_groups=frozenset(groups),
            reservation_id=option.reservation_id,
            tenancy=data["Placement"]["Tenancy"],
            launched_at=self._dependencies.clock.now(),
            tags=fleet.tags,
        )

    def _attempts_of(self, claim: NodeClaim) -> _Attempts:
        attempts = self._attempts.setdefault(claim.metadata.uid, _Attempts())
        while len(self._attempts) > _MAX_CLAIMS:
            self._attempts.popitem(last=False)
        return attempts


def _shared_tag_keys(cluster_name: str) -> frozenset[str]:
    """Keys of the tags that all claims of a pool share."""
    return frozenset(
        {labels.cluster_tag(cluster_name), labels.CLUSTER_NAME_TAG, labels.NODE_CLASS_TAG, labels.NODEPOOL_TAG}
    )


def _shortage_of_all(fleet: FleetLaunch, error: AwsError) -> list[FleetError]:
    """The error as one shortage for each override: CreateFleet does not name the one it failed for."""
    return [
        FleetError(
            code=error.code,
            message=error.message,
            instance_type=override.option.instance_type.name,
            zone=override.option.offering.zone,
            reservation_id=override.option.reservation_id,
        )
        for override in fleet.overrides
    ]

"""Launches one instance for a NodeClaim, and never a second one.

Before anything is asked for, instances that carry the claim's uid are looked for. The token of a request is the claim's
uid and the number of the try, and only a try that is known to have launched nothing is followed by the next: whoever
starts over, in this process or the next, is given the answers of the tries before. If EC2 has seen the token with other
words, somebody asked before us, and the instance has a minute to appear before that try counts as failed.

Which subnet of each zone the next instance goes to: the one with most free addresses, launches under way included.

EC2 tells of free addresses a minute late. What a launch is going to take is remembered until then.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.offerings import UnavailableOfferings
from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.cloud.aws.eks_cluster import EksCluster
from dovetail.cloud.aws.instances import Ec2Instance, Instances
from dovetail.cloud.aws.launch.fleet import (
    SHORTAGES,
    FleetError,
    FleetInstance,
    FleetRequest,
    bought,
    errors_of,
    fleet_request,
    judge,
    reason_of,
    remember,
    tags_of,
)
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, plan_purchase
from dovetail.cloud.aws.launch.launch_templates import (
    LaunchTemplates,
    Start,
    image_of,
    is_gone,
    template,
    template_data,
    tenancy_of,
)
from dovetail.cloud.aws.launch.userdata import boot_of
from dovetail.cloud.aws.nodeclass_hash import stamped_hash
from dovetail.cloud.aws.resolve.network import SUBNET_LIFETIME, Subnet, Subnets
from dovetail.model.catalog import InstanceType
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import PODS
from dovetail.ports.clock import Clock
from dovetail.ports.errors import InsufficientCapacity, LaunchFailed


class SubnetSelection:
    """Addresses spoken for."""

    def __init__(self, clock: Clock, unavailable: UnavailableOfferings) -> None:
        self._clock = clock
        self._unavailable = unavailable
        self._taken: list[tuple[datetime, str, int]] = []

    def choose(self, subnets: Iterable[Subnet]) -> Mapping[str, str]:
        """One subnet for each zone, by zone; those that were full a moment ago are left out."""
        self._sweep()
        chosen: dict[str, Subnet] = {}
        for subnet in sorted(subnets, key=lambda each: (-self._left(each), each.id)):
            if not self._unavailable.covers_subnet(subnet.id):
                chosen.setdefault(subnet.zone, subnet)
        return {zone: subnet.id for zone, subnet in chosen.items()}

    def take(self, subnet_ids: Sequence[str], count: int) -> datetime:
        """A launch may land in any of these; the answer gives them back."""
        now = self._clock.now()
        self._taken.extend((now + SUBNET_LIFETIME, each, count) for each in subnet_ids)
        return now + SUBNET_LIFETIME

    def give_back(self, until: datetime, subnet_ids: Iterable[str], count: int) -> None:
        """It did not land in these."""
        for each in subnet_ids:
            if (until, each, count) in self._taken:
                self._taken.remove((until, each, count))

    def _left(self, subnet: Subnet) -> int:
        return subnet.free_addresses - sum(count for _, id_, count in self._taken if id_ == subnet.id)

    def _sweep(self) -> None:
        now = self._clock.now()
        self._taken = [each for each in self._taken if each[0] > now]


SETTLING = timedelta(minutes=1)
"""How long an instance may take to appear in EC2's own lists."""
_MISMATCH = "IdempotentParameterMismatch"
_REMEMBERED = 5000
_KNOWN = WELL_KNOWN | labels.INSTANCE_LABELS | labels.OFFERING_LABELS


@dataclass(frozen=True, kw_only=True)
class LaunchDependencies:
    """What a launch needs."""

    aws: AwsClients
    clock: Clock
    cluster: EksCluster
    subnets: Subnets
    instances: Instances
    templates: LaunchTemplates
    unavailable: UnavailableOfferings


@dataclass
class _Tries:
    """How far the launches of one claim have come, as this process knows."""

    number: int = 0
    unsettled_since: datetime | None = None


@dataclass(frozen=True)
class FleetLaunch:
    """One launch: who it is for, and all that may be bought for it."""

    claim: NodeClaim
    purchase: FleetPurchase
    bids: tuple[FleetRequest, ...]
    tags: Mapping[str, str]
    context: str = ""

    def request(self, token: str) -> dict[str, Any]:
        """What EC2 is asked for."""
        return fleet_request(self.purchase, self.bids, self.tags, token, self.context)


class Launcher:
    """Launches instances."""

    def __init__(self, dependencies: LaunchDependencies) -> None:
        self._yard = dependencies
        self._addresses = SubnetSelection(dependencies.clock, dependencies.unavailable)
        self._tries: OrderedDict[str, _Tries] = OrderedDict()

    async def find(self, claim: NodeClaim) -> Ec2Instance | None:
        """The instance that was launched for the claim before; `InsufficientCapacity` if it is on its way out again."""
        found = await self._yard.instances.of_claim(claim.metadata.uid)
        alive = sorted((each for each in found if not each.terminating), key=lambda each: each.id)
        if found and not alive:
            raise InsufficientCapacity(f"instance {found[0].id} was terminated before it became a node")
        return alive[0] if alive else None

    async def launch(self, claim: NodeClaim, node_class: EC2NodeClass, types: Sequence[InstanceType]) -> Ec2Instance:
        """Launch one instance, or give the one that an earlier try launched."""
        purchase = plan_purchase(claim, types, _KNOWN)
        if isinstance(purchase, str):
            raise InsufficientCapacity(purchase)
        order = await self.order(claim, node_class, purchase)
        subnets = sorted({bid.subnet_id for bid in order.bids})
        pods = min(int(bid.option.instance_type.capacity[PODS].units) for bid in order.bids)
        held = self._addresses.take(subnets, pods)
        landed = ""
        try:
            got = await self._buy(order)
            landed = got.subnet_id
        finally:
            self._addresses.give_back(held, [each for each in subnets if each != landed], pods)
        self._yard.instances.note(got)
        return got

    async def order(self, claim: NodeClaim, node_class: EC2NodeClass, purchase: FleetPurchase) -> FleetLaunch:
        """What would be asked for, down to the templates. Nothing is made yet."""
        dependencies = self._yard
        name = dependencies.cluster.name
        facts = await dependencies.cluster.facts()
        tags = tags_of(claim, node_class, name, stamped_hash(node_class))
        shared = {key: value for key, value in tags.items() if key in _shared(name)}
        brought = {**node_class.spec.tags, **shared}
        boot = boot_of(claim, purchase.capacity_type, node_class.spec, (name, facts))
        efa = labels.EFA in claim.spec.resources.requests
        start = Start(node_class, purchase, boot, brought, efa=efa, tenancy=tenancy_of(claim))
        zones = self._addresses.choose(await dependencies.subnets.find(node_class.spec.subnet_selector_terms))
        bids = tuple(
            FleetRequest(option, zones[option.offering.zone], template(shared, template_data(option, start)))
            for option in purchase.options
            if option.offering.zone in zones and image_of(option, node_class)
        )
        if not bids:
            raise InsufficientCapacity("no subnet has addresses left in a zone that could be bought in")
        return FleetLaunch(claim, purchase, bids, tags, node_class.spec.context)

    async def _buy(self, order: FleetLaunch) -> Ec2Instance:
        """Ask for the fleet; once more with new templates if EC2 says that they are gone."""
        for last in (False, True):
            answer = await self._ask(order, last=last)
            if isinstance(answer, Ec2Instance):
                return answer
            if answer is None:
                continue
            errors = errors_of(answer, order.bids)
            remember(errors, order.purchase.capacity_type, self._yard.unavailable)
            got = bought(answer, order.bids)
            if got is not None:
                return self._launched(order, got)
            self._of(order.claim).number += 1
            if not last and errors and all(is_gone(error.code) for error in errors):
                self._forget_templates(order)
                continue
            raise judge(errors, order.purchase.capacity_type)
        raise AssertionError("the second try answers or raises")

    async def _ask(self, order: FleetLaunch, *, last: bool) -> Mapping[str, Any] | Ec2Instance | None:
        """EC2's answer, the instance of an earlier try, or None if the templates have to be made again."""
        try:
            await self.make_templates(order)
        except AwsError as error:
            raise LaunchFailed(reason_of(error.code, error.message), str(error)) from error
        tries = self._of(order.claim)
        request = order.request(f"{order.claim.metadata.uid}-{tries.number}")
        try:
            return await self._yard.aws.call("ec2", "create_fleet", **request)
        except AwsError as error:
            if error.code == _MISMATCH:
                return await self._settled(order.claim, tries)
            if is_gone(error.code) and not last:
                self._forget_templates(order)
                return None
            if error.code in SHORTAGES:
                remember(_all_short(order, error), order.purchase.capacity_type, self._yard.unavailable)
                raise InsufficientCapacity(str(error)) from error
            raise LaunchFailed(reason_of(error.code, error.message), str(error)) from error

    async def make_templates(self, order: FleetLaunch) -> None:
        """Have every template of an order at EC2."""
        for each in {bid.template.name: bid.template for bid in order.bids}.values():
            await self._yard.templates.ensure(each)

    async def _settled(self, claim: NodeClaim, tries: _Tries) -> Ec2Instance:
        """The instance that somebody asked for in other words, once it is to be seen."""
        found = await self.find(claim)
        if found is not None:
            return found
        now = self._yard.clock.now()
        tries.unsettled_since = tries.unsettled_since or now
        if now - tries.unsettled_since >= SETTLING:
            tries.number, tries.unsettled_since = tries.number + 1, None
        raise LaunchFailed("LaunchUnsettled", "an earlier launch may still bring an instance; waiting for it to appear")

    def _forget_templates(self, order: FleetLaunch) -> None:
        for bid in order.bids:
            self._yard.templates.forget(bid.template)

    def _launched(self, order: FleetLaunch, got: FleetInstance) -> Ec2Instance:
        option, data = got.bid.option, got.bid.template.data
        groups = data.get("SecurityGroupIds") or [g for each in data["NetworkInterfaces"] for g in each["Groups"]]
        return Ec2Instance(
            id=got.instance_id,
            instance_type=option.instance_type.name,
            zone=option.offering.zone,
            capacity_type=order.purchase.capacity_type,
            state="pending",
            image_id=data["ImageId"],
            subnet_id=got.bid.subnet_id,
            security_groups=frozenset(groups),
            reservation_id=option.reservation_id,
            tenancy=data["Placement"]["Tenancy"],
            launched_at=self._yard.clock.now(),
            tags=order.tags,
        )

    def _of(self, claim: NodeClaim) -> _Tries:
        tries = self._tries.setdefault(claim.metadata.uid, _Tries())
        while len(self._tries) > _REMEMBERED:
            self._tries.popitem(last=False)
        return tries


def _shared(cluster_name: str) -> frozenset[str]:
    """Tags that do not differ between the claims of a pool."""
    return frozenset(
        {labels.cluster_tag(cluster_name), labels.CLUSTER_NAME_TAG, labels.NODE_CLASS_TAG, labels.NODEPOOL_TAG}
    )


def _all_short(order: FleetLaunch, error: AwsError) -> list[FleetError]:
    """A refusal that names nothing is about all that was asked for."""
    return [
        FleetError(
            code=error.code,
            message=error.message,
            instance_type=bid.option.instance_type.name,
            zone=bid.option.offering.zone,
            reservation_id=bid.option.reservation_id,
        )
        for bid in order.bids
    ]

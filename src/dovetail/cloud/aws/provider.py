"""The AWS provider as the controllers see it: what can be bought, node classes, and what makes a node unhealthy.

This module only puts parts together. Resolving is in `resolving/`, the catalogue in `catalog/`, the care of node
classes in `nodeclasses`, buying in `launching/`, what is bought in `instances`, what has drifted in `drifting`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.cloud.aws.catalog.capacity import Margins, ObservedMemory
from dovetail.cloud.aws.catalog.catalog import InstanceTypeCatalog, keep_fresh
from dovetail.cloud.aws.catalog.offerings import OfferingKey, OfferingScope, Prices, UnavailableOfferings
from dovetail.cloud.aws.clients import AwsClients, Batched, BatchWindow
from dovetail.cloud.aws.drift import CAPACITY_RESERVATION_DRIFT, DriftUnknown, resolved_drift, state_of, static_drift
from dovetail.cloud.aws.eks_cluster import EksCluster, ZonalShifts
from dovetail.cloud.aws.instances import Instances, instance_id, launched, seen
from dovetail.cloud.aws.labels import INSTANCE_LABELS, NODE_CLASS_LABEL, OFFERING_LABELS
from dovetail.cloud.aws.launch.dry_run import LaunchDryRun, worth_trying
from dovetail.cloud.aws.launch.launch_options import Option
from dovetail.cloud.aws.launch.launch_templates import LaunchTemplates
from dovetail.cloud.aws.launch.launcher import LaunchDependencies, Launcher
from dovetail.cloud.aws.nodeclass_status import Ec2NodeClassReconciler, Resolvers
from dovetail.cloud.aws.resolve.amis import Amis
from dovetail.cloud.aws.resolve.capacity_reservations import CapacityReservations, ExpiredReservations
from dovetail.cloud.aws.resolve.instance_profiles import InstanceProfiles
from dovetail.cloud.aws.resolve.network import SecurityGroups, Subnets
from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.conditions import AWAITING, READY, find
from dovetail.model.ec2nodeclass import GROUP, NODE_CLASS_KIND, EC2NodeClass
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_POOL
from dovetail.model.kube_object import Condition, Key
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.repair import AWS, ProviderRepairPolicy
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import NodeClassState
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import (
    InstanceNotFound,
    InsufficientCapacity,
    LaunchFailed,
    NodeClassNotReady,
    NotFound,
)
from dovetail.settings import Settings

log = logging.getLogger(__name__)
TIDY_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class AwsParts:
    """What the provider is made of, for those who launch, list and watch."""

    aws: AwsClients
    clock: Clock
    cluster: Cluster
    settings: Settings
    prices: Prices
    unavailable: UnavailableOfferings
    catalog: InstanceTypeCatalog
    resolvers: Resolvers
    nodeclass_reconciler: Ec2NodeClassReconciler
    instances: Instances
    templates: LaunchTemplates
    launcher: Launcher
    shifts: ZonalShifts


def assemble_aws(cluster: Cluster, clock: Clock, settings: Settings, aws: AwsClients | None = None) -> AwsParts:
    """The parts over one cluster and one AWS account. Nothing is asked yet."""
    aws, unavailable = aws or AwsClients(), UnavailableOfferings(clock)
    prices = Prices(aws, clock, isolated=settings.isolated_vpc)
    margins = Margins(settings.vm_memory_overhead_percent, settings.reserved_enis)
    resolvers = Resolvers(
        subnets=Subnets(aws, clock),
        groups=SecurityGroups(aws, clock),
        images=Amis(aws, clock),
        reservations=CapacityReservations(aws, clock),
        profiles=InstanceProfiles(aws, clock, settings.cluster_name),
        cluster=EksCluster(aws, clock, settings.cluster_name, settings.cluster_endpoint),
    )
    instances = Instances(aws, settings.cluster_name)
    templates = LaunchTemplates(aws, clock, settings.cluster_name)
    dependencies = LaunchDependencies(
        aws=aws,
        clock=clock,
        cluster=resolvers.cluster,
        subnets=resolvers.subnets,
        instances=instances,
        templates=templates,
        unavailable=unavailable,
    )
    nodeclass_reconciler = Ec2NodeClassReconciler(cluster, clock, resolvers)
    nodeclass_reconciler.cleanups.append(templates.remove_all)
    seen = ObservedMemory(cluster)
    nodeclass_reconciler.cares += [ExpiredReservations(cluster, instances), seen]
    return AwsParts(
        aws=aws,
        clock=clock,
        cluster=cluster,
        settings=settings,
        prices=prices,
        unavailable=unavailable,
        catalog=InstanceTypeCatalog(aws, prices, unavailable, margins, seen),
        resolvers=resolvers,
        nodeclass_reconciler=nodeclass_reconciler,
        instances=instances,
        templates=templates,
        launcher=Launcher(dependencies),
        shifts=ZonalShifts(aws, clock, resolvers.cluster, enabled=settings.enable_zonal_shift),
    )


class AwsProvider:
    """A provider of EC2 instances."""

    def __init__(self, parts: AwsParts) -> None:
        self.parts = parts
        self._adopting = False
        self._classes: Batched[str, EC2NodeClass] = Batched(self._read_classes, BatchWindow(idle=0.0, longest=0.0))
        if not parts.settings.disable_dry_run:
            parts.nodeclass_reconciler.trial = LaunchDryRun(parts.aws, parts.clock, parts.launcher, self._worth_trying)

    @property
    def name(self) -> str:
        """Short name, as in `--provider`."""
        return "aws"

    @property
    def well_known_labels(self) -> frozenset[str]:
        """What instance types and offerings say of themselves."""
        return INSTANCE_LABELS | OFFERING_LABELS

    @property
    def node_class_label(self) -> str:
        """The label that marks a node as this provider's."""
        return NODE_CLASS_LABEL

    @property
    def can_drift(self) -> bool:
        """Images, networks and whatever else a class resolves to change by themselves."""
        return True

    def supports(self, ref: NodeClassRef) -> bool:
        """Only EC2NodeClasses. v1beta1 lets a pool name its class alone."""
        return ref.api_group in ("", GROUP) and ref.kind in ("", NODE_CLASS_KIND)

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """The class, or None. One nobody looked at since it changed is not known to be ready."""
        found = await self.read_class(ref)
        if found is None:
            return None
        return NodeClassState(
            name=found.name,
            generation=found.metadata.generation,
            deleting=found.deleting,
            ready=readiness(found),
            state=state_of(found),
        )

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Every type of the region as nodes of the pool's class see it."""
        node_class = await self.read_class(pool.node_class_ref)
        if node_class is None:
            raise NodeClassNotReady(f"EC2NodeClass {pool.node_class_ref.name!r} does not exist")
        return await self.types_of(with_kubelet(node_class, pool.spec.template.spec.kubelet))

    async def types_of(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Every type of the region as nodes of this class see it."""
        return await self.parts.catalog.instance_types(node_class, await self._market(node_class))

    async def _worth_trying(self, node_class: EC2NodeClass) -> Sequence[Option]:
        pools = (await self.parts.cluster.list(NODE_POOL)).items
        named = [
            pool for pool in pools if pool.node_class_ref.name == node_class.name and self.supports(pool.node_class_ref)
        ]
        return worth_trying(await self.types_of(node_class), named)

    async def launch(self, claim: NodeClaim) -> Instance:
        """Launch an instance for the claim, or return the one launched for it before."""
        found = await self.parts.launcher.find(claim)
        node_class = await self.read_class(claim.spec.node_class_ref)
        if found is None:
            node_class = _ready(node_class, claim.spec.node_class_ref.name)
        elif node_class is None:
            return seen(found)
        meant = with_kubelet(node_class, claim.spec.kubelet)
        types = await self.types_of(meant)
        if found is None:
            found = await self.parts.launcher.launch(claim, meant, types)
        return launched(found, types, node_class, claim)

    async def terminate(self, claim: NodeClaim) -> None:
        """Begin to terminate the claim's instance; `InstanceNotFound` once EC2 does not tell of it any more."""
        id_ = instance_id(claim.provider_id)
        if not id_ or await self.parts.instances.terminate(id_):
            raise InstanceNotFound(f"instance {claim.provider_id} is gone")

    async def get(self, provider_id: str) -> Instance:
        """One instance as it is now, terminating ones included and marked."""
        id_ = instance_id(provider_id)
        found = await self.parts.instances.get(id_) if id_ else None
        if found is None:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return seen(found)

    async def list(self) -> tuple[Instance, ...]:
        """Every instance of this cluster, terminating ones included and marked."""
        return tuple(map(seen, await self.parts.instances.list()))

    async def drift(self, claim: NodeClaim) -> str:
        """Why the instance no longer matches its node class, or empty."""
        node_class = await self.read_class(claim.spec.node_class_ref)
        if node_class is None:
            return ""
        if static := static_drift(claim, node_class):
            return static
        if readiness(node_class).observed_generation != node_class.metadata.generation:
            raise DriftUnknown(f"EC2NodeClass {node_class.name!r} has not been looked at since it changed")
        id_ = instance_id(claim.provider_id)
        instance = await self.parts.instances.known(id_) if id_ else None
        types = await self.types_of(with_kubelet(node_class, claim.spec.kubelet))
        found = resolved_drift(node_class, instance, types) if instance is not None else ""
        if found == CAPACITY_RESERVATION_DRIFT:  # of a reservation that ended the instance may know nothing by now
            instance = await self.parts.instances.get(id_)
            found = resolved_drift(node_class, instance, types) if instance is not None else ""
        if instance is None:
            raise InstanceNotFound(f"there is no instance {claim.provider_id}")
        return found

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """The node conditions that make a node unhealthy: those of EKS' node monitoring agent, and the general ones."""
        return AWS

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Show an offering as unavailable for three minutes from now."""
        self.parts.unavailable.mark(OfferingKey(capacity_type, instance_type, zone))

    async def recover(self) -> None:
        """Take over launch templates that were left; a launch itself is found again by tag and token."""
        self._adopting = True

    async def run(self) -> None:
        """Keep the catalogue and the prices fresh, and launch templates few, until cancelled."""
        prices = self.parts.prices
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_fresh("instance types", self.parts.catalog.refresh))
            tasks.create_task(keep_fresh("on-demand prices", prices.refresh_on_demand))
            tasks.create_task(keep_fresh("spot prices", prices.refresh_spot))
            tasks.create_task(self._tidy())

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            try:
                if self._adopting:
                    await self.parts.templates.adopt()
                    self._adopting = False
                await self.parts.templates.sweep()
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - the others go on meanwhile
                log.warning("launch templates are left for later", extra={"error": str(error)})

    async def aclose(self) -> None:
        """Close every connection to AWS."""
        await self._classes.aclose()
        await self.parts.instances.aclose()
        await self.parts.aws.aclose()

    async def read_class(self, ref: NodeClassRef) -> EC2NodeClass | None:
        """The class referred to, as the API server has it; those who ask in the same moment share the answer."""
        return await self._classes.ask(ref.name) if self.supports(ref) else None

    async def _read_classes(self, names: Sequence[str]) -> Mapping[str, EC2NodeClass]:
        found: dict[str, EC2NodeClass] = {}
        for name in names:
            with suppress(NotFound):
                found[name] = await self.parts.cluster.get(EC2_NODE_CLASS, Key("", name))
        return found

    async def _market(self, node_class: EC2NodeClass) -> OfferingScope:
        status, unavailable = node_class.status, self.parts.unavailable
        away = await self.parts.shifts.away_from()
        usable = [
            subnet
            for subnet in status.subnets
            if not unavailable.covers_subnet(subnet.id) and away.isdisjoint((subnet.zone, subnet.zone_id))
        ]
        terms = node_class.spec.capacity_reservation_selector_terms
        reservations = await self.parts.resolvers.reservations.find(terms)
        return OfferingScope(
            zones=frozenset(subnet.zone for subnet in usable),
            zone_ids={subnet.zone: subnet.zone_id for subnet in status.subnets},
            reservations=tuple(each.resolved for each in reservations),
            reserved_counts={each.resolved.id: each.left for each in reservations},
        )


def with_kubelet(node_class: EC2NodeClass, kubelet: Mapping[str, object] | None) -> EC2NodeClass:
    """The class as a pool or claim means it that brings its own kubelet settings, as v1beta1 has them."""
    if not kubelet or node_class.spec.kubelet is not None:
        return node_class
    return replace(node_class, spec=replace(node_class.spec, kubelet=kubelet))


def readiness(node_class: EC2NodeClass) -> Condition:
    """Whether the class is ready; what was found on an older generation does not count."""
    found = find(node_class.status.conditions, READY)
    if found is None or found.observed_generation != node_class.metadata.generation:
        return Condition(type=READY, status="Unknown", reason=AWAITING.reason, message=AWAITING.message)
    return found


def _ready(node_class: EC2NodeClass | None, name: str) -> EC2NodeClass:
    """The class, if instances can be launched with it now."""
    if node_class is None or node_class.deleting:
        raise InsufficientCapacity(f"EC2NodeClass {name!r} does not exist")
    ready = readiness(node_class)
    told = f"EC2NodeClass {name!r} is not ready: {ready.message or ready.reason}"
    if ready.status == "False":
        raise NodeClassNotReady(told)
    if ready.status != "True":
        raise LaunchFailed("NodeClassReadinessUnknown", told)
    return node_class

"""The AWS cloud provider: the implementation of the `CloudProvider` port on EC2.

`assemble_aws` builds the parts over one cluster and one AWS account without sending a request; `AwsProvider` combines
them. The parts are in other modules: `resolve/` finds what selector terms match, `catalog/` builds instance types and
offerings, `launch/` launches instances, `instances` describes and terminates them, `drift` detects drift, and
`nodeclass_status` reconciles EC2NodeClasses.

An EC2NodeClass counts as ready only if its Ready condition was observed on the current generation. Instance types and
offerings are computed for each node class, because images, kubelet settings, subnets and reservations change them.
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
from dovetail.cloud.aws.eks_cluster import EksCluster, SelfManagedCluster, ZonalShifts
from dovetail.cloud.aws.instances import Instances, instance_id, with_capacity, without_capacity
from dovetail.cloud.aws.labels import INSTANCE_LABELS, NODE_CLASS_LABEL, OFFERING_LABELS
from dovetail.cloud.aws.launch.dry_run import LaunchDryRun, dry_run_options
from dovetail.cloud.aws.launch.launch_options import LaunchOption
from dovetail.cloud.aws.launch.launch_templates import LaunchTemplates
from dovetail.cloud.aws.launch.launcher import LaunchDependencies, Launcher
from dovetail.cloud.aws.nodeclass_hash import stamped
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
CLEANUP_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class AwsParts:
    """The parts of the provider, shared with the interruption sources and the wiring."""

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
    """Build the parts over one cluster and one AWS account. Sends no request."""
    aws, unavailable = aws or AwsClients(), UnavailableOfferings(clock)
    prices = Prices(aws, clock, isolated=settings.isolated_vpc)
    margins = Margins(settings.vm_memory_overhead_percent, settings.reserved_enis)
    resolvers = _build_resolvers(aws, clock, settings, cluster)
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
    launcher = Launcher(dependencies)
    nodeclass_reconciler.cleanups += [templates.delete_all, launcher.forget_class]
    shifts = nodeclass_reconciler.shifts = ZonalShifts(
        aws, clock, resolvers.cluster, enabled=settings.enable_zonal_shift
    )
    observed_memory = ObservedMemory(cluster)
    nodeclass_reconciler.claim_hooks += [ExpiredReservations(cluster, instances), observed_memory]
    return AwsParts(
        aws=aws,
        clock=clock,
        cluster=cluster,
        settings=settings,
        prices=prices,
        unavailable=unavailable,
        catalog=InstanceTypeCatalog(aws, prices, unavailable, margins, observed_memory),
        resolvers=resolvers,
        nodeclass_reconciler=nodeclass_reconciler,
        instances=instances,
        templates=templates,
        launcher=launcher,
        shifts=shifts,
    )


def _build_resolvers(aws: AwsClients, clock: Clock, settings: Settings, api: Cluster) -> Resolvers:
    described = (settings.cluster_name, settings.cluster_endpoint, settings.cluster_ca_bundle)
    on_eks = settings.eks_control_plane
    return Resolvers(
        subnets=Subnets(aws, clock, settings.subnet_refresh_interval),
        groups=SecurityGroups(aws, clock),
        images=Amis(aws, clock, settings.ami_refresh_interval),
        reservations=CapacityReservations(aws, clock),
        profiles=InstanceProfiles(aws, clock, settings.cluster_name),
        cluster=EksCluster(aws, clock, *described) if on_eks else SelfManagedCluster(api, clock, *described),
    )


class AwsProvider:
    """A provider of EC2 instances."""

    def __init__(self, parts: AwsParts) -> None:
        self.parts = parts
        self._adopt_templates = False
        self._classes: Batched[str, EC2NodeClass] = Batched(self._read_classes, BatchWindow(idle=0.0, longest=0.0))
        if not parts.settings.disable_dry_run:
            parts.nodeclass_reconciler.dry_run = LaunchDryRun(
                parts.aws, parts.clock, parts.launcher, self._dry_run_options
            )

    @property
    def name(self) -> str:
        """Short name, as in `--provider`."""
        return "aws"

    @property
    def well_known_labels(self) -> frozenset[str]:
        """The labels that instance types and offerings set."""
        return INSTANCE_LABELS | OFFERING_LABELS

    @property
    def node_class_labels(self) -> frozenset[str]:
        """The label that names the EC2NodeClass of a node."""
        return frozenset({NODE_CLASS_LABEL})

    @property
    def can_drift(self) -> bool:
        """True: AMIs, subnets and security groups that a class selects change over time."""
        return True

    def supports(self, ref: NodeClassRef) -> bool:
        """Whether the reference is to an EC2NodeClass. v1beta1 allows a NodePool to leave out group and kind."""
        return ref.api_group in ("", GROUP) and ref.kind in ("", NODE_CLASS_KIND)

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """The state of the class, or None. Ready is Unknown until the current generation is reconciled."""
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
        """Every instance type of the region, with the capacity that nodes of the pool's class have."""
        node_class = await self.read_class(pool.node_class_ref)
        if node_class is None:
            raise NodeClassNotReady(f"EC2NodeClass {pool.node_class_ref.name!r} does not exist")
        return await self.types_of(with_kubelet(node_class, pool.spec.template.spec.kubelet))

    async def types_of(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Every instance type of the region, with the capacity that nodes of this class have."""
        return await self.parts.catalog.instance_types(node_class, await self._offering_scope(node_class))

    async def _dry_run_options(self, node_class: EC2NodeClass) -> Sequence[LaunchOption]:
        pools = (await self.parts.cluster.list(NODE_POOL)).items
        using_class = [
            pool for pool in pools if pool.node_class_ref.name == node_class.name and self.supports(pool.node_class_ref)
        ]
        return dry_run_options(await self.types_of(node_class), using_class)

    async def launch(self, claim: NodeClaim) -> Instance:
        """Launch an instance for the claim, or return the one launched for it before."""
        found = await self.parts.launcher.find(claim)
        node_class = await self.read_class(claim.spec.node_class_ref)
        if found is None:
            node_class = _ready(node_class, claim.spec.node_class_ref.name)
        elif node_class is None:
            return without_capacity(found)
        node_class = stamped(node_class, self.parts.resolvers.cluster.ca_bundle)
        effective = with_kubelet(node_class, claim.spec.kubelet)
        types = await self.types_of(effective)
        if found is None:
            found = await self.parts.launcher.launch(claim, effective, types)
        return with_capacity(found, types, node_class, claim)

    async def terminate(self, claim: NodeClaim) -> None:
        """Start to terminate the claim's instance; `InstanceNotFound` once it no longer exists."""
        id_ = instance_id(claim.provider_id)
        if not id_ or await self.parts.instances.terminate(id_):
            raise InstanceNotFound(f"instance {claim.provider_id} does not exist")

    async def get(self, provider_id: str) -> Instance:
        """Describe one instance; a terminating one is returned and marked."""
        id_ = instance_id(provider_id)
        found = await self.parts.instances.get(id_) if id_ else None
        if found is None:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return without_capacity(found)

    async def list(self) -> tuple[Instance, ...]:
        """Every instance of this cluster; terminating ones are included and marked."""
        return tuple(map(without_capacity, await self.parts.instances.list()))

    async def drift(self, claim: NodeClaim) -> str:
        """The reason why the instance no longer matches its node class, or an empty string."""
        node_class = await self.read_class(claim.spec.node_class_ref)
        if node_class is None:
            return ""
        if static := static_drift(claim, node_class):
            return static
        if readiness(node_class).observed_generation != node_class.metadata.generation:
            raise DriftUnknown(f"EC2NodeClass {node_class.name!r} has not been reconciled since its spec changed")
        id_ = instance_id(claim.provider_id)
        instance = await self.parts.instances.get_cached(id_) if id_ else None
        types = await self.types_of(with_kubelet(node_class, claim.spec.kubelet))
        found = resolved_drift(node_class, instance, types) if instance is not None else ""
        if found == CAPACITY_RESERVATION_DRIFT:  # the cached instance may still name an ended reservation
            instance = await self.parts.instances.get(id_)
            found = resolved_drift(node_class, instance, types) if instance is not None else ""
        if instance is None:
            raise InstanceNotFound(f"there is no instance {claim.provider_id}")
        return found

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """The repair policies: the conditions of the EKS node monitoring agent and the general ones."""
        return AWS

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Mark an offering as unavailable for three minutes."""
        self.parts.unavailable.mark(OfferingKey(capacity_type, instance_type, zone))

    async def recover(self) -> None:
        """Adopt leftover launch templates on the next cleanup. Launches recover by tag and client token."""
        self._adopt_templates = True

    async def run(self) -> None:
        """Refresh instance types and prices, and delete unused launch templates, until cancelled."""
        prices = self.parts.prices
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_fresh("instance types", self.parts.catalog.refresh))
            tasks.create_task(keep_fresh("on-demand prices", prices.refresh_on_demand))
            tasks.create_task(keep_fresh("spot prices", prices.refresh_spot))
            tasks.create_task(self._clean_up_templates())

    async def _clean_up_templates(self) -> None:
        while True:
            await asyncio.sleep(CLEANUP_SECONDS)
            try:
                if self._adopt_templates:
                    await self.parts.templates.adopt()
                    self._adopt_templates = False
                await self.parts.templates.delete_unused()
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - a failed cleanup must not end the other tasks
                log.warning("could not clean up launch templates, will retry", extra={"error": str(error)})

    async def aclose(self) -> None:
        """Close every connection to AWS."""
        await self._classes.aclose()
        await self.parts.instances.aclose()
        await self.parts.aws.aclose()

    async def read_class(self, ref: NodeClassRef) -> EC2NodeClass | None:
        """Read the class from the API server; concurrent reads of one class share a request."""
        return await self._classes.get(ref.name) if self.supports(ref) else None

    async def _read_classes(self, names: Sequence[str]) -> Mapping[str, EC2NodeClass]:
        found: dict[str, EC2NodeClass] = {}
        for name in names:
            with suppress(NotFound):
                found[name] = await self.parts.cluster.get(EC2_NODE_CLASS, Key("", name))
        return found

    async def _offering_scope(self, node_class: EC2NodeClass) -> OfferingScope:
        status, unavailable = node_class.status, self.parts.unavailable
        shifted_zones = await self.parts.shifts.away_from()
        usable = [
            subnet
            for subnet in status.subnets
            if not unavailable.is_subnet_full(subnet.id) and shifted_zones.isdisjoint((subnet.zone, subnet.zone_id))
        ]
        terms = node_class.spec.capacity_reservation_selector_terms
        reservations = await self.parts.resolvers.reservations.find(terms)
        return OfferingScope(
            zones=frozenset(subnet.zone for subnet in usable),
            zone_ids={subnet.zone: subnet.zone_id for subnet in status.subnets},
            reservations=tuple(each.resolved for each in reservations),
            reserved_counts={each.resolved.id: each.available_count for each in reservations},
        )


def with_kubelet(node_class: EC2NodeClass, kubelet: Mapping[str, object] | None) -> EC2NodeClass:
    """The class with the kubelet settings of a v1beta1 NodePool or NodeClaim, unless the class has settings itself."""
    if not kubelet or node_class.spec.kubelet is not None:
        return node_class
    return replace(node_class, spec=replace(node_class.spec, kubelet=kubelet))


def readiness(node_class: EC2NodeClass) -> Condition:
    """The Ready condition of the class; Unknown if it was observed on an older generation."""
    found = find(node_class.status.conditions, READY)
    if found is None or found.observed_generation != node_class.metadata.generation:
        return Condition(type=READY, status="Unknown", reason=AWAITING.reason, message=AWAITING.message)
    return found


def _ready(node_class: EC2NodeClass | None, name: str) -> EC2NodeClass:
    """Return the class, or raise the error for why instances cannot be launched with it."""
    if node_class is None or node_class.deleting:
        raise InsufficientCapacity(f"EC2NodeClass {name!r} does not exist")
    ready = readiness(node_class)
    message = f"EC2NodeClass {name!r} is not ready: {ready.message or ready.reason}"
    if ready.status == "False":
        raise NodeClassNotReady(message)
    if ready.status != "True":
        raise LaunchFailed("NodeClassReadinessUnknown", message)
    return node_class

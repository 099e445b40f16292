"""The kwok cloud provider: its instances are Node objects in the cluster.

A launch creates a Node, a termination deletes it; KWOK or the simulator acts as the kubelet. The label
`dovetail.sh/instance=lost` on a Node simulates the loss of its instance. All state is in the cluster: a launch that is
repeated after a crash finds its Node by name, and `recover` schedules launches again that were waiting for their
registration delay, from the labels of the NodeClaim.

`DelayedRegistrations` implements `nodeRegistrationDelay` of a KWOKNodeClass: the Node is created in the background
after the delay, unless the claim no longer exists by then. API failures are retried. A Node that the API server rejects
is logged and dropped; the registration timeout then deletes its claim.

KWOKNodeClasses need no reconciliation; `NodeClassWatch` watches them so that NodePools notice changes at once.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import is_
from typing import Any

from dovetail.cloud.kwok.node import (
    FAKE_NODE,
    GROUP,
    INSTANCE_LABELS,
    NODE_CLASS_KIND,
    PROVIDER_PREFIX,
    build_node,
    instance_of,
    is_lost,
    node_name,
    provider_id,
)
from dovetail.cloud.kwok.offering_selection import Availability, SelectedOffering, Shortage, find_cheapest
from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.conditions import READY, find
from dovetail.model.kinds import KWOK_NODE_CLASS, NODE, NODE_CLAIM, Kind
from dovetail.model.kube_object import Condition, Key, UnreadableObject
from dovetail.model.kwoknodeclass import KWOKNodeClass
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, WELL_KNOWN, ZONE
from dovetail.model.node import Node
from dovetail.model.nodeclaim import REGISTERED, NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.repair import KWOK, ProviderRepairPolicy
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import Kept, NodeClassState
from dovetail.ports.cluster import Cluster, Deletion
from dovetail.ports.errors import (
    AlreadyExists,
    ApiError,
    Denied,
    InstanceNotFound,
    InsufficientCapacity,
    Invalid,
    NodeClassNotReady,
    NotFound,
)

_MIN_PAUSE = 1.0  # seconds
_MAX_PAUSE = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ScheduledNode:
    node: Node
    task: asyncio.Task[None]


class DelayedRegistrations:
    """The nodes that wait for their registration delay, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[str, _ScheduledNode] = {}

    def schedule(self, claim: NodeClaim, node: Node, delay: timedelta) -> None:
        """Create the node after the delay, unless it is scheduled already."""
        if node.name in self._waiting:
            return
        task = asyncio.create_task(self._register(claim, node, delay), name=f"register {node.name}")
        self._waiting[node.name] = _ScheduledNode(node, task)
        task.add_done_callback(lambda done: self._forget(node.name, done))

    def waiting(self, name: str) -> Node | None:
        """The scheduled node of that name, or None."""
        found = self._waiting.get(name)
        return found.node if found else None

    def all_waiting(self) -> tuple[Node, ...]:
        """Every scheduled node."""
        return tuple(each.node for each in self._waiting.values())

    def cancel(self, name: str) -> bool:
        """Cancel a scheduled node; whether there was one."""
        found = self._waiting.pop(name, None)
        return found is not None and found.task.cancel()

    async def aclose(self) -> None:
        """Cancel all scheduled nodes and wait for their tasks to end."""
        tasks = [each.task for each in self._waiting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiting.clear()

    def _forget(self, name: str, done: asyncio.Task[None]) -> None:
        found = self._waiting.get(name)
        if found is not None and found.task is done:
            del self._waiting[name]

    async def _register(self, claim: NodeClaim, node: Node, delay: timedelta) -> None:
        await asyncio.sleep(delay.total_seconds())
        pause = _MIN_PAUSE
        while True:
            try:
                return await self._create(claim, node)
            except (Invalid, Denied) as error:
                return _log.error("the API server rejected the node", extra={"node": node.name, "error": str(error)})
            except ApiError as error:
                _log.warning("could not create the node, will retry", extra={"node": node.name, "error": str(error)})
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _create(self, claim: NodeClaim, node: Node) -> None:
        try:
            current = await self._cluster.get(NODE_CLAIM, claim.key)
        except NotFound:
            return
        if current.metadata.uid != claim.metadata.uid:
            return
        try:
            await self._cluster.create(NODE, node)
        except AlreadyExists:
            return


_UNAVAILABLE_FOR = timedelta(minutes=3)
_CLASS_LIFETIME = timedelta(seconds=1)

_Listed = dict[str, tuple[Node, Instance]]
"""The nodes of the last listing with their instances, by provider ID."""


class KwokProvider:
    """The kwok provider. Simulations create shortages through `availability`."""

    def __init__(self, cluster: Cluster, catalog: Sequence[InstanceType], clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._registrations = DelayedRegistrations(cluster)
        self._classes: dict[str, tuple[datetime, KWOKNodeClass | None]] = {}
        self._nodes: tuple[Node, ...] = ()  # as last listed
        self._listed: _Listed = {}
        self._instances: tuple[Instance, ...] = ()
        self.availability = Availability(tuple(catalog))
        self.can_drift = False  # a KWOKNodeClass has no fields that instances could drift from
        offered = {key for each in catalog for offering in each.offerings for key in offering.requirements}
        self._well_known = INSTANCE_LABELS | offered

    @property
    def name(self) -> str:
        """Short name, as in `--provider`."""
        return "kwok"

    @property
    def well_known_labels(self) -> frozenset[str]:
        """The labels that instance types and offerings set."""
        return self._well_known

    @property
    def node_class_labels(self) -> frozenset[str]:
        """The label that names the KWOKNodeClass of a node."""
        return frozenset({f"{GROUP}/{NODE_CLASS_KIND.lower()}"})

    def supports(self, ref: NodeClassRef) -> bool:
        """Whether the reference is to a KWOKNodeClass."""
        return ref.api_group == GROUP and ref.kind == NODE_CLASS_KIND

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """The state of the class, or None. A class without a Ready condition is ready."""
        found = await self._read_class(ref)
        if found is None:
            return None
        return NodeClassState(
            name=found.name, generation=found.metadata.generation, deleting=found.deleting, ready=_readiness(found)
        )

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:  # noqa: ARG002 - all pools see all types
        """The catalog, with offerings of current shortages marked as unavailable."""
        return self.availability.at(self._clock.now())

    async def launch(self, claim: NodeClaim) -> Instance:
        """Create the claim's Node, at once or after the registration delay of its class, unless it exists."""
        waiting = self._registrations.waiting(node_name(claim))
        if waiting is not None:
            return instance_of(waiting)
        try:
            return await self._launch(claim)
        except (InsufficientCapacity, NodeClassNotReady):
            existing = await self._read_node(node_name(claim))
            if existing is None:
                raise
            return instance_of(existing)

    async def _launch(self, claim: NodeClaim) -> Instance:
        choice, node_class = await self.choose(claim)
        return instance_of(await self._create_node(claim, build_node(claim, choice), node_class))

    async def choose(self, claim: NodeClaim) -> tuple[SelectedOffering, KWOKNodeClass]:
        """The cheapest available offering for a claim; `InsufficientCapacity` or `NodeClassNotReady` if none."""
        node_class = await self._cached_class(claim.spec.node_class_ref)
        if node_class is None or node_class.deleting:
            raise InsufficientCapacity(f"KWOKNodeClass {claim.spec.node_class_ref.name!r} does not exist")
        ready = _readiness(node_class)
        if ready.status == "False":
            raise NodeClassNotReady(f"KWOKNodeClass {node_class.name!r} is not ready: {ready.message or ready.reason}")
        choice = find_cheapest(claim, self.availability.at(self._clock.now()), WELL_KNOWN | self._well_known)
        if isinstance(choice, str):
            raise InsufficientCapacity(choice)
        return choice, node_class

    async def terminate(self, claim: NodeClaim) -> None:
        """Delete the claim's Node. A Node that is already deleting has no instance, whatever its finalizers."""
        name = node_name(claim)
        if self._registrations.cancel(name):
            return
        node = await self._read_node(name)
        if node is None or node.deleting or is_lost(node):
            raise InstanceNotFound(f"instance {provider_id(name)} does not exist")
        try:
            await self._cluster.delete(NODE, node.key, Deletion(uid=node.metadata.uid))
        except NotFound:
            raise InstanceNotFound(f"instance {provider_id(name)} does not exist") from None

    async def get(self, provider_id: str) -> Instance:
        """One instance; a terminating one is returned and marked."""
        name = provider_id.removeprefix(PROVIDER_PREFIX)
        if name != provider_id:
            node = await self._read_node(name) or self._registrations.waiting(name)
            if node is not None and not is_lost(node):
                return instance_of(node)
        raise InstanceNotFound(f"there is no instance {provider_id}")

    async def list(self) -> tuple[Instance, ...]:
        """Every instance; those that wait for their registration delay are included."""
        listing = await self._cluster.list(NODE)
        nodes = (*listing.items, *self._registrations.all_waiting())
        if len(nodes) != len(self._nodes) or not all(map(is_, nodes, self._nodes)):
            self._nodes, self._listed = nodes, _instances_by_id(nodes, self._listed)
            self._instances = tuple([instance for _, instance in self._listed.values()])
        return (*self._instances, *_unreadable_instances(listing.unreadable))

    async def drift(self, claim: NodeClaim) -> str:  # noqa: ARG002 - kwok instances do not drift
        """No drift, always."""
        return ""

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """The repair policies."""
        return KWOK

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Mark an offering as unavailable for three minutes."""
        shortage = Shortage(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        self.availability.avoid(shortage, self._clock.now() + _UNAVAILABLE_FOR)

    async def recover(self) -> None:
        """Schedule launches again that an earlier process had not finished. Call it once, at startup."""
        nodes = {node.name for node in (await self._cluster.list(NODE)).items}
        for claim in (await self._cluster.list(NODE_CLAIM)).items:
            missing = claim.provider_id.startswith(PROVIDER_PREFIX) and node_name(claim) not in nodes
            if not missing or claim.deleting or claim.has(REGISTERED):
                continue
            node_class = await self._read_class(claim.spec.node_class_ref)
            choice = _recorded_choice(claim.metadata.labels, self.availability.catalog)
            if node_class is not None and choice is not None:
                await self._create_node(claim, build_node(claim, choice), node_class)

    async def run(self) -> None:
        """There is no background work."""

    async def aclose(self) -> None:
        """Cancel the scheduled nodes; `recover` of the next process schedules them again."""
        await self._registrations.aclose()

    async def _create_node(self, claim: NodeClaim, node: Node, node_class: KWOKNodeClass) -> Node:
        delay = node_class.spec.node_registration_delay
        if delay is not None and delay.span > timedelta():
            existing = await self._read_node(node.name)
            if existing is not None:
                return existing
            self._registrations.schedule(claim, node, delay.span)
            return node
        try:
            return await self._cluster.create(NODE, node)
        except AlreadyExists:
            return await self._cluster.get(NODE, node.key)

    async def _read_node(self, name: str) -> Node | None:
        try:
            node = await self._cluster.get(NODE, Key("", name))
        except NotFound:
            return None
        return node if node.provider_id == provider_id(name) else None

    async def _cached_class(self, ref: NodeClassRef) -> KWOKNodeClass | None:
        """The class, at most a second old: launches in quick succession share one read."""
        now = self._clock.now()
        read_at, known = self._classes.get(ref.name, (now, None))
        if known is None or now - read_at >= _CLASS_LIFETIME:
            known = await self._read_class(ref)
            self._classes[ref.name] = now, known
        return known

    async def _read_class(self, ref: NodeClassRef) -> KWOKNodeClass | None:
        try:
            return await self._cluster.get(KWOK_NODE_CLASS, Key("", ref.name)) if self.supports(ref) else None
        except NotFound:
            return None


def _instances_by_id(nodes: Iterable[Node], known: _Listed) -> _Listed:
    """The instances of the nodes. An unchanged node is the same object as before and keeps its instance."""
    listed: _Listed = {}
    for node in nodes:
        key = node.spec.provider_id
        if not key.startswith(PROVIDER_PREFIX) or is_lost(node):
            continue
        before = known.get(key)
        listed.setdefault(key, before if before is not None and before[0] is node else (node, instance_of(node)))
    return listed


def _readiness(node_class: KWOKNodeClass) -> Condition:
    created_at = node_class.metadata.creation_timestamp
    default = Condition(type=READY, status="True", reason=READY, last_transition_time=created_at)
    return find(node_class.status.conditions, READY) or default


def _recorded_choice(labels: Mapping[str, str], catalog: Sequence[InstanceType]) -> SelectedOffering | None:
    """The offering that an earlier launch selected, from the labels of its claim."""
    recorded = labels.get(INSTANCE_TYPE), labels.get(ZONE), labels.get(CAPACITY_TYPE)
    return next(
        (
            SelectedOffering(each, offering)
            for each in catalog
            for offering in each.offerings
            if (each.name, offering.zone, offering.capacity_type) == recorded
        ),
        None,
    )


def _unreadable_instances(unreadable: Sequence[UnreadableObject]) -> Sequence[Instance]:
    """Nodes that cannot be decoded still count as instances: otherwise their claims would be deleted."""
    return [
        Instance(
            provider_id=provider_id(each.metadata.name),
            labels=dict(each.metadata.labels),
            capacity={},
            allocatable={},
            annotations=dict(each.metadata.annotations),
            terminating=each.metadata.deletion_timestamp is not None,
            launched_at=each.metadata.creation_timestamp,
        )
        for each in unreadable
        if FAKE_NODE in each.metadata.labels
    ]


class NodeClassWatch:
    """A reconciler without work, which only makes the controller watch KWOKNodeClasses."""

    @property
    def node_class_kind(self) -> Kind[Any]:
        """The kind that it watches."""
        return KWOK_NODE_CLASS

    def definition(self, node_class: KWOKNodeClass) -> object:  # noqa: ARG002 - kwok instances do not drift
        """There are no inputs of drift detection."""
        return None

    async def keep(self, node_class: KWOKNodeClass, claims: Sequence[NodeClaim]) -> Kept:  # noqa: ARG002 - see above
        """There is nothing to reconcile."""
        return Kept(None)

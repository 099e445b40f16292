"""Nodes that are promised and not there yet: the registration delay of a KWOKNodeClass, waited for in the background.

A wait ends in a Node, or in nothing if the claim is gone by then. Failures of the API are tried again; an object the
API will never take is reported and given up, which the claim's registration deadline then cleans up.

The kwok provider: instances are Node objects in the cluster itself.

Launching creates a Node, terminating deletes it; KWOK, or the embedded world, plays the kubelet. A Node labelled
`dovetail.sh/instance=lost` has no instance any more: that is how the loss of a machine is staged. Everything that
matters is in the cluster: a launch that is repeated after a crash finds its Node by name, and one that was still
waiting for its registration delay is made again by `recover` from what the NodeClaim says.

KWOKNodeClasses need no care: they are watched, so that NodePools hear at once of theirs, and nothing is done.
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

_FIRST_PAUSE = 1.0  # seconds
_LONGEST_PAUSE = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    node: Node
    task: asyncio.Task[None]


class DelayedRegistrations:
    """The nodes on their way, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[str, _Waiting] = {}

    def schedule(self, claim: NodeClaim, node: Node, delay: timedelta) -> None:
        """Create the node after the delay; one that is on its way already stays as it is."""
        if node.name in self._waiting:
            return
        task = asyncio.create_task(self._register(claim, node, delay), name=f"register {node.name}")
        self._waiting[node.name] = _Waiting(node, task)
        task.add_done_callback(lambda done: self._forget(node.name, done))

    def waiting(self, name: str) -> Node | None:
        """The node of that name, while it is on its way."""
        found = self._waiting.get(name)
        return found.node if found else None

    def all_waiting(self) -> tuple[Node, ...]:
        """Every node on its way."""
        return tuple(each.node for each in self._waiting.values())

    def cancel(self, name: str) -> bool:
        """Give up a node that is on its way; whether there was one."""
        found = self._waiting.pop(name, None)
        return found is not None and found.task.cancel()

    async def aclose(self) -> None:
        """Give up all of them and wait until none is left running."""
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
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._create(claim, node)
            except (Invalid, Denied) as error:
                return _log.error("node refused", extra={"node": node.name, "error": str(error)})
            except ApiError as error:
                _log.warning("node not created yet", extra={"node": node.name, "error": str(error)})
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

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


_AVOIDED_FOR = timedelta(minutes=3)
_A_MOMENT = timedelta(seconds=1)

_Listed = dict[str, tuple[Node, Instance]]
"""Nodes as they were last listed, with their instances, by provider id."""


class KwokProvider:
    """A provider whose instances are Nodes that nobody has to pay for. `availability` is where shortages are made."""

    def __init__(self, cluster: Cluster, catalog: Sequence[InstanceType], clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._registrations = DelayedRegistrations(cluster)
        self._classes: dict[str, tuple[datetime, KWOKNodeClass | None]] = {}
        self._nodes: tuple[Node, ...] = ()  # as last listed
        self._listed: _Listed = {}
        self._instances: tuple[Instance, ...] = ()
        self.availability = Availability(tuple(catalog))
        self.can_drift = False  # a simulated machine has nothing to drift from
        offered = {key for each in catalog for offering in each.offerings for key in offering.requirements}
        self._well_known = INSTANCE_LABELS | offered

    @property
    def name(self) -> str:
        """Short name, as in `--provider`."""
        return "kwok"

    @property
    def well_known_labels(self) -> frozenset[str]:
        """The derived labels of instance types, and whatever else offerings speak of."""
        return self._well_known

    @property
    def node_class_label(self) -> str:
        """The label that marks a node as this provider's."""
        return f"{GROUP}/{NODE_CLASS_KIND.lower()}"

    def supports(self, ref: NodeClassRef) -> bool:
        """Only KWOKNodeClasses."""
        return ref.api_group == GROUP and ref.kind == NODE_CLASS_KIND

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """The class, or None. One that says nothing of its readiness is ready: there is nothing to prepare."""
        found = await self._class(ref)
        if found is None:
            return None
        return NodeClassState(
            name=found.name, generation=found.metadata.generation, deleting=found.deleting, ready=_readiness(found)
        )

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:  # noqa: ARG002 - all pools see all types
        """The catalogue, with what is short now marked unavailable."""
        return self.availability.at(self._clock.now())

    async def launch(self, claim: NodeClaim) -> Instance:
        """Create the claim's Node, at once or after its class's registration delay, unless that was done before."""
        waiting = self._registrations.waiting(node_name(claim))
        if waiting is not None:
            return instance_of(waiting)
        try:
            return await self._launch(claim)
        except (InsufficientCapacity, NodeClassNotReady):
            existing = await self._node(node_name(claim))
            if existing is None:
                raise
            return instance_of(existing)

    async def _launch(self, claim: NodeClaim) -> Instance:
        choice, node_class = await self.choose(claim)
        return instance_of(await self._start(claim, build_node(claim, choice), node_class))

    async def choose(self, claim: NodeClaim) -> tuple[SelectedOffering, KWOKNodeClass]:
        """The cheapest available offering for a claim; `InsufficientCapacity` or `NodeClassNotReady` if none."""
        node_class = await self._recent_class(claim.spec.node_class_ref)
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
        """Delete the claim's Node. One that is deleted already holds no instance, whatever its finalizers wait for."""
        name = node_name(claim)
        if self._registrations.cancel(name):
            return
        node = await self._node(name)
        if node is None or node.deleting or is_lost(node):
            raise InstanceNotFound(f"instance {provider_id(name)} is gone")
        try:
            await self._cluster.delete(NODE, node.key, Deletion(uid=node.metadata.uid))
        except NotFound:
            raise InstanceNotFound(f"instance {provider_id(name)} is gone") from None

    async def get(self, provider_id: str) -> Instance:
        """One instance, terminating ones included and marked."""
        name = provider_id.removeprefix(PROVIDER_PREFIX)
        if name != provider_id:
            node = await self._node(name) or self._registrations.waiting(name)
            if node is not None and not is_lost(node):
                return instance_of(node)
        raise InstanceNotFound(f"there is no instance {provider_id}")

    async def list(self) -> tuple[Instance, ...]:
        """Every instance, those still waiting to register included."""
        listing = await self._cluster.list(NODE)
        nodes = (*listing.items, *self._registrations.all_waiting())
        if len(nodes) != len(self._nodes) or not all(map(is_, nodes, self._nodes)):
            self._nodes, self._listed = nodes, _as_listed(nodes, self._listed)
            self._instances = tuple([instance for _, instance in self._listed.values()])
        return (*self._instances, *_unreadable_instances(listing.unreadable))

    async def drift(self, claim: NodeClaim) -> str:  # noqa: ARG002 - no machine drifts
        """Never."""
        return ""

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """The node conditions that make a node unhealthy."""
        return KWOK

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Show an offering as unavailable for three minutes from now."""
        shortage = Shortage(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        self.availability.avoid(shortage, self._clock.now() + _AVOIDED_FOR)

    async def recover(self) -> None:
        """Take up launches that a process before this one had promised and not yet made. Call it once, at the start."""
        nodes = {node.name for node in (await self._cluster.list(NODE)).items}
        for claim in (await self._cluster.list(NODE_CLAIM)).items:
            lost = claim.provider_id.startswith(PROVIDER_PREFIX) and node_name(claim) not in nodes
            if not lost or claim.deleting or claim.has(REGISTERED):
                continue
            node_class = await self._class(claim.spec.node_class_ref)
            choice = _choice_on_record(claim.metadata.labels, self.availability.catalog)
            if node_class is not None and choice is not None:
                await self._start(claim, build_node(claim, choice), node_class)

    async def run(self) -> None:
        """Nothing has to be done all the time."""

    async def aclose(self) -> None:
        """Stop waiting for registrations; `recover` of the next process takes them up."""
        await self._registrations.aclose()

    async def _start(self, claim: NodeClaim, node: Node, node_class: KWOKNodeClass) -> Node:
        delay = node_class.spec.node_registration_delay
        if delay is not None and delay.span > timedelta():
            existing = await self._node(node.name)
            if existing is not None:
                return existing
            self._registrations.schedule(claim, node, delay.span)
            return node
        try:
            return await self._cluster.create(NODE, node)
        except AlreadyExists:
            return await self._cluster.get(NODE, node.key)

    async def _node(self, name: str) -> Node | None:
        try:
            node = await self._cluster.get(NODE, Key("", name))
        except NotFound:
            return None
        return node if node.provider_id == provider_id(name) else None

    async def _recent_class(self, ref: NodeClassRef) -> KWOKNodeClass | None:
        """The class as it was a moment ago: a wave of launches reads it once."""
        now = self._clock.now()
        read_at, known = self._classes.get(ref.name, (now, None))
        if known is None or now - read_at >= _A_MOMENT:
            known = await self._class(ref)
            self._classes[ref.name] = now, known
        return known

    async def _class(self, ref: NodeClassRef) -> KWOKNodeClass | None:
        try:
            return await self._cluster.get(KWOK_NODE_CLASS, Key("", ref.name)) if self.supports(ref) else None
        except NotFound:
            return None


def _as_listed(nodes: Iterable[Node], known: _Listed) -> _Listed:
    """A node that has not changed is the same value again, and so is its instance."""
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
    silent = Condition(type=READY, status="True", reason=READY, last_transition_time=created_at)
    return find(node_class.status.conditions, READY) or silent


def _choice_on_record(labels: Mapping[str, str], catalog: Sequence[InstanceType]) -> SelectedOffering | None:
    """What an earlier launch chose, as the labels of its claim tell."""
    wanted = labels.get(INSTANCE_TYPE), labels.get(ZONE), labels.get(CAPACITY_TYPE)
    return next(
        (
            SelectedOffering(each, offering)
            for each in catalog
            for offering in each.offerings
            if (each.name, offering.zone, offering.capacity_type) == wanted
        ),
        None,
    )


def _unreadable_instances(unreadable: Sequence[UnreadableObject]) -> Sequence[Instance]:
    """A Node that cannot be read is still an instance: taken for gone, its claim would be deleted."""
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
    """A keeper with nothing to keep."""

    @property
    def node_class_kind(self) -> Kind[Any]:
        """What it watches."""
        return KWOK_NODE_CLASS

    def definition(self, node_class: KWOKNodeClass) -> object:  # noqa: ARG002 - no instance drifts
        """Nothing is judged by it."""
        return None

    async def keep(self, node_class: KWOKNodeClass, claims: Sequence[NodeClaim]) -> Kept:  # noqa: ARG002 - as said above
        """There is nothing to do, now or later."""
        return Kept(None)

"""Boot, node registration and shutdown of simulated instances.

A Node registers as on EC2: with the labels that its kubelet and its user data set, the taint
`karpenter.sh/unregistered`, and its provider id; the controller adds the rest on registration. The Node stays when its
instance ends, until it is deleted, for example by the optional `CloudNodeController`.

A Node or NodeClaim with a provider id that the cloud does not know, as tests and scenarios write them, stands for an
instance that was launched earlier: the cloud adopts it.
"""

from collections.abc import Mapping
from datetime import datetime

from dovetail.manifest import codec
from dovetail.model import kinds
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, OS, ZONE
from dovetail.model.node import Node, NodeSpec, NodeStatus
from dovetail.model.nodeclaim import REGISTERED, NodeClaim
from dovetail.model.resources import Resources
from dovetail.model.taints import UNREGISTERED_TAINT
from dovetail.ports.cluster import Deletion
from dovetail.ports.errors import ApiError, InstanceNotFound
from dovetail.sim.cloud.service import PROVIDER_PREFIX, InstanceRecord, LaunchRequest, SimulatedCloud
from dovetail.sim.kubernetes.api_server import ApiServer
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM
from dovetail.sim.kubernetes.kubelet import FAKE_NODE, Kubelet
from dovetail.sim.kubernetes.node_lifecycle import NodeLifecycle
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

_LONGEST_LABEL = 63
_STAGE = ".stage.kwok.x-k8s.io/"  # in annotations that set how long the kubelet takes
_NODE_CLASS = "karpenter.kwok.sh/kwoknodeclass"
_OWN_LABELS = (OS, ARCH, INSTANCE_TYPE, ZONE, NODEPOOL, CAPACITY_TYPE, _NODE_CLASS)


class InstanceBoot(SimulatedController[str]):
    """Boots, registers and shuts down the instances of the cloud. Keys are NodeClaim names."""

    watches = (NODE, NODE_CLAIM)

    def __init__(
        self, api: ApiServer, seed: str, cloud: SimulatedCloud, kubelet: Kubelet, node_lifecycle: NodeLifecycle
    ) -> None:
        super().__init__(api, seed)
        self._cloud = cloud
        self._kubelet = kubelet
        self._node_lifecycle = node_lifecycle

    def start(self) -> None:
        """Listen to the cloud and the store, and adopt the instances of existing Nodes and NodeClaims."""
        self._cloud.listen(self._changed)
        super().start()

    def stop(self) -> None:
        """Unsubscribe from the cloud and the store, and cancel all timers."""
        self._cloud.stop_listening(self._changed)
        super().stop()

    def on_change(self, change: StoreChange) -> None:
        """Adopt the instance of a new Node, and enqueue a new NodeClaim that has a provider id."""
        if change.type != "ADDED":
            return
        if change.after.resource == NODE_CLAIM:
            if (change.after.plain.get("status") or {}).get("providerID"):
                self.enqueue(change.after.key.name)  # later, because its Node may be written next and has more details
        elif self._is_unknown(provider_id := change.after.plain["spec"].get("providerID", "")):
            self._cloud.adopt(self._record_of(change.after, provider_id))

    def reconcile(self, key: str) -> None:
        """Adopt the instance of a NodeClaim that was launched and has not registered yet."""
        record = self.store.find(NODE_CLAIM, Key("", key))
        claim = record.value(kinds.NODE_CLAIM) if record is not None else None
        if not isinstance(claim, NodeClaim) or claim.has(REGISTERED) or not self._is_unknown(claim.provider_id):
            return
        name = claim.provider_id.removeprefix(PROVIDER_PREFIX)
        launched = _request(name, claim.metadata.labels, claim.status.capacity, claim.status.allocatable)
        self._cloud.adopt(
            InstanceRecord(
                provider_id=claim.provider_id,
                launched=launched,
                launched_at=self.store.loop.time(),
                launched_on=self.store.clock.now(),
            )
        )

    def _is_unknown(self, provider_id: str) -> bool:
        return provider_id.startswith(PROVIDER_PREFIX) and provider_id not in self._cloud.instances

    def _record_of(self, node: ObjectVersion, provider_id: str) -> InstanceRecord:
        value = node.value(kinds.NODE)
        status = value.status if isinstance(value, Node) else NodeStatus()
        created = value.metadata.creation_timestamp
        launched_on: datetime = created or self.store.clock.now()
        time = self.store.loop.time()
        return InstanceRecord(
            provider_id=provider_id,
            launched=_request(node.key.name, node.meta.get("labels") or {}, status.capacity, status.allocatable),
            launched_at=time - (self.store.clock.now() - launched_on).total_seconds(),
            launched_on=launched_on,
            state="running",
            node_name=node.key.name,
            joined_at=time,
        )

    def _changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        if before is None:
            if after.state == "pending":
                self.later(self.rng.uniform(*self._cloud.options.boot), self._boot, after.provider_id)
        elif before.runs and not after.runs:
            self._stop_kubelet(after)
            if after.exists:
                seconds = self.rng.uniform(*self._cloud.options.shutdown)
                self.later(seconds, self._cloud.end, after.provider_id, "terminate")

    def _boot(self, provider_id: str) -> None:
        record = self._cloud.instances.get(provider_id)
        if record is None or not record.runs:
            return
        self._cloud.boot(provider_id)
        if record.joins and record.launched.registration_delay:
            self.later(record.launched.registration_delay, self._join, provider_id)
        elif record.joins:
            self._join(provider_id)

    def _join(self, provider_id: str) -> None:
        """Register the Node. If the API server refuses it, the instance never joins."""
        record = self._cloud.instances.get(provider_id)
        if record is None or not record.runs:
            return
        try:
            self.api.create(NODE, codec.to_plain(kinds.NODE, node_of(record)))
        except ApiError:
            return
        self._cloud.join(provider_id, record.launched.name)

    def _stop_kubelet(self, record: InstanceRecord) -> None:
        """Stop the kubelet of an ended instance; its Node stays."""
        node = self.store.find(NODE, Key("", record.node_name or ""))
        if node is not None and node.plain["spec"].get("providerID") == record.provider_id:
            self._kubelet.kill(node)
            self._node_lifecycle.lose(node)


class CloudNodeController(SimulatedController[Key]):
    """Deletes unready Nodes whose instances are gone, as the node lifecycle part of a cloud controller manager does."""

    watches = (NODE,)
    reaction_delay = (0.5, 5.0)

    def __init__(self, api: ApiServer, seed: str, cloud: SimulatedCloud) -> None:
        super().__init__(api, seed)
        self._cloud = cloud

    def start(self) -> None:
        """Listen to the cloud and the store."""
        self._cloud.listen(self._changed)
        super().start()

    def stop(self) -> None:
        """Unsubscribe from the cloud and the store, and cancel all timers."""
        self._cloud.stop_listening(self._changed)
        super().stop()

    def on_change(self, change: StoreChange) -> None:
        """Enqueue a Node that became unready."""
        if change.type != "DELETED" and not change.after.ready and change.before is not None and change.before.ready:
            self.enqueue(change.after.key)

    def _changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        if after.node_name and before is not None and before.exists and not after.exists:
            self.enqueue(Key("", after.node_name))

    def reconcile(self, key: Key) -> None:
        """Delete the Node if it is not ready and its instance is gone."""
        node = self.store.find(NODE, key)
        if node is None or node.ready or node.deleting:
            return
        provider_id = node.plain["spec"].get("providerID", "")
        if not provider_id.startswith(PROVIDER_PREFIX):
            return
        try:
            self._cloud.describe(provider_id)
        except InstanceNotFound:
            self.api.delete(NODE, key, Deletion(uid=node.uid))


def node_of(record: InstanceRecord) -> Node:
    """The Node as the kubelet of the instance registers it."""
    launched = record.launched
    stages = {key: value for key, value in launched.annotations.items() if _STAGE in key}
    labels = {key: launched.tags[key] for key in _OWN_LABELS if key in launched.tags}
    return Node(
        metadata=ObjectMeta(
            name=launched.name,
            labels={**labels, HOSTNAME: launched.name[:_LONGEST_LABEL].rstrip("-.")},
            annotations={**stages, FAKE_NODE: "fake"},
        ),
        spec=NodeSpec(provider_id=record.provider_id, taints=(UNREGISTERED_TAINT,)),
        status=NodeStatus(capacity=launched.capacity, allocatable=launched.allocatable, phase="Pending"),
    )


def _request(name: str, labels: Mapping[str, str], capacity: Resources, allocatable: Resources) -> LaunchRequest:
    """The launch request that an adopted instance with these labels must have had."""
    return LaunchRequest(
        token="",
        name=name,
        claim="",
        nodepool=labels.get(NODEPOOL, ""),
        instance_type=labels.get(INSTANCE_TYPE, ""),
        zone=labels.get(ZONE, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        price=0.0,
        tags=labels,
        capacity=capacity,
        allocatable=allocatable,
    )

"""Injects instance failures: interruption warnings, spot reclaims, dead kubelets, lost instances, unhealthy conditions.

Scenarios, torture trials and tests call it for instances named by their Node; nothing happens without a call. An
interruption warning is a label on the Node, as a user can set it with kubectl. The reclaim that follows a spot warning
happens on time, whether or not the node was drained.
"""

from dovetail.model.kube_object import Key
from dovetail.model.labels import INTERRUPT
from dovetail.ports.cluster import Deletion, Patch
from dovetail.ports.errors import NotFound
from dovetail.sim.cloud.service import SimulatedCloud
from dovetail.sim.kubernetes.api_server import ApiServer, with_condition
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import NODE
from dovetail.sim.kubernetes.kubelet import Kubelet
from dovetail.sim.kubernetes.node_lifecycle import NodeLifecycle
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

SPOT_NOTICE = 120.0


class InstanceFailures(SimulatedController[Key]):
    """Injects failures. A controller only for its timers: it watches no kind and reconciles nothing."""

    def __init__(
        self, api: ApiServer, seed: str, cloud: SimulatedCloud, kubelet: Kubelet, node_lifecycle: NodeLifecycle
    ) -> None:
        super().__init__(api, seed)
        self._cloud = cloud
        self._kubelet = kubelet
        self._node_lifecycle = node_lifecycle

    def on_change(self, change: StoreChange) -> None:
        """Do nothing: it watches no kind."""

    def reconcile(self, key: Key) -> None:
        """Do nothing: no key is ever enqueued."""

    def warn(self, node: str, kind: str = "spot_interrupted") -> None:
        """Set the interruption label on the Node; nothing else happens to the instance."""
        found = self._find(node)
        self.api.patch(NODE, found.key, Patch({"metadata": {"labels": {INTERRUPT: kind}}}))

    def reclaim_spot(self, node: str, notice: float = SPOT_NOTICE) -> None:
        """Reclaim a spot instance: a warning now, and the end of the instance after the notice. Its Node stays."""
        self.warn(node)
        self.later(notice, self._cloud.end, _provider_id(self._find(node)), "reclaimed")

    def kill(self, node: str) -> None:
        """Stop the kubelet: no lease renewals, and its pods no longer change. The cloud still lists the instance."""
        found = self._find(node)
        self._kubelet.kill(found)
        self._node_lifecycle.lose(found)

    def lose(self, node: str) -> None:
        """End the instance; its Node stays, and stays Ready until the node lifecycle controller notices."""
        self._cloud.end(_provider_id(self._find(node)), "lost")

    def vanish(self, node: str) -> None:
        """End the instance and remove its Node without finalizers: no drain, and the NodeClaim stays."""
        found = self._find(node)
        self._cloud.end(_provider_id(found), "lost")
        self._remove_node(found)

    def remove_node(self, node: str) -> None:
        """Remove the Node without its finalizers; the instance keeps running."""
        self._remove_node(self._find(node))

    def disown(self, node: str) -> None:
        """Hide the instance from the cloud API; it keeps running."""
        self._cloud.hide(_provider_id(self._find(node)))

    def turn(self, node: str, condition: str, status: str, reason: str = "Staged") -> None:
        """Set a condition of the node, as an agent on it would."""
        found = self._find(node)
        reported = {"type": condition, "status": status, "reason": reason, "message": "staged"}
        changed = with_condition(found.plain.get("status") or {}, reported, self.api.timestamp())
        self.api.update(found, {**found.plain, "status": changed}, "status")

    def _remove_node(self, found: ObjectVersion) -> None:
        self.api.patch(NODE, found.key, Patch({"metadata": {"finalizers": None}}))
        if self.store.find(NODE, found.key) is not None:
            self.api.delete(NODE, found.key, Deletion(uid=found.uid))

    def _find(self, node: str) -> ObjectVersion:
        found = self.store.find(NODE, Key("", node))
        if found is None:
            raise NotFound(f"Node {node} not found")
        return found


def _provider_id(node: ObjectVersion) -> str:
    return str(node.plain["spec"].get("providerID", ""))

"""What happens to instances: warnings and what they warn of, sudden ends, and conditions that turn bad.

Staged for stories and tests, for instances named by their Node. A warning is a label on the Node, as it can be put
there with kubectl; the reclaim that follows it is carried out on time, whether or not anybody listened.
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
    """Stages mishaps. Nothing happens by itself."""

    def __init__(
        self, api: ApiServer, seed: str, cloud: SimulatedCloud, kubelet: Kubelet, node_lifecycle: NodeLifecycle
    ) -> None:
        super().__init__(api, seed)
        self._cloud = cloud
        self._kubelet = kubelet
        self._node_lifecycle = node_lifecycle

    def on_change(self, change: StoreChange) -> None:
        """Nothing is heard."""

    def reconcile(self, key: Key) -> None:
        """Nothing is planned."""

    def warn(self, node: str, kind: str = "spot_interrupted") -> None:
        """Warn of what is about to happen to the instance behind a node, and leave it at that."""
        found = self._find(node)
        self.api.patch(NODE, found.key, Patch({"metadata": {"labels": {INTERRUPT: kind}}}))

    def reclaim_spot(self, node: str, notice: float = SPOT_NOTICE) -> None:
        """The cloud reclaims the instance: a warning now, and after the notice it is gone. Its Node stays."""
        self.warn(node)
        self.later(notice, self._cloud.end, _provider_id(self._find(node)), "reclaimed")

    def kill(self, node: str) -> None:
        """The kubelet falls silent: no heartbeats, nothing on the instance moves any more. The cloud still has it."""
        found = self._find(node)
        self._kubelet.kill(found)
        self._node_lifecycle.lose(found)

    def lose(self, node: str) -> None:
        """The instance is gone; its Node stays and says Ready until the silence is noticed."""
        self._cloud.end(_provider_id(self._find(node)), "lost")

    def vanish(self, node: str) -> None:
        """The instance and its Node go, past every finalizer: nobody drains, and the NodeClaim is left behind."""
        found = self._find(node)
        self._cloud.end(_provider_id(found), "lost")
        self._force_away(found)

    def remove_node(self, node: str) -> None:
        """Somebody deletes the Node past every finalizer; its instance runs on without one."""
        self._force_away(self._find(node))

    def disown(self, node: str) -> None:
        """The cloud no longer shows the instance, which runs on."""
        self._cloud.hide(_provider_id(self._find(node)))

    def turn(self, node: str, condition: str, status: str, reason: str = "Staged") -> None:
        """A condition of the node turns, as an agent on it would report."""
        found = self._find(node)
        reported = {"type": condition, "status": status, "reason": reason, "message": "staged"}
        changed = with_condition(found.plain.get("status") or {}, reported, self.api.timestamp())
        self.api.update(found, {**found.plain, "status": changed}, "status")

    def _force_away(self, found: ObjectVersion) -> None:
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

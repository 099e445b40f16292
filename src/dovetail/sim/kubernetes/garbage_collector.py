"""The garbage collector and the pod garbage collector of kube-controller-manager.

`OwnerCollector` deletes objects in the background shortly after their last owner is gone, and removes references to
missing owners from objects that have other owners. `PodCollector` deletes the pods of a deleted Node one minute later,
with a grace period of zero, because no kubelet is left to stop them.
"""

from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import NODE, POD
from dovetail.sim.kubernetes.merge_patch import with_meta
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

_ORPHAN_DELAY = 60.0


class OwnerCollector(SimulatedController[str]):
    """Deletes objects whose owners are all gone. Keys are uids."""

    reaction_delay = (0.05, 0.15)

    def listen(self) -> None:
        """Subscribe to all kinds: owners and dependents can be of any kind."""
        self.store.listen_to_all(self.on_change)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue the dependents of a deleted owner, and objects that reference a missing owner."""
        if change.type == "DELETED":
            for dependent in self.store.owned_by(change.after.uid):
                self.enqueue(dependent.uid)
        elif (change.before is None or change.before.owners != change.after.owners) and self._orphaned(change.after):
            self.enqueue(change.after.uid)

    def _orphaned(self, record: ObjectVersion) -> bool:
        return any(owner not in self.store.by_uid for owner in record.owners)

    def reconcile(self, key: str) -> None:
        """Remove references to missing owners; delete the object if no owner is left."""
        record = self.store.by_uid.get(key)
        if record is None or record.deleting:
            return
        references = record.meta.get("ownerReferences") or []
        alive = [reference for reference in references if reference["uid"] in self.store.by_uid]
        if alive and len(alive) < len(references):
            self.api.update(record, with_meta(record.plain, ownerReferences=alive))
        elif references and not alive:
            self.api.delete(record.resource, record.key, Deletion(uid=record.uid))


class PodCollector(SimulatedController[str]):
    """Deletes pods that are bound to a node which does not exist."""

    watches = (NODE, POD)

    def on_change(self, change: StoreChange) -> None:
        """Schedule a collection for a deleted node, or for a pod that is bound to a missing node."""
        record = change.after
        if record.resource == NODE:
            if change.type == "DELETED":
                self.later(_ORPHAN_DELAY, self._collect, record.key.name)
        elif change.before is None and (node := record.node) and self._gone(node):
            self.later(_ORPHAN_DELAY, self._collect, node)

    def _gone(self, node: str) -> bool:
        return self.store.find(NODE, Key("", node)) is None

    def _collect(self, node: str) -> None:
        if self._gone(node):
            for pod in self.store.pods_on(node):
                self._remove(pod)

    def _remove(self, pod: ObjectVersion) -> None:
        self.api.delete(POD, pod.key, Deletion(uid=pod.uid, grace_seconds=0))

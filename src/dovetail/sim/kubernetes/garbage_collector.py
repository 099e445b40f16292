"""Who cleans up: objects whose owners are gone, and pods whose nodes are gone.

Dependents are deleted in the background a moment after their last owner; pods of a vanished node go about a minute
after it, without grace, because nobody is left to stop them.
"""

from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import NODE, POD
from dovetail.sim.kubernetes.merge_patch import with_meta
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

_ORPHAN_PATIENCE = 60.0


class OwnerCollector(SimulatedController[str]):
    """Deletes what no living object owns any more."""

    reaction_delay = (0.05, 0.15)

    def listen(self) -> None:
        """Owners and dependents can be of any kind."""
        self.store.listen_to_all(self.on_change)

    def on_change(self, change: StoreChange) -> None:
        """An owner went, or an object names owners that are not there."""
        if change.type == "DELETED":
            for dependent in self.store.owned_by(change.after.uid):
                self.enqueue(dependent.uid)
        elif (change.before is None or change.before.owners != change.after.owners) and self._orphaned(change.after):
            self.enqueue(change.after.uid)

    def _orphaned(self, record: ObjectVersion) -> bool:
        return any(owner not in self.store.by_uid for owner in record.owners)

    def reconcile(self, key: str) -> None:
        """Take away dead owners; without any left, delete."""
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
        """A node went, or a pod names a node that is not there."""
        record = change.after
        if record.resource == NODE:
            if change.type == "DELETED":
                self.later(_ORPHAN_PATIENCE, self._collect, record.key.name)
        elif change.before is None and (node := record.node) and self._gone(node):
            self.later(_ORPHAN_PATIENCE, self._collect, node)

    def _gone(self, node: str) -> bool:
        return self.store.find(NODE, Key("", node)) is None

    def _collect(self, node: str) -> None:
        if self._gone(node):
            for pod in self.store.pods_on(node):
                self._remove(pod)

    def _remove(self, pod: ObjectVersion) -> None:
        self.api.delete(POD, pod.key, Deletion(uid=pod.uid, grace_seconds=0))

"""DaemonSets: one pod on every node that takes it.

A pod is pinned to its node by affinity and bound by the scheduler like any other, and it tolerates what the real
controller makes daemons tolerate.
"""

from dovetail.manifest import codec
from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.model.taints import NO_EXECUTE, NO_SCHEDULE, Toleration, tolerates
from dovetail.ports.cluster import Deletion, Patch
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.deployments import pod_from
from dovetail.sim.kubernetes.kinds import DAEMONS, NODE, POD
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.scheduler_filters import matches_node
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

_DAEMON_TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", "Exists", effect=NO_EXECUTE),
    Toleration("node.kubernetes.io/unreachable", "Exists", effect=NO_EXECUTE),
    Toleration("node.kubernetes.io/disk-pressure", "Exists", effect=NO_SCHEDULE),
    Toleration("node.kubernetes.io/memory-pressure", "Exists", effect=NO_SCHEDULE),
    Toleration("node.kubernetes.io/pid-pressure", "Exists", effect=NO_SCHEDULE),
    Toleration("node.kubernetes.io/unschedulable", "Exists", effect=NO_SCHEDULE),
)


class DaemonSets(SimulatedController[Key]):
    """Keeps one pod of each DaemonSet on every node it wants."""

    hears = (DAEMONS, NODE, POD)

    def hear(self, step: StoreChange) -> None:
        """A DaemonSet, one of its pods, or a node changed in a way that matters."""
        record = step.after
        if record.resource == DAEMONS:
            self.touch(record.key)
        elif record.resource == NODE:
            if step.type != "MODIFIED" or step.before is None or _place(step.before) != _place(record):
                for daemon_set in self.store.all(DAEMONS):
                    self.touch(daemon_set.key)
        elif (owner := record.controller) is not None and owner["kind"] == "DaemonSet":
            self.touch(Key(record.key.namespace, owner["name"]))

    def reconcile(self, key: Key) -> None:
        """Add pods to nodes without, take them from nodes that do not want them any more."""
        record = self.store.find(DAEMONS, key)
        if record is None or record.deleting:
            return
        pods_by_node: dict[str, list[ObjectVersion]] = {}
        for pod in self.store.owned_by(record.uid):
            pods_by_node.setdefault(_target(pod), []).append(pod)
        nodes = [(each.key.name, each.value(kinds.NODE)) for each in self.store.all(NODE)]
        for name, node in nodes:
            if isinstance(node, Node):
                self._place_on(record, name, node, pods_by_node.pop(name, []))
        self._report(record)

    def _place_on(self, record: ObjectVersion, name: str, node: Node, pods: list[ObjectVersion]) -> None:
        pod = self._prototype(record, name)
        probe = codec.from_plain(kinds.POD, {**pod, "metadata": {**pod["metadata"], "name": "probe"}})
        if not isinstance(probe, Pod):
            return
        fits = matches_node(probe.spec, node)
        runs, stays = (
            fits and _tolerates(probe, node, NO_SCHEDULE, NO_EXECUTE),
            fits and _tolerates(probe, node, NO_EXECUTE),
        )
        for each in pods:
            if not each.deleting and (not stays or not each.active):
                self.api.delete(POD, each.key, Deletion(uid=each.uid))
        if runs and not any(each.active or each.deleting for each in pods):
            self.api.create(POD, pod)

    def _prototype(self, record: ObjectVersion, node: str) -> Plain:
        pod = pod_from(record, record.plain["spec"]["template"])
        spec = dict(pod["spec"])
        extra = [_plain_toleration(each) for each in _DAEMON_TOLERATIONS]
        spec["tolerations"] = [*(spec.get("tolerations") or []), *extra]
        spec["affinity"] = _pinned(spec.get("affinity") or {}, node)
        return {**pod, "spec": spec}

    def _report(self, record: ObjectVersion) -> None:
        pods = [pod for pod in self.store.owned_by(record.uid) if pod.active]
        status = {
            "desiredNumberScheduled": len(pods),
            "currentNumberScheduled": sum(bool(pod.node) for pod in pods),
            "numberReady": sum(pod.ready for pod in pods),
            "observedGeneration": record.meta["generation"],
        }
        self.api.patch(DAEMONS, record.key, Patch({"status": status}, subresource="status"))


def _place(node: ObjectVersion) -> tuple[object, object]:
    return node.meta.get("labels"), (node.plain.get("spec") or {}).get("taints")


def _tolerates(pod: Pod, node: Node, *effects: str) -> bool:
    return all(tolerates(pod.spec.tolerations, taint) for taint in node.spec.taints if taint.effect in effects)


def _plain_toleration(toleration: Toleration) -> Plain:
    return {"key": toleration.key, "operator": toleration.operator, "effect": toleration.effect}


def _pinned(affinity: Plain, node: str) -> Plain:
    """The affinity with every required term bound to one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**term, "matchFields": [field]} for term in required.get("nodeSelectorTerms") or [{}]]
    pinned = {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": pinned}


def _target(pod: ObjectVersion) -> str:
    """The node a daemon pod is for, bound or not."""
    if pod.node:
        return pod.node
    required = pod.plain["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])

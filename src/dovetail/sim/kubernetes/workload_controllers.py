"""The ReplicaSet, Deployment, Job and DaemonSet controllers.

ReplicaSets scale down by the ranking of the real controller: unbound, unready, cheap to delete and young pods first.
Pods are created and deleted without delay; newly ready pods are reported with a rate limit.
Deployments keep a ReplicaSet for each template and roll with a surge of 25% and 25% unavailable, the defaults.
Jobs run `parallelism` pods at a time until `completions` have succeeded.
DaemonSet pods are pinned to their node by node affinity, tolerate the taints that the real controller makes them
tolerate, and are bound by the scheduler.
"""

import hashlib
import json
from collections import Counter

from dovetail.manifest import codec
from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.model.taints import NO_EXECUTE, NO_SCHEDULE, Toleration, tolerates
from dovetail.ports.cluster import Deletion, Patch
from dovetail.sim.kubernetes.api_server import ApiServer
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import DAEMONS, DEPLOYMENTS, JOBS, NODE, POD, REPLICAS
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.scheduler_filters import matches_node
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_TEMPLATE_HASH = "pod-template-hash"


def owner_reference(owner: ObjectVersion) -> Plain:
    """An owner reference with `controller: true`."""
    return {
        "apiVersion": owner.plain["apiVersion"],
        "kind": owner.plain["kind"],
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(owner: ObjectVersion, template: Plain) -> Plain:
    """A new pod from the pod template of its owner."""
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner.key.name}-",
            "namespace": owner.key.namespace,
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": template.get("spec") or {},
    }


class ReplicaSets(SimulatedController[Key]):
    """Keeps the number of pods that each ReplicaSet specifies."""

    watches = (REPLICAS, POD)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue a ReplicaSet whose spec changed, or one of whose pods appeared, ended or changed readiness."""
        if change.after.resource == REPLICAS:
            if not change.only_status:
                self.enqueue(change.after.key)
        elif (owner := change.after.controller) is not None and owner["kind"] == "ReplicaSet":
            self._on_pod_change(Key(change.after.key.namespace, owner["name"]), change)

    def _on_pod_change(self, key: Key, change: StoreChange) -> None:
        before, pod = change.before, change.after
        active = pod.active and change.type != "DELETED"
        if before is None or before.active != active or before.owners != pod.owners:
            self.enqueue(key)
        elif before.ready != pod.ready:
            self.enqueue_rate_limited(key)

    def reconcile(self, key: Key) -> None:
        """Create or delete pods, then update the status."""
        record = self.store.find(REPLICAS, key)
        if record is None or record.deleting:
            return
        active, _ = self.store.active_pods(record.uid)
        missing = int(record.plain["spec"].get("replicas", 1)) - active
        for _ in range(missing):
            self.api.create(POD, pod_from(record, record.plain["spec"]["template"]))
        for pod in self._ranked(self._active(record))[:-missing] if missing < 0 else ():
            self.api.delete(POD, pod.key, Deletion(uid=pod.uid))
        self._report(record)

    def _active(self, record: ObjectVersion) -> list[ObjectVersion]:
        return [pod for pod in self.store.owned_by(record.uid) if pod.resource == POD and pod.active]

    def _report(self, record: ObjectVersion) -> None:
        active, ready = self.store.active_pods(record.uid)
        status = {
            "replicas": active,
            "fullyLabeledReplicas": active,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": record.meta["generation"],
        }
        if record.plain.get("status") != status:
            self.api.patch(REPLICAS, record.key, Patch({"status": status}, subresource="status"))

    def _ranked(self, pods: list[ObjectVersion]) -> list[ObjectVersion]:
        """The pods in the order of their deletion: unbound, not running, unready, low deletion cost, on a node with
        many pods of the ReplicaSet, young."""
        pods_by_node = Counter([pod.node for pod in pods])

        def rank(pod: ObjectVersion) -> tuple[tuple[bool, bool, bool, int], int, str]:
            deletion_rank, created_at = pod.deletion_rank
            return deletion_rank, pods_by_node[pod.node], created_at

        return sorted(pods, key=rank, reverse=True)


class Deployments(SimulatedController[Key]):
    """Keeps one ReplicaSet for each template, and moves replicas from the old ones to the new one."""

    watches = (DEPLOYMENTS, REPLICAS)

    def __init__(self, api: ApiServer, seed: str) -> None:
        super().__init__(api, seed)
        self._hashes: dict[Key, tuple[Plain, str]] = {}  # the last template of each Deployment, with its hash

    def on_change(self, change: StoreChange) -> None:
        """Enqueue a Deployment that changed, or one of whose ReplicaSets did."""
        if change.after.resource == DEPLOYMENTS:
            if not change.only_status:
                self.enqueue(change.after.key)
        elif (owner := change.after.controller) is not None and owner["kind"] == "Deployment":
            self.enqueue(Key(change.after.key.namespace, owner["name"]))

    def reconcile(self, key: Key) -> None:
        """Create, scale or roll the ReplicaSets, then update the status."""
        record = self.store.find(DEPLOYMENTS, key)
        if record is None or record.deleting:
            self._hashes.pop(key, None)
            return
        wanted_hash = self._hash(key, record.plain["spec"]["template"])
        owned = [each for each in self.store.owned_by(record.uid) if each.resource == REPLICAS]
        new = next((each for each in owned if each.meta["labels"].get(_TEMPLATE_HASH) == wanted_hash), None)
        old = [each for each in owned if each is not new and each.plain["spec"]["replicas"]]
        replicas = int(record.plain["spec"].get("replicas", 1))
        if new is None:
            self._create(record, wanted_hash, 0 if old else replicas)
        elif not old:
            self._scale(new, replicas)
        else:
            self._roll(record, new, old)
        self._report(record)

    def _hash(self, key: Key, template: Plain) -> str:
        known = self._hashes.get(key)
        if known is None or known[0] is not template:
            known = self._hashes[key] = (template, _template_hash(template))
        return known[1]

    def _create(self, record: ObjectVersion, template_hash: str, replicas: int) -> None:
        template = record.plain["spec"]["template"]
        labels = {**(template.get("metadata") or {}).get("labels", {}), _TEMPLATE_HASH: template_hash}
        selector = record.plain["spec"].get("selector") or {}
        matched = {**(selector.get("matchLabels") or {}), _TEMPLATE_HASH: template_hash}
        meta = {
            "name": f"{record.key.name}-{template_hash}",
            "namespace": record.key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(record)],
        }
        labelled = {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}
        spec = {"replicas": replicas, "selector": {**selector, "matchLabels": matched}, "template": labelled}
        self.api.create(REPLICAS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec})

    def _scale(self, replica_set: ObjectVersion, replicas: int) -> None:
        if replica_set.plain["spec"].get("replicas") != replicas:
            self.api.patch(REPLICAS, replica_set.key, Patch({"spec": {"replicas": replicas}}))

    def _roll(self, record: ObjectVersion, new: ObjectVersion, old: list[ObjectVersion]) -> None:
        """One step of a rolling update, with maxSurge 25% (rounded up) and maxUnavailable 25% (rounded down)."""
        replicas = int(record.plain["spec"].get("replicas", 1))
        surge, unavailable = -(-replicas // 4), replicas // 4
        old_replicas = sum(each.plain["spec"]["replicas"] for each in old)
        headroom = replicas + surge - old_replicas - new.plain["spec"]["replicas"]
        self._scale(new, min(replicas, new.plain["spec"]["replicas"] + max(0, headroom)))
        available = sum(self._available(each) for each in (new, *old))
        spare = available - (replicas - unavailable)
        for each in sorted(old, key=lambda each: each.key):
            removed = max(0, min(each.plain["spec"]["replicas"], spare))
            spare -= removed
            if removed:
                self._scale(each, each.plain["spec"]["replicas"] - removed)

    def _available(self, replica_set: ObjectVersion) -> int:
        """The ready pods of a ReplicaSet, without those it is about to delete."""
        _, ready = self.store.active_pods(replica_set.uid)
        return min(ready, int(replica_set.plain["spec"]["replicas"]))

    def _report(self, record: ObjectVersion) -> None:
        owned = [each for each in self.store.owned_by(record.uid) if each.resource == REPLICAS]
        counts = {
            name: sum((each.plain.get("status") or {}).get(name, 0) for each in owned)
            for name in ("replicas", "readyReplicas", "availableReplicas")
        }
        status = {**counts, "updatedReplicas": counts["replicas"], "observedGeneration": record.meta["generation"]}
        if record.plain.get("status") != status:
            self.api.patch(DEPLOYMENTS, record.key, Patch({"status": status}, subresource="status"))


def _template_hash(template: Plain) -> str:
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(_HASH_LETTERS[byte % len(_HASH_LETTERS)] for byte in digest[:9])


class Jobs(SimulatedController[Key]):
    """Runs the pods of each Job until it is complete."""

    watches = (JOBS, POD)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue a Job that changed, or one of whose pods did."""
        if change.after.resource == JOBS:
            self.enqueue(change.after.key)
        elif (owner := change.after.controller) is not None and owner["kind"] == "Job":
            self.enqueue(Key(change.after.key.namespace, owner["name"]))

    def reconcile(self, key: Key) -> None:
        """Create missing pods, then update the status."""
        record = self.store.find(JOBS, key)
        if record is None or record.deleting or (record.plain.get("status") or {}).get("completionTime"):
            return
        spec = record.plain["spec"]
        pods = [pod for pod in self.store.owned_by(record.uid) if pod.resource == POD]
        succeeded = sum(pod.plain["status"].get("phase") == "Succeeded" for pod in pods)
        active = [pod for pod in pods if pod.active]
        parallelism = int(spec.get("parallelism", 1))
        completions = int(spec.get("completions", parallelism))
        for _ in range(min(parallelism, completions - succeeded) - len(active)):
            self.api.create(POD, pod_from(record, spec["template"]))
        self._report(record, succeeded, done=succeeded >= completions)

    def _report(self, record: ObjectVersion, succeeded: int, *, done: bool) -> None:
        pods = [pod for pod in self.store.owned_by(record.uid) if pod.resource == POD and pod.active]
        status: dict[str, object] = {
            "active": len(pods),
            "ready": sum(pod.ready for pod in pods),
            "succeeded": succeeded,
        }
        if done:
            now = self.api.timestamp()
            status["completionTime"] = now
            status["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": now}]
        self.api.patch(JOBS, record.key, Patch({"status": status}, subresource="status"))


_DAEMON_TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", "Exists", effect=NO_EXECUTE),
    Toleration("node.kubernetes.io/unreachable", "Exists", effect=NO_EXECUTE),
    Toleration("node.kubernetes.io/disk-pressure", "Exists", effect=NO_SCHEDULE),
    Toleration("node.kubernetes.io/memory-pressure", "Exists", effect=NO_SCHEDULE),
    Toleration("node.kubernetes.io/pid-pressure", "Exists", effect=NO_SCHEDULE),
    Toleration("node.kubernetes.io/unschedulable", "Exists", effect=NO_SCHEDULE),
)


class DaemonSets(SimulatedController[Key]):
    """Keeps one pod of each DaemonSet on every node that matches it."""

    watches = (DAEMONS, NODE, POD)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue a DaemonSet that changed or one of whose pods did; all of them if a node's labels or taints did."""
        record = change.after
        if record.resource == DAEMONS:
            self.enqueue(record.key)
        elif record.resource == NODE:
            if (
                change.type != "MODIFIED"
                or change.before is None
                or _labels_and_taints(change.before) != _labels_and_taints(record)
            ):
                for daemon_set in self.store.all(DAEMONS):
                    self.enqueue(daemon_set.key)
        elif (owner := record.controller) is not None and owner["kind"] == "DaemonSet":
            self.enqueue(Key(record.key.namespace, owner["name"]))

    def reconcile(self, key: Key) -> None:
        """Create pods on matching nodes without one, delete them from nodes that no longer match."""
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
        pod = self._pod_for(record, name)
        probe = codec.from_plain(kinds.POD, {**pod, "metadata": {**pod["metadata"], "name": "probe"}})
        if not isinstance(probe, Pod):
            return
        fits = matches_node(probe.spec, node)
        should_run = fits and _tolerates(probe, node, NO_SCHEDULE, NO_EXECUTE)
        may_stay = fits and _tolerates(probe, node, NO_EXECUTE)
        for each in pods:
            if not each.deleting and (not may_stay or not each.active):
                self.api.delete(POD, each.key, Deletion(uid=each.uid))
        if should_run and not any(each.active or each.deleting for each in pods):
            self.api.create(POD, pod)

    def _pod_for(self, record: ObjectVersion, node: str) -> Plain:
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


def _labels_and_taints(node: ObjectVersion) -> tuple[object, object]:
    return node.meta.get("labels"), (node.plain.get("spec") or {}).get("taints")


def _tolerates(pod: Pod, node: Node, *effects: str) -> bool:
    return all(tolerates(pod.spec.tolerations, taint) for taint in node.spec.taints if taint.effect in effects)


def _plain_toleration(toleration: Toleration) -> Plain:
    return {"key": toleration.key, "operator": toleration.operator, "effect": toleration.effect}


def _pinned(affinity: Plain, node: str) -> Plain:
    """The affinity with every required term restricted to one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**term, "matchFields": [field]} for term in required.get("nodeSelectorTerms") or [{}]]
    pinned = {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": pinned}


def _target(pod: ObjectVersion) -> str:
    """The node that a DaemonSet pod is pinned to, bound or not."""
    if pod.node:
        return pod.node
    required = pod.plain["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])

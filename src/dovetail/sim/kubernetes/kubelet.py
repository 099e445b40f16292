"""Simulated kubelets, as KWOK provides them: nodes become Ready, pods start, complete and stop, leases are renewed.

One object simulates the kubelets of all nodes marked `kwok.x-k8s.io/node: fake`; other nodes are not touched. Every
start and stop takes a random time: without delays, an evicted pod would be replaced before the next eviction, and no
PodDisruptionBudget would ever block. The annotation `<stage>.stage.kwok.x-k8s.io/delay` sets the delay of one object,
as in KWOK stages. A `preStop` hook that sleeps delays the stop, up to the pod's grace period.
"""

from dataclasses import dataclass

from dovetail.model.duration import Duration
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion
from dovetail.sim.kubernetes.api_server import ApiServer, with_condition
from dovetail.sim.kubernetes.controller import DelayRange, SimulatedController
from dovetail.sim.kubernetes.kinds import LEASE, NODE, POD
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

FAKE_NODE = "kwok.x-k8s.io/node"
RUN_SECONDS = "sim.dovetail/run-seconds"
LEASE_NAMESPACE = "kube-node-lease"
_DEFAULT_CAPACITY = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110"}
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)


@dataclass(frozen=True, slots=True)
class KubeletTiming:
    """How long each stage takes, in seconds."""

    node_ready: DelayRange = (2.0, 6.0)
    pod_start: DelayRange = (1.0, 4.0)
    pod_stop: DelayRange = (0.5, 3.0)
    job_run: DelayRange = (20.0, 60.0)
    heartbeat: float = (
        300.0  # a real kubelet renews every 10 s; no simulated controller checks leases, and renewals cost
    )


class Kubelet(SimulatedController[Key]):
    """All kubelets of the cluster."""

    watches = (NODE, POD)

    def __init__(self, api: ApiServer, seed: str, timing: KubeletTiming) -> None:
        super().__init__(api, seed)
        self.timing = timing
        self._dead: set[str] = set()  # uids of nodes whose instance is gone
        self._begun: set[tuple[str, str]] = set()  # pod uid and stage, for stages whose timer runs

    def kill(self, node: ObjectVersion) -> None:
        """Stop the kubelet of a node: its pods no longer change and its lease is no longer renewed."""
        self._dead.add(node.uid)

    def on_change(self, change: StoreChange) -> None:
        """Start the next stage of a new node, a node that became ready, or a pod."""
        if change.after.resource == NODE:
            self._on_node_change(change)
        elif change.type == "DELETED":
            self._begun.difference_update({(change.after.uid, stage) for stage in ("start", "complete", "stop")})
        else:
            self._on_pod_change(change.after)
            self._hasten(change)

    def _on_node_change(self, change: StoreChange) -> None:
        node = change.after
        if change.type == "DELETED":
            self._dead.discard(node.uid)
        elif not _is_fake(node):
            return
        elif change.type == "ADDED":
            self._register(node)
        elif node.ready and change.before is not None and not change.before.ready:
            for pod in self.store.pods_on(node.key.name):
                self._on_pod_change(pod)

    def _register(self, node: ObjectVersion) -> None:
        self._beat(node.key, node.uid)
        if (node.plain.get("status") or {}).get("phase") != "Running":
            self.later(self._delay(node, "node-ready", self.timing.node_ready), self._become_ready, node.key, node.uid)

    def _become_ready(self, key: Key, uid: str) -> None:
        node = self.store.find(NODE, key)
        if node is None or node.uid != uid or node.deleting or uid in self._dead:
            return
        now = self.api.timestamp()
        status: Plain = {**(node.plain.get("status") or {}), "phase": "Running"}
        status["capacity"] = status.get("capacity") or _DEFAULT_CAPACITY
        status["allocatable"] = status.get("allocatable") or _DEFAULT_CAPACITY
        for kind, value, reason in _HEALTHY:
            condition = {"type": kind, "status": value, "reason": reason, "lastHeartbeatTime": now}
            status = with_condition(status, condition, now)
        self.api.update(node, {**node.plain, "status": status}, "status")

    def _beat(self, key: Key, uid: str) -> None:
        node = self.store.find(NODE, key)
        if node is None or node.uid != uid or uid in self._dead:
            return
        now = self.store.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        seconds = round(4 * self.timing.heartbeat)
        spec = {"holderIdentity": key.name, "leaseDurationSeconds": seconds, "renewTime": now}
        lease = self.store.find(LEASE, Key(LEASE_NAMESPACE, key.name))
        if lease is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": key.name, "uid": uid}
            meta = {"namespace": LEASE_NAMESPACE, "name": key.name, "ownerReferences": [owner]}
            api_version = "coordination.k8s.io/v1"
            self.api.create(LEASE, {"apiVersion": api_version, "kind": "Lease", "metadata": meta, "spec": spec})
        else:
            self.store.put(LEASE, {**lease.plain, "spec": spec})
        self.later(self.timing.heartbeat, self._beat, key, uid)

    def _on_pod_change(self, pod: ObjectVersion) -> None:
        if not pod.node:
            return
        phase = pod.plain["status"].get("phase")
        if pod.deleting:
            self._begin(pod, "stop", self._stop_delay(pod))
        elif phase == "Pending" and (node := self._node_of(pod)) is not None and node.ready:
            self._begin(pod, "start", self._delay(pod, "pod-ready", self.timing.pod_start))
        elif phase == "Running" and (seconds := self._run_seconds(pod)) is not None:
            self._begin(pod, "complete", seconds)

    def _hasten(self, change: StoreChange) -> None:
        """Shorten a running stop if a second delete reduced the grace period."""
        before, after = change.before, change.after
        if before is None or not before.deleting:
            return
        granted = after.meta.get("deletionGracePeriodSeconds", 0)
        if granted < before.meta.get("deletionGracePeriodSeconds", 0) and self._node_of(after) is not None:
            self.later(granted, self._finish, after.key, after.uid, "stop")

    def _begin(self, pod: ObjectVersion, stage: str, delay: float) -> None:
        if self._node_of(pod) is not None and (pod.uid, stage) not in self._begun:
            self._begun.add((pod.uid, stage))
            self.later(delay, self._finish, pod.key, pod.uid, stage)

    def _finish(self, key: Key, uid: str, stage: str) -> None:
        pod = self.store.find(POD, key)
        self._begun.discard((uid, stage))
        if pod is None or pod.uid != uid or self._node_of(pod) is None:
            return
        if stage == "stop":
            self.api.delete(POD, key, Deletion(uid=uid, grace_seconds=0))
        elif not pod.deleting:
            self._write_phase(pod, stage)

    def _write_phase(self, pod: ObjectVersion, stage: str) -> None:
        now, started = self.api.timestamp(), stage == "start"
        status: Plain = {**pod.plain["status"], "phase": "Running" if started else "Succeeded"}
        if started:
            status["startTime"] = now
        for kind in ("Initialized", "ContainersReady", "Ready") if started else ("ContainersReady", "Ready"):
            condition = {"type": kind, "status": "True"} if started else _completed(kind)
            status = with_condition(status, condition, now)
        self.api.update(pod, {**pod.plain, "status": status}, "status")

    def _node_of(self, pod: ObjectVersion) -> ObjectVersion | None:
        """The pod's node, if its kubelet is simulated and running."""
        node = self.store.find(NODE, Key("", pod.node))
        return node if node is not None and node.uid not in self._dead and _is_fake(node) else None

    def _run_seconds(self, pod: ObjectVersion) -> float | None:
        annotated = (pod.meta.get("annotations") or {}).get(RUN_SECONDS)
        if annotated is not None:
            return float(annotated)
        if not any(owner["kind"] == "Job" for owner in pod.meta.get("ownerReferences") or ()):
            return None
        return self._delay(pod, "pod-complete", self.timing.job_run)

    def _stop_delay(self, pod: ObjectVersion) -> float:
        drawn = self._delay(pod, "pod-delete", self.timing.pod_stop)
        if "pod-delete.stage.kwok.x-k8s.io/delay" in (pod.meta.get("annotations") or {}):
            return drawn
        grace: float = pod.meta.get("deletionGracePeriodSeconds", 0)
        return min(drawn + _pre_stop_seconds(pod), grace)

    def _delay(self, record: ObjectVersion, stage: str, span: DelayRange) -> float:
        drawn = self.rng.uniform(*span)
        annotated = (record.meta.get("annotations") or {}).get(f"{stage}.stage.kwok.x-k8s.io/delay")
        return drawn if annotated is None else Duration.parse(annotated).span.total_seconds()


def _pre_stop_seconds(pod: ObjectVersion) -> float:
    """The longest sleep in the containers' `preStop` hooks."""
    hooks = ((each.get("lifecycle") or {}).get("preStop") or {} for each in pod.plain["spec"].get("containers") or ())
    return max((float((hook.get("sleep") or {}).get("seconds", 0)) for hook in hooks), default=0.0)


def _completed(kind: str) -> Plain:
    return {"type": kind, "status": "False", "reason": "PodCompleted"}


def _is_fake(node: ObjectVersion) -> bool:
    labels, annotations = node.meta.get("labels") or {}, node.meta.get("annotations") or {}
    return bool(annotations.get(FAKE_NODE, labels.get(FAKE_NODE)) == "fake")

"""The node lifecycle controller and the taint eviction controller of kube-controller-manager.

`NodeLifecycle` keeps the taints `node.kubernetes.io/not-ready` and `node.kubernetes.io/unreachable` in line with the
Ready condition: NoSchedule taints at once, NoExecute taints in passes of five seconds. A node whose kubelet stops
becomes Unknown after the monitor grace period (40 to 50 seconds).

`TaintEviction` deletes the pods that do not tolerate a NoExecute taint, at once or after their `tolerationSeconds`.
"""

from datetime import datetime

from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod
from dovetail.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint
from dovetail.ports.cluster import Deletion
from dovetail.sim.kubernetes.api_server import with_condition
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import NODE, POD
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_TAINT_OF_READINESS = {"False": NOT_READY, "Unknown": UNREACHABLE}
_MONITOR_PERIOD = 5.0
_MONITOR_GRACE = (40.0, 50.0)


class NodeLifecycle(SimulatedController[tuple[Key, str]]):
    """Keeps the taints of every node in line with its Ready condition. Keys: node and taint effect."""

    watches = (NODE,)
    reaction_delay = (0.1, 0.3)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue a node whose taints do not match its Ready condition."""
        if change.type != "DELETED" and _taints_due(change.after):
            self.enqueue((change.after.key, NO_SCHEDULE))
            self._next_pass(change.after.key)

    def _next_pass(self, key: Key) -> None:
        """Queue the NoExecute taints for the next monitor pass."""
        if (key, NO_EXECUTE) not in self._queued:
            self._queued.add((key, NO_EXECUTE))
            seconds = self.store.clock.now().timestamp() % _MONITOR_PERIOD
            self.later(_MONITOR_PERIOD - seconds, self._process, (key, NO_EXECUTE))

    def reconcile(self, key: tuple[Key, str]) -> None:
        """Add or remove the readiness taint of one effect."""
        node_key, effect = key
        node = self.store.find(NODE, node_key)
        if node is None:
            return
        wanted = _TAINT_OF_READINESS.get(_readiness(node))
        taints: list[Plain] = [
            taint
            for taint in node.plain["spec"].get("taints") or []
            if not _is_ours(taint, effect) or taint["key"] == wanted
        ]
        if wanted and not any(_is_ours(taint, effect) for taint in taints):
            taints.append({"key": wanted, "effect": effect, "timeAdded": self.api.timestamp()})
        spec = {**node.plain["spec"], "taints": taints}
        if not taints:
            del spec["taints"]
        self.api.update(node, {**node.plain, "spec": spec})

    def lose(self, node: ObjectVersion) -> None:
        """Set the node to Unknown after the monitor grace period: its kubelet has stopped."""
        self.later(self.rng.uniform(*_MONITOR_GRACE), self._declare_unknown, node.key, node.uid)

    def _declare_unknown(self, key: Key, uid: str) -> None:
        node = self.store.find(NODE, key)
        if node is None or node.uid != uid:
            return
        now, status = self.api.timestamp(), dict(node.plain.get("status") or {})
        unknown = {
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            status = with_condition(status, {"type": kind, **unknown}, now)
        self.api.update(node, {**node.plain, "status": status}, "status")
        for pod in self.store.pods_on(key.name):
            if pod.ready:
                unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
                pod_status = with_condition(pod.plain["status"], unready, now)
                self.api.update(pod, {**pod.plain, "status": pod_status}, "status")


def _readiness(node: ObjectVersion) -> str:
    conditions = (node.plain.get("status") or {}).get("conditions") or ()
    return next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "")


def _is_ours(taint: Plain, effect: str) -> bool:
    return taint["key"] in (NOT_READY, UNREACHABLE) and taint.get("effect") == effect


def _taints_due(node: ObjectVersion) -> bool:
    """Whether the node's readiness taints differ from those its Ready condition requires."""
    wanted = _TAINT_OF_READINESS.get(_readiness(node))
    taints = node.plain.get("spec", {}).get("taints") or []
    for effect in (NO_SCHEDULE, NO_EXECUTE):
        present = [taint["key"] for taint in taints if _is_ours(taint, effect)]
        if present != ([wanted] if wanted else []):
            return True
    return False


class TaintEviction(SimulatedController[Key]):
    """Deletes pods from nodes whose NoExecute taints they do not tolerate, or no longer tolerate."""

    watches = (NODE, POD)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue the pods of a node whose NoExecute taints changed, and pods bound to a tainted node."""
        if change.type == "DELETED":
            return
        record = change.after
        if record.resource == NODE:
            before = _no_execute(change.before) if change.before is not None else []
            if before != _no_execute(record):
                for pod in self.store.pods_on(record.key.name):
                    self.enqueue(pod.key)
        elif (name := _newly_bound(change)) and (node := self.store.find(NODE, Key("", name))) and _no_execute(node):
            self.enqueue(record.key)

    def reconcile(self, key: Key) -> None:
        """Delete the pod if its toleration has run out, else check again when it does."""
        record = self.store.find(POD, key)
        node = self.store.find(NODE, Key("", record.node)) if record else None
        if record is None or node is None or record.deleting or not (taints := _no_execute(node)):
            return
        pod = record.value(kinds.POD)
        tolerated = [self._seconds_tolerated(pod, taint) for taint in taints] if isinstance(pod, Pod) else []
        limits = [seconds for seconds in tolerated if seconds is not None]
        if not limits:
            return
        if min(limits) <= 0:
            self.api.delete(POD, record.key, Deletion(uid=record.uid))
        else:
            self.later(min(limits), self.enqueue, record.key)

    def _seconds_tolerated(self, pod: Pod, taint: Plain) -> float | None:
        """Seconds for which the pod still tolerates this taint; None if it always does."""
        value = Taint(taint["key"], taint.get("value", ""), NO_EXECUTE)
        tolerating = [toleration for toleration in pod.spec.tolerations if toleration.tolerates(value)]
        if not tolerating:
            return 0.0
        seconds = [each.toleration_seconds for each in tolerating if each.toleration_seconds is not None]
        if len(seconds) < len(tolerating):
            return None
        added = taint.get("timeAdded")
        age = (self.store.clock.now() - datetime.fromisoformat(added)).total_seconds() if added else 0.0
        return max(0.0, min(seconds) - age)


def _newly_bound(change: StoreChange) -> str:
    """The node that this change bound the pod to, or empty."""
    node = change.after.node
    return "" if change.before is not None and change.before.node == node else node


def _no_execute(node: ObjectVersion) -> list[Plain]:
    return [taint for taint in node.plain.get("spec", {}).get("taints") or [] if taint.get("effect") == NO_EXECUTE]

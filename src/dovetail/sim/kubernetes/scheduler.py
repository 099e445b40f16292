"""A stand-in for kube-scheduler: binds pending pods to nodes that fit, and says on the pod why none does.

Written without the core's solver, so that one can be held against the other. Considers pods by priority, then age;
among the nodes that fit takes the least allocated, ties by name. A pod that fits nowhere is tried again when a node, or
the pods on it, changed so that this node alone would take it: as the real one's queueing hints have it, a node that has
just come and is not ready yet wakes nobody. Leaves out preemption and volumes.
"""

from string import digits

from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.sim.kubernetes.api_server import ApiServer, with_condition
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.inter_pod_affinity import InterPodAffinity
from dovetail.sim.kubernetes.kinds import NAMESPACE, NODE, POD
from dovetail.sim.kubernetes.scheduler_filters import (
    PodDemand,
    PodDemands,
    SchedulerNode,
    SchedulerNodes,
    refusal,
    summary,
)
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

SCHEDULER = "default-scheduler"
_CYCLE = "cycle"
_NO_DIGITS = str.maketrans("", "", digits)


class SimulatedScheduler(SimulatedController[str]):
    """The scheduler."""

    watches = (NAMESPACE, NODE, POD)
    reaction_delay = (0.02, 0.1)

    def __init__(self, api: ApiServer, seed: str) -> None:
        super().__init__(api, seed)
        self.scheduler_nodes = SchedulerNodes()
        self._demands = PodDemands()
        self._waiting: dict[Key, bool] = {}  # unbound pods; True: worth a try in the next cycle
        self._news: dict[str, None] = {}  # nodes that changed since the last cycle and may take a pod they did not
        self._open: dict[str, tuple[list[SchedulerNode], list[list[str]]]] = {}  # by shape: for one cycle

    def on_change(self, change: StoreChange) -> None:
        """Keep the picture of nodes and bound pods; a change that may help wakes waiting pods."""
        record = change.after
        gone = change.type == "DELETED"
        if record.resource == NAMESPACE:
            self.scheduler_nodes.namespace_labels[record.key.name] = record.meta.get("labels") or {}
            return
        if record.resource == NODE:
            node = record.value(kinds.NODE)
            if isinstance(node, Node) and self.scheduler_nodes.note_node(node, gone=gone):
                self._retry(node.name, everyone=bool(self.scheduler_nodes.repelling))
            elif gone:
                self._retry_dependents()  # a domain fewer: what was uneven may be even now
            return
        pod = record.value(kinds.POD)
        if isinstance(pod, Pod):
            self._on_pod_change(pod, change)

    def _on_pod_change(self, pod: Pod, change: StoreChange) -> None:
        gone = change.type == "DELETED"
        if self.scheduler_nodes.note_pod(pod, gone=gone):
            self._retry(pod.node_name, everyone=_repels(pod))
        key = pod.key
        if gone or pod.node_name or not pod.active:
            self._waiting.pop(key, None)
        elif (key not in self._waiting or _asks_anew(change)) and _wants_binding(pod):
            self._waiting[key] = True
            self.enqueue(_CYCLE)

    def _retry(self, node: str, *, everyone: bool) -> None:
        """Look again at whom the node takes now; at everyone, if more than this node may have opened."""
        if not self._waiting:
            return
        self._news[node] = None
        if everyone:
            self._waiting = dict.fromkeys(self._waiting, True)
        self.enqueue(_CYCLE)

    def reconcile(self, key: str) -> None:  # noqa: ARG002 - there is one key
        """One cycle over every waiting pod worth a try."""
        hopeless: dict[str, str] = {}  # shapes that fitted nowhere in this cycle
        changed = [
            scheduler_node
            for scheduler_node in map(self.scheduler_nodes.scheduler_node, self._news)
            if scheduler_node is not None
        ]
        turned_away: set[str] = set()  # shapes that none of those takes, or takes any more
        self._news.clear()
        self._open.clear()
        bound = False
        for record, pod in self._queue():
            due, self._waiting[record.key] = self._waiting[record.key], False
            if due or self._may_fit(record, pod, changed, turned_away):
                bound = self._schedule(record, pod, hopeless) or bound
        if bound:
            self._retry_dependents()

    def _retry_dependents(self) -> None:
        for key in self._waiting:
            record = self.store.find(POD, key)
            pod = record.value(kinds.POD) if record is not None else None
            if isinstance(pod, Pod) and _depends_on_others(pod):
                self._waiting[key] = True
                self.enqueue(_CYCLE)

    def _queue(self) -> list[tuple[ObjectVersion, Pod]]:
        """Every waiting pod, the most important and then the oldest first."""
        queue = []
        for key in self._waiting:
            record = self.store.find(POD, key)
            pod = record.value(kinds.POD) if record is not None else None
            if record is not None and isinstance(pod, Pod) and not pod.node_name:
                queue.append((record, pod))
        return sorted(queue, key=lambda each: -each[0].plain["spec"].get("priority", 0))

    def _may_fit(self, record: ObjectVersion, pod: Pod, changed: list[SchedulerNode], turned_away: set[str]) -> bool:
        """Whether one of the nodes that changed takes the pod, or its neighbours have a say in it."""
        shape = _shape(record)
        if not changed or shape in turned_away:
            return False
        if _depends_on_others(pod) or _repels(pod):
            return True
        demand = self._demands.of(pod)
        fits = any(not refusal(demand, scheduler_node) for scheduler_node in changed)
        if not fits and shape:
            turned_away.add(shape)
        return fits

    def _schedule(self, record: ObjectVersion, pod: Pod, hopeless: dict[str, str]) -> bool:
        shape = "" if _depends_on_others(pod) else _shape(record)
        if shape in hopeless:
            self._mark(record, hopeless[shape])
            return False
        demand = self._demands.of(pod)
        scheduler_node, message = self._choose(demand, shape)
        if scheduler_node is not None:
            del self._waiting[pod.key]
            self.scheduler_nodes.assume(pod, scheduler_node.node.name, demand.request)
            self.api.bind(record, scheduler_node.node.name)
        else:
            if shape:
                hopeless[shape] = message
            self._mark(record, message)
        return scheduler_node is not None

    def _choose(self, demand: PodDemand, shape: str) -> tuple[SchedulerNode | None, str]:
        """The emptiest site that takes the pod. Once there is one, those as full as it are not asked.

        A cycle only fills sites, it empties none: one that refused a pod is not asked again by those of its shape.
        """
        sites, refusals = self._open.get(shape) or (self.scheduler_nodes.sites(), [])
        best: SchedulerNode | None = None
        neighbourhood = InterPodAffinity(demand.pod, self.scheduler_nodes)
        still_open: list[SchedulerNode] = []
        unneighbourly: list[list[str]] = []
        for scheduler_node in sites:
            if best is None or scheduler_node.load < best.load:
                if why := refusal(demand, scheduler_node):
                    refusals.append(why)
                    continue
                if neighbourly := neighbourhood.refusal(scheduler_node):
                    unneighbourly.append([neighbourly])
                else:
                    best = scheduler_node
            still_open.append(scheduler_node)
        if shape:
            self._open[shape] = still_open, refusals
        return best, summary([*refusals, *unneighbourly]) if best is None else ""

    def _mark(self, record: ObjectVersion, message: str) -> None:
        """Say why no node takes the pod; that one more does not, for the same reasons, is not worth a write."""
        status = record.plain["status"]
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        known = [each.get("message", "") for each in status.get("conditions") or () if each["type"] == "PodScheduled"]
        if [each.translate(_NO_DIGITS) for each in known] != [message.translate(_NO_DIGITS)]:
            marked = with_condition(status, condition, self.api.timestamp())
            self.api.update(record, {**record.plain, "status": marked}, "status")


def _asks_anew(change: StoreChange) -> bool:
    """Whether a pod came, or something about it changed that decides where it can run."""
    before, after = change.before, change.after
    if before is None:
        return True
    return before.plain["spec"] is not after.plain["spec"] or before.meta.get("labels") != after.meta.get("labels")


def _wants_binding(pod: Pod) -> bool:
    return pod.spec.scheduler_name == SCHEDULER and not pod.spec.scheduling_gates


def _depends_on_others(pod: Pod) -> bool:
    """Whether binding another pod may open a place for this one."""
    attracted = pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None
    return attracted or bool(pod.spec.topology_spread_constraints)


def _repels(pod: Pod) -> bool:
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


def _shape(record: ObjectVersion) -> str:
    """Pods of one ReplicaSet or Job are alike: where one does not fit, the next does not either."""
    owner = record.controller
    return owner["uid"] if owner is not None and owner["kind"] in {"ReplicaSet", "Job"} else ""

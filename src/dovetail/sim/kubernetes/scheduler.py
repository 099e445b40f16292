"""A simulated kube-scheduler: binds pending pods to fitting nodes, or sets the PodScheduled condition with the reasons.

It shares no code with the solver in `core`, so that each can be tested against the other. Pods are scheduled by
priority, then age. Among the fitting nodes those without PreferNoSchedule taints come first, then the least allocated
one, then the first by name. Preemption and volumes are
not implemented.

An unschedulable pod is retried only after a change that may make it fit, as with the queueing hints of kube-scheduler:
a node, or the pods on it, changed so that the node now accepts the pod. A new node that is not ready accepts no pod and
causes no retry. Pods of one ReplicaSet or Job ("shape") are equivalent: a node that refuses one of them in a cycle is
not checked again for the others, so a cycle over many replicas costs little more than one over a single pod.

A pod with `status.nominatedNodeName` is bound to that node without scoring if the node accepts it; otherwise the same
cycle goes on to all nodes. Binding and a failed cycle clear the field. Such a pod is retried on every new node and
every deleted pod as well, and after five minutes at the latest, as real clusters do with every unschedulable pod.
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
_LONGEST_UNSCHEDULABLE = 300.0  # seconds until a pod is retried without any change
_NO_DIGITS = str.maketrans("", "", digits)


class SimulatedScheduler(SimulatedController[str]):
    """Schedules all pods in cycles. The work queue has a single key, `_CYCLE`."""

    watches = (NAMESPACE, NODE, POD)
    reaction_delay = (0.02, 0.1)

    def __init__(self, api: ApiServer, seed: str) -> None:
        super().__init__(api, seed)
        self.scheduler_nodes = SchedulerNodes()
        self._demands = PodDemands()
        self._pending: dict[Key, bool] = {}  # unbound pods; True: try again in the next cycle
        self._changed_nodes: dict[str, None] = {}  # since the last cycle, in ways that may help a pending pod
        # For one cycle, by shape: the nodes that have not refused the shape yet, and the refusals of the others.
        self._open_nodes: dict[str, tuple[list[SchedulerNode], list[list[str]]]] = {}

    def on_change(self, change: StoreChange) -> None:
        """Update the cache of nodes and bound pods; a change that may help triggers a cycle."""
        record = change.after
        gone = change.type == "DELETED"
        if record.resource == NAMESPACE:
            self.scheduler_nodes.namespace_labels[record.key.name] = record.meta.get("labels") or {}
            return
        if record.resource == NODE:
            node = record.value(kinds.NODE)
            if change.type == "ADDED":
                self._retry_nominated()
            if isinstance(node, Node) and self.scheduler_nodes.note_node(node, gone=gone):
                self._retry(node.name, all_pods=bool(self.scheduler_nodes.with_anti_affinity))
            elif gone:
                self._retry_dependents()  # with one domain less, a topology spread may be satisfied
            return
        pod = record.value(kinds.POD)
        if isinstance(pod, Pod):
            self._on_pod_change(pod, change)

    def _on_pod_change(self, pod: Pod, change: StoreChange) -> None:
        gone = change.type == "DELETED"
        if self.scheduler_nodes.note_pod(pod, gone=gone):
            self._retry(pod.node_name, all_pods=_has_anti_affinity(pod))
            self._retry_nominated()
        key = pod.key
        if pod.status.nominated_node_name or key in self.scheduler_nodes.nominated:
            self._note_nomination(pod, gone=gone)
        if gone or pod.node_name or not pod.active:
            self._pending.pop(key, None)
        elif (key not in self._pending or _constraints_changed(change)) and _is_schedulable(pod):
            self._pending[key] = True
            self.enqueue(_CYCLE)

    def _note_nomination(self, pod: Pod, *, gone: bool) -> None:
        before = self.scheduler_nodes.nominated.get(pod.key)
        if freed := self.scheduler_nodes.note_nomination(pod, gone=gone):
            self._retry(freed, all_pods=False)
        if self.scheduler_nodes.nominated.get(pod.key) not in (before, None):
            self.later(_LONGEST_UNSCHEDULABLE, self._retry_nominated)

    def _retry_nominated(self) -> None:
        """Retry the nominated pods. Without a nomination the attempts that this stands for would change nothing."""
        for key in self.scheduler_nodes.nominated:
            if key in self._pending:
                self._pending[key] = True
                self.enqueue(_CYCLE)

    def _retry(self, node: str, *, all_pods: bool) -> None:
        """Retry the pods that fit this node now; all pods, if the change may affect other nodes too."""
        if not self._pending:
            return
        self._changed_nodes[node] = None
        if all_pods:
            self._pending = dict.fromkeys(self._pending, True)
        self.enqueue(_CYCLE)

    def reconcile(self, key: str) -> None:  # noqa: ARG002 - there is one key
        """Run one cycle over the pending pods that may fit."""
        unschedulable: dict[str, str] = {}  # messages of the shapes that fit no node in this cycle
        changed = [
            scheduler_node
            for scheduler_node in map(self.scheduler_nodes.scheduler_node, self._changed_nodes)
            if scheduler_node is not None
        ]
        refused: set[str] = set()  # shapes that none of the changed nodes accepts
        self._changed_nodes.clear()
        self._open_nodes.clear()
        bound = False
        for record, pod in self._queue():
            due, self._pending[record.key] = self._pending[record.key], False
            if due or self._may_fit(record, pod, changed, refused):
                bound = self._schedule(record, pod, unschedulable) or bound
        if bound:
            self._retry_dependents()

    def _retry_dependents(self) -> None:
        """Retry the pods whose constraints depend on where other pods run."""
        for key in self._pending:
            record = self.store.find(POD, key)
            pod = record.value(kinds.POD) if record is not None else None
            if isinstance(pod, Pod) and _depends_on_others(pod):
                self._pending[key] = True
                self.enqueue(_CYCLE)

    def _queue(self) -> list[tuple[ObjectVersion, Pod]]:
        """Every pending pod, by priority and then age."""
        queue = []
        for key in self._pending:
            record = self.store.find(POD, key)
            pod = record.value(kinds.POD) if record is not None else None
            if record is not None and isinstance(pod, Pod) and not pod.node_name:
                queue.append((record, pod))
        return sorted(queue, key=lambda each: -each[0].plain["spec"].get("priority", 0))

    def _may_fit(self, record: ObjectVersion, pod: Pod, changed: list[SchedulerNode], refused: set[str]) -> bool:
        """Whether a changed node may accept the pod; always true for pods whose constraints involve other pods."""
        shape = _common_shape(record, pod)
        if not changed or shape in refused:
            return False
        if _depends_on_others(pod) or _has_anti_affinity(pod):
            return True
        demand = self._demands.of(pod)
        fits = any(not refusal(demand, scheduler_node) for scheduler_node in changed)
        if not fits and shape:
            refused.add(shape)
        return fits

    def _schedule(self, record: ObjectVersion, pod: Pod, unschedulable: dict[str, str]) -> bool:
        shape = "" if _depends_on_others(pod) else _common_shape(record, pod)
        if shape in unschedulable:
            self._mark(record, unschedulable[shape])
            return False
        demand = self._demands.of(pod)
        scheduler_node, message = self._nominated_node(demand), ""
        if scheduler_node is None:
            scheduler_node, message = self._choose(demand, shape)
        if scheduler_node is not None:
            del self._pending[pod.key]
            self._bind(record, demand, scheduler_node.node.name)
        else:
            if shape:
                unschedulable[shape] = message
            self._mark(record, message)
        return scheduler_node is not None

    def _bind(self, record: ObjectVersion, demand: PodDemand, node: str) -> None:
        nominated_to = demand.pod.status.nominated_node_name
        self.scheduler_nodes.assume(demand.pod, node, demand.request)
        self.api.bind(record, node)
        if nominated_to and nominated_to != node:
            self._retry(nominated_to, all_pods=False)

    def _nominated_node(self, demand: PodDemand) -> SchedulerNode | None:
        """The node that the pod is nominated to, if that accepts it."""
        name = demand.pod.status.nominated_node_name
        scheduler_node = self.scheduler_nodes.scheduler_node(name) if name else None
        if scheduler_node is None or refusal(demand, scheduler_node):
            return None
        why_not = InterPodAffinity(demand.pod, self.scheduler_nodes).refusal(scheduler_node)
        return scheduler_node if not why_not else None

    def _choose(self, demand: PodDemand, shape: str) -> tuple[SchedulerNode | None, str]:
        """The node that accepts the pod and has the fewest PreferNoSchedule taints, then the least allocated.

        kube-scheduler adds up scores, and that of taints weighs more than those of resources together. Nodes that rank
        behind the best so far are not checked.

        During a cycle nodes only fill up, so a node that refused a pod refuses all later pods of the same shape.
        """
        nodes, refusals = self._open_nodes.get(shape) or (self.scheduler_nodes.sorted_nodes(), [])
        best: SchedulerNode | None = None
        lowest = (0, 0.0)
        affinity = InterPodAffinity(demand.pod, self.scheduler_nodes)
        still_open: list[SchedulerNode] = []
        affinity_refusals: list[list[str]] = []
        for scheduler_node in nodes:
            rank = (scheduler_node.avoided_by(demand.pod) if scheduler_node.soft_taints else 0, scheduler_node.load)
            if best is None or rank < lowest:
                if why := refusal(demand, scheduler_node):
                    refusals.append(why)
                    continue
                if why_not := affinity.refusal(scheduler_node):
                    affinity_refusals.append([why_not])
                else:
                    best, lowest = scheduler_node, rank
            still_open.append(scheduler_node)
        if shape:
            self._open_nodes[shape] = still_open, refusals
        return best, summary([*refusals, *affinity_refusals]) if best is None else ""

    def _mark(self, record: ObjectVersion, message: str) -> None:
        """Write the reasons to the pod, unless only the node counts in the message changed; end its nomination."""
        status = {name: value for name, value in record.plain["status"].items() if name != "nominatedNodeName"}
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        known = [each.get("message", "") for each in status.get("conditions") or () if each["type"] == "PodScheduled"]
        same = [each.translate(_NO_DIGITS) for each in known] == [message.translate(_NO_DIGITS)]
        if not same or len(status) < len(record.plain["status"]):
            marked = with_condition(status, condition, self.api.timestamp())
            self.api.update(record, {**record.plain, "status": marked}, "status")


def _constraints_changed(change: StoreChange) -> bool:
    """Whether a pod is new, or its spec or labels changed."""
    before, after = change.before, change.after
    if before is None:
        return True
    labels_before, labels_after = before.meta.get("labels") or {}, after.meta.get("labels") or {}
    return before.plain["spec"] is not after.plain["spec"] or labels_before != labels_after


def _is_schedulable(pod: Pod) -> bool:
    return pod.spec.scheduler_name == SCHEDULER and not pod.spec.scheduling_gates


def _depends_on_others(pod: Pod) -> bool:
    """Whether binding another pod may make this one schedulable."""
    attracted = pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None
    return attracted or bool(pod.spec.topology_spread_constraints)


def _has_anti_affinity(pod: Pod) -> bool:
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


def _common_shape(record: ObjectVersion, pod: Pod) -> str:
    """The shape of a pod; empty for a nominated one, which its node may accept although it refuses its equals."""
    return "" if pod.status.nominated_node_name else _shape(record)


def _shape(record: ObjectVersion) -> str:
    """The uid of the ReplicaSet or Job whose pods are equivalent for scheduling; empty for other pods."""
    owner = record.controller
    return owner["uid"] if owner is not None and owner["kind"] in {"ReplicaSet", "Job"} else ""

"""What the pods already bound mean for the next one: affinity, anti-affinity in both directions, topology spread.

Only what is required counts, preferences do not. Everything is counted once for a pod and then asked for each node.
"""

from collections import Counter
from collections.abc import Iterator

from dovetail.model.kube_object import LabelSelector, LabelSelectorRequirement
from dovetail.model.pod import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from dovetail.model.taints import PREFER_NO_SCHEDULE, tolerates
from dovetail.sim.kubernetes.scheduler_filters import SchedulerNode, SchedulerNodes, matches_node

Domain = tuple[str, str]
"""A topology key and one of its values."""


class InterPodAffinity:
    """The bound pods, as far as they matter to one pod."""

    def __init__(self, pod: Pod, scheduler_nodes: SchedulerNodes) -> None:
        self._pod = pod
        self._landscape = scheduler_nodes
        affinity = pod.spec.affinity
        self._near = _required(affinity.pod_affinity if affinity else None)
        self._far = _required(affinity.pod_anti_affinity if affinity else None)
        self._near_domains = [set(self._domains(term)) for term in self._near]
        self._far_domains = {domain for term in self._far for domain in self._domains(term)}
        self._repelling = set(self._repelled())
        self._spreads = [
            _Spread(pod, constraint, scheduler_nodes)
            for constraint in pod.spec.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ]
        self._first_of_its_kind = not any(self._near_domains) and all(
            self._matches(pod, term, pod) for term in self._near
        )

    def refusal(self, scheduler_node: SchedulerNode) -> str:
        """Why the pod's neighbours keep it off the node, or empty."""
        for spread in self._spreads:
            if why := spread.refusal(scheduler_node):
                return why
        if self._near and not self._is_near(scheduler_node):
            return "node(s) didn't match pod affinity rules"
        labels = scheduler_node.node.metadata.labels.items()
        if self._far_domains and not self._far_domains.isdisjoint(labels):
            return "node(s) didn't match pod anti-affinity rules"
        if self._repelling and not self._repelling.isdisjoint(labels):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return ""

    def _is_near(self, scheduler_node: SchedulerNode) -> bool:
        """In a domain of matching pods for every term. The first of pods that want each other may start anywhere."""
        labels = scheduler_node.node.metadata.labels
        if any(term.topology_key not in labels for term in self._near):
            return False
        return self._first_of_its_kind or all(
            (term.topology_key, labels[term.topology_key]) in domains
            for term, domains in zip(self._near, self._near_domains, strict=True)
        )

    def _domains(self, term: PodAffinityTerm) -> Iterator[Domain]:
        """Where pods that match one of the pod's own terms run."""
        for scheduler_node in self._landscape.sites():
            value = scheduler_node.node.metadata.labels.get(term.topology_key)
            if value is not None and any(
                self._matches(self._pod, term, other) for other in scheduler_node.pods.values()
            ):
                yield term.topology_key, value

    def _repelled(self) -> Iterator[Domain]:
        """Where bound pods do not want this pod beside them."""
        for name, other in self._landscape.repelling.values():
            scheduler_node = self._landscape.scheduler_node(name)
            labels = scheduler_node.node.metadata.labels if scheduler_node is not None else {}
            anti = other.spec.affinity.pod_anti_affinity if other.spec.affinity else None
            for term in _required(anti):
                value = labels.get(term.topology_key)
                if value is not None and self._matches(other, term, self._pod):
                    yield term.topology_key, value

    def _matches(self, holder: Pod, term: PodAffinityTerm, other: Pod) -> bool:
        return self._in_reach(holder, term, other.metadata.namespace) and _selects(
            term.label_selector, holder, other, term.match_label_keys, term.mismatch_label_keys
        )

    def _in_reach(self, holder: Pod, term: PodAffinityTerm, namespace: str) -> bool:
        if not term.namespaces and term.namespace_selector is None:
            return namespace == holder.metadata.namespace
        if namespace in term.namespaces:
            return True
        labels = self._landscape.namespace_labels.get(namespace, {})
        return term.namespace_selector is not None and term.namespace_selector.matches(labels)


class _Spread:
    """One spread constraint: how many matching pods each domain has."""

    def __init__(self, pod: Pod, constraint: TopologySpreadConstraint, scheduler_nodes: SchedulerNodes) -> None:
        self._constraint = constraint
        self._own = int(_selects(constraint.label_selector, pod, pod, constraint.match_label_keys, ()))
        self._counts: Counter[str] = Counter()
        keys = [
            each.topology_key
            for each in pod.spec.topology_spread_constraints
            if each.when_unsatisfiable == "DoNotSchedule"
        ]
        for scheduler_node in scheduler_nodes.sites():
            if all(key in scheduler_node.node.metadata.labels for key in keys) and self._counts_in(pod, scheduler_node):
                matching = (
                    other
                    for other in scheduler_node.pods.values()
                    if not other.deleting
                    and other.metadata.namespace == pod.metadata.namespace
                    and _selects(constraint.label_selector, pod, other, constraint.match_label_keys, ())
                )
                self._counts[scheduler_node.node.metadata.labels[constraint.topology_key]] += sum(1 for _ in matching)
        few = constraint.min_domains is not None and len(self._counts) < constraint.min_domains
        self._least = 0 if few else min(self._counts.values(), default=0)

    def _counts_in(self, pod: Pod, scheduler_node: SchedulerNode) -> bool:
        if self._constraint.node_affinity_policy == "Honor" and not matches_node(pod.spec, scheduler_node.node):
            return False
        return self._constraint.node_taints_policy != "Honor" or all(
            tolerates(pod.spec.tolerations, taint)
            for taint in scheduler_node.node.spec.taints
            if taint.effect != PREFER_NO_SCHEDULE
        )

    def refusal(self, scheduler_node: SchedulerNode) -> str:
        """Why one more pod here would spread too unevenly, or empty."""
        value = scheduler_node.node.metadata.labels.get(self._constraint.topology_key)
        if value is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        if self._counts[value] + self._own - self._least > self._constraint.max_skew:
            return "node(s) didn't match pod topology spread constraints"
        return ""


def _required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _selects(
    selector: LabelSelector | None, holder: Pod, other: Pod, same: tuple[str, ...], different: tuple[str, ...]
) -> bool:
    """Whether a selector, narrowed by labels of the pod that holds it, matches the other pod. None matches nothing."""
    if selector is None or not selector.matches(other.metadata.labels):
        return False
    own = holder.metadata.labels
    narrowed = [
        LabelSelectorRequirement(key=key, operator=operator, values=(own[key],))
        for keys, operator in ((same, "In"), (different, "NotIn"))
        for key in keys
        if key in own
    ]
    return LabelSelector(match_expressions=tuple(narrowed)).matches(other.metadata.labels)

"""Scheduler filters that depend on other pods: inter-pod affinity, anti-affinity in both directions, topology spread.

Only required terms count; preferences are ignored. `InterPodAffinity` collects the relevant topology domains of one
pod once, in time proportional to the number of nodes and bound pods; checking a node then takes constant time.
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
    """The affinity and spread constraints of one pod, evaluated against all bound pods."""

    def __init__(self, pod: Pod, scheduler_nodes: SchedulerNodes) -> None:
        self._pod = pod
        self._nodes = scheduler_nodes
        affinity = pod.spec.affinity
        self._affinity = _required(affinity.pod_affinity if affinity else None)
        self._anti_affinity = _required(affinity.pod_anti_affinity if affinity else None)
        self._affinity_domains = [set(self._domains(term)) for term in self._affinity]
        self._anti_affinity_domains = {domain for term in self._anti_affinity for domain in self._domains(term)}
        self._repelling_domains = set(self._find_repelling_domains())
        self._spreads = [
            _Spread(pod, constraint, scheduler_nodes)
            for constraint in pod.spec.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ]
        self._first_of_group = not any(self._affinity_domains) and all(
            self._matches(pod, term, pod) for term in self._affinity
        )

    def refusal(self, scheduler_node: SchedulerNode) -> str:
        """Why other pods make the node unusable for this pod, or empty."""
        for spread in self._spreads:
            if why := spread.refusal(scheduler_node):
                return why
        if self._affinity and not self._has_affinity(scheduler_node):
            return "node(s) didn't match pod affinity rules"
        labels = scheduler_node.node.metadata.labels.items()
        if self._anti_affinity_domains and not self._anti_affinity_domains.isdisjoint(labels):
            return "node(s) didn't match pod anti-affinity rules"
        if self._repelling_domains and not self._repelling_domains.isdisjoint(labels):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return ""

    def _has_affinity(self, scheduler_node: SchedulerNode) -> bool:
        """Whether every term has a matching pod in the node's domain.

        The first pod of a group with affinity to itself may run on any node.
        """
        labels = scheduler_node.node.metadata.labels
        if any(term.topology_key not in labels for term in self._affinity):
            return False
        return self._first_of_group or all(
            (term.topology_key, labels[term.topology_key]) in domains
            for term, domains in zip(self._affinity, self._affinity_domains, strict=True)
        )

    def _domains(self, term: PodAffinityTerm) -> Iterator[Domain]:
        """The domains with pods that match a term of this pod."""
        for scheduler_node in self._nodes.sorted_nodes():
            value = scheduler_node.node.metadata.labels.get(term.topology_key)
            if value is not None and any(
                self._matches(self._pod, term, other) for other in scheduler_node.pods.values()
            ):
                yield term.topology_key, value

    def _find_repelling_domains(self) -> Iterator[Domain]:
        """The domains with bound pods whose anti-affinity matches this pod."""
        for name, other in self._nodes.with_anti_affinity.values():
            scheduler_node = self._nodes.scheduler_node(name)
            labels = scheduler_node.node.metadata.labels if scheduler_node is not None else {}
            anti = other.spec.affinity.pod_anti_affinity if other.spec.affinity else None
            for term in _required(anti):
                value = labels.get(term.topology_key)
                if value is not None and self._matches(other, term, self._pod):
                    yield term.topology_key, value

    def _matches(self, holder: Pod, term: PodAffinityTerm, other: Pod) -> bool:
        return self._includes_namespace(holder, term, other.metadata.namespace) and _selects(
            term.label_selector, holder, other, term.match_label_keys, term.mismatch_label_keys
        )

    def _includes_namespace(self, holder: Pod, term: PodAffinityTerm, namespace: str) -> bool:
        if not term.namespaces and term.namespace_selector is None:
            return namespace == holder.metadata.namespace
        if namespace in term.namespaces:
            return True
        labels = self._nodes.namespace_labels.get(namespace, {})
        return term.namespace_selector is not None and term.namespace_selector.matches(labels)


class _Spread:
    """One topology spread constraint, with the number of matching pods in each domain."""

    def __init__(self, pod: Pod, constraint: TopologySpreadConstraint, scheduler_nodes: SchedulerNodes) -> None:
        self._constraint = constraint
        self._own = int(_selects(constraint.label_selector, pod, pod, constraint.match_label_keys, ()))
        self._counts: Counter[str] = Counter()
        keys = [
            each.topology_key
            for each in pod.spec.topology_spread_constraints
            if each.when_unsatisfiable == "DoNotSchedule"
        ]
        for scheduler_node in scheduler_nodes.sorted_nodes():
            if all(key in scheduler_node.node.metadata.labels for key in keys) and self._is_counted(
                pod, scheduler_node
            ):
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

    def _is_counted(self, pod: Pod, scheduler_node: SchedulerNode) -> bool:
        if self._constraint.node_affinity_policy == "Honor" and not matches_node(pod.spec, scheduler_node.node):
            return False
        return self._constraint.node_taints_policy != "Honor" or all(
            tolerates(pod.spec.tolerations, taint)
            for taint in scheduler_node.node.spec.taints
            if taint.effect != PREFER_NO_SCHEDULE
        )

    def refusal(self, scheduler_node: SchedulerNode) -> str:
        """Why another pod on this node would exceed maxSkew, or empty."""
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
    """Whether a selector, with the (mis)matchLabelKeys of its holder, matches the other pod. None matches no pod."""
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

"""Topology rules of a pod as values: spread constraints, affinity and anti-affinity terms.

Values compare by content, so equal rules of different pods are one rule with one set of counts. A rule here says
which pods it selects and by which topology key; `topology_counts` says what it allows. What is specific to the pod
that owns the rule (namespace, `matchLabelKeys`, node affinity and tolerations where the policies honor them) is
resolved while reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.core.scheduling.pod_selectors import Selector, label_key_expressions, read_selector
from dovetail.model.pod import PodAffinityTerm, PodSpec, TopologySpreadConstraint
from dovetail.model.taints import Toleration


@dataclass(frozen=True, slots=True)
class Term:
    """Pods to be near or far from, and the key that says what near is."""

    key: str
    selector: Selector


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """How evenly selected pods are spread. `alternatives` and `tolerations` are None where the policy ignores them."""

    key: str
    selector: Selector
    max_skew: int
    min_domains: int
    held_keys: tuple[str, ...]
    alternatives: tuple[Alternative, ...] | None
    tolerations: tuple[Toleration, ...] | None


@dataclass(frozen=True, slots=True)
class AffinityRule:
    """Terms that count together: a pod matches if it satisfies the selectors of all of them."""

    terms: tuple[Term, ...]

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether such a pod satisfies every term."""
        return all(term.selector.selects(namespace, labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Owner:
    """The pod a rule is read for."""

    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    namespaces: Mapping[str, Mapping[str, str]]


def read_term(owner: Owner, term: PodAffinityTerm) -> Term:
    """One affinity or anti-affinity term."""
    extra = label_key_expressions(owner.labels, term.match_label_keys, term.mismatch_label_keys)
    return Term(term.topology_key, read_selector(term.label_selector, _namespaces(owner, term), extra))


def _namespaces(owner: Owner, term: PodAffinityTerm) -> frozenset[str]:
    selector = term.namespace_selector
    if selector is None:
        return frozenset(term.namespaces or (owner.namespace,))
    chosen = {name for name, labels in owner.namespaces.items() if selector.matches(labels)}
    if not selector.match_labels and not selector.match_expressions:
        chosen.add(owner.namespace)  # everything, this one included even if its labels are not known yet
    return frozenset(chosen | {*term.namespaces})


def read_spread(
    owner: Owner,
    constraint: TopologySpreadConstraint,
    held: tuple[TopologySpreadConstraint, ...],
    required: tuple[Alternative, ...],
) -> SpreadRule:
    """One spread constraint; `held` are all that are held with it, `required` the node alternatives."""
    extra = label_key_expressions(owner.labels, constraint.match_label_keys)
    selector = read_selector(constraint.label_selector, frozenset({owner.namespace}), extra)
    if not selector.expressions:  # kube-scheduler counts no pod for an empty selector here
        selector = Selector(selector.namespaces, (), nothing=True)
    return SpreadRule(
        key=constraint.topology_key,
        selector=selector,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains or 0,
        held_keys=tuple(sorted({each.topology_key for each in held})),
        alternatives=required if constraint.node_affinity_policy == "Honor" else None,
        tolerations=owner.spec.tolerations if constraint.node_taints_policy == "Honor" else None,
    )

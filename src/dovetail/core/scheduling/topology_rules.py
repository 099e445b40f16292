"""Topology rules of a pod as values: spread constraints, affinity and anti-affinity terms, and their selectors.

Values compare by content, so equal rules of different pods are one rule with one set of counts. A rule here says
which pods it selects and by which topology key; `topology_counts` says what it allows. What is specific to the pod
that owns the rule (namespace, `matchLabelKeys`, node affinity and tolerations where the policies honor them) is
resolved while reading.

A selector is a set of namespaces and a sorted tuple of expressions. `matchLabelKeys` and `mismatchLabelKeys` become
expressions with the owner's label values. An absent label selector selects no pod; an empty one selects every pod of
its namespaces, except in a spread constraint, where kube-scheduler counts no pod for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.model.kube_object import LabelSelector
from dovetail.model.pod import PodAffinityTerm, PodSpec, TopologySpreadConstraint
from dovetail.model.taints import Toleration

Expression = tuple[str, str, tuple[str, ...]]
"""A label key, an operator of label selectors, and sorted values."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects pods. No expressions select every pod of the namespaces; `nothing` selects none."""

    namespaces: frozenset[str]
    expressions: tuple[Expression, ...]
    nothing: bool = False

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it selects a pod of that namespace with those labels."""
        if self.nothing or namespace not in self.namespaces:
            return False
        return all(_holds(expression, labels) for expression in self.expressions)

    @property
    def keys(self) -> Iterable[str]:
        """The pod labels that it reads."""
        return (key for key, _, _ in self.expressions)


def read_selector(
    written: LabelSelector | None, namespaces: frozenset[str], extra: Iterable[Expression] = ()
) -> Selector:
    """The selector of a rule; `extra` are the expressions that match-label keys add."""
    if written is None:
        return Selector(namespaces, (), nothing=True)
    equal = [(key, "In", (value,)) for key, value in written.match_labels.items()]
    listed = [(each.key, each.operator, tuple(sorted(each.values))) for each in written.match_expressions]
    return Selector(namespaces, tuple(sorted({*equal, *listed, *extra})))


def label_key_expressions(
    labels: Mapping[str, str], match: Iterable[str], mismatch: Iterable[str] = ()
) -> list[Expression]:
    """The expressions that `matchLabelKeys` and `mismatchLabelKeys` add for a pod with these labels."""
    added: list[Expression] = [(key, "In", (labels[key],)) for key in match if key in labels]
    added.extend((key, "NotIn", (labels[key],)) for key in mismatch if key in labels)
    return added


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression
    value = labels.get(key)
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False  # the API server rejects other operators


@dataclass(frozen=True, slots=True)
class Term:
    """An affinity or anti-affinity term: the pods it selects, and the topology key."""

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
    """All affinity terms of a pod: another pod matches if every term selects it."""

    terms: tuple[Term, ...]

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether every term selects a pod of that namespace with those labels."""
        return all(term.selector.selects(namespace, labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Owner:
    """The pod that owns a rule."""

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
        chosen.add(owner.namespace)  # an empty selector selects every namespace, also one whose labels are not known
    return frozenset(chosen | {*term.namespaces})


def read_spread(
    owner: Owner,
    constraint: TopologySpreadConstraint,
    held: tuple[TopologySpreadConstraint, ...],
    required: tuple[Alternative, ...],
) -> SpreadRule:
    """One spread constraint; `held` are all constraints of the same level, `required` the node alternatives."""
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

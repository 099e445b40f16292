"""Which pods a topology rule speaks of. Selectors and namespaces are those of the pod that owns the rule."""

from collections.abc import Iterable

from dovetail.model.kube_object import LabelSelector
from dovetail.model.pod import Pod, PodAffinityTerm, TopologySpreadConstraint
from dovetail.model.snapshot import Snapshot


def spread_selects(constraint: TopologySpreadConstraint, owner: Pod, other: Pod) -> bool:
    """An empty selector counts nobody, as in kube-scheduler; one that match-label keys add to is not empty."""
    written = constraint.label_selector
    empty = written is not None and not written.match_labels and not written.match_expressions
    if empty and not any(key in owner.metadata.labels for key in constraint.match_label_keys):
        return False
    return (
        other.metadata.namespace == owner.metadata.namespace
        and _selector_matches(constraint.label_selector, other)
        and _same_values(constraint.match_label_keys, owner, other)
    )


def term_selects(term: PodAffinityTerm, owner: Pod, other: Pod, snapshot: Snapshot) -> bool:
    return (
        _namespace_meant(term, owner, other.metadata.namespace, snapshot)
        and _selector_matches(term.label_selector, other)
        and _same_values(term.match_label_keys, owner, other)
        and _other_values(term.mismatch_label_keys, owner, other)
    )


def _selector_matches(selector: LabelSelector | None, pod: Pod) -> bool:
    """An absent selector selects nothing."""
    return selector is not None and selector.matches(pod.metadata.labels)


def _namespace_meant(term: PodAffinityTerm, owner: Pod, namespace: str, snapshot: Snapshot) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner.metadata.namespace
    selected = term.namespace_selector is not None and term.namespace_selector.matches(
        snapshot.namespaces.get(namespace, {})
    )
    return namespace in term.namespaces or selected


def _same_values(keys: Iterable[str], owner: Pod, other: Pod) -> bool:
    """`key in (the owner's value)`, for each listed key the owner has."""
    return all(
        other.metadata.labels.get(key) == owner.metadata.labels[key] for key in keys if key in owner.metadata.labels
    )


def _other_values(keys: Iterable[str], owner: Pod, other: Pod) -> bool:
    """`key not in (the owner's value)`, for each listed key the owner has; absence is another value."""
    return all(
        other.metadata.labels.get(key) != owner.metadata.labels[key] for key in keys if key in owner.metadata.labels
    )

"""What a pod asks of a node's labels: alternatives, each a list of expressions that must all hold.

Expressions are kept apart, not merged, when a real node is looked at: that is what kube-scheduler does, and merging
`Exists` with `NotIn` would forget that the label has to be there. The same holds for nodes that do not exist yet.
"""

from collections.abc import Iterable, Mapping

from dovetail.model.pod import NodeSelectorTerm, PodSpec
from dovetail.model.requirements import NORMALIZED_LABELS, Requirement, Requirements
from dovetail.model.snapshot import ClusterNode

Expressions = tuple[Requirement, ...]
"""One alternative: everything in it must hold."""


def read_term(term: NodeSelectorTerm) -> Expressions | None:
    """The expressions of a term, fields read like labels; a term with none matches nothing, which is None."""
    written = (*term.match_expressions, *term.match_fields)
    if not written:
        return None
    return tuple(Requirement.of(each.key, each.operator, each.values) for each in written)


def required_alternatives(spec: PodSpec) -> list[Expressions]:
    """The node selector together with one term of the required node affinity, in the order written."""
    selector = tuple(Requirement.of(key, "In", (value,)) for key, value in spec.node_selector.items())
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return [selector]
    terms = [read_term(term) for term in required.node_selector_terms]
    return [selector + term for term in terms if term is not None]


def node_meets(node: ClusterNode, alternative: Expressions) -> bool:
    """Whether a room's labels, or whatever labels an unlaunched claim may still get, satisfy every expression."""
    if node.launched:
        labels = {NORMALIZED_LABELS.get(key, key): value for key, value in node.labels.items()}
        if node.node is not None:
            labels["metadata.name"] = node.node.name
        return all(label_satisfies(labels, expression) for expression in alternative)
    return all(claim_certainly_satisfies(node.requirements, expression) for expression in alternative)


def node_meets_any(node: ClusterNode, alternatives: Iterable[Expressions]) -> bool:
    return any(node_meets(node, alternative) for alternative in alternatives)


def narrowed(node: Requirements, alternative: Expressions, defined: frozenset[str]) -> Requirements | None:
    """What a node that does not exist yet would have to be, or None if it cannot be.

    A label that has to be there must be one of the `defined` ones. Each expression has to agree with those before it.
    """
    for expression in alternative:
        wanted = Requirements.of([expression])
        missing = expression.key not in defined and not expression.tolerates_absence
        if missing or node.intersects(wanted) is not None:
            return None
        node = node.add(wanted)
    return node


def label_satisfies(labels: Mapping[str, str], expression: Requirement) -> bool:
    value = labels.get(expression.key)
    return expression.tolerates_absence if value is None else expression.has(value)


def claim_certainly_satisfies(claim: Requirements, expression: Requirement) -> bool:
    """Whether the expression admits every value the claim may still take, and absence if the label may be absent."""
    if expression.key not in claim:
        return expression.tolerates_absence
    open_values = claim.get(expression.key)
    if open_values.tolerates_absence and not expression.tolerates_absence:
        # NotIn and DoesNotExist on the claim promise no label at all.
        return False
    if not open_values.complement:
        return all(expression.has(value) for value in open_values.values)
    if not expression.complement:
        # Everything but a few values is never within a list of values.
        return False
    return (
        not any(open_values.has(value) for value in expression.values)
        and (expression.gte is None or (open_values.gte is not None and open_values.gte >= expression.gte))
        and (expression.lte is None or (open_values.lte is not None and open_values.lte <= expression.lte))
    )

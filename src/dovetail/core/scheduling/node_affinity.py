"""Node affinity: an alternative is a list of expressions over node labels that must all hold.

A pod has one alternative for each term of its required node affinity, each together with its node selector; any one
is enough. Expressions are not merged into one requirement for each label, because `a Exists` with `a NotIn [x]`
requires the label, and `a In [x]` with `a In [y]` matches no node.

Alternatives compare by value and are keys of caches. For a node that is not launched there are two questions: can it
become one that matches (`may_match`), and does it match whatever it becomes (`always_matches`).
"""

from collections.abc import Container, Iterable

from dovetail.model.cached import lazy
from dovetail.model.pod import NodeSelectorTerm, PodSpec
from dovetail.model.requirements import Requirement, Requirements


class Alternative:
    """Expressions over node labels that must all hold."""

    __slots__ = ("__dict__", "_hash", "expressions")

    def __init__(self, expressions: Iterable[Requirement]) -> None:
        self.expressions = tuple(dict.fromkeys(expressions))
        self._hash = hash(self.expressions)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Alternative) and self.expressions == other.expressions)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return " and ".join(map(str, self.expressions)) or "anywhere"

    @lazy
    def single(self) -> tuple[Requirements, ...]:
        """Each expression as a separate set of requirements."""
        return tuple(Requirements.of([expression]) for expression in self.expressions)

    def with_expressions(self, expressions: Iterable[Requirement]) -> "Alternative":
        """This alternative with more expressions."""
        return Alternative((*self.expressions, *expressions))

    def narrow(self, node: Requirements, defined: Container[str]) -> Requirements | str:
        """The requirements of a node that is not launched, narrowed to match, or why they cannot match.

        A required label must be in `defined`: the labels that the node will have.
        """
        for expression, single in zip(self.expressions, self.single, strict=True):
            if not expression.tolerates_absence and expression.key not in defined:
                return f'label "{expression.key}" does not have known values'
            conflicting = node.intersects(single)
            if conflicting is not None:
                return conflicting
            node = node.add(single)
        return node

    def may_match(self, node: Requirements, defined: Container[str]) -> bool:
        """Whether a node that is not launched can become one that matches."""
        return not isinstance(self.narrow(node, defined), str)

    def always_matches(self, node: Requirements) -> bool:
        """Whether everything that the node can still become matches."""
        return all(_always_matches(node, expression) for expression in self.expressions)


ANYWHERE = Alternative(())
NODE_NAME = "metadata.name"


def node_alternatives(spec: PodSpec) -> tuple[Alternative, ...]:
    """The node selector with each term of the required node affinity; a node has to match one of them."""
    selector = Alternative(Requirements.from_labels(spec.node_selector).values())
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return (selector,)
    terms = (read_expressions(term) for term in required.node_selector_terms)
    return tuple(dict.fromkeys(selector.with_expressions(expressions) for expressions in terms if expressions))


def read_expressions(term: NodeSelectorTerm) -> tuple[Requirement, ...]:
    """The expressions of a term. A term without any, or with one that cannot be read, matches no node.

    Fields are read like labels. The only supported field is `metadata.name`, which no new node can match.
    """
    written = (*term.match_expressions, *term.match_fields)
    try:
        return tuple(Requirement.of(each.key, each.operator, each.values) for each in written)
    except ValueError:
        return ()


def _always_matches(node: Requirements, expression: Requirement) -> bool:
    if expression.key not in node:
        return expression.tolerates_absence
    possible = node.get(expression.key)
    if possible.tolerates_absence and not expression.tolerates_absence:
        return False  # the node may not get the label
    if not possible.complement:
        return all(expression.has(value) for value in possible.values)
    if not expression.complement:
        return False  # everything but a few values is never within a list of values
    return (
        not any(possible.has(value) for value in expression.values)
        and (expression.gte is None or (possible.gte is not None and possible.gte >= expression.gte))
        and (expression.lte is None or (possible.lte is not None and possible.lte <= expression.lte))
    )

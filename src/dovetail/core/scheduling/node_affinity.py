"""Node affinity: one alternative is a list of expressions over node labels that must all hold.

A pod has one alternative for each term of its required node affinity, each together with its node selector; any one
is enough. Expressions are not merged: `a Exists` with `a NotIn [x]` requires the label, and `a In [x]` with `a In
[y]` matches no node. Merged into one requirement, both would lose that.

Equal alternatives are equal keys of caches. For a node that is not launched there are two questions: could it become
one that matches (`fits`), and will it match whatever it becomes (`surely`).
"""

from collections.abc import Container, Iterable

from dovetail.model.cached import lazy
from dovetail.model.pod import NodeSelectorTerm, PodSpec
from dovetail.model.requirements import Requirement, Requirements


class Alternative:
    """Expressions that must all hold. Equal ones are one to every cache."""

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
        """Each expression as a set of its own."""
        return tuple(Requirements.of([expression]) for expression in self.expressions)

    def also(self, expressions: Iterable[Requirement]) -> "Alternative":
        """With more expressions."""
        return Alternative((*self.expressions, *expressions))

    def added_to(self, node: Requirements, defined: Container[str]) -> Requirements | str:
        """The requirements of a node that is not launched, narrowed to match, or why they cannot match.

        A label that is required must be one that its nodes will have: `defined`. Requiring its absence defines nothing.
        """
        for expression, single in zip(self.expressions, self.single, strict=True):
            if not expression.tolerates_absence and expression.key not in defined:
                return f'label "{expression.key}" does not have known values'
            conflicting = node.intersects(single)
            if conflicting is not None:
                return conflicting
            node = node.add(single)
        return node

    def fits(self, node: Requirements, defined: Container[str]) -> bool:
        """Whether a node that is not launched could become one that matches."""
        return not isinstance(self.added_to(node, defined), str)

    def surely(self, node: Requirements) -> bool:
        """Whether whatever the node still can become satisfies it."""
        return all(_surely(node, expression) for expression in self.expressions)


ANYWHERE = Alternative(())
NODE_NAME = "metadata.name"


def node_alternatives(spec: PodSpec) -> tuple[Alternative, ...]:
    """The ways in which a node can satisfy selector and required affinity; any one of them is enough."""
    selector = Alternative(Requirements.from_labels(spec.node_selector).values())
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return (selector,)
    terms = (read_expressions(term) for term in required.node_selector_terms)
    return tuple(dict.fromkeys(selector.also(expressions) for expressions in terms if expressions))


def read_expressions(term: NodeSelectorTerm) -> tuple[Requirement, ...]:
    """The expressions of a term. A term without any, or with one that cannot be read, matches no node.

    Fields are read like labels; the only one there is, `metadata.name`, no node that does not exist yet can have.
    """
    written = (*term.match_expressions, *term.match_fields)
    try:
        return tuple(Requirement.of(each.key, each.operator, each.values) for each in written)
    except ValueError:
        return ()


def _surely(node: Requirements, expression: Requirement) -> bool:
    if expression.key not in node:
        return expression.tolerates_absence
    possible = node.get(expression.key)
    if possible.tolerates_absence and not expression.tolerates_absence:
        return False  # the label may turn out not to be there
    if not possible.complement:
        return all(expression.has(value) for value in possible.values)
    if not expression.complement:
        return False  # everything but a few values is never within a list of values
    return (
        not any(possible.has(value) for value in expression.values)
        and (expression.gte is None or (possible.gte is not None and possible.gte >= expression.gte))
        and (expression.lte is None or (possible.lte is not None and possible.lte <= expression.lte))
    )

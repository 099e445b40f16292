"""Selectors of labels and of nodes, as they stand inside an object."""

from collections.abc import Iterator

from dovetail.model.kube_object import Fault
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.names import is_key, is_value, label_faults

_SETS = frozenset({"In", "NotIn"})
_PRESENCE = frozenset({"Exists", "DoesNotExist"})
_COMPARISONS = frozenset({"Gt", "Lt"})


def selector_faults(selector: Plain | None, path: str) -> Iterator[Fault]:
    """Everything wrong with a label selector."""
    if not selector:
        return
    yield from label_faults(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        yield from _expression_faults(expression, here, frozenset())
        yield from _key_faults(expression, here)
        yield from _value_faults(expression, here)


def node_selector_faults(selector: Plain, path: str) -> Iterator[Fault]:
    """Everything wrong with what is required of a node."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield Fault(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_term_faults(term, f"{path}.nodeSelectorTerms[{index}]")


def node_term_faults(term: Plain, path: str) -> Iterator[Fault]:
    """Everything wrong with one term about nodes."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        yield from _expression_faults(expression, here, _COMPARISONS)
        yield from _key_faults(expression, here)
        yield from _value_faults(expression, here)
    for index, expression in enumerate(term.get("matchFields") or ()):
        here = f"{path}.matchFields[{index}]"
        if expression.get("key") != "metadata.name":
            yield Fault(f"{here}.key", "is not a field to select nodes by", expression.get("key"))
        if expression.get("operator") not in _SETS:
            yield Fault(f"{here}.operator", "must be In or NotIn", expression.get("operator"))
        elif len(expression.get("values") or ()) != 1:
            yield Fault(f"{here}.values", "must have exactly one value", expression.get("values"))


def _expression_faults(expression: Plain, path: str, comparisons: frozenset[str]) -> Iterator[Fault]:
    operator, values = expression.get("operator"), expression.get("values") or ()
    if operator in _SETS:
        if not values:
            yield Fault(f"{path}.values", f"must be given with operator {operator}")
    elif operator in _PRESENCE:
        if values:
            yield Fault(f"{path}.values", f"must not be given with operator {operator}", values)
    elif operator in comparisons:
        if len(values) != 1:
            yield Fault(f"{path}.values", f"must be exactly one with operator {operator}", values)
    else:
        yield Fault(f"{path}.operator", "is not an operator", operator)


def _key_faults(expression: Plain, path: str) -> Iterator[Fault]:
    if not is_key(expression.get("key") or ""):
        yield Fault(f"{path}.key", "is not a label key", expression.get("key"))


def _value_faults(expression: Plain, path: str) -> Iterator[Fault]:
    for index, value in enumerate(expression.get("values") or ()):
        if not is_value(value):
            yield Fault(f"{path}.values[{index}]", "is not a label value", value)

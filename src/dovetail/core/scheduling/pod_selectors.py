"""Selectors: which pods a topology rule selects, as values.

A selector is a set of namespaces and a sorted tuple of expressions, so that equal selectors of different pods are
equal values. `matchLabelKeys` and `mismatchLabelKeys` become expressions with the owner's own label values. An absent
label selector selects no pod; an empty one selects every pod of its namespaces.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dovetail.model.kube_object import LabelSelector

Expression = tuple[str, str, tuple[str, ...]]
"""A label key, an operator of label selectors, and sorted values."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects pods. No expressions select every pod of the namespaces; `nothing` selects none."""

    namespaces: frozenset[str]
    expressions: tuple[Expression, ...]
    nothing: bool = False

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod of that namespace with those labels is meant."""
        if self.nothing or namespace not in self.namespaces:
            return False
        return all(_holds(expression, labels) for expression in self.expressions)

    @property
    def keys(self) -> Iterable[str]:
        """The labels it looks at."""
        return (key for key, _, _ in self.expressions)


def read_selector(
    written: LabelSelector | None, namespaces: frozenset[str], extra: Iterable[Expression] = ()
) -> Selector:
    """The selector as written, with the expressions that match-label keys add. An absent one selects nothing."""
    if written is None:
        return Selector(namespaces, (), nothing=True)
    equal = [(key, "In", (value,)) for key, value in written.match_labels.items()]
    listed = [(each.key, each.operator, tuple(sorted(each.values))) for each in written.match_expressions]
    return Selector(namespaces, tuple(sorted({*equal, *listed, *extra})))


def label_key_expressions(
    labels: Mapping[str, str], match: Iterable[str], mismatch: Iterable[str] = ()
) -> list[Expression]:
    """What `matchLabelKeys` and `mismatchLabelKeys` add for a pod with these labels."""
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
            return False  # the API server refuses other operators; one that slips through selects nothing

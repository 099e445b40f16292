"""Validation of the scheduling constraints of a pod: selectors, tolerations, topology spread and affinity.

Label selectors and node selectors are checked here for other kinds too. Messages and paths follow the API server.
"""

from collections.abc import Iterator, Sequence

from dovetail.model.kube_object import Fault
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.metadata import choice_faults, is_key, is_label, is_value, label_faults

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
    """Everything wrong with a required node selector."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield Fault(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_term_faults(term, f"{path}.nodeSelectorTerms[{index}]")


def node_term_faults(term: Plain, path: str) -> Iterator[Fault]:
    """Everything wrong with one node selector term."""
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


EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES = frozenset({"Honor", "Ignore"})
_MOST_WEIGHT = 100


def placement_faults(spec: Plain, path: str) -> Iterator[Fault]:
    """Everything wrong with the scheduling constraints of a pod."""
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_faults(toleration, f"{path}.tolerations[{index}]")
    constraints = spec.get("topologySpreadConstraints") or ()
    for index, constraint in enumerate(constraints):
        yield from _spread_faults(constraint, f"{path}.topologySpreadConstraints[{index}]")
    yield from _repeated_spread_faults(constraints, f"{path}.topologySpreadConstraints")
    yield from label_faults(spec.get("nodeSelector"), f"{path}.nodeSelector")
    if spec.get("affinity"):
        yield from _affinity_faults(spec["affinity"], f"{path}.affinity")


def _toleration_faults(toleration: Plain, path: str) -> Iterator[Fault]:
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    effect = toleration.get("effect") or ""
    if key and not is_key(key):
        yield Fault(f"{path}.key", "is not a label key", key)
    if not key and operator != "Exists":
        yield Fault(f"{path}.operator", "must be Exists where key is empty", operator)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield Fault(f"{path}.effect", "must be NoExecute where tolerationSeconds is set", effect)
    if operator in ("", "Equal"):
        if not is_value(value):
            yield Fault(f"{path}.operator", "the value is not a label value", value)
    elif operator != "Exists":
        yield Fault(f"{path}.operator", "must be Equal or Exists", operator)
    elif value:
        yield Fault(f"{path}.operator", "value must be empty where operator is Exists", value)
    if effect:
        yield from choice_faults(effect, EFFECTS, f"{path}.effect")


def _spread_faults(constraint: Plain, path: str) -> Iterator[Fault]:
    if (constraint.get("maxSkew") or 0) <= 0:
        yield Fault(f"{path}.maxSkew", "must be greater than zero", constraint.get("maxSkew"))
    if not constraint.get("topologyKey"):
        yield Fault(f"{path}.topologyKey", "must not be empty")
    yield from choice_faults(constraint.get("whenUnsatisfiable") or "", _UNSATISFIABLE, f"{path}.whenUnsatisfiable")
    domains = constraint.get("minDomains")
    if domains is not None and domains <= 0:
        yield Fault(f"{path}.minDomains", "must be greater than zero", domains)
    if domains is not None and constraint.get("whenUnsatisfiable") != "DoNotSchedule":
        yield Fault(f"{path}.minDomains", "can only be used with DoNotSchedule", domains)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        yield from choice_faults(constraint.get(name), _POLICIES, f"{path}.{name}")
    if constraint.get("matchLabelKeys") and constraint.get("labelSelector") is None:
        yield Fault(f"{path}.matchLabelKeys", "must not be set without a labelSelector")
    yield from selector_faults(constraint.get("labelSelector"), f"{path}.labelSelector")


def _repeated_spread_faults(constraints: Sequence[Plain], path: str) -> Iterator[Fault]:
    pairs = [(each.get("topologyKey"), each.get("whenUnsatisfiable")) for each in constraints]
    for index, pair in enumerate(pairs):
        if pair in pairs[index + 1 :]:
            yield Fault(f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}", "is listed twice", pair)


def _affinity_faults(affinity: Plain, path: str) -> Iterator[Fault]:
    nodes = affinity.get("nodeAffinity") or {}
    if nodes.get(_REQUIRED) is not None:
        yield from node_selector_faults(nodes[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, preference in enumerate(nodes.get(_PREFERRED) or ()):
        here = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        yield from _weight_faults(preference, here)
        yield from node_term_faults(preference.get("preference") or {}, f"{here}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _pod_term_faults(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, preference in enumerate(pods.get(_PREFERRED) or ()):
            here = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight_faults(preference, here)
            yield from _pod_term_faults(preference.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _weight_faults(preference: Plain, path: str) -> Iterator[Fault]:
    weight = preference.get("weight") or 0
    if not 1 <= weight <= _MOST_WEIGHT:
        yield Fault(f"{path}.weight", f"must be from 1 to {_MOST_WEIGHT}", weight)


def _pod_term_faults(term: Plain, path: str) -> Iterator[Fault]:
    if not is_key(term.get("topologyKey") or ""):
        yield Fault(f"{path}.topologyKey", "must be a label key", term.get("topologyKey"))
    yield from selector_faults(term.get("labelSelector"), f"{path}.labelSelector")
    for name in term.get("namespaces") or ():
        if not is_label(name):
            yield Fault(f"{path}.namespace", "is not the name of a namespace", name)

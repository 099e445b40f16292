"""Validation rules over several fields, each as CEL for the API server and as a Python predicate.

Both are in one `Rule`, so that they change together; the end-to-end suite compares them on a real API server. `holds`
gets the value that the rule is attached to, after its types were checked. `keeps` also gets the previous value, for
rules about updates.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dovetail.model.labels import CAPACITY_TYPE, GROUP, HOSTNAME, NODEPOOL
from dovetail.model.reason import Action

BOTH = ("v1", "v1beta1")
ACTIONS = tuple(action.value for action in Action)
_BOUNDS = ("Gt", "Lt", "Gte", "Lte")
_ALLOWED_KEYS = (CAPACITY_TYPE, NODEPOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `at` is the field under the value to which a fault is attributed."""

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    keeps: Callable[[Any, Any], bool] | None = None
    remedy: str = ""
    at: str = ""
    versions: tuple[str, ...] = BOTH
    kinds: tuple[str, ...] = ("NodePool", "NodeClaim")

    def schema(self) -> dict[str, str]:
        """The rule as an entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        return {**entry, "fieldPath": f".{self.at}"} if self.at else entry


def _quoted(words: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def in_karpenter_domain(key: str) -> bool:
    """Whether the label is in Karpenter's domain, apart from the keys that NodePools may use."""
    return key not in _ALLOWED_KEYS and (key.startswith(f"{GROUP}/") or f".{GROUP}/" in key)


SCHEDULE_WITH_DURATION = Rule(
    cel="has(self.schedule) == has(self.duration)",
    message="'schedule' must be set with 'duration'",
    holds=lambda budget: ("schedule" in budget) == ("duration" in budget),
    remedy="add the missing one, or leave out both for a budget that always applies",
)
DURATION_ABOVE_ZERO = Rule(
    cel="!has(self.duration) || self.duration.matches('[1-9]')",
    message="'duration' must be longer than zero: the budget would never be active",
    at="duration",
    holds=lambda budget: not set(budget.get("duration", "1")).isdisjoint("123456789"),
    remedy="write how long the budget stays active, such as 8h, or leave out schedule and duration",
)
ACTION_OR_REASONS = Rule(
    cel="!(has(self.action) && has(self.reasons))",
    message="'action' and 'reasons' cannot be combined; keep one of them",
    holds=lambda budget: not ("action" in budget and "reasons" in budget),
    remedy="keep 'reasons' (v1) or 'action'",
)
BUDGETS_OF_ONE_ACTION = Rule(
    cel="self.all(x, !has(x.action) && !has(x.reasons))",
    message="budgets under an action apply to that action; leave out 'action' and 'reasons'",
    holds=lambda budgets: not any("action" in budget or "reasons" in budget for budget in budgets),
    remedy="move a budget for other actions to spec.disruption.budgets",
)
KNOWN_ACTIONS = Rule(
    cel=f"self.all(x, x in {_quoted(ACTIONS)})",
    message=f"actions are {', '.join(ACTIONS)}",
    holds=lambda controls: all(action in ACTIONS for action in controls),
    remedy="rename the action; case matters",
)
ONE_SPELLING_OF_CONTROLS = Rule(
    cel="!(has(self.actionControls) && has(self.genericPerActionControls))",
    message="'actionControls' and 'genericPerActionControls' are aliases; keep one of them",
    holds=lambda disruption: not ("actionControls" in disruption and "genericPerActionControls" in disruption),
    remedy="move everything under 'actionControls'",
)
NO_WAIT_WHEN_UNDERUTILIZED = Rule(
    cel="!has(self.consolidateAfter) || !has(self.consolidationPolicy)"
    " || self.consolidationPolicy != 'WhenUnderutilized' || self.consolidateAfter == 'Never'",
    message="consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
    at="consolidateAfter",
    holds=lambda disruption: (
        disruption.get("consolidationPolicy") != "WhenUnderutilized"
        or disruption.get("consolidateAfter", "Never") == "Never"
    ),
    remedy="leave out consolidateAfter, or write the NodePool as karpenter.sh/v1",
    versions=("v1beta1",),
)
WAIT_WHEN_EMPTY = Rule(
    cel="!has(self.consolidationPolicy) || self.consolidationPolicy != 'WhenEmpty' || has(self.consolidateAfter)",
    message="consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
    holds=lambda disruption: disruption.get("consolidationPolicy") != "WhenEmpty" or "consolidateAfter" in disruption,
    remedy="write how long a node must be empty, such as consolidateAfter: 30s",
    versions=("v1beta1",),
)
STATIC_LIMITS = Rule(
    cel="!has(self.replicas) || !has(self.limits) || self.limits.all(x, x == 'nodes')",
    message="only 'limits.nodes' is supported on static NodePools",
    at="limits",
    holds=lambda spec: "replicas" not in spec or all(name == "nodes" for name in spec.get("limits", {})),
    remedy="keep limits.nodes alone, or leave out replicas",
)
STATIC_WEIGHT = Rule(
    cel="!has(self.replicas) || !has(self.weight)",
    message="'weight' is not supported on static NodePools",
    at="weight",
    holds=lambda spec: not ("replicas" in spec and "weight" in spec),
    remedy="leave out weight or replicas",
)
STATIC_FOREVER = Rule(
    cel="has(self.replicas) == has(oldSelf.replicas)",
    message="Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
    keeps=lambda spec, before: ("replicas" in spec) == ("replicas" in before),
    remedy="make a second NodePool",
)


def _label_rules(kind: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The rules on restricted label keys, for a map of labels and for the key of a requirement."""
    domain = f"KEY in {_quoted(_ALLOWED_KEYS)} || !(KEY.startsWith('{GROUP}/') || KEY.contains('.{GROUP}/'))"
    restricted: list[tuple[str, str, Callable[[str], bool]]] = [
        (domain, f'label domain "{GROUP}" is restricted', lambda key: not in_karpenter_domain(key)),
        (f"KEY != '{HOSTNAME}'", f'label "{HOSTNAME}" is restricted', lambda key: key != HOSTNAME),
    ]
    if kind == "NodePool":  # a NodeClaim has the label of its pool
        restricted.append((f"KEY != '{NODEPOOL}'", f'label "{NODEPOOL}" is restricted', lambda key: key != NODEPOOL))
    map_rules, key_rules = [], []
    for cel, message, holds in restricted:
        rule = Rule(
            cel=cel, message=message, kinds=(kind,), remedy="choose a label in another domain, such as example.com/team"
        )
        map_rules.append(replace(rule, cel=f"self.all(x, {cel.replace('KEY', 'x')})", holds=_for_all(holds)))
        key_rules.append(replace(rule, cel=cel.replace("KEY", "self"), holds=holds))
    return tuple(map_rules), tuple(key_rules)


def _for_all(holds: Callable[[str], bool]) -> Callable[[Mapping[str, Any]], bool]:
    return lambda labels: all(holds(key) for key in labels)


LABELS, KEYS_OF_POOLS = _label_rules("NodePool")
_, KEYS_OF_CLAIMS = _label_rules("NodeClaim")

IN_NEEDS_VALUES = Rule(
    cel="self.operator != 'In' || (has(self.values) && self.values.size() > 0)",
    message="requirements with operator 'In' must have a value defined",
    holds=lambda requirement: requirement["operator"] != "In" or bool(requirement.get("values")),
    remedy="list at least one value, or use the operator Exists",
)
BOUND_IS_AN_INTEGER = Rule(
    cel=f"!(self.operator in {_quoted(_BOUNDS)})"
    " || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$'))",
    message="requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
    holds=lambda requirement: (
        requirement["operator"] not in _BOUNDS or _is_single_integer(requirement.get("values", ()))
    ),
    remedy='write one integer as text, such as values: ["4"]',
)
ENOUGH_VALUES = Rule(
    cel="self.operator != 'In' || !has(self.minValues) || (has(self.values) && self.values.size() >= self.minValues)",
    message="requirements with 'minValues' must have at least that many values specified in the 'values' field",
    holds=lambda requirement: (
        requirement["operator"] != "In" or len(requirement.get("values", ())) >= requirement.get("minValues", 0)
    ),
    remedy="list more values or lower minValues",
)


def _is_single_integer(values: Iterable[str]) -> bool:
    listed = list(values)
    return len(listed) == 1 and listed[0].isascii() and listed[0].isdigit() and len(listed[0]) <= 18


_GROUP_CEL = "(has({0}.group) && {0}.group != '' ? {0}.group : has({0}.apiVersion) ? {0}.apiVersion.split('/')[0] : '')"


def _group(ref: Mapping[str, Any]) -> str:
    return str(ref.get("group") or ref.get("apiVersion", "").split("/")[0])


GROUP_GIVEN = Rule(
    cel=f"{_GROUP_CEL.format('self')} != ''",
    message="group may not be empty",
    holds=lambda ref: bool(_group(ref)),
    remedy="name the group of the node class, such as group: karpenter.kwok.sh",
    versions=("v1",),
)
KIND_GIVEN = Rule(
    cel="has(self.kind) && self.kind != ''",
    message="kind may not be empty",
    holds=lambda ref: bool(ref.get("kind")),
    remedy="name the kind of the node class, such as kind: KWOKNodeClass",
    versions=("v1",),
)
NAME_GIVEN = Rule(
    cel="self.name != ''",
    message="name may not be empty",
    holds=lambda ref: ref["name"] != "",
    remedy="name the node class",
)
ONE_GROUP = Rule(
    cel="!has(self.group) || !has(self.apiVersion) || self.group == '' || self.apiVersion == ''"
    " || self.apiVersion.split('/')[0] == self.group",
    message="group and apiVersion must name the same group",
    holds=lambda ref: (
        not ref.get("group") or not ref.get("apiVersion") or ref["apiVersion"].split("/")[0] == ref["group"]
    ),
    remedy="keep group and leave out apiVersion",
)
GROUP_STAYS = Rule(
    cel=f"{_GROUP_CEL.format('oldSelf')} in ['', {_GROUP_CEL.format('self')}]",
    message="nodeClassRef.group is immutable",
    keeps=lambda ref, before: _group(before) in ("", _group(ref)),
    remedy="make a second NodePool",
    versions=("v1",),
    kinds=("NodePool",),
)
KIND_STAYS = Rule(
    cel="!has(oldSelf.kind) || oldSelf.kind == '' || (has(self.kind) && self.kind == oldSelf.kind)",
    message="nodeClassRef.kind is immutable",
    keeps=lambda ref, before: before.get("kind", "") in ("", ref.get("kind", "")),
    remedy="make a second NodePool",
    versions=("v1",),
    kinds=("NodePool",),
)
SPEC_STAYS = Rule(
    cel="self == oldSelf",
    message="spec is immutable",
    keeps=lambda spec, before: spec == before,
    remedy="delete the NodeClaim; its NodePool creates a new one",
    versions=("v1",),
    kinds=("NodeClaim",),
)

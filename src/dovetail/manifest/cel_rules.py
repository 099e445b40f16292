"""Validation rules over several fields, each as CEL for the API server and as a Python predicate.

Both are in one `Rule`, so that they change together; the end-to-end suite compares them on a real API server. `holds`
gets the value that the rule is attached to, after its types were checked. `keeps` also gets the previous value, for
rules about updates.

Rules of Karpenter's CRDs decide as there, also where they are odd: `mykarpenter.sh/x` is in the domain `karpenter.sh`.
Rules that Karpenter does not have are `strict`, unless they are about fields that it does not have either, or about
values that its Go types cannot decode: one such object in the cluster would stop Karpenter.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.manifest.patterns import DURATION, matches
from dovetail.model.duration import parse_duration
from dovetail.model.labels import CAPACITY_TYPE, GROUP, HOSTNAME, NODEPOOL, PROVIDER_LABELS
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
    versions: tuple[str, ...] = (*BOTH, "v1alpha1")
    kinds: tuple[str, ...] = ("NodePool", "NodeClaim")
    strict: bool = False  # not in the CRD

    def schema(self) -> dict[str, str]:
        """The rule as an entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        return {**entry, "fieldPath": f".{self.at}"} if self.at else entry


def _quoted(words: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def in_domain(key: str, domain: str) -> bool:
    """Whether the CRD counts a label as one of the domain: by the end of the text before the slash, without a dot."""
    return key.partition("/")[0].endswith(domain)


def _is_decodable(text: str) -> bool:
    """Whether Go can hold the duration; other faults of the text are those of its pattern."""
    try:
        return not matches(DURATION, text) or parse_duration(text) >= 0
    except ValueError:
        return False


IN_RANGE = Rule(
    cel="self == 'Never' || duration(self) >= duration('0s')",
    message="must be shorter than 292 years",
    holds=_is_decodable,
    remedy="write Never, or a shorter duration",
    kinds=("NodePool", "NodeClaim", "KWOKNodeClass"),
)
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
    strict=True,
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
    " || self.consolidationPolicy != 'WhenUnderutilized' || self.consolidateAfter in ['Never', '0s']",
    message="consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
    at="consolidateAfter",
    holds=lambda disruption: (
        disruption.get("consolidationPolicy") != "WhenUnderutilized"
        or disruption.get("consolidateAfter", "Never") in ("Never", "0s")  # 0s is the default that v1 writes
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
    cel="!has(self.replicas) || !has(self.limits) || self.limits.size() == 0"
    " || (self.limits.size() == 1 && 'nodes' in self.limits)",
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


@dataclass(frozen=True, slots=True)
class _LabelRule:
    """A restriction of a label key: `cel` has KEY in place of the key."""

    cel: str
    message: str
    holds: Callable[[str], bool]

    def on_key(self, **more: Any) -> Rule:
        """The rule for the key of a requirement."""
        return Rule(cel=self.cel.replace("KEY", "self"), message=self.message, holds=self.holds, **more)

    def on_labels(self, **more: Any) -> Rule:
        """The rule for a map of labels."""
        cel = f"self.all(x, {self.cel.replace('KEY', 'x')})"
        return Rule(cel=cel, message=self.message, holds=lambda labels: all(map(self.holds, labels)), **more)


def _domain(domain: str, allowed: tuple[str, ...]) -> _LabelRule:
    return _LabelRule(
        f"KEY in {_quoted(allowed)} || !KEY.split('/')[0].endsWith('{domain}')",
        f'label domain "{domain}" is restricted',
        lambda key: key in allowed or not in_domain(key, domain),
    )


def _key(name: str) -> _LabelRule:
    return _LabelRule(f"KEY != '{name}'", f'label "{name}" is restricted', lambda key: key != name)


_AWS, _KWOK = (
    _domain(domain, tuple(f"{domain}/{name}" for name in sorted(names))) for domain, names in PROVIDER_LABELS.items()
)
_OF_CLAIMS = (_domain(GROUP, _ALLOWED_KEYS), _key(HOSTNAME), _AWS, _KWOK)
_OF_POOLS = (*_OF_CLAIMS, _key(NODEPOOL))  # a NodeClaim has the label of its pool
_OTHER_LABEL = "choose a label in another domain, such as example.com/team"
LABELS = tuple(
    each.on_labels(kinds=("NodePool",), remedy=_OTHER_LABEL, strict=each is _KWOK) for each in _OF_POOLS
)  # Karpenter's kwok provider restricts only requirements
KEYS_OF_POOLS = tuple(each.on_key(kinds=("NodePool",), remedy=_OTHER_LABEL) for each in _OF_POOLS)
KEYS_OF_CLAIMS = tuple(each.on_key(kinds=("NodeClaim",), remedy=_OTHER_LABEL) for each in _OF_CLAIMS)

IN_NEEDS_VALUES = Rule(
    cel="self.operator != 'In' || (has(self.values) && self.values.size() > 0)",
    message="requirements with operator 'In' must have a value defined",
    holds=lambda requirement: requirement["operator"] != "In" or bool(requirement.get("values")),
    remedy="list at least one value, or use the operator Exists",
)
BOUND_IS_AN_INTEGER = Rule(
    cel=f"!(self.operator in {_quoted(_BOUNDS)})"
    " || (has(self.values) && self.values.size() == 1 && int(self.values[0]) >= 0)",
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
    """Whether there is one value, and Go parses it as an integer of at least zero."""
    listed = list(values)
    return len(listed) == 1 and re.fullmatch(r"[+-]?[0-9]+", listed[0]) is not None and 0 <= int(listed[0]) < 1 << 63


_GROUP_CEL = "(has({0}.group) && {0}.group != '' ? {0}.group : has({0}.apiVersion) ? {0}.apiVersion.split('/')[0] : '')"


def _group(ref: Mapping[str, Any]) -> str:
    return str(ref.get("group") or ref.get("apiVersion", "").split("/")[0])


def _given(message: str, remedy: str, **more: Any) -> Rule:
    return Rule(cel="self != ''", message=message, holds=lambda text: text != "", remedy=remedy, **more)


_GROUP_REMEDY = "name the group of the node class, such as group: karpenter.kwok.sh"
GROUP_GIVEN = _given("group may not be empty", _GROUP_REMEDY, versions=("v1",))
KIND_GIVEN = _given(
    "kind may not be empty", "name the kind of the node class, such as kind: KWOKNodeClass", versions=("v1",)
)
NAME_GIVEN = _given("name may not be empty", "name the node class")
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

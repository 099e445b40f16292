"""Descriptions, limits, defaults and rules of NodePool fields, beyond what the types of the model express.

The tables are keyed by type and field, so that a new field of the model without an entry fails the generator.

What the CRD says about a field of Karpenter is what Karpenter's CRD says. `strict` has what only `validate` and the
controllers check. Limits of other fields also bound the cost of CEL rules: the API server rejects a schema whose rules
could be too expensive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.manifest import cel_rules
from dovetail.manifest.cel_rules import BOTH, Rule
from dovetail.manifest.patterns import (
    ACCEPTED_GROUP,
    ACCEPTED_SCHEDULE,
    API_VERSION,
    BUDGET_NODES,
    DELAY,
    DURATION,
    GROUP,
    KIND,
    LABEL_KEY,
    LABEL_VALUE,
    OPTIONAL_SUBDOMAIN,
    PERCENTAGE,
    QUANTITY,
    SCHEDULE,
    TAINT_VALUE,
    WINDOW,
)
from dovetail.model.budget import BudgetSpec
from dovetail.model.nodepool import (
    ActionControls,
    Disruption,
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassRef,
    NodePoolSpec,
    NodeRequirement,
    Repair,
    RepairPolicy,
    TemplateMetadata,
)
from dovetail.model.reason import VOLUNTARY
from dovetail.model.requirements import OPERATORS
from dovetail.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

Limits = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The description and constraints of one field."""

    about: str
    limits: Limits = field(default_factory=dict)  # of the value
    limits_in: Mapping[str, Limits] = field(default_factory=dict)  # by version or kind, in addition
    strict: Limits = field(default_factory=dict)  # of the value, not in the CRD
    each: Limits = field(default_factory=dict)  # of each list item or map value
    strict_each: Limits = field(default_factory=dict)  # of those, not in the CRD
    shape: type | None = None  # a type for the schema, where the model reads any mapping
    rules: tuple[Rule, ...] = ()
    required_in: tuple[str, ...] = ()  # versions
    optional_for: tuple[str, ...] = ()  # kinds, although required otherwise
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by version
    hidden: bool = False  # not part of the schema


INT32 = {"format": "int32", "minimum": -(1 << 31), "maximum": (1 << 31) - 1}
"""The limits of a 32-bit integer: the API server does not enforce the format, and Go cannot decode a greater one."""


def text(pattern: str, longest: int) -> dict[str, Any]:
    """The limits of a string."""
    return {"pattern": pattern, "maxLength": longest}


def _pattern(pattern: str) -> dict[str, Any]:
    return {"pattern": pattern}


_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_DELAY = _pattern(DELAY)
_DURATION = _pattern(DURATION)
_LONGEST_DURATION = {"maxLength": 64}
_RANGE = (cel_rules.IN_RANGE,)
LABEL_TEXT = text(LABEL_VALUE, 63)
AMOUNT = _pattern(QUANTITY)
POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
OLD_POLICIES = (*POLICIES, "WhenUnderutilized")
_USERS = ("NodePool", "NodeClaim")  # elsewhere, requirements are written by controllers

TAINT: Mapping[str, Field] = {
    "key": Field(
        about="The key of the taint.", limits={"pattern": LABEL_KEY, "minLength": 1}, strict=text(LABEL_KEY, 316)
    ),
    "value": Field(about="The value of the taint.", limits=_pattern(LABEL_KEY), strict=text(TAINT_VALUE, 63)),
    "effect": Field(
        about="What happens to pods that do not tolerate the taint.",
        limits={"enum": [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE]},
        required_in=BOTH,
    ),
    "time_added": Field(about="When the taint was added."),
}
REQUIREMENT: Mapping[str, Field] = {
    "key": Field(
        about="The label that the requirement constrains.",
        limits_in=dict.fromkeys(_USERS, text(LABEL_KEY, 316)),
        rules=(*cel_rules.KEYS_OF_POOLS, *cel_rules.KEYS_OF_CLAIMS),
    ),
    "operator": Field(
        about="How the label relates to the values.", limits_in={kind: {"enum": list(OPERATORS)} for kind in _USERS}
    ),
    "values": Field(
        about="The values; one integer for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.",
        limits=_ATOMIC,
        strict_each=LABEL_TEXT,
    ),
    "min_values": Field(
        about="How many different values must remain possible when a node is launched.",
        limits={"minimum": 1, "maximum": 50},
    ),
}
NODE_CLASS_REF: Mapping[str, Field] = {
    "kind": Field(
        about="Kind of the node class.", strict=text(KIND, 63), rules=(cel_rules.KIND_GIVEN,), required_in=("v1",)
    ),
    "name": Field(
        about="Name of the node class.",
        strict=text(OPTIONAL_SUBDOMAIN, 253),
        rules=(cel_rules.NAME_GIVEN,),
        required_in=BOTH,
    ),
    "group": Field(
        about="API group of the node class (v1).",
        limits=_pattern(ACCEPTED_GROUP),
        strict=text(GROUP, 253),
        rules=(cel_rules.GROUP_GIVEN,),
        required_in=("v1",),
    ),
    "api_version": Field(about="Group and version of the node class (v1beta1).", limits=text(API_VERSION, 317)),
}
_TAINTS = _ATOMIC
INSTANCE: Mapping[str, Field] = {
    "taints": Field(about="Taints of every node.", limits=_TAINTS),
    "startup_taints": Field(
        about="Taints that a new node has until another controller removes them; pods need not tolerate them.",
        limits=_TAINTS,
    ),
    "requirements": Field(
        about="Requirements on the nodes: instance types, zones, capacity types, architectures, any label.",
        limits={"maxItems": 100, **_ATOMIC},
        required_in=BOTH,
        defaults={"v1beta1": []},
    ),
    "node_class_ref": Field(about="The node class: the provider's part of the template.", required_in=BOTH),
    "termination_grace_period": Field(
        about="How long a drain may take before the remaining pods are deleted. Absent: no limit.",
        limits=_DURATION,
        rules=_RANGE,
    ),
    "expire_after": Field(
        about="Age at which a node is deleted, regardless of budgets and PodDisruptionBudgets. 720h, the default, does"
        " not count where disruption.expireAfter is set.",
        limits=_DELAY,
        rules=_RANGE,
        defaults={"v1": "720h", "v1beta1": "Never"},
    ),
    "kubelet": Field(
        about="Settings of the kubelet (v1beta1), used if the node class has none. v1: in the node class."
    ),
}
BUDGET: Mapping[str, Field] = {
    "nodes": Field(
        about="How many nodes may be disrupted at once: a count, or a percentage of the pool, rounded up.",
        limits=_pattern(BUDGET_NODES),
        strict=text(BUDGET_NODES, 16),
        required_in=BOTH,
        defaults=dict.fromkeys(BOTH, "10%"),
    ),
    "schedule": Field(
        about="When the budget becomes active: five cron fields or a macro such as @daily, in UTC. Needs duration.",
        limits=_pattern(ACCEPTED_SCHEDULE),
        strict=text(SCHEDULE, 256),
    ),
    "duration": Field(
        about="How long it stays active after each hit of the schedule, in hours and minutes. Needs schedule.",
        limits=_pattern(WINDOW),
        rules=_RANGE,
    ),
    "reasons": Field(
        about="The reasons it applies to. Absent: all. Not together with action.",
        limits={"maxItems": 50, "x-kubernetes-list-type": "set"},
        strict={"minItems": 1},
        each={"enum": sorted(reason.value for reason in VOLUNTARY)},
    ),
    "action": Field(
        about="The action it applies to; Consolidation is Underutilized and Empty. Absent: All. Not with reasons.",
        limits={"enum": list(cel_rules.ACTIONS), "maxLength": 32},
    ),
}
_BUDGETS = {"maxItems": 50, **_ATOMIC}
ACTION_CONTROLS: Mapping[str, Field] = {
    "disrupt_after": Field(
        about="How long to wait before this action, or Never. Absent: the value of a broader entry, or of All."
        " The longer of this and the older field applies.",
        limits={**_DELAY, **_LONGEST_DURATION},
        rules=_RANGE,
    ),
    "budgets": Field(
        about="Budgets for this action. Absent: those of a broader entry (Consolidation for Emptiness), of All, or 10%."
        " spec.disruption.budgets applies in addition, unless it is the default.",
        limits=_BUDGETS,
        rules=(cel_rules.BUDGETS_OF_ONE_ACTION,),
    ),
}
_BY_ACTION = {"maxProperties": len(cel_rules.ACTIONS)}
DISRUPTION: Mapping[str, Field] = {
    "consolidation_policy": Field(
        about="Which nodes may be consolidated. v1beta1: WhenUnderutilized is the name of WhenEmptyOrUnderutilized.",
        limits_in={"v1": {"enum": list(POLICIES)}, "v1beta1": {"enum": list(OLD_POLICIES)}},
        defaults={"v1": "WhenEmptyOrUnderutilized", "v1beta1": "WhenUnderutilized"},
    ),
    "consolidate_after": Field(
        about="How long no pod may be added to or removed from a node before it is consolidated.",
        limits=_DELAY,
        rules=_RANGE,
        defaults={"v1": "0s"},
    ),
    "consolidation_grace_period": Field(
        about="How long a node is not consolidated after a pod was added or removed. Absent or Never: off.",
        limits={**_DELAY, **_LONGEST_DURATION},
        rules=_RANGE,
    ),
    "min_savings": Field(
        about="What consolidation must save to evict pods, in percent of what as many pods cost on average; less, down"
        " to a quarter of it, the fewer of the NodePool's pods were bound within the last hour. It also leaves pods"
        " alone for two minutes after they were bound. 0%: any saving is enough. Absent: 100%, and 0% with the policy"
        " Balanced.",
        limits=text(PERCENTAGE, 5),
    ),
    "expire_after": Field(
        about="Age at which a node is replaced, within budgets, do-not-disrupt and PodDisruptionBudgets.",
        limits={**_DELAY, **_LONGEST_DURATION},
        rules=_RANGE,
        defaults={"v1beta1": "720h"},
    ),
    "budgets": Field(
        about="Limits on how many nodes are disrupted at once; the lowest applies. Empty: no limit.",
        limits=_BUDGETS,
        defaults={"v1": [{"nodes": "10%"}]},
    ),
    "action_controls": Field(
        about="Delays and budgets by action; All is the default for fields that the entry of an action leaves out.",
        limits=_BY_ACTION,
        rules=(cel_rules.KNOWN_ACTIONS,),
    ),
    "generic_per_action_controls": Field(
        about="Another name of actionControls.", limits=_BY_ACTION, rules=(cel_rules.KNOWN_ACTIONS,)
    ),
}
REPAIR: Mapping[str, Field] = {
    "policies": Field(
        about="Tolerations by condition; they take precedence over the default.", limits={"maxItems": 50, **_ATOMIC}
    ),
    "default_toleration_duration": Field(
        about="Toleration of other conditions that the provider watches. Absent: the provider's.",
        limits={**_DURATION, **_LONGEST_DURATION},
        rules=_RANGE,
    ),
}
REPAIR_POLICY: Mapping[str, Field] = {
    "condition_type": Field(about="The node condition, such as Ready.", limits=text(LABEL_KEY, 316)),
    "toleration": Field(
        about="How long the condition is tolerated before the node is forcefully replaced.",
        limits={**_DURATION, **_LONGEST_DURATION},
        rules=_RANGE,
    ),
}
NODE_POOL_SPEC: Mapping[str, Field] = {
    "template": Field(about="The template of the pool's NodeClaims.", required_in=BOTH),
    "disruption": Field(
        about="When nodes may be disrupted voluntarily.",
        defaults={
            "v1": {"consolidateAfter": "0s"},
            "v1beta1": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
        },
    ),
    "repair": Field(
        about="When unhealthy nodes are forcefully replaced. Absent: never. Empty: the provider's tolerations."
    ),
    "limits": Field(about="The maximum of each resource in the pool.", each=AMOUNT),
    "weight": Field(
        about="Pools of greater weight are tried first. Absent: 0.",
        limits={"minimum": 1, "maximum": 100, "format": "int32"},
    ),
    "replicas": Field(
        about="Keep this many nodes, independent of pending pods (static pool).",
        limits={"minimum": 0, "maximum": (1 << 31) - 1},  # the limit of the scale subresource
    ),
}
TEMPLATE: Mapping[str, Field] = {
    "metadata": Field(about="Labels and annotations of every node."),
    "spec": Field(about="The spec of every NodeClaim.", required_in=BOTH),
}
TEMPLATE_METADATA: Mapping[str, Field] = {
    "labels": Field(
        about="Labels of the nodes.",
        limits={"maxProperties": 100, "x-kubernetes-map-type": "atomic"},
        each=LABEL_TEXT,
        rules=cel_rules.LABELS,
    ),
    "annotations": Field(about="Annotations of the nodes.", limits={"x-kubernetes-map-type": "granular"}),
}

POOL_FIELDS: Mapping[type, Mapping[str, Field]] = {
    NodePoolSpec: NODE_POOL_SPEC,
    NodeClaimTemplate: TEMPLATE,
    TemplateMetadata: TEMPLATE_METADATA,
    NodeClaimTemplateSpec: INSTANCE,
    NodeClassRef: NODE_CLASS_REF,
    NodeRequirement: REQUIREMENT,
    Taint: TAINT,
    Disruption: DISRUPTION,
    ActionControls: ACTION_CONTROLS,
    BudgetSpec: BUDGET,
    Repair: REPAIR,
    RepairPolicy: REPAIR_POLICY,
}
RULES_OF_TYPE: Mapping[type, tuple[Rule, ...]] = {
    NodePoolSpec: (cel_rules.STATIC_LIMITS, cel_rules.STATIC_WEIGHT, cel_rules.STATIC_FOREVER),
    Disruption: (cel_rules.ONE_SPELLING_OF_CONTROLS, cel_rules.NO_WAIT_WHEN_UNDERUTILIZED, cel_rules.WAIT_WHEN_EMPTY),
    BudgetSpec: (cel_rules.SCHEDULE_WITH_DURATION, cel_rules.DURATION_ABOVE_ZERO, cel_rules.ACTION_OR_REASONS),
    NodeRequirement: (cel_rules.IN_NEEDS_VALUES, cel_rules.BOUND_IS_AN_INTEGER, cel_rules.ENOUGH_VALUES),
    NodeClassRef: (cel_rules.ONE_GROUP, cel_rules.GROUP_STAYS, cel_rules.KIND_STAYS),
}

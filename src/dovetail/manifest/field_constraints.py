"""Descriptions, limits, defaults and rules of NodePool fields, beyond what the types of the model express.

The tables are keyed by type and field, so that a new field of the model without an entry fails the generator. The
limits on text, lists and maps also bound the cost of CEL rules: the API server rejects a schema whose rules could be
too expensive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.manifest import cel_rules
from dovetail.manifest.cel_rules import BOTH, Rule
from dovetail.manifest.patterns import (
    API_VERSION,
    BUDGET_NODES,
    DELAY,
    DNS_SUBDOMAIN,
    DURATION,
    GROUP,
    KIND,
    LABEL_KEY,
    LABEL_VALUE,
    QUANTITY,
    SCHEDULE,
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
    each: Limits = field(default_factory=dict)  # of each list item or map value
    rules: tuple[Rule, ...] = ()
    required_in: tuple[str, ...] = ()  # versions
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by version
    hidden: bool = False  # not part of the schema


def text(pattern: str, longest: int) -> dict[str, Any]:
    """The limits of a string."""
    return {"pattern": pattern, "maxLength": longest}


_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_DELAY = text(DELAY, 64)
_DURATION = text(DURATION, 64)
LABEL_TEXT = text(LABEL_VALUE, 63)
AMOUNT = text(QUANTITY, 64)
POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced")

TAINT: Mapping[str, Field] = {
    "key": Field(about="The key of the taint.", limits=text(LABEL_KEY, 316), required_in=BOTH),
    "value": Field(about="The value of the taint.", limits=LABEL_TEXT),
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
        limits=text(LABEL_KEY, 316),
        rules=(*cel_rules.KEYS_OF_POOLS, *cel_rules.KEYS_OF_CLAIMS),
    ),
    "operator": Field(about="How the label relates to the values.", limits={"enum": list(OPERATORS)}),
    "values": Field(
        about="The values; one integer for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.",
        limits={"maxItems": 2000, **_ATOMIC},
        each=LABEL_TEXT,
    ),
    "min_values": Field(
        about="How many different values must remain possible when a node is launched.",
        limits={"minimum": 1, "maximum": 50},
    ),
}
NODE_CLASS_REF: Mapping[str, Field] = {
    "kind": Field(about="Kind of the node class.", limits=text(KIND, 63)),
    "name": Field(about="Name of the node class.", limits=text(DNS_SUBDOMAIN, 253), required_in=BOTH),
    "group": Field(about="API group of the node class (v1).", limits=text(GROUP, 253)),
    "api_version": Field(about="Group and version of the node class (v1beta1).", limits=text(API_VERSION, 317)),
}
_TAINTS = {"maxItems": 100, **_ATOMIC}
INSTANCE: Mapping[str, Field] = {
    "taints": Field(about="Taints of every node.", limits=_TAINTS),
    "startup_taints": Field(
        about="Taints that a new node has until another controller removes them; pods need not tolerate them.",
        limits=_TAINTS,
    ),
    "requirements": Field(
        about="Requirements on the nodes: instance types, zones, capacity types, architectures, any label.",
        limits={"maxItems": 100, **_ATOMIC},
    ),
    "node_class_ref": Field(about="The node class: the provider's part of the template.", required_in=BOTH),
    "termination_grace_period": Field(
        about="How long a drain may take before the remaining pods are deleted. Absent: no limit.",
        limits=_DURATION,
    ),
    "expire_after": Field(
        about="Age at which a node is deleted, regardless of budgets and PodDisruptionBudgets. Absent: 720h, unless"
        " disruption.expireAfter is set.",
        limits=_DELAY,
    ),
    "kubelet": Field(
        about="Settings of the kubelet (v1beta1), used if the node class has none. v1: in the node class."
    ),
}
BUDGET: Mapping[str, Field] = {
    "nodes": Field(
        about="How many nodes may be disrupted at once: a count, or a percentage of the pool, rounded up.",
        limits={"pattern": BUDGET_NODES, "maxLength": 16, "minimum": 0},
        defaults=dict.fromkeys(BOTH, "10%"),
    ),
    "schedule": Field(
        about="When the budget becomes active: five cron fields or a macro such as @daily, in UTC. Needs duration.",
        limits=text(SCHEDULE, 256),
    ),
    "duration": Field(
        about="How long it stays active after each hit of the schedule, in hours and minutes. Needs schedule.",
        limits=text(WINDOW, 32),
    ),
    "reasons": Field(
        about="The reasons it applies to. Absent: all. Not together with action.",
        limits={"minItems": 1, "maxItems": 50, "x-kubernetes-list-type": "set"},
        each={"enum": sorted(reason.value for reason in VOLUNTARY), "maxLength": 32},
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
        limits=_DELAY,
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
        about="Which nodes may be consolidated. WhenUnderutilized is an older name of the default.",
        limits={"enum": list(POLICIES), "maxLength": 32},
        defaults={"v1beta1": "WhenUnderutilized"},
    ),
    "consolidate_after": Field(
        about="How long no pod may be added to or removed from a node before it is consolidated. Absent: 0s.",
        limits=_DELAY,
    ),
    "consolidation_grace_period": Field(
        about="How long a node is not consolidated after a pod was added or removed. Absent or Never: off.",
        limits=_DELAY,
    ),
    "expire_after": Field(
        about="Age at which a node is replaced, within budgets, do-not-disrupt and PodDisruptionBudgets.",
        limits=_DELAY,
        defaults={"v1beta1": "720h"},
    ),
    "budgets": Field(
        about="Limits on how many nodes are disrupted at once; the lowest applies. Absent: 10%. Empty: no limit.",
        limits=_BUDGETS,
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
        about="Toleration of other conditions that the provider watches. Absent: the provider's.", limits=_DURATION
    ),
}
REPAIR_POLICY: Mapping[str, Field] = {
    "condition_type": Field(about="The node condition, such as Ready.", limits=text(LABEL_KEY, 316)),
    "toleration": Field(
        about="How long the condition is tolerated before the node is forcefully replaced.", limits=_DURATION
    ),
}
NODE_POOL_SPEC: Mapping[str, Field] = {
    "template": Field(about="The template of the pool's NodeClaims.", required_in=BOTH),
    "disruption": Field(
        about="When nodes may be disrupted voluntarily.",
        defaults={"v1beta1": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}},
    ),
    "repair": Field(
        about="When unhealthy nodes are forcefully replaced. Absent: never. Empty: the provider's tolerations."
    ),
    "limits": Field(about="The maximum of each resource in the pool.", limits={"maxProperties": 100}, each=AMOUNT),
    "weight": Field(
        about="Pools of greater weight are tried first. Absent: 0.",
        limits={"minimum": 1, "maximum": 100, "format": "int32"},
    ),
    "replicas": Field(about="Keep this many nodes, independent of pending pods (static pool).", limits={"minimum": 0}),
}
TEMPLATE: Mapping[str, Field] = {
    "metadata": Field(about="Labels and annotations of every node."),
    "spec": Field(about="The spec of every NodeClaim.", required_in=BOTH),
}
TEMPLATE_METADATA: Mapping[str, Field] = {
    "labels": Field(
        about="Labels of the nodes.", limits={"maxProperties": 100}, each=LABEL_TEXT, rules=cel_rules.LABELS
    ),
    "annotations": Field(about="Annotations of the nodes."),
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
    NodeClassRef: (
        cel_rules.GROUP_GIVEN,
        cel_rules.KIND_GIVEN,
        cel_rules.NAME_GIVEN,
        cel_rules.ONE_GROUP,
        cel_rules.GROUP_STAYS,
        cel_rules.KIND_STAYS,
    ),
}

"""What the types cannot say about a field: its description, its limits, and where each version differs.

Keyed by type and field, so that a new field of the model without an entry here fails the generator. The limits of text,
lists and maps also bound the cost of rules: the API server refuses a schema whose rules could run for ever.
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
    """What is said about one field beyond its type."""

    about: str
    limits: Limits = field(default_factory=dict)  # of the value
    each: Limits = field(default_factory=dict)  # of each item of a list, each value of a map
    rules: tuple[Rule, ...] = ()
    required_in: tuple[str, ...] = ()  # versions
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by version
    hidden: bool = False  # not part of these kinds


def text(pattern: str, longest: int) -> dict[str, Any]:
    """Limits of a text."""
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
    "time_added": Field(about="When the taint was put on."),
}
REQUIREMENT: Mapping[str, Field] = {
    "key": Field(
        about="The label the requirement is about.",
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
        about="How many different values must remain possible when a node is bought.",
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
    "taints": Field(about="Taints every node gets.", limits=_TAINTS),
    "startup_taints": Field(
        about="Taints a node has at first and that something else removes; pods are not expected to tolerate them.",
        limits=_TAINTS,
    ),
    "requirements": Field(
        about="What a node must be: instance types, zones, capacity types, architectures, any label.",
        limits={"maxItems": 100, **_ATOMIC},
    ),
    "node_class_ref": Field(about="The provider's half of the template.", required_in=BOTH),
    "termination_grace_period": Field(
        about="How long a drain may take before the rest is removed by force. Absent: as long as it takes.",
        limits=_DURATION,
    ),
    "expire_after": Field(
        about="Age at which a node is deleted, come what may. Absent: 720h, unless disruption.expireAfter is set.",
        limits=_DELAY,
    ),
    "kubelet": Field(about="Settings of the kubelet (v1beta1). Kept, not read: v1 has them in the node class."),
}
BUDGET: Mapping[str, Field] = {
    "nodes": Field(
        about="How many nodes may be away at once: a count, or a percentage of the pool, rounded up.",
        limits={"pattern": BUDGET_NODES, "maxLength": 16, "minimum": 0},
        defaults=dict.fromkeys(BOTH, "10%"),
    ),
    "schedule": Field(
        about="When the budget comes into force: five cron fields or a macro such as @daily, in UTC. Needs duration.",
        limits=text(SCHEDULE, 256),
    ),
    "duration": Field(
        about="How long it stays in force after each hit of the schedule, in hours and minutes. Needs schedule.",
        limits=text(WINDOW, 32),
    ),
    "reasons": Field(
        about="The reasons it governs. Absent: all. Not together with action.",
        limits={"minItems": 1, "maxItems": 50, "x-kubernetes-list-type": "set"},
        each={"enum": sorted(reason.value for reason in VOLUNTARY), "maxLength": 32},
    ),
    "action": Field(
        about="The action it governs; Consolidation is Underutilized and Empty. Absent: All. Not with reasons.",
        limits={"enum": list(cel_rules.ACTIONS), "maxLength": 32},
    ),
}
_BUDGETS = {"maxItems": 50, **_ATOMIC}
ACTION_CONTROLS: Mapping[str, Field] = {
    "disrupt_after": Field(
        about="How long to wait before this action is taken, or Never. Absent: that of a broader entry, or of All."
        " The longer of this and the older field counts.",
        limits=_DELAY,
    ),
    "budgets": Field(
        about="Budgets for this action. Absent: those of a broader entry (Consolidation for Emptiness), of All, or 10%."
        " spec.disruption.budgets, unless it is the default, is a ceiling besides.",
        limits=_BUDGETS,
        rules=(cel_rules.BUDGETS_OF_ONE_ACTION,),
    ),
}
_BY_ACTION = {"maxProperties": len(cel_rules.ACTIONS)}
DISRUPTION: Mapping[str, Field] = {
    "consolidation_policy": Field(
        about="Which nodes consolidation may take. WhenUnderutilized is an older name of the default.",
        limits={"enum": list(POLICIES), "maxLength": 32},
        defaults={"v1beta1": "WhenUnderutilized"},
    ),
    "consolidate_after": Field(
        about="How long a node must see no pod come or go before it may be consolidated. Absent: 0s.", limits=_DELAY
    ),
    "consolidation_grace_period": Field(
        about="How long after a pod came or went consolidation leaves the node alone. Absent or Never: off.",
        limits=_DELAY,
    ),
    "expire_after": Field(
        about="Age at which a node is replaced with care: budgets, do-not-disrupt and PodDisruptionBudgets hold.",
        limits=_DELAY,
        defaults={"v1beta1": "720h"},
    ),
    "budgets": Field(
        about="Ceilings on how many nodes are away at once; the tightest wins. Absent: 10%. Empty: no ceiling.",
        limits=_BUDGETS,
    ),
    "action_controls": Field(
        about="Waits and budgets by action; All is the default for what the entry of an action leaves out.",
        limits=_BY_ACTION,
        rules=(cel_rules.KNOWN_ACTIONS,),
    ),
    "generic_per_action_controls": Field(
        about="Another name of actionControls.", limits=_BY_ACTION, rules=(cel_rules.KNOWN_ACTIONS,)
    ),
}
REPAIR: Mapping[str, Field] = {
    "policies": Field(about="Tolerance by condition; comes before the default.", limits={"maxItems": 50, **_ATOMIC}),
    "default_toleration_duration": Field(
        about="Tolerance of any other condition the provider watches. Absent: the provider's own.", limits=_DURATION
    ),
}
REPAIR_POLICY: Mapping[str, Field] = {
    "condition_type": Field(about="The node condition, such as Ready.", limits=text(LABEL_KEY, 316)),
    "toleration": Field(about="How long it is tolerated before the node is replaced by force.", limits=_DURATION),
}
NODE_POOL_SPEC: Mapping[str, Field] = {
    "template": Field(about="What every node of the pool is made from.", required_in=BOTH),
    "disruption": Field(
        about="When nodes may be disrupted voluntarily.",
        defaults={"v1beta1": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}},
    ),
    "repair": Field(
        about="When unhealthy nodes are replaced by force. Absent: never. Empty: the provider's own tolerances."
    ),
    "limits": Field(about="The most the pool may have of each resource.", limits={"maxProperties": 100}, each=AMOUNT),
    "weight": Field(
        about="Pools of greater weight are tried first. Absent: 0.",
        limits={"minimum": 1, "maximum": 100, "format": "int32"},
    ),
    "replicas": Field(about="Keep this many nodes, whatever pods ask for (static pool).", limits={"minimum": 0}),
}
TEMPLATE: Mapping[str, Field] = {
    "metadata": Field(about="Labels and annotations every node gets."),
    "spec": Field(about="What every NodeClaim asks for.", required_in=BOTH),
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

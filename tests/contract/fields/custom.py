"""Custom resources: schema, rules, defaults, and what their status must look like."""

from typing import Any

from contract.fields.table import Changed, New, case_of
from dovetail.model.kinds import NODE_CLAIM, NODE_POOL, Kind
from dovetail.ports.cluster import Patch

CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
TAINT = {"key": "example.com/t", "effect": "NoSchedule"}
NOW = "2026-01-01T00:00:00Z"
CONDITION = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": NOW}


def pool(meta: dict[str, Any] | None = None, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    inner = {"nodeClassRef": CLASS, "requirements": [], **(template or {})}
    body = {"template": {"spec": {name: value for name, value in inner.items() if value is not None}}, **spec}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": meta or {}, "spec": body}


def budgets(*entries: dict[str, Any]) -> dict[str, Any]:
    return pool(disruption={"budgets": list(entries)})


def claim(meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    body = {"nodeClassRef": CLASS, "requirements": [], **spec}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": meta or {}, "spec": body}


def node_class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {}, "spec": spec}


def status(**parts: Any) -> Patch:
    return Patch({"status": parts}, subresource="status")


def condition(**parts: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CONDITION, **parts}.items() if value is not None}


def conditions(title: str, outcome: str, *items: dict[str, Any], kind: Kind[Any] = NODE_CLAIM) -> Changed:
    before = claim() if kind is NODE_CLAIM else pool()
    return Changed(title, before, kind, status(conditions=list(items)), outcome)


def of_claim(title: str, patch: Patch, outcome: str, **spec: Any) -> Changed:
    return Changed(title, claim(**spec), NODE_CLAIM, patch, outcome)


def of_pool(title: str, patch: Patch, outcome: str, **spec: Any) -> Changed:
    return Changed(title, pool(**spec), NODE_POOL, patch, outcome)


POOLS = (
    New("a pool", pool(), ""),
    New("a pool without a template", {**pool(), "spec": {}}, "Invalid spec.template"),
    New("a pool without a spec", {name: value for name, value in pool().items() if name != "spec"}, "Invalid spec"),
    New("a pool without a class", pool(template={"nodeClassRef": None}), "Invalid spec.template.spec.nodeClassRef"),
    New(
        "a pool without requirements", pool(template={"requirements": None}), "Invalid spec.template.spec.requirements"
    ),
    New("a number in a budget", budgets({"nodes": 5}), "Invalid spec.disruption.budgets[0].nodes"),
    New("a weight of 0", pool(weight=0), "Invalid spec.weight"),
    New("a weight above 100", pool(weight=101), "Invalid spec.weight"),
    New("a weight that is text", pool(weight="7"), "Invalid spec.weight"),
    New(
        "an odd policy",
        pool(disruption={"consolidationPolicy": "Maybe"}),
        "Invalid spec.disruption.consolidationPolicy",
    ),
    New("an odd wait", pool(disruption={"consolidateAfter": "1d"}), "Invalid spec.disruption.consolidateAfter"),
    New("an odd number of nodes", budgets({"nodes": "ten"}), "Invalid spec.disruption.budgets[0].nodes"),
    New("nodes that are negative", budgets({"nodes": -1}), "Invalid spec.disruption.budgets[0].nodes"),
    New(
        "a schedule without a duration",
        budgets({"nodes": "1", "schedule": "@daily"}),
        "Invalid spec.disruption.budgets[0]",
    ),
    New(
        "an odd schedule",
        budgets({"nodes": "1", "schedule": "often", "duration": "1h"}),
        "Invalid spec.disruption.budgets[0].schedule",
    ),
    New("a schedule that never fires", budgets({"nodes": "1", "schedule": "0 0 30 2 *", "duration": "1h"}), ""),
    New("an odd reason", budgets({"nodes": "1", "reasons": ["Why"]}), "Invalid spec.disruption.budgets[0].reasons[0]"),
    New("51 budgets", budgets(*[{"nodes": "1"}] * 51), "Invalid spec.disruption.budgets"),
    New(
        "two faults",
        pool(weight=101, disruption={"consolidateAfter": "1d"}),
        "Invalid spec.disruption.consolidateAfter spec.weight",
    ),
    New(
        "an odd operator",
        pool(template={"requirements": [{"key": "a", "operator": "Near"}]}),
        "Invalid spec.template.spec.requirements[0].operator",
    ),
    New(
        "In without values",
        pool(template={"requirements": [{"key": "a", "operator": "In"}]}),
        "Invalid spec.template.spec.requirements[0]",
    ),
    New(
        "Gt with two values",
        pool(template={"requirements": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]}),
        "Invalid spec.template.spec.requirements[0]",
    ),
    New(
        "a restricted label",
        pool(template={"requirements": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}),
        "Invalid spec.template.spec.requirements[0].key",
    ),
    New(
        "a taint without a key",
        pool(template={"taints": [{"effect": "NoSchedule"}]}),
        "Invalid spec.template.spec.taints[0].key",
    ),
    New(
        "a taint with an odd effect",
        pool(template={"taints": [{"key": "a", "effect": "Maybe"}]}),
        "Invalid spec.template.spec.taints[0].effect",
    ),
    New("a taint twice", pool(template={"taints": [TAINT, TAINT]}), ""),
    New("an odd limit", pool(limits={"cpu": "much"}), "Invalid spec.limits.cpu"),
    New("an unknown field", pool(colour="red"), ""),
    New("a name of 64 characters", pool({"name": "p" * 64}), ""),
    New("a name with capitals", pool({"name": "Pool"}), "Invalid metadata.name"),
    New("a bad label", pool({"labels": {"a": "b c"}}), "Invalid metadata.labels"),
    New("a finalizer without a domain", pool({"finalizers": ["hold"]}), ""),
    New("too many annotations", pool({"annotations": {"a": "b" * (256 * 1024)}}), "Invalid metadata.annotations"),
    New("null fields", pool(weight=None, limits=None), ""),
)
CLAIMS = (
    New("a claim", claim(), ""),
    New("a claim with a generated name", claim({"generateName": "default-"}), ""),
    New("a claim of 64 characters", claim({"name": "c" * 64}), ""),
    New("a claim without a class", {**claim(), "spec": {"requirements": []}}, "Invalid spec.nodeClassRef"),
    New("a claim with an odd expiration", claim(expireAfter="1d"), "Invalid spec.expireAfter"),
    New("a claim with a negative request", claim(resources={"requests": {"cpu": "-1"}}), ""),
    New(
        "a claim with an odd request",
        claim(resources={"requests": {"cpu": "much"}}),
        "Invalid spec.resources.requests.cpu",
    ),
    New("a claim with a taint twice", claim(taints=[TAINT], startupTaints=[TAINT]), ""),
    New("a claim with a bad label", claim({"labels": {"a": "b c"}}), "Invalid metadata.labels"),
    New(
        "a claim with a bad owner",
        claim({"ownerReferences": [{"name": "a"}]}),
        "Invalid metadata.ownerReferences.apiVersion metadata.ownerReferences.kind metadata.ownerReferences.uid",
    ),
    New("a class", node_class(), ""),
    New("a class with a delay", node_class(nodeRegistrationDelay="5s"), ""),
    New("a class with an odd delay", node_class(nodeRegistrationDelay="soon"), "Invalid spec.nodeRegistrationDelay"),
)
CHANGES = (
    of_claim("another class", Patch({"spec": {"nodeClassRef": {"name": "other"}}}), "Invalid spec"),
    of_claim("a taint", Patch({"spec": {"taints": [TAINT]}}), "Invalid spec"),
    of_claim("another expiration", Patch({"spec": {"expireAfter": "1h"}}), "Invalid spec"),
    of_claim("the same expiration", Patch({"spec": {"expireAfter": "1h"}}), "", expireAfter="1h"),
    of_claim("no expiration any more", Patch({"spec": {"expireAfter": None}}), "Invalid spec", expireAfter="1h"),
    of_claim("no spec", Patch({"spec": None}), "Invalid spec"),
    of_claim("an unknown field of a claim", Patch({"spec": {"colour": "red"}}), ""),
    of_claim("a label of a claim", Patch({"metadata": {"labels": {"a": "b"}}}), ""),
    of_claim("a bad label of a claim", Patch({"metadata": {"labels": {"a": "b c"}}}), "Invalid metadata.labels"),
    of_claim("a label that is a number", Patch({"metadata": {"labels": {"a": 7}}}), "Invalid patch"),
    of_pool("a weight", Patch({"spec": {"weight": 7}}), ""),
    of_pool("a weight above 100", Patch({"spec": {"weight": 101}}), "Invalid spec.weight"),
    of_pool("a static pool", Patch({"spec": {"replicas": 1}}), "Invalid spec"),
    of_pool("more replicas", Patch({"spec": {"replicas": 2}}), "", replicas=1),
    of_pool(
        "another group",
        Patch({"spec": {"template": {"spec": {"nodeClassRef": {"group": "a.b"}}}}}),
        "Invalid spec.template.spec.nodeClassRef",
    ),
    of_pool("another class of a pool", Patch({"spec": {"template": {"spec": {"nodeClassRef": {"name": "b"}}}}}), ""),
    of_pool("a number of nodes", status(nodes=3), ""),
    of_pool("a negative number of nodes", status(nodes=-1), "Invalid status.nodes"),
    of_pool("nodes that are text", status(nodes="3"), "Invalid status.nodes"),
    of_pool("resources of a pool", status(resources={"cpu": "4"}), ""),
    of_pool("odd resources of a pool", status(resources={"cpu": "much"}), "Invalid status.resources.cpu"),
    of_claim("a provider id", status(providerID="kwok://a"), ""),
    of_claim("a provider id that is a number", status(providerID=7), "Invalid status.providerID"),
    of_claim("an unknown field of the status", status(colour="red"), ""),
    of_claim("a spec by the status", Patch({"spec": {"expireAfter": "1h"}}, subresource="status"), ""),
    of_claim("a capacity", status(capacity={"cpu": "4"}), ""),
    of_claim("an odd capacity", status(capacity={"cpu": "much"}), "Invalid status.capacity.cpu"),
    of_claim("a pod event that is no time", status(lastPodEventTime="yesterday"), "Invalid status.lastPodEventTime"),
)
CONDITIONS = (
    conditions("a condition", "", CONDITION),
    conditions("two conditions", "", CONDITION, condition(type="Launched")),
    conditions("a condition twice", "Invalid status.conditions[1]", CONDITION, CONDITION),
    conditions("a condition without a type", "Invalid status.conditions[0].type", condition(type=None)),
    conditions("a condition without a status", "Invalid status.conditions[0].status", condition(status=None)),
    conditions("a condition without a reason", "", condition(reason=None)),
    conditions("a condition without a message", "", condition(message=None)),
    conditions(
        "a condition without a time",
        "Invalid status.conditions[0].lastTransitionTime",
        condition(lastTransitionTime=None),
    ),
    conditions("a condition with an odd status", "Invalid status.conditions[0].status", condition(status="Maybe")),
    conditions("a condition with an odd type", "Invalid status.conditions[0].type", condition(type="a b")),
    conditions(
        "a condition with an odd time",
        "Invalid status.conditions[0].lastTransitionTime",
        condition(lastTransitionTime="yesterday"),
    ),
    conditions(
        "a condition with a long message", "Invalid status.conditions[0].message", condition(message="a" * 32769)
    ),
    conditions("a condition with a long reason", "Invalid status.conditions[0].reason", condition(reason="a" * 1025)),
    conditions(
        "a condition of a negative generation",
        "Invalid status.conditions[0].observedGeneration",
        condition(observedGeneration=-1),
    ),
    conditions(
        "an empty condition",
        "Invalid status.conditions[0].lastTransitionTime status.conditions[0].status status.conditions[0].type",
        {},
    ),
    conditions(
        "one bad condition of two",
        "Invalid status.conditions[1].status",
        CONDITION,
        condition(type="Launched", status="Maybe"),
    ),
    conditions(
        "a bad condition of a pool", "Invalid status.conditions[0].status", condition(status="Maybe"), kind=NODE_POOL
    ),
    conditions("a condition of a pool", "", CONDITION, kind=NODE_POOL),
)
CASES = (
    case_of("pools_are_held_to_their_schema", POOLS),
    case_of("claims_and_classes_are_held_to_their_schema", CLAIMS),
    case_of("custom_resources_change_only_where_they_may", CHANGES),
    case_of("one_bad_condition_refuses_the_whole_status", CONDITIONS),
)

"""Manifests that must be accepted, and manifests that must be refused, each with the words of the refusal.

`validate` and the API server are both held against this list. Where a CRD cannot say what is wrong, or accepts it
because Karpenter's does, `server_accepts` says so: those are the known differences, and there are no others.
"""

from copy import deepcopy
from typing import Any, NamedTuple


class Case(NamedTuple):
    """One manifest and what is expected of it."""

    name: str
    document: dict[str, Any]
    fault: str = ""  # empty: accepted
    server_accepts: bool = False  # although `validate` refuses: what no CRD can say, or Karpenter's does not say
    server_refuses: bool = False  # although `validate` accepts it, with a warning

    def __str__(self):
        return self.name


KWOK_REF = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
KWOK_REF_BETA = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "name": "default"}


def pool(version="v1", template=None, metadata=None, **spec):
    """The smallest valid NodePool with these parts of its spec."""
    ref = KWOK_REF if version == "v1" else KWOK_REF_BETA
    made = {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"nodeClassRef": ref, "requirements": [], **(template or {})}}, **spec},
    }
    if metadata is not None:
        made["spec"]["template"]["metadata"] = metadata
    return deepcopy(made)


def disrupted(version="v1", **disruption):
    """A NodePool with this disruption block."""
    return pool(version, disruption=disruption)


def budgeted(*budgets, version="v1"):
    """A NodePool with these budgets."""
    return disrupted(version, budgets=list(budgets))


def required(key, operator, *values, **more):
    """A NodePool with this one requirement."""
    entry = {"key": key, "operator": operator, **more}
    return pool(template={"requirements": [{**entry, "values": list(values)} if values else entry]})


def claim(version="v1", **spec):
    """The smallest valid NodeClaim with these parts of its spec."""
    ref = KWOK_REF if version == "v1" else KWOK_REF_BETA
    return deepcopy(
        {
            "apiVersion": f"karpenter.sh/{version}",
            "kind": "NodeClaim",
            "metadata": {"name": "default-x7k2p"},
            "spec": {"nodeClassRef": ref, "requirements": [], **spec},
        }
    )


def node_class(**spec):
    """A KWOKNodeClass."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def named(document, name):
    """The document under another name."""
    return {**document, "metadata": {"name": name}}


FORM = "does not have the expected form"
CHOICE = "is not one of the allowed values"
ZERO = "longer than zero"
TOGETHER = "'schedule' must be set with 'duration'"
TAINT = {"key": "example.com/t", "effect": "NoSchedule"}


def window(schedule="@daily", duration="1h", **more):
    """A budget with a window."""
    return {"nodes": "0", "schedule": schedule, "duration": duration, **more}


def _each(name, make, values, fault="", **more):
    return [Case(f"{name} {value!r}", make(value), fault, **more) for value in values]


DELAYS = [
    *_each("consolidateAfter", lambda v: disrupted(consolidateAfter=v), ["30s", "1h30m5s", "Never", "0s"]),
    *_each(
        "consolidateAfter", lambda v: disrupted(consolidateAfter=v), ["-1s", "1hr", "FooNever", "", "30", "1d"], FORM
    ),
    *_each("grace period", lambda v: disrupted(consolidationGracePeriod=v), ["30m", "Never"]),
    *_each("grace period", lambda v: disrupted(consolidationGracePeriod=v), ["-30m", "never"], FORM),
    *_each("minSavings", lambda v: disrupted(minSavings=v), ["60", "-10%", "12.5%", "10000%", ""], FORM),
    *_each("soft expireAfter", lambda v: disrupted(expireAfter=v), ["720h", "Never"]),
    *_each("soft expireAfter", lambda v: disrupted(expireAfter=v), ["30d", "x Never"], FORM),
    *_each("hard expireAfter", lambda v: pool(template={"expireAfter": v}), ["720h", "Never", "0s"]),
    *_each("hard expireAfter", lambda v: pool(template={"expireAfter": v}), ["1w", "Never!"], FORM),
    *_each("terminationGracePeriod", lambda v: pool(template={"terminationGracePeriod": v}), ["48h", "0s"]),
    *_each("terminationGracePeriod", lambda v: pool(template={"terminationGracePeriod": v}), ["Never", "1d"], FORM),
    Case("consolidateAfter as number", disrupted(consolidateAfter=30), "must be text"),
    Case("too long", disrupted(consolidateAfter="99999999999h"), "shorter than 292 years"),
    Case("expiration too long", pool(template={"expireAfter": "99999999999h"}), "shorter than 292 years"),
    Case("taint of no instant", pool(template={"taints": [{**TAINT, "timeAdded": "2024-01-01t00:00:00z"}]}), FORM),
]

POLICIES = [
    *_each(
        "policy",
        lambda v: disrupted(consolidationPolicy=v, consolidateAfter="0s"),
        ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"],
    ),
    Case("policy of v1beta1", disrupted(consolidationPolicy="WhenUnderutilized"), CHOICE),
    *_each("policy", lambda v: disrupted(consolidationPolicy=v), ["", "whenempty", "Always"], CHOICE),
    Case("policy as number", disrupted(consolidationPolicy=1), "must be text"),
    Case(
        "v1beta1 waits when underutilized",
        disrupted("v1beta1", consolidationPolicy="WhenUnderutilized", consolidateAfter="30s"),
        "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
    ),
    Case(
        "v1beta1 waits under the default policy",
        disrupted("v1beta1", consolidateAfter="30s"),
        "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
    ),
    Case(
        "v1beta1 never consolidates",
        disrupted("v1beta1", consolidationPolicy="WhenUnderutilized", consolidateAfter="Never"),
    ),
    Case("v1beta1 waits when empty", disrupted("v1beta1", consolidationPolicy="WhenEmpty", consolidateAfter="30s")),
    Case(
        "v1beta1 does not wait when empty",
        disrupted("v1beta1", consolidationPolicy="WhenEmpty"),
        "consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
    ),
    Case("v1 does not wait when empty", disrupted(consolidationPolicy="WhenEmpty")),
]

BUDGETS = [
    *_each("nodes", lambda v: budgeted({"nodes": v}), ["10%", "0%", "100%", "0", "5"]),
    *_each("nodes", lambda v: budgeted({"nodes": v}), [5, -1, 1.5, True], "must be text"),
    *_each("v1beta1 nodes", lambda v: budgeted({"nodes": v}, version="v1beta1"), [5, 0], server_refuses=True),
    Case("v1beta1 nodes below zero", budgeted({"nodes": -1}, version="v1beta1"), FORM),
    *_each("nodes", lambda v: budgeted({"nodes": v}), ["101%", "-1", "10 %", "5.5%", "ten", ""], FORM),
    Case("nodes left out", budgeted({"reasons": ["Empty"]})),
    Case("no budgets", budgeted()),
    Case("50 budgets", budgeted(*[{"nodes": "1"}] * 50)),
    Case("51 budgets", budgeted(*[{"nodes": "1"}] * 51), "at most 50"),
    *_each("duration", lambda v: budgeted(window(duration=v)), ["2h20m", "10h5m0s", "90m", "8h"]),
    *_each(
        "duration", lambda v: budgeted(window(duration=v)), ["0m", "00h", "0h0m", "0m0s"], ZERO, server_accepts=True
    ),
    *_each("duration", lambda v: budgeted(window(duration=v)), ["1m", "0h1m", "10m0s", "01h"]),
    *_each("duration", lambda v: budgeted(window(duration=v)), ["30s", "5m10h", "-20m", "Never", "1d"], FORM),
    *_each(
        "schedule",
        lambda v: budgeted(window(v)),
        [
            *("@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"),
            *("* * * * *", "0 9 * * mon-fri", "*/15 0-6,20-23 1,15 JAN-jun ?", "00 09 1/2 */3 0", "5 4 31 1 6"),
        ],
    ),
    *_each(
        "schedule",
        lambda v: budgeted(window(v)),
        ["*", "* * * *", "* * * * ", "@wrongly", "@every 5m", ""],
        FORM,
    ),
    *_each(
        "schedule",
        lambda v: budgeted(window(v)),
        [
            *("@dailyxyz", "0 0 9 * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 13 *"),
            *("0 0 * * 7", "0 0 * * sunday", "*/0 * * * *", "TZ=UTC 0 0 * * *", "a b c d e"),
        ],
        FORM,
        server_accepts=True,
    ),
    *_each(
        "schedule",
        lambda v: budgeted(window(v)),
        ["0 0 * * tue-mon", "9-5 * * * *"],
        "is after its",
        server_accepts=True,
    ),
    *_each(
        "schedule", lambda v: budgeted(window(v)), ["0 0 30 2 *", "0 0 31 4,6 *"], "never fires", server_accepts=True
    ),
    Case("schedule alone", budgeted({"nodes": "1", "schedule": "@daily"}), TOGETHER),
    Case("duration alone", budgeted({"nodes": "1", "duration": "1h"}), TOGETHER),
    Case("one good, one bad", budgeted(window(), {"nodes": "1", "duration": "1h"}), TOGETHER),
    *_each("reasons", lambda v: budgeted({"reasons": [v]}), ["Underutilized", "Empty", "Drifted", "Expired"]),
    *_each("reasons", lambda v: budgeted({"reasons": [v]}), ["expired", "", "Unhealthy"], CHOICE),
    Case("reasons twice", budgeted({"reasons": ["Empty", "Empty"]}), "is listed twice"),
    Case("reasons empty", budgeted({"reasons": []}), "at least 1", server_accepts=True),
    *_each("action", lambda v: budgeted({"action": v}), ["All", "Consolidation", "Drift", "Expiration", "Emptiness"]),
    *_each("action", lambda v: budgeted({"action": v}), ["", "drift", "Repair"], CHOICE),
    Case("action and reasons", budgeted({"action": "Drift", "reasons": ["Drifted"]}), "cannot be combined"),
]

_CONTROLS = {"Drift": {"disruptAfter": "1h", "budgets": [{"nodes": "1"}]}, "Expiration": {"disruptAfter": "Never"}}
CONTROLS = [
    Case("actionControls", disrupted(actionControls=_CONTROLS)),
    Case("genericPerActionControls", disrupted("v1beta1", genericPerActionControls=_CONTROLS)),
    Case(
        "both spellings of controls",
        disrupted(actionControls=_CONTROLS, genericPerActionControls=_CONTROLS),
        "'actionControls' and 'genericPerActionControls' are aliases",
    ),
    Case("unknown action", disrupted(actionControls={"drift": {}}), "actions are All, Consolidation"),
    Case("bad disruptAfter", disrupted(actionControls={"Drift": {"disruptAfter": "soon"}}), FORM),
    Case("half a window", disrupted(actionControls={"Drift": {"budgets": [{"schedule": "@daily"}]}}), TOGETHER),
    Case(
        "budget of another action",
        disrupted(actionControls={"Drift": {"budgets": [{"action": "Emptiness"}]}}),
        "leave out 'action' and 'reasons'",
    ),
]

REPAIR = [
    Case("repair off", pool()),
    Case("repair by the provider", pool(repair={})),
    Case("repair", pool(repair={"policies": [{"conditionType": "Ready", "toleration": "45m"}]})),
    Case("repair without condition", pool(repair={"policies": [{"toleration": "45m"}]}), "is required"),
    Case("repair without toleration", pool(repair={"policies": [{"conditionType": "Ready"}]}), "is required"),
    Case("repair never", pool(repair={"defaultTolerationDuration": "Never"}), FORM),
]

STATIC = [
    Case("static", pool(replicas=3, limits={"nodes": 5})),
    Case("static, none", pool(replicas=0)),
    Case("static below zero", pool(replicas=-1), "must be at least 0"),
    Case("static with cpu limit", pool(replicas=1, limits={"cpu": 5}), "only 'limits.nodes' is supported on static"),
    Case("static with weight", pool(replicas=1, weight=5), "'weight' is not supported on static NodePools"),
    *_each("weight", lambda v: pool(weight=v), [1, 100]),
    *_each("weight", lambda v: pool(weight=v), [0, 101, -5], "must be at"),
    Case("weight as text", pool(weight="10"), "must be a whole number"),
    Case("weight is null", pool(weight=None)),
    *_each("limits", lambda v: pool(limits={"cpu": v}), ["1000", 1000, "1k", "500m", "1.5", "64Gi"]),
    *_each("limits", lambda v: pool(limits={"cpu": v}), ["1 000", "many", "10GB"], FORM),
    Case("limits as a fraction", pool(limits={"cpu": 0.5}), "must be a whole number or text"),
]

REQUIREMENTS = [
    Case("no requirements", pool(template={"requirements": None}), "is required"),
    Case("no requirements in v1beta1", pool("v1beta1", template={"requirements": None})),
    Case("In", required("example.com/a", "In", "x")),
    Case("In without values", required("example.com/a", "In"), "operator 'In' must have a value defined"),
    Case("Exists", required("example.com/a", "Exists")),
    Case("DoesNotExist", required("example.com/a", "DoesNotExist")),
    *_each("bound", lambda v: required("example.com/a", v, "4"), ["Gt", "Lt", "Gte", "Lte"]),
    *_each(
        "bound value",
        lambda v: required("example.com/a", "Gt", *v),
        [["1", "2"], ["x"], []],
        "a single positive integer",
    ),
    Case("bound below zero", required("example.com/a", "Lt", "-1"), "a single positive integer"),
    Case("unknown operator", required("example.com/a", "Equals", "x"), CHOICE),
    Case("minValues", required("example.com/a", "In", "x", "y", minValues=2)),
    Case(
        "minValues too many", required("example.com/a", "In", "x", minValues=2), "must have at least that many values"
    ),
    Case("minValues 0", required("example.com/a", "Exists", minValues=0), "must be at least 1"),
    Case("minValues 51", required("example.com/a", "Exists", minValues=51), "must be at most 50"),
    Case("value with space", required("example.com/a", "In", "x y"), FORM, server_accepts=True),
    Case("bound with a sign", required("example.com/a", "Gt", "+4"), FORM, server_accepts=True),
    Case("key without name", required("example.com/", "Exists"), FORM),
    Case("capacity type", required("karpenter.sh/capacity-type", "In", "spot", "on-demand", "reserved")),
    Case(
        "no capacity type",
        required("karpenter.sh/capacity-type", "In", "Spot"),
        "names no capacity type",
        server_accepts=True,
    ),
    *_each(
        "restricted",
        lambda v: required(v, "Exists"),
        ["karpenter.sh/nodepool", "kubernetes.io/hostname", "karpenter.sh/x", "x.karpenter.sh/x", "mykarpenter.sh/x"],
        "is restricted",
    ),
    *_each(
        "provider's",
        lambda v: required(v, "Exists"),
        ["karpenter.k8s.aws/instance-size", "karpenter.kwok.sh/instance-size"],
    ),
    *_each(
        "not the provider's",
        lambda v: required(v, "Exists"),
        ["karpenter.k8s.aws/instance-sise", "karpenter.kwok.sh/x"],
        "label domain",
    ),
    Case(
        "101 requirements",
        pool(template={"requirements": [{"key": "a", "operator": "Exists"}] * 101}),
        "at most 100",
    ),
]

_LONG = "x" * 64
TEMPLATES = [
    Case("labels", pool(metadata={"labels": {"example.com/team": "a", "b": ""}, "annotations": {"c": "any thing"}})),
    Case("label as truth", pool(metadata={"labels": {"a": True}}), "must be text"),
    Case("label too long", pool(metadata={"labels": {"a": _LONG}}), "at most 63"),
    Case("label is null", pool(metadata={"labels": {"a": None}})),
    Case("label key with space", pool(metadata={"labels": {"a b": "c"}}), "is not a valid key", server_accepts=True),
    Case("capacity type label", pool(metadata={"labels": {"karpenter.sh/capacity-type": "spot"}})),
    *_each(
        "restricted label",
        lambda v: pool(metadata={"labels": {v: "y"}}),
        ["karpenter.sh/x", "karpenter.sh/nodepool", "kubernetes.io/hostname"],
        "is restricted",
    ),
    Case("label of AWS", pool(metadata={"labels": {"karpenter.k8s.aws/x": "y"}}), "label domain"),
    Case("label of kwok", pool(metadata={"labels": {"karpenter.kwok.sh/x": "y"}}), "label domain", server_accepts=True),
    Case("taints", pool(template={"taints": [TAINT, {**TAINT, "effect": "NoExecute", "value": "x"}]})),
    Case("taint with empty value", pool(template={"taints": [{**TAINT, "value": ""}]}), FORM),
    Case("taint with a path", pool(template={"taints": [{**TAINT, "value": "a/b"}]}), FORM, server_accepts=True),
    Case(
        "taint twice",
        pool(template={"taints": [TAINT, TAINT]}),
        "has the key and effect of an earlier",
        server_accepts=True,
    ),
    Case(
        "taint and startup taint",
        pool(template={"taints": [TAINT], "startupTaints": [TAINT]}),
        "has the key and effect of an earlier",
        server_accepts=True,
    ),
    Case("taint without effect", pool(template={"taints": [{"key": "a"}]}), "is required"),
    Case("taint effect", pool(template={"taints": [{"key": "a", "effect": "Never"}]}), CHOICE),
    Case("taints null", pool(template={"taints": None})),
    Case("taints as mapping", pool(template={"taints": {}}), "must be a list"),
    Case("kubelet", pool("v1beta1", template={"kubelet": {"maxPods": 20, "evictionHard": {"memory.available": "5%"}}})),
]

REFERENCES = [
    Case("no node class", pool(template={"nodeClassRef": None}), "is required"),
    Case("no name", pool(template={"nodeClassRef": {**KWOK_REF, "name": None}}), "is required"),
    Case("empty name", pool(template={"nodeClassRef": {**KWOK_REF, "name": ""}}), "name may not be empty"),
    Case("v1 without group", pool(template={"nodeClassRef": {**KWOK_REF, "group": None}}), "is required"),
    Case("v1 with empty group", pool(template={"nodeClassRef": {**KWOK_REF, "group": ""}}), "group may not be empty"),
    Case("v1 without kind", pool(template={"nodeClassRef": {**KWOK_REF, "kind": None}}), "is required"),
    Case("v1 with empty kind", pool(template={"nodeClassRef": {**KWOK_REF, "kind": ""}}), "kind may not be empty"),
    Case("odd kind", pool(template={"nodeClassRef": {**KWOK_REF, "kind": "a b"}}), FORM, server_accepts=True),
    Case("group with version", pool(template={"nodeClassRef": {**KWOK_REF, "group": "a.b/v1"}}), FORM),
    Case("v1 with apiVersion", pool(template={"nodeClassRef": KWOK_REF_BETA}), "is required"),
    Case("v1 with both", pool(template={"nodeClassRef": {**KWOK_REF_BETA, **KWOK_REF}})),
    Case("v1beta1 with group", pool("v1beta1", template={"nodeClassRef": KWOK_REF})),
    Case("v1beta1 by name", pool("v1beta1", template={"nodeClassRef": {"name": "default"}})),
    Case("two groups", pool(template={"nodeClassRef": {**KWOK_REF_BETA, "group": "a.b"}}), "must name the same group"),
]

OTHERS = [
    Case("claim", claim(taints=[TAINT], resources={"requests": {"cpu": "1", "memory": "1Gi"}}, expireAfter="720h")),
    Case("claim of v1beta1", claim("v1beta1")),
    Case("claim of a pool", claim(requirements=[{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}])),
    Case(
        "claim on karpenter.sh",
        claim(requirements=[{"key": "karpenter.sh/x", "operator": "Exists"}]),
        'label domain "karpenter.sh" is restricted',
    ),
    Case("claim with bad amount", claim(resources={"requests": {"cpu": "lots"}}), FORM),
    Case("node class", node_class(nodeRegistrationDelay="30s")),
    Case("node class, empty", node_class()),
    Case("node class in no time", node_class(nodeRegistrationDelay="Never"), FORM),
    Case("no template", {**pool(), "spec": {}}, "is required"),
    Case("no spec", {key: value for key, value in pool().items() if key != "spec"}, "is required"),
    Case("long name", named(pool(), "x" * 64), "at most 63", server_accepts=True),
    Case("bad name", named(pool(), "Default_Pool"), "is not a valid name"),
]

CASES = [
    *DELAYS,
    *POLICIES,
    *BUDGETS,
    *CONTROLS,
    *REPAIR,
    *STATIC,
    *REQUIREMENTS,
    *TEMPLATES,
    *REFERENCES,
    *OTHERS,
]

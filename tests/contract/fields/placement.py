"""Where pods may run: tolerations, topology spread, affinity; and the taints and capacity of nodes."""

from typing import Any

from contract.fields.documents import node, pod
from contract.fields.table import New, case_of

HOST = "kubernetes.io/hostname"
REQUIRED_NODES = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PREFERRED_NODES = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
NEAR = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
AWAY = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
PREFERRED_NEAR = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
SPREAD = "spec.topologySpreadConstraints[0]"


def tolerating(**toleration: Any) -> dict[str, Any]:
    return pod(tolerations=[toleration])


def spread(**parts: Any) -> dict[str, Any]:
    whole = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", **parts}
    return pod(topologySpreadConstraints=[{name: value for name, value in whole.items() if value is not None}])


def near(term: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    return pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def preferred(weight: int, term: dict[str, Any]) -> dict[str, Any]:
    weighted = {"weight": weight, "podAffinityTerm": term}
    return pod(affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}})


def on_nodes(*expressions: dict[str, Any], field: str = "matchExpressions") -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{field: list(expressions)}]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def selecting(*expressions: dict[str, Any]) -> dict[str, Any]:
    return near({"topologyKey": HOST, "labelSelector": {"matchExpressions": list(expressions)}})


TOLERATIONS = (
    New("a toleration", tolerating(key="a", operator="Equal", value="b", effect="NoSchedule"), ""),
    New("tolerating everything", tolerating(operator="Exists"), ""),
    New("no key and no operator", tolerating(value="b"), "Invalid spec.tolerations[0].operator"),
    New("an empty toleration", tolerating(), "Invalid spec.tolerations[0].operator"),
    New("a bad key of a toleration", tolerating(key="a b", operator="Exists"), "Invalid spec.tolerations[0].key"),
    New(
        "a value with Exists", tolerating(key="a", operator="Exists", value="b"), "Invalid spec.tolerations[0].operator"
    ),
    New("a bad value of a toleration", tolerating(key="a", value="b c"), "Invalid spec.tolerations[0].operator"),
    New("an operator that is none", tolerating(key="a", operator="In"), "Invalid spec.tolerations[0].operator"),
    New("a comparison", tolerating(key="a", operator="Gt", value="5"), "Invalid spec.tolerations[0].operator"),
    New(
        "an effect that is none",
        tolerating(key="a", operator="Exists", effect="Maybe"),
        "Invalid spec.tolerations[0].effect",
    ),
    New("seconds with NoExecute", tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=5), ""),
    New(
        "seconds with NoSchedule",
        tolerating(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
        "Invalid spec.tolerations[0].effect",
    ),
    New(
        "seconds with every effect",
        tolerating(key="a", operator="Exists", tolerationSeconds=5),
        "Invalid spec.tolerations[0].effect",
    ),
    New("negative seconds", tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=-5), ""),
    New("the same toleration twice", pod(tolerations=[{"key": "a", "operator": "Exists"}] * 2), ""),
)
SPREADS = (
    New("a spread", spread(), ""),
    New("a skew of 0", spread(maxSkew=0), f"Invalid {SPREAD}.maxSkew"),
    New("a negative skew", spread(maxSkew=-1), f"Invalid {SPREAD}.maxSkew"),
    New("no topology key", spread(topologyKey=None), f"Invalid {SPREAD}.topologyKey"),
    New("a bad topology key", spread(topologyKey="a b"), ""),
    New(
        "no rule when it cannot be",
        spread(whenUnsatisfiable=None),
        f"Invalid {SPREAD}.whenUnsatisfiable",
    ),
    New(
        "an odd rule when it cannot be",
        spread(whenUnsatisfiable="Maybe"),
        f"Invalid {SPREAD}.whenUnsatisfiable",
    ),
    New("two domains at least", spread(minDomains=2), ""),
    New("no domains at least", spread(minDomains=0), f"Invalid {SPREAD}.minDomains"),
    New(
        "domains where it may be anyway",
        spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
        f"Invalid {SPREAD}.minDomains",
    ),
    New(
        "an odd policy on taints",
        spread(nodeTaintsPolicy="Maybe"),
        f"Invalid {SPREAD}.nodeTaintsPolicy",
    ),
    New(
        "an odd policy on affinity",
        spread(nodeAffinityPolicy="Maybe"),
        f"Invalid {SPREAD}.nodeAffinityPolicy",
    ),
    New(
        "a bad selector of a spread",
        spread(labelSelector={"matchLabels": {"a": "b c"}}),
        f"Invalid {SPREAD}.labelSelector.matchLabels",
    ),
    New(
        "label keys without a selector",
        spread(matchLabelKeys=["a"]),
        f"Invalid {SPREAD}.matchLabelKeys",
    ),
    New("label keys", spread(matchLabelKeys=["a"], labelSelector={"matchLabels": {"b": "c"}}), ""),
    New("label keys of the selector", spread(matchLabelKeys=["b"], labelSelector={"matchLabels": {"b": "c"}}), ""),
    New(
        "the same spread twice",
        pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}] * 2),
        f"Invalid {SPREAD}.{{topologyKey, whenUnsatisfiable}}",
    ),
)
AFFINITIES = (
    New("near pods", near({"topologyKey": HOST, "labelSelector": {}}), ""),
    New(
        "near pods without a topology key",
        near({"labelSelector": {}}),
        f"Invalid {NEAR}.topologyKey",
    ),
    New(
        "near pods by a bad topology key",
        near({"topologyKey": "a b"}),
        f"Invalid {NEAR}.topologyKey",
    ),
    New(
        "away from pods without a topology key",
        near({}, "podAntiAffinity"),
        f"Invalid {AWAY}.topologyKey",
    ),
    New(
        "a namespace with dots",
        near({"topologyKey": HOST, "namespaces": ["a.b"]}),
        f"Invalid {NEAR}.namespace",
    ),
    New(
        "a weight of 0",
        preferred(0, {"topologyKey": HOST}),
        f"Invalid {PREFERRED_NEAR}.weight",
    ),
    New(
        "a weight of 101",
        preferred(101, {"topologyKey": HOST}),
        f"Invalid {PREFERRED_NEAR}.weight",
    ),
    New(
        "a preference without a topology key",
        preferred(1, {}),
        f"Invalid {PREFERRED_NEAR}.podAffinityTerm.topologyKey",
    ),
    New("on nodes", on_nodes({"key": "a", "operator": "In", "values": ["b"]}), ""),
    New(
        "on nodes by no terms",
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
        f"Invalid {REQUIRED_NODES}",
    ),
    New(
        "In without values",
        on_nodes({"key": "a", "operator": "In"}),
        f"Invalid {REQUIRED_NODES}[0].matchExpressions[0].values",
    ),
    New(
        "Exists with values",
        on_nodes({"key": "a", "operator": "Exists", "values": ["b"]}),
        f"Invalid {REQUIRED_NODES}[0].matchExpressions[0].values",
    ),
    New(
        "Gt with two values",
        on_nodes({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
        f"Invalid {REQUIRED_NODES}[0].matchExpressions[0].values",
    ),
    New("Gt with a word", on_nodes({"key": "a", "operator": "Gt", "values": ["b"]}), ""),
    New("Gt with a number", on_nodes({"key": "a", "operator": "Gt", "values": ["1"]}), ""),
    New(
        "an odd operator on nodes",
        on_nodes({"key": "a", "operator": "Near", "values": ["b"]}),
        f"Invalid {REQUIRED_NODES}[0].matchExpressions[0].operator",
    ),
    New(
        "a bad key on nodes",
        on_nodes({"key": "a b", "operator": "Exists"}),
        f"Invalid {REQUIRED_NODES}[0].matchExpressions[0].key",
    ),
    New(
        "a bad value on nodes",
        on_nodes({"key": "a", "operator": "In", "values": ["b c"]}),
        f"Invalid {REQUIRED_NODES}[0].matchExpressions[0].values[0]",
    ),
    New(
        "a node by name", on_nodes({"key": "metadata.name", "operator": "In", "values": ["b"]}, field="matchFields"), ""
    ),
    New(
        "a node by two names",
        on_nodes({"key": "metadata.name", "operator": "In", "values": ["b", "c"]}, field="matchFields"),
        f"Invalid {REQUIRED_NODES}[0].matchFields[0].values",
    ),
    New(
        "a node by another field",
        on_nodes({"key": "spec.x", "operator": "In", "values": ["b"]}, field="matchFields"),
        f"Invalid {REQUIRED_NODES}[0].matchFields[0].key",
    ),
    New(
        "a node preference of weight 0",
        pod(
            affinity={
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}
            }
        ),
        f"Invalid {PREFERRED_NODES}.weight",
    ),
    New(
        "pods selected In without values",
        selecting({"key": "a", "operator": "In"}),
        f"Invalid {NEAR}.labelSelector.matchExpressions[0].values",
    ),
    New(
        "pods selected NotIn without values",
        selecting({"key": "a", "operator": "NotIn", "values": []}),
        f"Invalid {NEAR}.labelSelector.matchExpressions[0].values",
    ),
    New(
        "pods selected Exists with values",
        selecting({"key": "a", "operator": "Exists", "values": ["b"]}),
        f"Invalid {NEAR}.labelSelector.matchExpressions[0].values",
    ),
    New(
        "pods selected Gt",
        selecting({"key": "a", "operator": "Gt", "values": ["1"]}),
        f"Invalid {NEAR}.labelSelector.matchExpressions[0].operator",
    ),
    New(
        "pods selected by a bad key",
        selecting({"key": "a b", "operator": "Exists"}),
        f"Invalid {NEAR}.labelSelector.matchExpressions[0].key",
    ),
    New(
        "pods selected by a bad value",
        selecting({"key": "a", "operator": "In", "values": ["b c"]}),
        f"Invalid {NEAR}.labelSelector.matchExpressions[0].values[0]",
    ),
    New(
        "pods selected by a bad label",
        near({"topologyKey": HOST, "labelSelector": {"matchLabels": {"a b": "c d"}}}),
        f"Invalid {NEAR}.labelSelector.matchLabels",
    ),
)
NODES = (
    New("a taint", node(taints=[{"key": "a", "effect": "NoSchedule"}]), ""),
    New("a taint with a value", node(taints=[{"key": "a.b/c", "value": "d", "effect": "NoExecute"}]), ""),
    New("a taint without a key", node(taints=[{"effect": "NoSchedule"}]), "Invalid metadata.taints[0].key"),
    New(
        "a taint with a bad key",
        node(taints=[{"key": "a b", "effect": "NoSchedule"}]),
        "Invalid metadata.taints[0].key",
    ),
    New(
        "a taint with a bad value",
        node(taints=[{"key": "a", "value": "b c", "effect": "NoSchedule"}]),
        "Invalid metadata.taints[0].value",
    ),
    New("a taint without an effect", node(taints=[{"key": "a"}]), "Invalid metadata.taints[0].effect"),
    New(
        "a taint with an odd effect",
        node(taints=[{"key": "a", "effect": "Maybe"}]),
        "Invalid metadata.taints[0].effect",
    ),
    New(
        "a taint twice",
        node(taints=[{"key": "a", "effect": "NoSchedule", "value": each} for each in "bc"]),
        "Invalid metadata.taints[1]",
    ),
    New(
        "a taint with two effects",
        node(taints=[{"key": "a", "effect": each} for each in ("NoSchedule", "NoExecute")]),
        "",
    ),
    New(
        "taints and labels that are bad",
        node({"labels": {"a": "b c"}}, taints=[{"key": "a"}]),
        "Invalid metadata.labels metadata.taints[0].effect",
    ),
    New("a provider id", node(providerID="kwok://a"), ""),
    New("unschedulable", node(unschedulable=True), ""),
    New("a capacity that is none", {**node(), "status": {"capacity": {"cpu": "much"}}}, "Invalid"),
    New(
        "a negative capacity",
        {**node(), "status": {"capacity": {"cpu": "-1"}}},
        "Invalid status.allocatable.cpu status.capacity.cpu",
    ),
    New(
        "half an extended capacity",
        {**node(), "status": {"capacity": {"example.com/gpu": "500m"}}},
        "Invalid status.allocatable.example.com/gpu status.capacity.example.com/gpu",
    ),
)
CASES = (
    case_of("tolerations_are_checked", TOLERATIONS),
    case_of("topology_spreads_are_checked", SPREADS),
    case_of("affinities_are_checked", AFFINITIES),
    case_of("nodes_are_checked", NODES),
)

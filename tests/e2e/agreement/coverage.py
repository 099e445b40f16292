"""Which features of scheduling the pods of the cases use, and how many pods use each."""

from collections import Counter

from e2e.agreement.disks import CLAIMS
from e2e.agreement.words import GPU, HOSTNAME, ZONE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEYS = {HOSTNAME: "hostname", ZONE: "zone"}
EXPECTED = (
    *(f"node affinity: {operator}" for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    *("node selector", "node affinity: several terms", "node affinity: empty term"),
    *("toleration: Equal", "toleration: Exists", "cordoned node", "bound pod", "finished pod"),
    *(f"taint: {effect}" for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")),
    *("init container", "sidecar", "overhead", "pod-level resources", "extended resource", "priority"),
    *("host port", "host port: one address", "host port: sidecar"),
    *(f"volume: {claim}" for claim in (*CLAIMS, "missing", "ephemeral")),
    *("volume: several", "attach limit"),
    *(
        f"{kind}: {key}"
        for kind in ("affinity", "anti-affinity", "spread")
        for key in ("hostname", "zone", "other key")
    ),
    *(
        f"{kind}: {part}"
        for kind in ("affinity", "anti-affinity")
        for part in ("namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys", "no selector", "several")
    ),
    *("bound pod's anti-affinity", "spread: minDomains", "spread: matchLabelKeys", "spread: several"),
    *(f"spread: node{part}Policy {policy}" for part in ("Affinity", "Taints") for policy in ("Honor", "Ignore")),
)


class Coverage:
    """Pods (for features of nodes: nodes) by feature."""

    def __init__(self):
        self.counts = Counter()

    def count(self, case):
        for pod in case.waiting:
            self.counts.update(set(features(pod)))
        for node in case.nodes:
            self.counts.update({f"taint: {taint['effect']}" for taint in node["spec"]["taints"]})
            self.counts.update(["cordoned node"] if node["spec"].get("unschedulable") else [])
        for pod in case.bound_pods:
            self.counts["finished pod" if pod["metadata"]["name"] in case.ended else "bound pod"] += 1
            self.counts.update({"bound pod's anti-affinity"} if _terms(pod, "podAntiAffinity") else [])
        self.counts["attach limit"] += sum(path.endswith("csinodes") for path, _ in case.storage)

    @property
    def missing(self):
        return [feature for feature in EXPECTED if not self.counts[feature]]

    def __str__(self):
        return "\n".join(f"{count:5}  {feature}" for feature, count in sorted(self.counts.items()))


def features(pod):
    spec = pod["spec"]
    yield from _containers(spec)
    yield from _nodes(spec)
    yield from _topology(pod, "affinity", "podAffinity")
    yield from _topology(pod, "anti-affinity", "podAntiAffinity")
    yield from _spreads(spec["topologySpreadConstraints"])
    for volume in spec["volumes"]:
        yield "volume: ephemeral" if "ephemeral" in volume else f"volume: {volume['name']}"
    if len(spec["volumes"]) > 1:
        yield "volume: several"


def _containers(spec):
    inits = spec.get("initContainers", [])
    sidecars = [each for each in inits if each.get("restartPolicy")]
    ports = [port for each in (*spec["containers"], *sidecars) for port in each.get("ports", [])]
    found = {
        "init container": len(inits) > len(sidecars),
        "sidecar": bool(sidecars),
        "overhead": "runtimeClassName" in spec,
        "pod-level resources": "resources" in spec,
        "extended resource": GPU in spec["containers"][0]["resources"]["requests"],
        "priority": "priorityClassName" in spec,
        "host port": bool(ports),
        "host port: one address": any(port.get("hostIP", "").startswith("10.") for port in ports),
        "host port: sidecar": any("ports" in each for each in sidecars),
    }
    return (feature for feature, used in found.items() if used)


def _nodes(spec):
    if spec["nodeSelector"]:
        yield "node selector"
    affinity = spec["affinity"].get("nodeAffinity")
    terms = affinity[REQUIRED]["nodeSelectorTerms"] if affinity else []
    if len(terms) > 1:
        yield "node affinity: several terms"
    if {} in terms:
        yield "node affinity: empty term"
    for term in terms:
        yield from (f"node affinity: {each['operator']}" for each in term.get("matchExpressions", ()))
    yield from (f"toleration: {each.get('operator', 'Equal')}" for each in spec["tolerations"])


def _terms(pod, side):
    return pod["spec"]["affinity"].get(side, {}).get(REQUIRED, [])


def _topology(pod, name, side):
    terms = _terms(pod, side)
    if len(terms) > 1:
        yield f"{name}: several"
    for term in terms:
        yield f"{name}: {KEYS.get(term['topologyKey'], 'other key')}"
        for part in ("namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"):
            if part in term:
                yield f"{name}: {part}"
        if "labelSelector" not in term:
            yield f"{name}: no selector"


def _spreads(spreads):
    if len(spreads) > 1:
        yield "spread: several"
    for each in spreads:
        yield f"spread: {KEYS.get(each['topologyKey'], 'other key')}"
        yield f"spread: nodeAffinityPolicy {each['nodeAffinityPolicy']}"
        yield f"spread: nodeTaintsPolicy {each['nodeTaintsPolicy']}"
        yield from (f"spread: {part}" for part in ("minDomains", "matchLabelKeys") if part in each)

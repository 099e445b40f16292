"""Look at an answer as a whole, not at how it came about: is any hard constraint broken?

Written without the reference solver's rules, over labels, taints and amounts as they are on the wire.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import NodeSelectorRequirement, Pod, PodSpec, spec_requests
from dovetail.model.resources import Resources, add, shortfall
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import PREFER_NO_SCHEDULE, Taint, untolerated
from properties.agreement import Outcome
from reference.clusters import Case
from reference.selection import term_selects
from reference.wish import required_far

OLD_ZONE, ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
EVERY_ADDRESS = {"", "::"}


def violations(case: Case, outcome: Outcome) -> list[str]:
    """Everything that is wrong with the answer."""
    return [*_of_rooms(case, outcome), *_of_drafts(case, outcome), *_of_anti_affinity(case, outcome)]


def _of_rooms(case: Case, outcome: Outcome) -> Iterator[str]:
    for node in case.snapshot.nodes:
        placed = [pod for pod in case.pods if outcome.place_by_pod[pod.key] == f"room {node.name}"]
        if not placed:
            continue
        if node.deleting or node.vanished:
            yield f"{node.name} is going, and takes pods"
        staying = [pod for pod in _staying(case, node) if not pod.terminal]
        nominated = [pod for pod in case.snapshot.unbound_pods if pod.status.nominated_node_name == node.name]
        short = shortfall(_together([*staying, *placed, *nominated]), node.allocatable)
        if short:
            yield f"{node.name} is overfilled with {short}"
        yield from _of_ports(node.name, placed, staying)
        for pod in placed:
            yield from _of_pod_on_node(pod, node)


def _staying(case: Case, node: ClusterNode) -> list[Pod]:
    asked = {pod.key for pod in case.pods}
    return [pod for pod in node.pods if pod.key not in asked]


def _together(pods: Sequence[Pod]) -> Resources:
    return add(*(spec_requests(pod.spec) for pod in pods))


def _of_pod_on_node(pod: Pod, node: ClusterNode) -> Iterator[str]:
    taint = _untolerated(pod, node.taints)
    if taint is not None:
        yield f"{pod.key} does not tolerate {taint} of {node.name}"
    if node.node is not None and node.node.spec.unschedulable:
        cordon = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
        if untolerated(pod.spec.tolerations, [cordon]) is not None:
            yield f"{pod.key} is on {node.name}, which is cordoned"
    if node.launched and not _selects(pod.spec, dict(node.labels)):
        yield f"{pod.key} does not select {node.name}"


def _untolerated(pod: Pod, taints: Sequence[Taint]) -> Taint | None:
    return untolerated(pod.spec.tolerations, [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE])


def _selects(spec: PodSpec, labels: dict[str, str]) -> bool:
    labels.setdefault(OLD_ZONE, labels.get(ZONE, "no zone"))
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(
        term.match_expressions and all(_holds(each, labels) for each in term.match_expressions)
        for term in required.node_selector_terms
    )


def _holds(expression: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None:
        return False
    difference = int(value) - int(expression.values[0])
    return {"Gt": difference > 0, "Gte": difference >= 0, "Lt": difference < 0, "Lte": difference <= 0}[
        expression.operator
    ]


def _of_ports(where: str, placed: list[Pod], staying: list[Pod]) -> Iterator[str]:
    pairs = [*combinations(placed, 2), *((one, other) for one in placed for other in staying)]
    for one, other in pairs:
        for a in _ports(one):
            for b in _ports(other):
                if a[1:] == b[1:] and (a[0] == b[0] or {a[0], b[0]} & EVERY_ADDRESS):
                    yield f"{one.key} and {other.key} both want port {a} of {where}"


def _ports(pod: Pod) -> list[tuple[str, int, str]]:
    ports = [port for container in pod.spec.containers for port in container.ports]
    return [(port.host_ip, port.host_port, port.protocol) for port in ports if port.host_port]


def _of_drafts(case: Case, outcome: Outcome) -> Iterator[str]:
    pool_by_name = {pool.name: pool for pool in case.pools}
    pod_by_key = {pod.key: pod for pod in case.pods}
    for number, draft in enumerate(outcome.drafts):
        pods = [pod_by_key[key] for key in draft.pods]
        if not pods or not draft.types:
            yield f"draft {number} has {len(pods)} pods and {len(draft.types)} types"
        for each in case.snapshot.catalogs[draft.pool]:
            if each.name in draft.types and (short := shortfall(_together(pods), each.allocatable)):
                yield f"draft {number} as {each.name} is overfilled with {short}"
            if each.name in draft.types and each.cheapest(draft.requirements, case.snapshot.well_known) is None:
                yield f"draft {number} cannot be bought as {each.name}"
        yield from _of_ports(f"draft {number}", pods, [])
        for pod in pods:
            if (taint := _untolerated(pod, pool_by_name[draft.pool].spec.template.spec.taints)) is not None:
                yield f"{pod.key} does not tolerate {taint} of {draft.pool}"


def _of_anti_affinity(case: Case, outcome: Outcome) -> Iterator[str]:
    """No two pods of which one was placed now share a domain that either's required anti-affinity forbids."""
    asked = {pod.key for pod in case.pods}
    homes = list(_homes(case, outcome))
    for (one, here), (other, there) in combinations(homes, 2):
        if one.key not in asked and other.key not in asked:
            continue
        for owner, selected in ((one, other), (other, one)):
            for term in required_far(owner):
                same = here.get(term.topology_key, "here") == there.get(term.topology_key, "there")
                if same and term_selects(term, owner, selected, case.snapshot):
                    yield f"{owner.key} wants {selected.key} in another {term.topology_key}"


def _homes(case: Case, outcome: Outcome) -> Iterator[tuple[Pod, dict[str, str]]]:
    """Every pod that counts, with the labels its home is sure to have."""
    placed = {pod.key: pod for pod in case.pods}
    for node in case.snapshot.nodes:
        labels = {**node.labels, HOSTNAME: f"room {node.name}"} if node.launched else {HOSTNAME: f"room {node.name}"}
        if not node.deleting and not node.vanished and not (node.node is not None and node.node.deleting):
            yield from ((pod, labels) for pod in _staying(case, node) if pod.active)
        yield from ((pod, labels) for key, pod in placed.items() if outcome.place_by_pod[key] == f"room {node.name}")
    for number, draft in enumerate(outcome.drafts):
        labels = {**draft.requirements.labels(), HOSTNAME: f"draft {number}"}
        yield from ((placed[key], labels) for key in draft.pods)

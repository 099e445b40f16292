"""Which features of scheduling a random cluster exercises, so that tests can show that none is left out."""

from collections.abc import Iterator

from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.pod import NodeSelectorRequirement, Pod, PodAffinityTerm
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import PREFER_NO_SCHEDULE
from reference.chance.dice import DRIVER, GPU
from reference.clusters import Case
from reference.daemons import spec_of
from reference.run import disrupted
from reference.volumes import claims_by_driver
from reference.wish import full_wish, required_far, required_near

TOPOLOGY_NAMES = {HOSTNAME: "hostname", ZONE: "zone", "karpenter.sh/capacity-type": "capacity type"}


def features(case: Case) -> set[str]:
    """The names of everything the case uses."""
    found: set[str] = set()
    for pod in case.pods:
        found |= {*_of_containers(pod), *_of_node_rules(pod), *_of_pod_rules(pod), *_of_volumes(case, pod)}
        found |= set(_of_state(pod))
    return found | {*_of_pools(case), *_of_catalog(case), *_of_nodes(case), *_of_cluster(case), *_of_daemon_sets(case)}


def _of_containers(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    if any(each.restart_policy is None for each in spec.init_containers):
        yield "pod: init container"
    if any(each.restart_policy == "Always" for each in spec.init_containers):
        yield "pod: sidecar"
    if spec.overhead:
        yield "pod: overhead"
    if spec.resources is not None:
        yield "pod: pod-level resources"
    if any(GPU in each.resources.requests for each in spec.containers):
        yield "pod: extended resource"
    if any(port.host_port for each in spec.containers for port in each.ports):
        yield "pod: host port"
    if any(port.host_ip not in {"", "::"} for each in spec.containers for port in each.ports):
        yield "pod: host port of one address"
    if spec.priority:
        yield "pod: priority"
    if any(
        amount.nano % 1_000_000 or (name == "memory" and amount.nano % 1_000_000_000) for name, amount in _amounts(pod)
    ):
        yield "pod: odd amounts"


def _amounts(pod: Pod) -> Iterator[tuple[str, Quantity]]:
    return (each for container in pod.spec.containers for each in container.resources.requests.items())


def _of_state(pod: Pod) -> Iterator[str]:
    if pod.node_name:
        yield "pod: displaced"
    if pod.node_name and pod.deleting:
        yield "pod: displaced while leaving"


def _of_node_rules(pod: Pod) -> Iterator[str]:
    if pod.spec.node_selector:
        yield "node rule: selector"
    if any(key.startswith("failure-domain.beta") for key in pod.spec.node_selector):
        yield "node rule: old spelling of a label"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    if len(terms) > 1:
        yield "node rule: several alternatives"
    if any(not term.match_expressions for term in terms):
        yield "node rule: empty term"
    for term in terms:
        yield from (f"node rule: {each.operator}" for each in term.match_expressions)
    if affinity is not None and affinity.preferred_during_scheduling_ignored_during_execution:
        yield "preference: node affinity"
    yield from (f"toleration: {each.operator or 'Equal'}" for each in pod.spec.tolerations)


def _of_pod_rules(pod: Pod) -> Iterator[str]:
    wish = full_wish(pod)
    yield from _of_terms("affinity", required_near(pod))
    yield from _of_terms("anti-affinity", required_far(pod))
    if wish.preferred_near:
        yield "preference: affinity"
    if wish.preferred_far:
        yield "preference: anti-affinity"
    for each in wish.spreads:
        yield f"spread: {each.when_unsatisfiable}"
        yield f"spread: over {TOPOLOGY_NAMES.get(each.topology_key, 'a custom label')}"
        yield f"spread: nodeAffinityPolicy {each.node_affinity_policy}"
        yield f"spread: nodeTaintsPolicy {each.node_taints_policy}"
        if each.min_domains is not None:
            yield "spread: minDomains"
        if each.match_label_keys:
            yield "spread: matchLabelKeys"
    if len(wish.spreads) > 1:
        yield "spread: several constraints"


def _of_terms(name: str, terms: tuple[PodAffinityTerm, ...]) -> Iterator[str]:
    for term in terms:
        yield f"{name}: over {TOPOLOGY_NAMES.get(term.topology_key, 'a custom label')}"
        if term.namespaces:
            yield f"{name}: namespaces"
        if term.namespace_selector is not None:
            yield f"{name}: namespaceSelector"
        if term.match_label_keys:
            yield f"{name}: matchLabelKeys"
        if term.mismatch_label_keys:
            yield f"{name}: mismatchLabelKeys"
    if len(terms) > 1:
        yield f"{name}: several terms"


def _of_volumes(case: Case, pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            yield "volume: ephemeral"
        if volume.persistent_volume_claim is not None:
            yield f"volume: {volume.persistent_volume_claim.claim_name} claim"
    claims = [each for each in pod.spec.volumes if each.persistent_volume_claim is not None]
    if len(claims) > 1:
        yield "volume: several claims"
    if claims and case.snapshot.storage.attach_limits:
        yield "volume: attach limit"


def _of_requirement(where: str, requirement: NodeSelectorRequirement) -> Iterator[str]:
    yield f"{where}: {requirement.operator}"
    if requirement.min_values is not None:
        yield f"{where}: minValues"


def _of_pools(case: Case) -> Iterator[str]:
    for pool in case.pools:
        template = pool.spec.template
        for requirement in template.spec.requirements:
            yield from _of_requirement("pool", requirement)
        yield from (f"pool: {taint.effect} taint" for taint in template.spec.taints)
        if template.spec.startup_taints:
            yield "pool: startup taint"
        if template.metadata.labels:
            yield "pool: labels"
        if pool.weight:
            yield "pool: weight"
        yield from (f"pool: limit of {name}" for name in pool.spec.limits)
    if len(case.pools) > 1:
        yield "pool: several"


def _of_catalog(case: Case) -> Iterator[str]:
    catalogs = case.snapshot.catalogs.values()
    offerings = [offering for types in catalogs for each in types for offering in each.offerings]
    yield from (f"offering: {each.capacity_type}" for each in offerings if each.available)
    if not all(each.available for each in offerings):
        yield "offering: unavailable"


def _of_nodes(case: Case) -> Iterator[str]:
    for node in case.snapshot.nodes:
        yield from _stage(node)
        if node.node is not None and node.node.spec.unschedulable:
            yield "node: cordoned"
        if any(taint.effect == PREFER_NO_SCHEDULE for taint in node.taints):
            yield "node: PreferNoSchedule taint"
        if _over_volume_limit(case, node):
            yield "node: over a volume limit"


def _stage(node: ClusterNode) -> Iterator[str]:
    if node.vanished:
        yield "node: vanished"
    elif node.deleting or (node.node is not None and node.node.deleting):
        yield "node: claim deleted" if node.deleting else "node: node deleted"
    elif disrupted(node):
        yield "node: disrupted"
    elif not node.managed:
        yield "node: unmanaged"
    elif node.node is None:
        yield "node: launched claim" if node.launched else "node: unlaunched claim"
    elif not node.initialized:
        yield "node: registered, not initialised"


def _over_volume_limit(case: Case, node: ClusterNode) -> bool:
    storage = case.snapshot.storage
    limit = storage.attach_limits.get(node.name, {}).get(DRIVER)
    present = claims_by_driver((pod for pod in node.pods if not pod.terminal), storage)
    return limit is not None and len(present.get(DRIVER, ())) > limit


def _of_bound_pod(pod: Pod) -> Iterator[str]:
    if pod.terminal:
        yield "bound pod: finished"
    elif pod.deleting:
        yield "bound pod: leaving"
    if pod.daemon:
        yield "bound pod: of a DaemonSet"
    if pod.mirror:
        yield "bound pod: static"
    if pod.active and required_far(pod):
        yield "bound pod: with anti-affinity"


def _of_cluster(case: Case) -> Iterator[str]:
    for node in case.snapshot.nodes:
        for pod in node.pods:
            yield from _of_bound_pod(pod)
    mounted = [
        each for pod in case.pods for each in set().union(*claims_by_driver([pod], case.snapshot.storage).values())
    ]
    if len(mounted) > len(set(mounted)):
        yield "volume: shared claim"
    if any(pod.status.nominated_node_name for pod in case.snapshot.unbound_pods):
        yield "pod: nominated"
    if not case.respect_preferences:
        yield "preference: ignored"


def _of_daemon_sets(case: Case) -> Iterator[str]:
    for each in case.snapshot.daemon_sets:
        yield "daemon set: any"
        template = each.spec.template.spec
        if spec_of(each, case.snapshot) is not template:
            yield "daemon set: with live pods"
        if any(container.resources.limits for container in template.containers):
            yield "daemon set: limits without requests"
        if any(port.host_port for container in template.containers for port in container.ports):
            yield "daemon set: host port"
        if template.affinity.node_affinity.required_during_scheduling_ignored_during_execution:
            yield "daemon set: only on some nodes"

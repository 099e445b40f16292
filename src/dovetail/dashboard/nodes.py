"""JSON documents of nodes: the tiles of the cluster view, the cluster summary, and the details of one node.

`NodeSummaries` keeps the facts of each node from one snapshot to the next: a node that is the identical object is not
summarized again. Labels and annotations are shown only for known domains, because others may contain secrets.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from dovetail.core.disruption.candidates import node_price
from dovetail.core.explain.missing_catalogs import missing_catalogs
from dovetail.core.lifecycle.registration import stage_of
from dovetail.model import instants
from dovetail.model.catalog import InstanceType
from dovetail.model.command import read_record
from dovetail.model.do_not_disrupt import protection
from dovetail.model.kube_object import Condition
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.snapshot import ClusterNode, Snapshot

Plain = dict[str, Any]
NO_TYPES: Mapping[str, InstanceType] = {}


def state_of(each: ClusterNode) -> str:
    """The lifecycle stage of a node; of ready ones, `Disrupting` in a disruption command, `Cordoned` if cordoned."""
    stage = stage_of(each)
    if stage != "Ready":
        return stage
    if each.claim is not None and read_record(each.claim) is not None:
        return "Disrupting"
    return "Cordoned" if each.node is not None and each.node.spec.unschedulable else stage


def price_of(each: ClusterNode, snapshot: Snapshot) -> float:
    """The price of a node per hour, as the planner computes it."""
    types = snapshot.types_by_pool.get(each.nodepool_name, NO_TYPES)
    return node_price(each, types.get(each.labels.get(INSTANCE_TYPE, "")))


def amount(name: str, amounts: Resources) -> float:
    """The amount of a resource (cores, bytes or pods) as a number."""
    found = amounts.get(name)
    return 0.0 if found is None else round(found.number, 3)


def stamp(instant: datetime | None) -> str | None:
    """An instant as RFC 3339 text."""
    return None if instant is None else instants.stamp(instant)


class NodeSummaries:
    """Builds the tiles of successive snapshots; reuses the facts of unchanged nodes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ClusterNode, Plain]] = {}

    def of(self, snapshot: Snapshot, waits: Mapping[str, Plain]) -> dict[str, Plain]:
        """A tile for each node, by name. `waits` has what each node waits for."""
        known: dict[str, tuple[ClusterNode, Plain]] = {}
        tiles: dict[str, Plain] = {}
        for each in snapshot.nodes:
            before = self._known.get(each.name)
            facts = before[1] if before is not None and before[0] is each else _facts(each)
            known[each.name] = (each, facts)
            price = round(price_of(each, snapshot), 6)  # no instance is free: 0 is unknown
            tiles[each.name] = {**facts, "price": price, **waits.get(each.name, {})}
        self._known = known
        return tiles


def _facts(each: ClusterNode) -> Plain:
    labels, owner = each.labels, each.claim or each.node
    assert owner is not None
    running = [pod for pod in each.pods if not pod.terminal]
    return {
        "name": each.name,
        "pool": each.nodepool_name,
        "type": labels.get(INSTANCE_TYPE, ""),
        "capacity": labels.get(CAPACITY_TYPE, ""),
        "zone": labels.get(ZONE, ""),
        "state": state_of(each),
        "managed": each.managed,
        "created": stamp(owner.metadata.creation_timestamp),
        "cpu": [amount(CPU, each.requested), amount(CPU, each.allocatable)],
        "memory": [amount(MEMORY, each.requested), amount(MEMORY, each.allocatable)],
        "pods": [len(running), int(amount(PODS, each.allocatable))],
    }


def planned_in(plan: Mapping[str, Any]) -> Plain:
    """The totals of a plan."""
    return {
        "commands": len(plan["commands"]),
        "nodes": sum(len(each["nodes"]) for each in plan["commands"]),
        "savingPerMonth": plan["savingPerMonth"],
        "unpricedNodes": plan["unpricedNodes"],
        "at": plan["at"],
    }


def sums_of(tiles: Iterable[Plain]) -> Plain:
    """The totals of some tiles: nodes, pods, and cost and requests of the managed nodes."""
    found = list(tiles)
    managed = [tile for tile in found if tile["managed"]]
    return {
        "nodes": len(found),
        "pods": sum(tile["pods"][0] for tile in found),
        "costPerHour": round(sum(tile["price"] for tile in managed), 6),
        "unpricedNodes": sum(not tile["price"] for tile in managed),  # not in the cost
        **{key: [round(sum(tile[key][part] for tile in managed), 3) for part in (0, 1)] for key in ("cpu", "memory")},
    }


def summary_of(snapshot: Snapshot, tiles: Collection[Plain]) -> Plain:
    """The totals of the cluster, by state and by NodePool."""
    states: dict[str, int] = {}
    pools: dict[str, Plain] = {
        name: {"name": name, "nodes": 0, "costPerHour": 0.0} for name in sorted(snapshot.nodepools)
    }
    for tile in tiles:
        states[tile["state"]] = states.get(tile["state"], 0) + 1
        if tile["managed"]:
            pool = pools.setdefault(tile["pool"], {"name": tile["pool"], "nodes": 0, "costPerHour": 0.0})
            pool["nodes"] += 1
            pool["costPerHour"] = round(pool["costPerHour"] + tile["price"], 6)
    pending = [pod for pod in snapshot.unbound_pods if not pod.terminal]
    return {
        "at": stamp(snapshot.at),
        **sums_of(tiles),
        "states": states,
        "pending": len(pending),
        "pools": [pool for pool in pools.values() if pool["name"]],
        "paused": snapshot.pause,
        "missingCatalogs": [
            {"nodepools": list(each.nodepools), "message": str(each)} for each in missing_catalogs(snapshot)
        ],
    }


DOMAINS = ("karpenter.sh", "kubernetes.io", "k8s.io", "k8s.aws", "dovetail.sh", "kwok.sh")
"""Domains whose labels and annotations are shown; others may contain secrets."""
HIDDEN_KEYS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


def is_shown(key: str) -> bool:
    """Whether a label or annotation is of a known domain, and is not hidden."""
    domain = key.partition("/")[0] if "/" in key else ""
    return key not in HIDDEN_KEYS and any(domain == each or domain.endswith("." + each) for each in DOMAINS)


def node_details(each: ClusterNode, snapshot: Snapshot) -> Plain:
    """The details of a node, and its pods."""
    claim, node = each.claim, each.node
    owner = claim or node
    assert owner is not None
    annotations = {**(claim.metadata.annotations if claim else {}), **(node.metadata.annotations if node else {})}
    return {
        "node": each.name,
        "nodeClaim": claim.name if claim is not None else None,
        "nodepool": each.nodepool_name,
        "state": state_of(each),
        "createdAt": stamp(owner.metadata.creation_timestamp),
        "pricePerHour": round(price_of(each, snapshot), 6),
        "providerID": (node.provider_id if node is not None else "")
        or (claim.provider_id if claim is not None else ""),
        "labels": {key: value for key, value in sorted(each.labels.items()) if is_shown(key)},
        "annotations": {key: value for key, value in sorted(annotations.items()) if is_shown(key)},
        "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in (node.spec.taints if node else ())],
        "allocatable": {name: str(size) for name, size in sorted(each.allocatable.items())},
        "requested": {name: str(size) for name, size in sorted(each.requested.items())},
        "conditions": [
            *(_condition("NodeClaim", one) for one in (claim.status.conditions if claim else ())),
            *(_condition("Node", one) for one in (node.status.conditions if node else ())),
        ],
        "pods": [_pod(pod, snapshot) for pod in sorted(each.pods, key=lambda pod: pod.key)],
    }


def _condition(of: str, condition: Condition) -> Plain:
    return {
        "of": of,
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "since": stamp(condition.last_transition_time),
    }


def _pod(pod: Pod, snapshot: Snapshot) -> Plain:
    requests = spec_requests(pod.spec)
    protected = protection(pod, snapshot.at)
    return {
        "pod": str(pod.key),
        "phase": pod.status.phase,
        "deleting": pod.deleting,
        "daemon": pod.daemon,
        "cpu": amount(CPU, requests),
        "memory": amount(MEMORY, requests),
        "createdAt": stamp(pod.metadata.creation_timestamp),
        "protected": protected.active,
        "protectedUntil": stamp(protected.until) if protected.active else None,
    }

"""One node as the cluster view shows it: what it is, what it costs, how full it is, how far it has come.

What it waits for is handed in; nothing here decides anything.

One node in full: its conditions, taints, labels and pods. Nothing secret is read; only known domains are shown.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from dovetail.core.disruption.candidates import node_price
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
    """How far a node has come; one that a command has marked is told apart."""
    stage = stage_of(each)
    marked = each.claim is not None and read_record(each.claim) is not None
    return "Disrupting" if stage == "Ready" and marked else stage


def price_of(each: ClusterNode, snapshot: Snapshot) -> float:
    """What a node costs an hour, as the planner counts it."""
    types = snapshot.types_by_pool.get(each.nodepool_name, NO_TYPES)
    return node_price(each, types.get(each.labels.get(INSTANCE_TYPE, "")))


def amount(name: str, amounts: Resources) -> float:
    """Cores, bytes or pods as a number."""
    found = amounts.get(name)
    return 0.0 if found is None else round(found.number, 3)


def stamp(instant: datetime | None) -> str | None:
    """An instant for scripts."""
    return None if instant is None else instants.stamp(instant)


class NodeSummaries:
    """Tiles of one snapshot after the other; a node that is the very same object is not looked at again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ClusterNode, Plain]] = {}

    def of(self, snapshot: Snapshot, said: Mapping[str, Plain]) -> dict[str, Plain]:
        """A tile for every node, by name. `said`: what each waits for."""
        known: dict[str, tuple[ClusterNode, Plain]] = {}
        tiles: dict[str, Plain] = {}
        for each in snapshot.nodes:
            before = self._known.get(each.name)
            facts = before[1] if before is not None and before[0] is each else _facts(each)
            known[each.name] = (each, facts)
            price = round(price_of(each, snapshot), 6)
            tiles[each.name] = {**facts, "price": price, **said.get(each.name, {})}
        self._known = known
        return tiles


def _facts(each: ClusterNode) -> Plain:
    labels, speaker = each.labels, each.node or each.claim
    assert speaker is not None
    running = [pod for pod in each.pods if not pod.terminal]
    return {
        "name": each.name,
        "pool": each.nodepool_name,
        "type": labels.get(INSTANCE_TYPE, ""),
        "capacity": labels.get(CAPACITY_TYPE, ""),
        "zone": labels.get(ZONE, ""),
        "state": state_of(each),
        "managed": each.managed,
        "created": stamp((each.claim or speaker).metadata.creation_timestamp),
        "cpu": [amount(CPU, each.requested), amount(CPU, each.allocatable)],
        "memory": [amount(MEMORY, each.requested), amount(MEMORY, each.allocatable)],
        "pods": [len(running), int(amount(PODS, each.allocatable))],
    }


def planned_in(plan: Mapping[str, Any]) -> Plain:
    """What a plan would do, in a few numbers."""
    return {
        "commands": len(plan["commands"]),
        "nodes": sum(len(each["nodes"]) for each in plan["commands"]),
        "savingPerMonth": plan["savingPerMonth"],
        "at": plan["at"],
    }


def sums_of(tiles: Iterable[Plain]) -> Plain:
    """Some tiles added up: what they cost, and how full those are that are managed."""
    found = list(tiles)
    managed = [tile for tile in found if tile["managed"]]
    return {
        "nodes": len(found),
        "pods": sum(tile["pods"][0] for tile in found),
        "costPerHour": round(sum(tile["price"] for tile in managed), 6),
        **{key: [round(sum(tile[key][part] for tile in managed), 3) for part in (0, 1)] for key in ("cpu", "memory")},
    }


def summary_of(snapshot: Snapshot, tiles: Collection[Plain]) -> Plain:
    """The cluster in a few numbers."""
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
    waiting = [pod for pod in snapshot.unbound_pods if not pod.terminal]
    return {
        "at": stamp(snapshot.at),
        **sums_of(tiles),
        "states": states,
        "pending": len(waiting),
        "pools": [pool for pool in pools.values() if pool["name"]],
        "paused": snapshot.pause,
    }


DOMAINS = ("karpenter.sh", "kubernetes.io", "k8s.io", "k8s.aws", "dovetail.sh", "kwok.sh")
"""Whose labels and annotations are shown; what others write is theirs to show."""
UNTOLD = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


def known(key: str) -> bool:
    """Whether a label or annotation is of a domain that is known to hold no secrets."""
    domain = key.partition("/")[0] if "/" in key else ""
    return key not in UNTOLD and any(domain == each or domain.endswith("." + each) for each in DOMAINS)


def node_details(each: ClusterNode, snapshot: Snapshot) -> Plain:
    """What a node is, and the pods on it."""
    claim, node = each.claim, each.node
    speaker = claim or node
    assert speaker is not None
    annotations = {**(claim.metadata.annotations if claim else {}), **(node.metadata.annotations if node else {})}
    return {
        "node": each.name,
        "nodeClaim": claim.name if claim is not None else None,
        "nodepool": each.nodepool_name,
        "state": state_of(each),
        "createdAt": stamp(speaker.metadata.creation_timestamp),
        "pricePerHour": round(price_of(each, snapshot), 6),
        "providerID": (node.provider_id if node is not None else "")
        or (claim.provider_id if claim is not None else ""),
        "labels": {key: value for key, value in sorted(each.labels.items()) if known(key)},
        "annotations": {key: value for key, value in sorted(annotations.items()) if known(key)},
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

"""One node in full: its conditions, taints, labels and pods. Nothing secret is read; only known domains are shown."""

from typing import Any

from dovetail.dashboard.node_summary import amount, price_of, stamp, state_of
from dovetail.model.do_not_disrupt import protection
from dovetail.model.kube_object import Condition
from dovetail.model.pod import Pod
from dovetail.model.pod_requests import spec_requests
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.snapshot import ClusterNode, Snapshot

Plain = dict[str, Any]
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

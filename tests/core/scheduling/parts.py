"""Pods and nodes for the tests of single parts of the solver."""

from builders import node, pod
from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.snapshot import ClusterNode

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTS_WEB = {"matchLabels": {"app": "web"}}


def labeled(name, app="web", **fields):
    """A pod with the label that the rules below select."""
    deleted = {key: fields.pop(key) for key in ("deletionTimestamp",) if key in fields}
    return pod(name, metadata={"name": name, "uid": f"uid-{name}", "labels": {"app": app}, **deleted}, **fields)


def existing(name, zone="zone-a", *pods, **fields):
    """A node that Dovetail does not manage; its labels are its zone and its hostname, and those given."""
    labels = {ZONE: zone, **fields.pop("labels", {})}
    return ClusterNode(node(name, labels=labels, **fields), None, pods)


def term(key=HOSTNAME):
    return {"topologyKey": key, "labelSelector": SELECTS_WEB}


def affinity(key=HOSTNAME):
    return {"affinity": {"podAffinity": {REQUIRED: [term(key)]}}}


def anti_affinity(key=HOSTNAME):
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term(key)]}}}


def spread(key=ZONE, **fields):
    constraint = {**term(key), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [constraint]}

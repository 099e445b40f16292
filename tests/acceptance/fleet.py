"""Clusters for the acceptance tests: initialized nodes without recent pod events, and what a plan decides."""

from dataclasses import replace
from datetime import timedelta

import msgspec

from builders import NOON, build, claim, node, nodepool, pod, snapshot, stamped
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.kinds import POD_DISRUPTION_BUDGET
from dovetail.model.snapshot import ClusterNode

DAY = timedelta(days=1)
SIZES = {"m.small": ("2", "8Gi"), "m.large": ("4", "16Gi"), "m.huge": ("16", "64Gi")}
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NODE_LABELS = ("node.kubernetes.io/instance-type", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone")


def worker(name, *pods, pool="default", type_="m.large", sold="on-demand", **fields):
    """A managed, initialized node without pod events for a day; `without` drops labels."""
    labels = {
        "karpenter.sh/nodepool": pool,
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "node.kubernetes.io/instance-type": type_,
        "karpenter.sh/capacity-type": sold,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": fields.pop("zone", "zone-a"),
        **fields.pop("labels", {}),
    }
    labels = {key: value for key, value in labels.items() if key not in fields.get("without", ())}
    without = fields.pop("without", ())
    conditions = {"Launched": "True", "Registered": "True", "Initialized": "True", **fields.pop("conditions", {})}
    made = claim(
        name,
        pool,
        age=fields.pop("age", DAY),
        labels=labels,
        conditions=conditions,
        status={"providerID": name, **fields.pop("status", {})},
        **fields.pop("claim", {}),
    )
    size = fields.pop("size", SIZES.get(type_, ("4", "16Gi")))
    host = node(name, *size, labels=labels, spec={"providerID": name, **fields.pop("spec", {})}, **fields)
    for label in without:
        host.metadata.labels.pop(label, None)  # the builder's own default
    return ClusterNode(host, made, tuple(pods))


ON_DEMAND = {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}
SPOT = {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}


def free(name="default", **disruption):
    """A pool whose budgets and minSavings stop nothing, unless told otherwise."""
    fields = {
        key: disruption.pop(key)
        for key in ("template", "template_metadata", "limits", "replicas", "ready")
        if key in disruption
    }
    return nodepool(name, disruption={"budgets": [{"nodes": "100%"}], "minSavings": "0%", **disruption}, **fields)


def cluster(*nodes, pools=None, pdbs=(), nominated=(), at=NOON, **fields):
    """A snapshot of these nodes; budgets stop nothing unless pools are given."""
    base = snapshot(nodes=nodes, pools=pools or [free()], **fields)
    return replace(base, pdbs=tuple(pdbs), nominated=frozenset(nominated), at=at)


def running(name, on, cpu="1", **fields):
    """A pod bound to a node."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return pod(name, on=on, cpu=cpu, metadata=metadata, **fields)


def shielded(name, on, value="true", **fields):
    """A pod with the do-not-disrupt annotation."""
    metadata = {"annotations": {DO_NOT_DISRUPT: value}, **fields.pop("metadata", {})}
    return running(name, on, metadata=metadata, **fields)


def owned(name, on, kind, api_version="apps/v1", **fields):
    """A pod that belongs to something: a DaemonSet, a StatefulSet, or a Node (a mirror pod)."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "uid-owner", "controller": True}
    metadata = {"ownerReferences": [owner], **fields.pop("metadata", {})}
    return running(name, on, metadata=metadata, **fields)


LEAVING = {"deletionTimestamp": stamped(NOON), "deletionGracePeriodSeconds": 30}
TERMINATION = {"spec": {"terminationGracePeriod": "1h"}}


def pdb(name="web", allowed=0, namespace="default", **fields):
    """A budget that selects every pod of its namespace."""
    status = {"disruptionsAllowed": allowed, "expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3}
    return build(
        POD_DISRUPTION_BUDGET,
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": {}}, **fields.pop("spec", {})},
            "status": {**status, **fields},
        },
    )


BLOCKING = {"spec": {"maxUnavailable": 0}}


def planned(found, *arguments, **options):
    """Each command of a plan as (method, node names), in order."""
    plan = plan_disruption(found, *arguments, **options)
    return [(command.method, sorted(each.name for each in command.candidates)) for command in plan.commands]


def taken(found, *arguments):
    """The names of all nodes the next pass disrupts."""
    return sorted(name for _, names in planned(found, *arguments) for name in names)


def said(found, method, name, *arguments):
    """What a method has against a node."""
    plan = plan_disruption(found, *arguments, thorough=True)
    return next(each for each in plan.refusals_by_method[method] if str(each.object) == f"node/{name}")


def candidate_names(found, *, eventual=False):
    """The nodes that nothing protects."""
    candidates, _ = PassContext(found).candidates(eventual=eventual)
    return sorted(each.name for each in candidates)


def why_not(found, name="a", *, eventual=False):
    """Why a node is no candidate."""
    _, refusals = PassContext(found).candidates(eventual=eventual)
    return next(each for each in refusals if str(each.object) == f"node/{name}")


def drifted(name, *pods, since=timedelta(hours=2), **fields):
    """A worker whose condition says, for as long, that the provider finds it drifted."""
    made = worker(name, *pods, conditions={"Drifted": "True"}, **fields)
    conditions = tuple(
        replace_condition(each, since) if each.type == "Drifted" else each for each in made.claim.status.conditions
    )
    status = _changed(made.claim.status, conditions=conditions)
    return replace(made, claim=_changed(made.claim, status=status))


def replace_condition(condition, since):
    return _changed(condition, reason="ImageDrift", last_transition_time=NOON - since)


def _changed(value, **fields):
    return msgspec.structs.replace(value, **fields)

"""Random changes of pods, nodes and NodeClaims. Each returns whether it found something to change."""

from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, write_record
from dovetail.model.kinds import NODE, NODE_CLAIM, POD
from dovetail.model.kube_object import Condition, OwnerReference
from dovetail.model.labels import (
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    ZONE,
)
from dovetail.model.nodeclaim import CONSOLIDATABLE, DRIFTED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED
from dovetail.model.nodeclaim import INITIALIZED as INITIALIZED_CONDITION
from dovetail.model.pod import Container, PodStatus
from dovetail.model.reason import Reason
from dovetail.model.resources import Quantity
from dovetail.model.taints import Toleration
from properties.inputs import change, claim_of, edited, renamed, twin_node
from reference.chance.catalog import TAINTS, amounts
from reference.chance.dice import APPS, RACK, TEAM, ZONES
from reference.chance.workloads import UNSCHEDULABLE

ANNOTATIONS = ({DO_NOT_DISRUPT: "true"}, {DO_NOT_DISRUPT: "90s"}, {"example.com/seen": "yes"}, {})
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
TOLERATIONS = ((Toleration(operator="Exists"),), (Toleration(key="dedicated", operator="Exists"),), ())


def is_bound(pod):
    return bool(pod.node_name)


# -- pods


@change("pod added")
def add_pod(inputs):
    source, node = inputs.any(POD), inputs.any(NODE)
    if source is None or node is None:
        return False
    pod = renamed(source, f"{source.name}-{inputs.version}", creation_timestamp=inputs.at, deletion_timestamp=None)
    waits = inputs.rng.random() < 0.3
    status = PodStatus(conditions=(UNSCHEDULABLE,)) if waits else PodStatus(phase="Running")
    inputs.put(POD, edited(edited(pod, "spec.node_name", "" if waits else node.name), "status", status))
    return True


@change("pod removed")
def remove_pod(inputs):
    pod = inputs.any(POD)
    if pod is not None:
        inputs.drop(POD, pod)
    return pod is not None


@change("pod bound")
def bind_pod(inputs):
    node = inputs.any(NODE)
    waiting = inputs.any(POD, lambda pod: not is_bound(pod))
    if node is None or waiting is None:
        return False
    inputs.put(POD, edited(edited(waiting, "spec.node_name", node.name), "status", PodStatus(phase="Running")))
    return True


@change("pod created again")
def recreate_pod(inputs):
    """The same name, another object: as a StatefulSet does."""
    pod, node = inputs.any(POD, is_bound), inputs.any(NODE)
    if pod is None or node is None:
        return False
    inputs.drop(POD, pod)
    inputs.put(POD, edited(edited(pod, "metadata.uid", f"uid-{inputs.version}"), "spec.node_name", node.name))
    return True


@change("pod annotations")
def annotate_pod(inputs):
    chosen = inputs.rng.choice((*ANNOTATIONS, {DELETION_COST: "2147483647"}))
    return inputs.edit(POD, "metadata.annotations", lambda _: chosen)


@change("pod labels")
def relabel_pod(inputs):
    app = inputs.rng.choice(APPS)
    return inputs.edit(POD, "metadata.labels", lambda pod: {**pod.metadata.labels, "app": app})


@change("pod requests")
def resize_pod(inputs):
    """In place, as the kubelet does it."""

    def resized(pod):
        first, *others = pod.spec.containers or (Container(name="main"),)
        wanted = {**first.resources.requests, "cpu": Quantity.parse(inputs.rng.choice(("50m", "700m", "2")))}
        return (edited(first, "resources.requests", wanted), *others)

    return inputs.edit(POD, "spec.containers", resized)


@change("pod overhead")
def add_overhead(inputs):
    return inputs.edit(POD, "spec.overhead", lambda _: amounts(cpu=inputs.rng.choice(("1", "10m"))))


@change("pod priority")
def rank_pod(inputs):
    return inputs.edit(POD, "spec.priority", lambda _: inputs.rng.choice((0, 7, 1_000_000_000)))


@change("pod tolerations")
def tolerate(inputs):
    return inputs.edit(POD, "spec.tolerations", lambda _: inputs.rng.choice(TOLERATIONS))


@change("pod node selector")
def select_node(inputs):
    chosen = inputs.rng.choice(({}, {ZONE: inputs.rng.choice(ZONES)}, {TEAM: "red"}))
    return inputs.edit(POD, "spec.node_selector", lambda _: chosen)


@change("pod terminating")
def delete_pod(inputs):
    return inputs.edit(POD, "metadata.deletion_timestamp", lambda _: inputs.at, lambda pod: not pod.deleting)


@change("pod finished")
def finish_pod(inputs):
    return inputs.edit(POD, "status.phase", lambda _: inputs.rng.choice(("Succeeded", "Failed", "Running")), is_bound)


@change("pod owner")
def adopt_pod(inputs):
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="owner", uid="uid-owner", controller=True)
    chosen = inputs.rng.choice(((owner,), ()))
    return inputs.edit(POD, "metadata.owner_references", lambda _: chosen, is_bound)


# -- nodes


@change("node added")
def add_node(inputs):
    node = inputs.any(NODE)
    if node is not None:
        twin_node(inputs, node, claim_of(inputs, node))
    return node is not None


@change("node removed")
def remove_node(inputs):
    node = inputs.any(NODE) if len(inputs.all(NODE)) > 2 else None
    if node is None:
        return False
    claim = claim_of(inputs, node)
    for pod in inputs.all(POD):
        if pod.node_name == node.name:
            inputs.drop(POD, pod)
    if claim is not None and inputs.rng.random() < 0.8:
        inputs.drop(NODE_CLAIM, claim)
    inputs.drop(NODE, node)
    return True


@change("node labels")
def relabel_node(inputs):
    rng = inputs.rng
    types = sorted({each.name for types in inputs.full_catalogs.values() for each in types})
    chosen = rng.choice(
        (
            {ZONE: rng.choice(ZONES)},
            {CAPACITY_TYPE: rng.choice(("spot", "on-demand"))},
            {INSTANCE_TYPE: rng.choice(types)},
            {TEAM: rng.choice(("red", "blue"))},
            {RACK: rng.choice(("r1", "r2"))},
            {"example.com/read-by-nothing": rng.choice(("1", "2"))},
            {INITIALIZED: rng.choice(("true", "true", "false"))},
        )
    )
    return inputs.edit(NODE, "metadata.labels", lambda node: {**node.metadata.labels, **chosen})


@change("node taints")
def taint_node(inputs):
    chosen = inputs.rng.choice(((), *((each,) for each in TAINTS)))
    return inputs.edit(NODE, "spec.taints", lambda _: chosen)


@change("node cordoned")
def cordon_node(inputs):
    return inputs.edit(NODE, "spec.unschedulable", lambda node: not node.spec.unschedulable)


@change("node allocatable")
def resize_node(inputs):
    wanted = amounts(cpu=inputs.rng.choice(("1", "3", "16")), memory=inputs.rng.choice(("1Gi", "64Gi")))
    return inputs.edit(NODE, "status.allocatable", lambda node: {**node.status.allocatable, **wanted})


@change("node capacity")
def regrade_node(inputs):
    wanted = amounts(cpu=inputs.rng.choice(("1", "30")))
    return inputs.edit(NODE, "status.capacity", lambda node: {**node.status.capacity, **wanted})


@change("node readiness")
def ready_node(inputs):
    ready = Condition(type="Ready", status=inputs.rng.choice(("True", "False", "Unknown")))
    return inputs.edit(NODE, "status.conditions", lambda _: (ready,))


@change("node annotations")
def annotate_node(inputs):
    chosen = inputs.rng.choice(({DO_NOT_DISRUPT: "true"}, {}))
    return inputs.edit(NODE, "metadata.annotations", lambda _: chosen)


@change("node deleted")
def delete_node(inputs):
    return inputs.edit(NODE, "metadata.deletion_timestamp", lambda node: None if node.deleting else inputs.at)


# -- NodeClaims


@change("claim conditions")
def say_of_claim(inputs):
    kinds = (DRIFTED, DRIFTED, INITIALIZED_CONDITION, LAUNCHED, REGISTERED, CONSOLIDATABLE, INSTANCE_TERMINATING)
    kind, status = inputs.rng.choice(kinds), inputs.rng.choice(("True", "False"))
    new = Condition(type=kind, status=status, reason="Said", last_transition_time=inputs.at)

    def said(claim):
        return (*(each for each in claim.status.conditions if each.type != kind), new)

    return inputs.edit(NODE_CLAIM, "status.conditions", said)


@change("claim deleted")
def delete_claim(inputs):
    return inputs.edit(NODE_CLAIM, "metadata.deletion_timestamp", lambda claim: None if claim.deleting else inputs.at)


@change("claim removed")
def remove_claim(inputs):
    claim = inputs.any(NODE_CLAIM)
    if claim is not None:
        inputs.drop(NODE_CLAIM, claim)
    return claim is not None


@change("claim command")
def command_claim(inputs):
    """A command is written on the claim, or taken back, or the claim is what a command launched."""
    record = CommandRecord(
        id=inputs.rng.choice(("c1", "c2")), reason=Reason.DRIFTED, started_at=inputs.at, candidates=1, replacements=1
    )
    chosen = inputs.rng.choice(({RECORD_ANNOTATION: write_record(record)}, {REPLACES_ANNOTATION: "c1"}, {}))
    return inputs.edit(NODE_CLAIM, "metadata.annotations", lambda _: chosen)


@change("claim hash")
def stamp_claim(inputs):
    chosen = {NODEPOOL_HASH: "1", NODEPOOL_HASH_VERSION: inputs.rng.choice((HASH_VERSION, "other"))}
    return inputs.edit(NODE_CLAIM, "metadata.annotations", lambda _: chosen)


@change("claim labels")
def relabel_claim(inputs):
    chosen = inputs.rng.choice(({ZONE: inputs.rng.choice(ZONES)}, {TEAM: "red"}, {RACK: "r3"}))
    return inputs.edit(NODE_CLAIM, "metadata.labels", lambda claim: {**claim.metadata.labels, **chosen})


@change("claim pod event")
def note_pod_event(inputs):
    return inputs.edit(NODE_CLAIM, "status.last_pod_event_time", lambda _: inputs.at)


@change("claim instance")
def move_claim(inputs):
    """The claim is of another instance, which may be that of another claim."""
    other = inputs.any(NODE)
    if other is None:
        return False
    wanted = inputs.rng.choice((other.provider_id, ""))
    return inputs.edit(NODE_CLAIM, "status.provider_id", lambda _: wanted)

"""Writes a snapshot of a cluster into a world, as the initial cluster of a scenario.

Instances are simulated: Nodes and NodeClaims get provider ids and the node class of the embedded provider, whatever
cloud they come from, and the prices of the snapshot's catalog. A snapshot has no Deployments, StatefulSets or Jobs, so
pods with a controller get a ReplicaSet with as many replicas, which recreates evicted pods.

Deletions and commands in progress are dropped: the scenario starts from a cluster at rest. All uids are replaced,
because a snapshot of a simulated cluster may have uids that this world will generate.

Drift is kept. The node class of every NodePool changes, and with it the hash of the template, so hashes are dropped and
written again by the controllers; a claim that has drifted keeps a hash that no template here has. The same stands for
drift that only the cloud reported, because there is no such cloud here.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.core.disruption.drift import INSTANCE_TYPE_NOT_FOUND, REQUIREMENTS_DRIFTED, drift_reason
from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION
from dovetail.manifest import codec
from dovetail.model import kinds
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key
from dovetail.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    OWN_NODEPOOL_HASH,
    TERMINATION_FINALIZER,
    ZONE,
)
from dovetail.model.nodeclaim import REGISTERED
from dovetail.model.pause import PAUSE, SWITCH
from dovetail.model.snapshot import Snapshot
from dovetail.model.snapshot_builder import snapshot_objects
from dovetail.sim.kubernetes.kinds import REPLICAS, Resource, resource_of
from dovetail.sim.world import World

Plain = dict[str, Any]
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CLASS_LABEL = "karpenter.kwok.sh/kwoknodeclass"
FAKE_NODE = "kwok.x-k8s.io/node"
PRICE = "eks-node-viewer/instance-price"
_DROPPED = ("dovetail.sh/command", "dovetail.sh/replaces", NODEPOOL_HASH, NODEPOOL_HASH_VERSION, OWN_NODEPOOL_HASH)
_DRIFTED = {NODEPOOL_HASH: "0", NODEPOOL_HASH_VERSION: HASH_VERSION}
_FOUND_AGAIN = frozenset({"", REQUIREMENTS_DRIFTED, INSTANCE_TYPE_NOT_FOUND})
"""Reasons of drift that the controllers find in the world too, and no drift."""
_KEPT_OWNERS = {"DaemonSet", "Node"}
_ORDER: tuple[Kind[Any], ...] = (
    kinds.NAMESPACE,
    kinds.STORAGE_CLASS,
    kinds.PERSISTENT_VOLUME,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.NODE_POOL,
    kinds.NODE_CLAIM,
    kinds.NODE,
    kinds.CSI_NODE,
    kinds.DAEMON_SET,
    kinds.POD_DISRUPTION_BUDGET,
)


def adopt(world: World, snapshot: Snapshot) -> None:
    """Write all objects of the snapshot into the world."""
    world.apply({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": CLASS["kind"], "metadata": {"name": "default"}})
    prices = _prices(snapshot)
    inventory = snapshot_objects(snapshot)
    names = {node.provider_id: node.name for node in inventory.of(kinds.NODE) if node.provider_id}
    drifted = _drifted(snapshot)
    for kind in _ORDER:
        for value in inventory.of(kind):
            plain = _at_rest(kind, value)
            if kind in {kinds.NODE, kinds.NODE_CLAIM}:
                _simulate(plain, prices, names)
            if kind is kinds.NODE_CLAIM and value.name in drifted:
                plain["metadata"].setdefault("annotations", {}).update(_DRIFTED)
            _put(world, kind, plain, value.key)
    # The DaemonSet controller creates the pods of DaemonSets.
    running = [pod for pod in inventory.of(kinds.POD) if not pod.terminal and not pod.daemon]
    pods = [_at_rest(kinds.POD, pod) for pod in running]
    for owner in _owners(pods):
        world.store.put(REPLICAS, owner)
    for pod in pods:
        _add_status(pod)
        world.store.put(resource_of(kinds.POD), pod)
    if snapshot.pause is not None:
        metadata = {"name": SWITCH, "namespace": "default", "annotations": {PAUSE: snapshot.pause}}
        world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def _add_status(pod: Plain) -> None:
    """Add what a snapshot leaves out: the phase Pending, and in one written by hand that a running pod is ready."""
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    conditions = status.setdefault("conditions", [])
    if status["phase"] == "Running" and not any(each["type"] == "Ready" for each in conditions):
        conditions.append({"type": "Ready", "status": "True"})


def _put(world: World, kind: Kind[Any], plain: Plain, key: Key) -> None:
    resource: Resource = resource_of(kind)
    if kind is kinds.NODE_POOL:
        plain["spec"]["template"]["spec"]["nodeClassRef"] = dict(CLASS)
    if plain["metadata"]["uid"] in world.store.by_uid:  # a snapshot written by hand may repeat a uid
        plain["metadata"]["uid"] = _new_uid(f"{kind.name}/{key}")
    if world.store.find(resource, key) is None:
        world.store.put(resource, plain)


def _at_rest(kind: Kind[Any], value: Any) -> Plain:
    """The object with a new uid, without deletion and without commands in progress."""
    plain = codec.to_plain(kind, value)
    spec = plain.get("spec") or {}
    _add_images(spec["template"].get("spec") or {} if kind is kinds.DAEMON_SET else spec)
    meta: Plain = {
        key: value
        for key, value in plain["metadata"].items()
        if key not in {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"}
    }
    meta.setdefault("generation", 1)
    meta["uid"] = _new_uid(meta.get("uid") or f"{kind.name}/{value.key}")
    if meta.get("ownerReferences"):
        meta["ownerReferences"] = [{**owner, "uid": _new_uid(owner["uid"])} for owner in meta["ownerReferences"]]
    if meta.get("annotations"):
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key not in _DROPPED}
    return {**plain, "metadata": meta}


def _add_images(spec: Plain) -> None:
    """Add images: snapshots do not contain them, and a pod without one cannot be created."""
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            container.setdefault("image", "adopted")


def _new_uid(of: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, of))


def _simulate(plain: Plain, prices: Mapping[tuple[str, ...], float], names: Mapping[str, str]) -> None:
    """Make a Node or NodeClaim refer to a simulated instance; `names` maps provider ids to Node names."""
    meta = plain["metadata"]
    labels = meta.setdefault("labels", {})
    offering = tuple(labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
    labels[CLASS_LABEL] = CLASS["name"]
    if NODEPOOL in labels:  # a snapshot written by hand may lack the finalizer
        meta["finalizers"] = sorted({*meta.get("finalizers", ()), TERMINATION_FINALIZER})
    if offering in prices:
        labels[PRICE] = f"{prices[offering]:g}"
    if plain["kind"] == kinds.NODE.name:
        plain.setdefault("spec", {})["providerID"] = f"kwok://{meta['name']}"
        meta.setdefault("annotations", {})[FAKE_NODE] = "fake"
        return
    plain["spec"]["nodeClassRef"] = dict(CLASS)
    status = plain.get("status") or {}
    provider_id = str(status.get("providerID") or "")
    if provider_id in names:
        status = {**status, "nodeName": names[provider_id], "providerID": f"kwok://{names[provider_id]}"}
    elif provider_id and _is_registered(status):
        status = {**status, "providerID": f"kwok://{meta['name']}"}
    else:  # its instance would never register here: it is launched during the scenario
        status = {}
    plain["status"] = status


def _is_registered(status: Plain) -> bool:
    return any(each["type"] == REGISTERED and each["status"] == "True" for each in status.get("conditions") or ())


def _drifted(snapshot: Snapshot) -> frozenset[str]:
    """The names of claims whose drift would be lost with their hash, or with their cloud."""
    claims = [each.claim for each in snapshot.nodes if each.claim is not None]
    pooled = [(claim, snapshot.nodepools.get(claim.nodepool_name)) for claim in claims]
    return frozenset(
        claim.name
        for claim, pool in pooled
        if pool is not None and drift_reason(claim, pool, snapshot) not in _FOUND_AGAIN
    )


def _prices(snapshot: Snapshot) -> dict[tuple[str, ...], float]:
    return {
        (type_.name, offering.zone, offering.capacity_type): offering.price
        for types in snapshot.catalogs.values()
        for type_ in types
        for offering in type_.offerings
    }


def _owners(pods: Iterable[Plain]) -> Iterable[Plain]:
    """A ReplicaSet for each group of pods with the same controller; changes the pods to belong to it."""
    groups: dict[str, list[Plain]] = {}
    for pod in pods:
        owner = next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        if owner is None or owner["kind"] in _KEPT_OWNERS:
            continue
        owner.update(apiVersion="apps/v1", kind="ReplicaSet")
        groups.setdefault(owner["uid"], []).append(pod)
    for uid, members in groups.items():
        first = members[0]
        owner = next(each for each in first["metadata"]["ownerReferences"] if each.get("controller"))
        mark = {"simulated-owner": uid}
        for pod in members:
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **mark}
        spec = {key: value for key, value in first["spec"].items() if key != "nodeName"}
        kept = {key: first["metadata"].get(key) or {} for key in ("labels", "annotations")}
        yield {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": owner["name"],
                "namespace": first["metadata"]["namespace"],
                "uid": uid,
                "generation": 1,
                "creationTimestamp": first["metadata"].get("creationTimestamp"),
            },
            "spec": {
                "replicas": len(members),
                "selector": {"matchLabels": mark},
                "template": {"metadata": kept, "spec": spec},
            },
        }

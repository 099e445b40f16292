"""Puts a snapshot of a cluster into a world, so that a story can start from it.

Machines are simulated: nodes and claims get the embedded provider's ids and its node class, whatever cloud they came
from, and their price as the snapshot's catalogue has it. A snapshot has no Deployments, StatefulSets or Jobs, so pods
that had an owner get one that brings them back when they are evicted: a ReplicaSet with as many replicas as there were.
Deletions and commands that were under way are forgotten: the story starts from a cluster at rest. All get an identity
that this world would never give: a snapshot of a simulated cluster may have the very ones it will.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

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
from dovetail.model.snapshot import Snapshot
from dovetail.model.snapshot_builder import take_apart
from dovetail.sim.kubernetes.kinds import REPLICAS, Resource, resource_of
from dovetail.sim.world import World

Plain = dict[str, Any]
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CLASS_LABEL = "karpenter.kwok.sh/kwoknodeclass"
FAKE_NODE = "kwok.x-k8s.io/node"
PRICE = "eks-node-viewer/instance-price"
_FORGOTTEN = ("dovetail.sh/command", "dovetail.sh/replaces", NODEPOOL_HASH, NODEPOOL_HASH_VERSION, OWN_NODEPOOL_HASH)
_STANDING = {"DaemonSet", "Node"}
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
    """Everything in the snapshot, as the world's own."""
    world.apply({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": CLASS["kind"], "metadata": {"name": "default"}})
    prices = _prices(snapshot)
    inventory = take_apart(snapshot)
    names = {node.provider_id: node.name for node in inventory.of(kinds.NODE) if node.provider_id}
    for kind in _ORDER:
        for value in inventory.of(kind):
            plain = _settled(kind, value)
            if kind in {kinds.NODE, kinds.NODE_CLAIM}:
                _simulate(plain, prices, names)
            _put(world, kind, plain, value.key)
    running = [
        pod for pod in inventory.of(kinds.POD) if not pod.terminal and not pod.daemon
    ]  # daemons come by themselves
    pods = [_settled(kinds.POD, pod) for pod in running]
    for owner in _owners(pods):
        world.store.put(REPLICAS, owner)
    for pod in pods:
        world.store.put(resource_of(kinds.POD), pod)


def _put(world: World, kind: Kind[Any], plain: Plain, key: Key) -> None:
    resource: Resource = resource_of(kind)
    if kind is kinds.NODE_POOL:
        plain["spec"]["template"]["spec"]["nodeClassRef"] = dict(CLASS)
    if plain["metadata"]["uid"] in world.store.by_uid:  # written by hand: no two objects share one
        plain["metadata"]["uid"] = _identity(f"{kind.name}/{key}")
    if world.store.find(resource, key) is None:
        world.store.put(resource, plain)


def _settled(kind: Kind[Any], value: Any) -> Plain:
    """An object as if nothing were under way, with an identity."""
    plain = codec.to_plain(kind, value)
    spec = plain.get("spec") or {}
    _add_images(spec["template"].get("spec") or {} if kind is kinds.DAEMON_SET else spec)
    meta: Plain = {
        key: value
        for key, value in plain["metadata"].items()
        if key not in {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"}
    }
    meta.setdefault("generation", 1)
    meta["uid"] = _identity(meta.get("uid") or f"{kind.name}/{value.key}")
    if meta.get("ownerReferences"):
        meta["ownerReferences"] = [{**owner, "uid": _identity(owner["uid"])} for owner in meta["ownerReferences"]]
    if meta.get("annotations"):
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key not in _FORGOTTEN}
    return {**plain, "metadata": meta}


def _add_images(spec: Plain) -> None:
    """Snapshots do not keep the images of containers, and without one no pod can be created again."""
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            container.setdefault("image", "adopted")


def _identity(of: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, of))


def _simulate(plain: Plain, prices: Mapping[tuple[str, ...], float], names: Mapping[str, str]) -> None:
    """A machine of the embedded provider in place of the one there was; `names` has its Node's, by its old id."""
    meta = plain["metadata"]
    labels = meta.setdefault("labels", {})
    bought = tuple(labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
    labels[CLASS_LABEL] = CLASS["name"]
    if NODEPOOL in labels:  # drains, though written by hand
        meta["finalizers"] = sorted({*meta.get("finalizers", ()), TERMINATION_FINALIZER})
    if bought in prices:
        labels[PRICE] = f"{prices[bought]:g}"
    if plain["kind"] == kinds.NODE.name:
        plain.setdefault("spec", {})["providerID"] = f"kwok://{meta['name']}"
        meta.setdefault("annotations", {})[FAKE_NODE] = "fake"
        return
    plain["spec"]["nodeClassRef"] = dict(CLASS)
    status = plain.get("status") or {}
    if machine := status.get("providerID"):  # one that has none is launched in the story
        known = {"nodeName": names[machine]} if machine in names else {}
        status = {**status, **known, "providerID": f"kwok://{names.get(machine, meta['name'])}"}
    plain["status"] = status


def _prices(snapshot: Snapshot) -> dict[tuple[str, ...], float]:
    return {
        (type_.name, offering.zone, offering.capacity_type): offering.price
        for types in snapshot.catalogs.values()
        for type_ in types
        for offering in type_.offerings
    }


def _owners(pods: Iterable[Plain]) -> Iterable[Plain]:
    """A ReplicaSet for every group of pods that had one owner; the pods are made to be its own."""
    groups: dict[str, list[Plain]] = {}
    for pod in pods:
        owner = next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        if owner is None or owner["kind"] in _STANDING:
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

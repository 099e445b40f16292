"""Puts a snapshot of a cluster into a world, so that a story can start from it.

Machines are simulated: nodes and claims get the embedded provider's ids and its node class, whatever cloud they came
from, and their price as the snapshot's catalogue has it. A snapshot has no Deployments, StatefulSets or Jobs, so pods
that had an owner get one that brings them back when they are evicted: a ReplicaSet with as many replicas as there were.
Deletions and commands that were under way are forgotten: the story starts from a cluster at rest.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.manifest import codec
from dovetail.model import kinds
from dovetail.model.inventory import take_apart
from dovetail.model.kinds import Kind
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, ZONE
from dovetail.model.snapshot import Snapshot
from dovetail.sim.kinds import REPLICAS, Resource, resource_of
from dovetail.sim.world import World

Plain = dict[str, Any]
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CLASS_LABEL = "karpenter.kwok.sh/kwoknodeclass"
FAKE_NODE = "kwok.x-k8s.io/node"
PRICE = "eks-node-viewer/instance-price"
_FORGOTTEN = ("dovetail.sh/command", "dovetail.sh/replaces", NODEPOOL_HASH, NODEPOOL_HASH_VERSION)
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
    for kind in _ORDER:
        _put_all(world, kind, inventory.of(kind), prices)
    running = [
        pod for pod in inventory.of(kinds.POD) if not pod.terminal and not pod.daemon
    ]  # daemons come by themselves
    pods = [_settled(codec.to_plain(kinds.POD, pod)) for pod in running]
    for owner in _owners(pods):
        world.store.put(REPLICAS, owner)
    for pod in pods:
        world.store.put(resource_of(kinds.POD), pod)


def _put_all(world: World, kind: Kind[Any], values: Iterable[Any], prices: Mapping[tuple[str, ...], float]) -> None:
    resource: Resource = resource_of(kind)
    for value in values:
        plain = _settled(codec.to_plain(kind, value))
        if kind is kinds.NODE_POOL:
            plain["spec"]["template"]["spec"]["nodeClassRef"] = dict(CLASS)
        elif kind is kinds.NODE_CLAIM:
            _simulate(plain, prices)
            plain["spec"]["nodeClassRef"] = dict(CLASS)
            status = plain.setdefault("status", {})
            status["providerID"] = f"kwok://{status.get('nodeName') or plain['metadata']['name']}"
        elif kind is kinds.NODE:
            _simulate(plain, prices)
            plain.setdefault("spec", {})["providerID"] = f"kwok://{plain['metadata']['name']}"
            plain["metadata"].setdefault("annotations", {})[FAKE_NODE] = "fake"
        if plain["metadata"]["uid"] in world.store.by_uid:  # written by hand: no two objects share one
            plain["metadata"]["uid"] = _identity(kind.name, plain["metadata"])
        if world.store.find(resource, value.key) is None:
            world.store.put(resource, plain)


def _settled(plain: Plain) -> Plain:
    """An object as if nothing were under way, with an identity."""
    meta: Plain = {
        key: value
        for key, value in plain["metadata"].items()
        if key not in {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"}
    }
    meta.setdefault("generation", 1)
    meta["uid"] = meta.get("uid") or _identity(str(plain.get("kind", "")), meta)
    if meta.get("annotations"):
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key not in _FORGOTTEN}
    return {**plain, "metadata": meta}


def _identity(kind: str, meta: Plain) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{meta.get('namespace', '')}/{meta['name']}"))


def _simulate(plain: Plain, prices: Mapping[tuple[str, ...], float]) -> None:
    labels = plain["metadata"].setdefault("labels", {})
    bought = tuple(labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
    labels[CLASS_LABEL] = CLASS["name"]
    if bought in prices:
        labels[PRICE] = f"{prices[bought]:g}"


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

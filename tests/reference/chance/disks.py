"""Random storage: claims of every kind, the volumes and classes behind them, and how many a node can hold."""

from collections.abc import Sequence

from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.pod import NodeSelector, NodeSelectorTerm
from dovetail.model.storage import (
    CsiSource,
    HostSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Storage,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from reference.chance.catalog import expression
from reference.chance.dice import DRIVER, NAMESPACES, ZONES, Dice

EBS_ZONE = "topology.ebs.csi.aws.com/zone"
CLAIMS = ["zonal", "either", "local", "pending", "floating", "plain", "lost", "missing"]
"""The last two can be reached nowhere: one names a volume that is gone, the other is not there itself."""


def some_storage(dice: Dice, nodes: Sequence[str]) -> Storage:
    if "volumes" not in dice.themes:
        return Storage()
    claims, volumes = {}, {}
    for namespace in NAMESPACES:
        for name in CLAIMS[:-1]:
            claim, volume = _claim(dice, namespace, name, nodes)
            claims[claim.key] = claim
            if volume is not None:
                volumes[volume.name] = volume
    limits = {node: {DRIVER: dice.pick((0, 1, 1, 2, 3))} for node in nodes if dice.maybe(0.5)}
    return Storage(claims=claims, volumes=volumes, classes=_classes(dice), attach_limits=limits)


def _claim(
    dice: Dice, namespace: str, name: str, nodes: Sequence[str]
) -> tuple[PersistentVolumeClaim, PersistentVolume | None]:
    class_name = {
        "local": "local",
        "pending": "zonal",
        "floating": dice.pick(("anywhere",) * 4 + ("eager", None)),
        "plain": "zonal",
    }
    volume = _volume(dice, f"pv-{namespace}-{name}", name, nodes)
    bound = volume.name if volume is not None else "pv-nowhere" if name == "lost" else ""
    spec = PersistentVolumeClaimSpec(storage_class_name=class_name.get(name, "anywhere"), volume_name=bound)
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec), volume


def _volume(dice: Dice, name: str, kind: str, nodes: Sequence[str]) -> PersistentVolume | None:
    csi, zone = CsiSource(driver=DRIVER), dice.pick(ZONES)
    other = dice.pick(ZONES)
    terms = {
        "zonal": [(expression(dice.pick((ZONE, EBS_ZONE)), "In", zone),)],
        "either": [(expression(ZONE, "In", zone),), (expression(ZONE, "In", other),)],
        "local": [(expression(HOSTNAME, "In", dice.pick(nodes) if nodes else "gone"),)],
    }
    if kind == "local":
        return _reachable(name, terms[kind], local=HostSource(path="/disk"))
    if kind in terms:
        return _reachable(name, terms[kind], csi=csi)
    if kind == "plain":
        # Neither a place nor a driver, whatever its class's provisioner.
        return PersistentVolume(metadata=ObjectMeta(name=name))
    return None


def _reachable(name: str, terms: list, **source: object) -> PersistentVolume:
    written = tuple(NodeSelectorTerm(match_expressions=each) for each in terms)
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=written))
    return PersistentVolume(metadata=ObjectMeta(name=name), spec=PersistentVolumeSpec(node_affinity=affinity, **source))


def _classes(dice: Dice) -> dict[str, StorageClass]:
    topologies = tuple(
        TopologySelectorTerm(match_label_expressions=(TopologySelectorRequirement(key=ZONE, values=(zone,)),))
        for zone in dice.some(ZONES)[:2]
    )
    return {
        "zonal": _class("zonal", DRIVER, allowed_topologies=topologies),
        "anywhere": _class("anywhere", DRIVER),
        "local": _class("local", "kubernetes.io/no-provisioner"),
        "eager": StorageClass(metadata=ObjectMeta(name="eager"), provisioner=DRIVER),
    }


def _class(name: str, provisioner: str, **more: object) -> StorageClass:
    metadata = ObjectMeta(name=name)
    return StorageClass(metadata=metadata, provisioner=provisioner, volume_binding_mode="WaitForFirstConsumer", **more)

"""Where a pod's volumes can be reached, and what they take of a node's attach limits.

A claim that cannot be resolved leaves the pod without any place: it waits for its volume, not for a node.
"""

from dataclasses import dataclass
from itertools import product

from dovetail.core.scheduling.alternative import ANYWHERE, Alternative, read_expressions
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import PodSpec
from dovetail.model.requirement import Requirement
from dovetail.model.requirements import Requirements
from dovetail.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    TopologySelectorTerm,
)
from dovetail.model.wire import Key

IN_TREE_DRIVERS = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
NO_PLACE_IN_PARTICULAR = (ANYWHERE,)


@dataclass(frozen=True)
class VolumeNeeds:
    """The places for rooms and for drafts, and the claims counted against attach limits as (driver, claim)."""

    on_rooms: tuple[Alternative, ...] = NO_PLACE_IN_PARTICULAR
    on_drafts: tuple[Alternative, ...] = NO_PLACE_IN_PARTICULAR
    attachments: tuple[tuple[str, str], ...] = ()
    problem: str = ""


NO_VOLUMES = VolumeNeeds()


def volume_needs(pod_key: Key, spec: PodSpec, storage: Storage) -> VolumeNeeds:
    """What the volumes of a pod ask for."""
    names = _claim_names(pod_key, spec)
    if not names:
        return NO_VOLUMES
    rooms: list[tuple[Alternative, ...]] = []
    drafts: list[tuple[Alternative, ...]] = []
    attachments = []
    for name in names:
        claim = storage.claims.get(Key(pod_key.namespace, name))
        if claim is None:
            return VolumeNeeds(problem=f'persistentvolumeclaim "{name}" not found')
        volume, storage_class = _backing(claim, storage)
        if claim.spec.volume_name and volume is None:
            return VolumeNeeds(problem=f'persistentvolume "{claim.spec.volume_name}" not found')
        places = _places(volume, storage_class)
        rooms.append(places)
        drafts.append(tuple(_without_hostname(place) for place in places))
        driver = _driver(volume, storage_class)
        if driver:
            attachments.append((driver, str(claim.key)))
    return VolumeNeeds(_together(rooms), _together(drafts), tuple(sorted(set(attachments))))


def _claim_names(pod_key: Key, spec: PodSpec) -> list[str]:
    named = []
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            named.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            named.append(f"{pod_key.name}-{volume.name}")
    return named


def _backing(claim: PersistentVolumeClaim, storage: Storage) -> tuple[PersistentVolume | None, StorageClass | None]:
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    return volume, storage.classes.get(claim.spec.storage_class_name or "")


def _places(volume: PersistentVolume | None, storage_class: StorageClass | None) -> tuple[Alternative, ...]:
    if volume is not None:
        affinity = volume.spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
        return tuple(Alternative(read_expressions(term)) for term in terms) or NO_PLACE_IN_PARTICULAR
    allowed = storage_class.allowed_topologies if storage_class is not None else ()
    return tuple(_allowed(term) for term in allowed) or NO_PLACE_IN_PARTICULAR


def _allowed(term: TopologySelectorTerm) -> Alternative:
    return Alternative(Requirement.of(each.key, "In", each.values) for each in term.match_label_expressions)


def _without_hostname(place: Alternative) -> Alternative:
    return Alternative(expression for expression in place.expressions if expression.key != HOSTNAME)


def _driver(volume: PersistentVolume | None, storage_class: StorageClass | None) -> str:
    if volume is not None:
        if volume.spec.csi is not None:
            return volume.spec.csi.driver
        return "ebs.csi.aws.com" if volume.spec.aws_elastic_block_store is not None else ""
    provisioner = storage_class.provisioner if storage_class is not None else ""
    return IN_TREE_DRIVERS.get(provisioner, provisioner)


def _together(each_volume: list[tuple[Alternative, ...]]) -> tuple[Alternative, ...]:
    """Every combination that does not contradict itself."""
    combined = (_all_of(places) for places in product(*each_volume))
    return tuple(dict.fromkeys(each for each in combined if each.fits(NOTHING_SETTLED, EVERY_LABEL)))


def _all_of(places: tuple[Alternative, ...]) -> Alternative:
    return Alternative(expression for place in places for expression in place.expressions)


class _EveryLabel(frozenset[str]):
    """Contains every label: nothing is known of the node yet."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str)


EVERY_LABEL = _EveryLabel()
NOTHING_SETTLED = Requirements.of(())

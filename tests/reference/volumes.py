"""Where a pod's volumes can be reached, and how many claims of a driver a node can hold."""

from collections.abc import Iterable
from itertools import product

from dovetail.model.kube_object import Key
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import Pod, Volume
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.storage import PersistentVolume, Storage, StorageClass
from reference.affinity import Expressions, read_term

ANYWHERE: tuple[Expressions, ...] = ((),)
NOWHERE: tuple[Expressions, ...] = ()


def volume_alternatives(pod: Pod, storage: Storage, *, for_draft: bool) -> list[Expressions]:
    """Every combination of places of the single volumes that does not contradict itself; first volume outermost."""
    places = [_places(pod, volume, storage) for volume in pod.spec.volumes]
    if for_draft:
        places = [tuple(_without_hostname(place) for place in each) for each in places]
    return [
        tuple(expression for place in combination for expression in place)
        for combination in product(*places)
        if not _contradictory(combination)
    ]


def _places(pod: Pod, volume: Volume, storage: Storage) -> tuple[Expressions, ...]:
    key = claim_key(pod, volume)
    if key is None:
        return ANYWHERE
    claim = storage.claims.get(key)
    if claim is None and volume.persistent_volume_claim is not None:
        # The page is silent: a claim that does not exist can be reached nowhere.
        return NOWHERE
    if claim is not None and claim.deleting:
        return NOWHERE
    if claim is not None and claim.spec.volume_name:
        return _places_of_volume(storage.volumes.get(claim.spec.volume_name))
    if claim is not None and not _waits_for_a_pod(_storage_class(pod, volume, storage)):
        return NOWHERE
    return _places_of_class(_storage_class(pod, volume, storage))


def _waits_for_a_pod(storage_class: StorageClass | None) -> bool:
    """Otherwise the claim is bound without regard to pods, and until then no node will do."""
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


def _places_of_volume(volume: PersistentVolume | None) -> tuple[Expressions, ...]:
    if volume is None:
        # The page is silent: a volume that does not exist can be reached nowhere.
        return NOWHERE
    if volume.spec.node_affinity is None or volume.spec.node_affinity.required is None:
        return ANYWHERE
    terms = (read_term(term) for term in volume.spec.node_affinity.required.node_selector_terms)
    return tuple(term for term in terms if term is not None)


def _places_of_class(storage_class: StorageClass | None) -> tuple[Expressions, ...]:
    if storage_class is None or not storage_class.allowed_topologies:
        return ANYWHERE
    return tuple(
        tuple(Requirement.of(each.key, "In", each.values) for each in term.match_label_expressions)
        for term in storage_class.allowed_topologies
        if term.match_label_expressions
    )


def _storage_class(pod: Pod, volume: Volume, storage: Storage) -> StorageClass | None:
    key = claim_key(pod, volume)
    claim = storage.claims.get(key) if key is not None else None
    if claim is not None:
        return storage.classes.get(claim.spec.storage_class_name or "")
    if volume.ephemeral is not None:
        # The claim is made after the pod: until then its template speaks.
        return storage.classes.get(volume.ephemeral.volume_claim_template.spec.storage_class_name or "")
    return None


def _without_hostname(place: Expressions) -> Expressions:
    return tuple(expression for expression in place if expression.key != HOSTNAME)


def _contradictory(combination: tuple[Expressions, ...]) -> bool:
    together = Requirements.of(())
    for place in combination:
        if together.intersects(Requirements.of(place)) is not None:
            return True
        together = together.add(Requirements.of(place))
    return False


def claim_key(pod: Pod, volume: Volume) -> Key | None:
    if volume.persistent_volume_claim is not None:
        return Key(pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
    if volume.ephemeral is not None:
        return Key(pod.metadata.namespace, f"{pod.name}-{volume.name}")
    return None


def claims_by_driver(pods: Iterable[Pod], storage: Storage) -> dict[str, set[Key]]:
    """The distinct claims of these pods, by driver; claims without a driver do not count."""
    found: dict[str, set[Key]] = {}
    for pod in pods:
        for volume in pod.spec.volumes:
            key = claim_key(pod, volume)
            driver = _driver(pod, volume, storage)
            if key is not None and driver:
                found.setdefault(driver, set()).add(key)
    return found


def _driver(pod: Pod, volume: Volume, storage: Storage) -> str:
    """The driver of the claim's volume; without a volume, its class's provisioner. A volume need not have a driver."""
    key = claim_key(pod, volume)
    claim = storage.claims.get(key) if key is not None else None
    bound = storage.volumes.get(claim.spec.volume_name) if claim is not None else None
    if bound is not None:
        return bound.spec.csi.driver if bound.spec.csi is not None else ""
    storage_class = _storage_class(pod, volume, storage)
    return storage_class.provisioner if storage_class is not None else ""


def volumes_exceed(pod: Pod, there: Iterable[Pod], limits: dict[str, int], storage: Storage) -> bool:
    """Whether the pod brings a claim too many. As in kube-scheduler, a pod that brings no new claim changes nothing."""
    present, brought = claims_by_driver(there, storage), claims_by_driver([pod], storage)
    return any(
        driver in limits
        and claims - present.get(driver, set())
        and len(claims | present.get(driver, set())) > limits[driver]
        for driver, claims in brought.items()
    )

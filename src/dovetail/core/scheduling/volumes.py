"""Volumes: from which nodes a pod's volumes can be reached, and how many of a node's attachments they use.

Each volume gives alternatives over node labels: the node affinity of a bound volume, or the allowed topologies of the
StorageClass. Several volumes give every combination that does not contradict itself. For drafts hostname expressions
are dropped, since no new node has an existing hostname.

A claim that cannot be resolved (`problem`) makes the pod unschedulable: it waits for its volume, not for a node.
"""

from dataclasses import dataclass
from itertools import product

from dovetail.core.scheduling.node_affinity import ANYWHERE, Alternative, read_expressions
from dovetail.model.kube_object import Key
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import PodSpec, Volume
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.storage import PersistentVolume, Storage, StorageClass, TopologySelectorTerm

FIRST_CONSUMER = "WaitForFirstConsumer"
IN_TREE_DRIVERS = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
ANY_PLACE = (ANYWHERE,)


@dataclass(frozen=True)
class VolumeNeeds:
    """Alternatives for existing nodes and drafts, and the (driver, claim) pairs that count against attach limits."""

    on_existing_nodes: tuple[Alternative, ...] = ANY_PLACE
    on_drafts: tuple[Alternative, ...] = ANY_PLACE
    attachments: tuple[tuple[str, str], ...] = ()
    problem: str = ""


NO_VOLUMES = VolumeNeeds()


def volume_needs(pod_key: Key, spec: PodSpec, storage: Storage) -> VolumeNeeds:
    """The requirements of a pod's volumes."""
    places: list[tuple[Alternative, ...]] = []
    attachments = []
    problem = ""
    for volume in spec.volumes:
        name = _claim_name(pod_key, volume)
        if not name:
            continue
        backing = _backing(Key(pod_key.namespace, name), volume, storage)
        problem = problem or backing.problem
        places.append(_reachable_from(backing))
        driver = _driver(backing)
        if driver:
            attachments.append((driver, f"{pod_key.namespace}/{name}"))
    if not places:
        return NO_VOLUMES
    drafts = [tuple(_without_hostname(place) for place in places) for places in places]
    return VolumeNeeds(_combinations(places), _combinations(drafts), tuple(sorted(set(attachments))), problem)


def _claim_name(pod_key: Key, volume: Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod_key.name}-{volume.name}" if volume.ephemeral is not None else ""


@dataclass(frozen=True, slots=True)
class _Backing:
    """The volume of a claim once it is bound, its StorageClass, and why the claim cannot be used."""

    volume: PersistentVolume | None
    storage_class: StorageClass | None
    problem: str = ""


def _backing(key: Key, volume: Volume, storage: Storage) -> _Backing:
    claim = storage.claims.get(key)
    if claim is None and volume.ephemeral is None:
        return _Backing(None, None, f'persistentvolumeclaim "{key.name}" not found')
    if claim is None:  # an ephemeral volume: the claim is created after the pod
        assert volume.ephemeral is not None
        return _Backing(None, storage.classes.get(volume.ephemeral.volume_claim_template.spec.storage_class_name or ""))
    bound = storage.volumes.get(claim.spec.volume_name)
    storage_class = storage.classes.get(claim.spec.storage_class_name or "")
    problem = ""
    if claim.deleting:
        problem = f'persistentvolumeclaim "{key.name}" is being deleted'
    elif claim.spec.volume_name and bound is None:
        problem = f'persistentvolume "{claim.spec.volume_name}" not found'
    elif bound is None and (storage_class is None or storage_class.volume_binding_mode != FIRST_CONSUMER):
        problem = "pod has unbound immediate PersistentVolumeClaims"
    return _Backing(bound, storage_class, problem)


def _reachable_from(backing: _Backing) -> tuple[Alternative, ...]:
    """Where a volume can be reached. Without terms that is everywhere; a term without expressions matches no node."""
    if backing.volume is not None:
        affinity = backing.volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return ANY_PLACE
        terms = (read_expressions(term) for term in affinity.required.node_selector_terms)
    else:
        allowed = backing.storage_class.allowed_topologies if backing.storage_class is not None else ()
        if not allowed:
            return ANY_PLACE
        terms = (_allowed(term) for term in allowed)
    return tuple(Alternative(expressions) for expressions in terms if expressions)


def _allowed(term: TopologySelectorTerm) -> tuple[Requirement, ...]:
    return tuple(Requirement.of(each.key, "In", each.values) for each in term.match_label_expressions)


def _without_hostname(place: Alternative) -> Alternative:
    return Alternative(expression for expression in place.expressions if expression.key != HOSTNAME)


def _driver(backing: _Backing) -> str:
    volume = backing.volume
    if volume is not None:
        if volume.spec.csi is not None:
            return volume.spec.csi.driver
        return "ebs.csi.aws.com" if volume.spec.aws_elastic_block_store is not None else ""
    provisioner = backing.storage_class.provisioner if backing.storage_class is not None else ""
    return IN_TREE_DRIVERS.get(provisioner, provisioner)


def _combinations(each_volume: list[tuple[Alternative, ...]]) -> tuple[Alternative, ...]:
    """Every combination that does not contradict itself."""
    combined = (_all_of(places) for places in product(*each_volume))
    return tuple(dict.fromkeys(each for each in combined if each.may_match(NO_REQUIREMENTS, EVERY_LABEL)))


def _all_of(places: tuple[Alternative, ...]) -> Alternative:
    return Alternative(expression for place in places for expression in place.expressions)


class _EveryLabel(frozenset[str]):
    """Contains every label, for a node that nothing is known of."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str)


EVERY_LABEL = _EveryLabel()
NO_REQUIREMENTS = Requirements.of(())

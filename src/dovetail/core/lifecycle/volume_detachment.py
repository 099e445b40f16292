"""Which volumes still hang on a node whose pods are gone.

Nothing is detached here: the attachments are the volume controllers' own. Volumes of pods that the drain leaves alone
stay attached as long as the node lives, so nobody waits for those.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from dovetail.core.lifecycle.drain import left_alone
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode
from dovetail.model.storage import PersistentVolumeClaim, VolumeAttachment

MOST_NAMED = 5


def find_attached(
    node: ClusterNode,
    attachments: Iterable[VolumeAttachment],
    claims: Mapping[Key, PersistentVolumeClaim],
    now: datetime,
) -> tuple[str, ...]:
    """The names of the attachments to wait for."""
    kept = {volume for pod in node.pods if left_alone(pod, now) for volume in _volumes(pod, claims)}
    return tuple(
        sorted(
            each.name
            for each in attachments
            if each.spec.node_name == node.name
            and each.spec.source.persistent_volume_name
            and each.spec.source.persistent_volume_name not in kept
        )
    )


def awaiting_words(attached: tuple[str, ...]) -> str:
    """What is waited for, as events and conditions tell it."""
    return f"Awaiting deletion of bound volumeattachments ({named(attached)})"


def named(things: Iterable[str]) -> str:
    """A few of these by name, the others by number."""
    names = tuple(things)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _volumes(pod: Pod, claims: Mapping[Key, PersistentVolumeClaim]) -> Iterable[str]:
    """The persistent volumes a pod uses."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{pod.name}-{volume.name}"
        else:
            continue
        claim = claims.get(Key(pod.metadata.namespace, name))
        if claim is not None and claim.spec.volume_name:
            yield claim.spec.volume_name

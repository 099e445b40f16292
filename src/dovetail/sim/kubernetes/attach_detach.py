"""The attach/detach controller: keeps a VolumeAttachment for each CSI volume in use on a node.

A volume is attached when a pod that uses it is bound, and detached after a random delay once the last pod that uses it
has left the node. The annotation `volume-detach.stage.kwok.x-k8s.io/delay` on a PersistentVolume sets that delay.
"""

import hashlib
from collections.abc import Iterator

from dovetail.model.duration import Duration
from dovetail.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from dovetail.model.kube_object import Key
from dovetail.sim.kubernetes.api_server import ApiServer
from dovetail.sim.kubernetes.controller import DelayRange, SimulatedController
from dovetail.sim.kubernetes.kinds import NODE, POD, resource_of
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange

DETACH_DELAY = "volume-detach.stage.kwok.x-k8s.io/delay"
_VOLUMES = resource_of(PERSISTENT_VOLUME)
_VOLUME_CLAIMS = resource_of(PERSISTENT_VOLUME_CLAIM)
_ATTACHMENTS = resource_of(VOLUME_ATTACHMENT)


class AttachDetachController(SimulatedController[tuple[str, str]]):
    """Keeps one VolumeAttachment for each volume in use on each node. Keys: node and volume name."""

    watches = (POD, NODE)

    def __init__(self, api: ApiServer, seed: str, detach: DelayRange) -> None:
        super().__init__(api, seed)
        self._detach = detach
        self._detaching: set[tuple[str, str]] = set()

    def on_change(self, change: StoreChange) -> None:
        """Enqueue the volumes of a changed pod, or all attachments of a deleted node."""
        record = change.after
        if record.resource == NODE:
            if change.type == "DELETED":
                for held in self.store.all(_ATTACHMENTS):
                    if held.plain["spec"]["nodeName"] == record.key.name:
                        self.enqueue((record.key.name, held.plain["spec"]["source"]["persistentVolumeName"]))
            return
        node = record.node
        if node and record.plain["spec"].get("volumes"):
            for volume in self._volumes(record):
                self.enqueue((node, volume))

    def reconcile(self, key: tuple[str, str]) -> None:
        """Attach a volume that is in use; start to detach one that is not."""
        node, name = key
        volume = self.store.find(_VOLUMES, Key("", name))
        driver = ((volume.plain["spec"].get("csi") or {}).get("driver") if volume is not None else None) or ""
        attached = self.store.find(_ATTACHMENTS, _name(node, name))
        if self._in_use(node, name):
            if attached is None and driver:
                spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": name}}
                meta = {"name": _name(node, name).name}
                plain = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta, "spec": spec}
                made = self.api.create(_ATTACHMENTS, plain)
                self.api.update(made, {**made.plain, "status": {"attached": True}}, "status")
        elif attached is not None and key not in self._detaching:
            self._detaching.add(key)
            self.later(self._delay(volume), self._finish_detach, key)

    def _finish_detach(self, key: tuple[str, str]) -> None:
        self._detaching.discard(key)
        attached = self.store.find(_ATTACHMENTS, _name(*key))
        if attached is not None and not self._in_use(*key):
            self.api.delete(_ATTACHMENTS, attached.key)

    def _delay(self, volume: ObjectVersion | None) -> float:
        drawn = self.rng.uniform(*self._detach)
        annotated = (volume.meta.get("annotations") or {}).get(DETACH_DELAY) if volume is not None else None
        return drawn if annotated is None else Duration.parse(annotated).span.total_seconds()

    def _in_use(self, node: str, volume: str) -> bool:
        if self.store.find(NODE, Key("", node)) is None:
            return False
        running = (
            pod for pod in self.store.pods_on(node) if pod.plain["status"].get("phase") in {"Pending", "Running"}
        )
        return any(volume in self._volumes(pod) for pod in running)

    def _volumes(self, pod: ObjectVersion) -> Iterator[str]:
        """The persistent volumes a pod uses."""
        for volume in pod.plain["spec"].get("volumes") or ():
            claim_name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim_name is None and "ephemeral" in volume:
                claim_name = f"{pod.key.name}-{volume['name']}"
            claim = self.store.find(_VOLUME_CLAIMS, Key(pod.key.namespace, claim_name)) if claim_name else None
            if claim is not None and (name := claim.plain["spec"].get("volumeName")):
                yield name


def _name(node: str, volume: str) -> Key:
    return Key("", f"csi-{hashlib.sha256(f'{volume}/{node}'.encode()).hexdigest()[:32]}")

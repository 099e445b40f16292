"""One copy of what many pods have in common.

Replicas differ in name, node and instants; their containers, tolerations, affinities, labels and owners are equal. A
pod just decoded, which nobody else has seen yet, gets the parts of its earlier twin. Values stay equal to what was
decoded, spelling included; only memory changes.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from dovetail.manifest.codec import encode_hook
from dovetail.model.kube_object import KubeObject
from dovetail.model.pod import Pod

_ROOM = 1 << 15  # parts remembered; beyond, the table starts anew and the old parts live on in their pods
_replace = msgspec.structs.force_setattr


class Interner:
    """Remembers parts of pods by what they say."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._encoder = msgspec.msgpack.Encoder(enc_hook=encode_hook)

    def apply(self, value: KubeObject) -> None:
        """Give an object just decoded the parts already known. Kinds other than pods are too few to matter."""
        if not isinstance(value, Pod):
            return
        if len(self._known) > _ROOM:
            self._known = {}
        self._share_mappings(value.metadata, "labels", "annotations")
        self._share_mappings(value.spec, "node_selector")
        self._share_values(value.metadata, "namespace", "owner_references")
        self._share_values(value.spec, "tolerations")
        self._share_encoded(value.spec, "containers", "init_containers", "affinity", "topology_spread_constraints")
        for condition in value.status.conditions:
            self._share_values(condition, "type", "status")

    def _share_values(self, holder: msgspec.Struct, *names: str) -> None:
        for name in names:
            part = getattr(holder, name)
            if part:
                _replace(holder, name, self._known.setdefault(part, part))

    def _share_mappings(self, holder: msgspec.Struct, *names: str) -> None:
        for name in names:
            part: Mapping[str, str] = getattr(holder, name)
            if part:
                _replace(holder, name, self._known.setdefault(tuple(part.items()), part))

    def _share_encoded(self, holder: msgspec.Struct, *names: str) -> None:
        for name in names:
            part = getattr(holder, name)
            if part:
                _replace(holder, name, self._known.setdefault((name, self._encoder.encode(part)), part))

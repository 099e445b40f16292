"""The memory that nodes turned out to have: what an operating system sees of a machine nobody publishes.

Learned from the first nodes of an instance type with an image, and from then on in place of the estimate. Of several
figures the least counts: a pod that was promised more would wait for ever. Nothing of it needs to outlive the process:
the nodes that are there tell it again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import REGISTERED, NodeClaim
from dovetail.model.quantity import Quantity
from dovetail.model.resources import MEMORY
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import NotFound

AT_ONCE = 10  # nodes looked at each time, so that a large cluster is learned little by little
Kind = tuple[str, str]
"""An instance type and an image."""


class ObservedMemory:
    """Memory by instance type and image. `version` grows with every change; `types` are those anything is known of."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._least: dict[Kind, Quantity] = {}
        self._looked_at: dict[str, set[str]] = {}  # claims, by node class
        self.types: frozenset[str] = frozenset()
        self.version = 0

    def of(self, instance_type: str, image_id: str) -> Quantity | None:
        """What nodes of this kind have, or None if there was none yet."""
        return self._least.get((instance_type, image_id))

    async def __call__(self, claims: Sequence[NodeClaim]) -> None:
        """Learn from nodes of one class that registered and were not looked at before; from unknown kinds first."""
        if not claims:
            return
        name = claims[0].spec.node_class_ref.name
        known = self._looked_at.get(name, set()) & {claim.metadata.uid for claim in claims}
        fresh = [claim for claim in claims if claim.metadata.uid not in known and _tells(claim)]
        fresh.sort(key=lambda claim: _kind(claim) in self._least)
        seen: dict[Kind, Quantity] = {}
        for claim in fresh[:AT_ONCE]:
            memory, kind = await self._memory(claim), _kind(claim)
            if memory:
                seen[kind] = min(memory, seen.get(kind, memory))
                known.add(claim.metadata.uid)
        self._looked_at[name] = known
        self._take(seen)

    async def _memory(self, claim: NodeClaim) -> Quantity | None:
        with suppress(NotFound):
            node = await self._cluster.get(NODE, Key("", claim.status.node_name))
            return node.status.capacity.get(MEMORY)
        return None

    def _take(self, seen: Mapping[Kind, Quantity]) -> None:
        less = {kind: memory for kind, memory in seen.items() if kind not in self._least or memory < self._least[kind]}
        if less:
            self._least.update(less)
            self.types |= {instance_type for instance_type, _ in less}
            self.version += 1


def _tells(claim: NodeClaim) -> bool:
    return claim.has(REGISTERED) and all((claim.status.node_name, *_kind(claim)))


def _kind(claim: NodeClaim) -> Kind:
    return claim.metadata.labels.get(INSTANCE_TYPE, ""), claim.status.image_id

"""Several providers as one: each call goes to the provider of the node class that the object refers to.

A NodePool or NodeClaim belongs to the provider that supports the group and kind of its nodeClassRef. An instance
belongs to the one provider that recognizes its provider id. For an object of no provider `supports` returns False, so
the controllers leave it alone.

Well-known labels are known for the whole cluster, but only the nodes of one provider have them. So every instance type
gets a DoesNotExist requirement for the labels of the other providers: a pod that requires an EC2 label is never
scheduled to a KWOK instance type. For the same reason repair policies carry the label of their provider's nodes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.repair import ProviderRepairPolicy
from dovetail.model.requirements import DOES_NOT_EXIST, Requirement, Requirements
from dovetail.ports.cloud import CloudProvider, NodeClassState
from dovetail.ports.errors import InstanceNotFound, NodeClassNotReady

MOST_CATALOGS = 64  # different catalogs in use at the same time; further ones are labeled again in every pass
_Types = tuple[InstanceType, ...]


class CloudRouter:
    """Implements `CloudProvider` on several providers."""

    def __init__(self, providers: Sequence[CloudProvider]) -> None:
        self._providers = tuple(providers)
        self.well_known_labels = frozenset().union(*(each.well_known_labels for each in providers))
        self.node_class_labels = frozenset().union(*(each.node_class_labels for each in providers))
        self.can_drift = any(each.can_drift for each in providers)
        self.name = ",".join(each.name for each in providers)
        self._labeled_types: OrderedDict[int, tuple[_Types, _Types]] = OrderedDict()
        """The tuples that providers returned last, by id, and the same types with the labels that they lack.

        NodePools share a tuple. The entry holds it, so no other tuple gets its id.
        """

    def supports(self, ref: NodeClassRef) -> bool:
        """Whether a provider supports node classes of this group and kind."""
        return any(each.supports(ref) for each in self._providers)

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """Route by the reference; None if no provider supports it."""
        for provider in self._providers:
            if provider.supports(ref):
                return await provider.node_class(ref)
        return None

    async def instance_types(self, pool: NodePool) -> _Types:
        """Route by the NodePool's nodeClassRef. The same types as before are returned as the same object."""
        provider = self._provider_of(pool.node_class_ref)
        types = await provider.instance_types(pool)
        known = self._labeled_types.pop(id(types), None) or (types, self._without_foreign_labels(types, provider))
        self._labeled_types[id(types)] = known
        if len(self._labeled_types) > MOST_CATALOGS:
            self._labeled_types.popitem(last=False)
        return known[1]

    def _without_foreign_labels(self, types: _Types, provider: CloudProvider) -> _Types:
        foreign = self.well_known_labels - provider.well_known_labels - WELL_KNOWN
        absent = Requirements.of(Requirement.of(key, DOES_NOT_EXIST) for key in sorted(foreign))
        return tuple([replace(each, requirements=each.requirements.add(absent)) for each in types])

    async def launch(self, claim: NodeClaim) -> Instance:
        """Route by the NodeClaim's nodeClassRef."""
        return await self._provider_of(claim.spec.node_class_ref).launch(claim)

    async def terminate(self, claim: NodeClaim) -> None:
        """Route by the NodeClaim's nodeClassRef; a NodeClaim that has only a provider id goes to its owner."""
        if claim.spec.node_class_ref.name:
            return await self._provider_of(claim.spec.node_class_ref).terminate(claim)
        for provider in self._providers:
            try:
                return await provider.terminate(claim)
            except InstanceNotFound:
                continue
        raise InstanceNotFound(f"instance {claim.provider_id} does not exist")

    async def get(self, provider_id: str) -> Instance:
        """Ask each provider; those that do not recognize the id answer `InstanceNotFound` without a request."""
        for provider in self._providers:
            try:
                return await provider.get(provider_id)
            except InstanceNotFound:
                continue
        raise InstanceNotFound(f"there is no instance {provider_id}")

    async def list(self) -> tuple[Instance, ...]:
        """The instances of all providers; fails if one of them fails."""
        return tuple([instance for each in self._providers for instance in await each.list()])

    async def drift(self, claim: NodeClaim) -> str:
        """Route by the NodeClaim's nodeClassRef."""
        return await self._provider_of(claim.spec.node_class_ref).drift(claim)

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """The policies of all providers, each restricted to the nodes of its provider."""
        return tuple(
            replace(policy, node_class_label=label)
            for each in self._providers
            for label in sorted(each.node_class_labels)
            for policy in each.repair_statements()
        )

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Tell all providers: zones and instance types of one are unknown to the others."""
        for each in self._providers:
            each.avoid(instance_type, zone, capacity_type)

    def _provider_of(self, ref: NodeClassRef) -> CloudProvider:
        for provider in self._providers:
            if provider.supports(ref):
                return provider
        raise NodeClassNotReady(f"no provider supports node classes of kind {ref.kind!r} in group {ref.api_group!r}")

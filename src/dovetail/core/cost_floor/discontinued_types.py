"""Running instances that can no longer be launched on the same terms.

Their NodePool has changed or is gone, the offering is unavailable or more expensive now, or the instance came with a
snapshot. The cost floor has to allow for them, because their pods run at their price. `add_discontinued` adds, for each
kind of these instances, a NodePool that offers this instance alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodePool,
    NodePoolSpec,
    TemplateMetadata,
)
from dovetail.model.requirements import Requirements

ROUNDED = 1e-6  # the rounding error of a price that is written on a label
Pools = Mapping[str, NodePool]
Catalogs = Mapping[str, tuple[InstanceType, ...]]
Kind = tuple[tuple[tuple[str, str], ...], tuple[Any, ...], float]
"""Labels, taints and price: equal for instances that are interchangeable."""


class RunningInstance(Protocol):
    """An instance with the terms it was launched on."""

    @property
    def claim(self) -> NodeClaim:
        """Its NodeClaim."""

    @property
    def pool(self) -> str:
        """The name of its NodePool."""

    @property
    def price(self) -> float:
        """Its price per hour."""


def is_still_offered(instance: RunningInstance, pools: Pools, catalogs: Catalogs) -> bool:
    """Whether its NodePool would launch an equal instance now, at its price or for less."""
    pool, labels, claim = pools.get(instance.pool), instance.claim.metadata.labels, instance.claim
    if pool is None or claim.spec.taints != pool.spec.template.spec.taints:
        return False
    if pool.requirements.intersects(Requirements.from_labels(labels)) is not None:
        return False
    name = labels.get(INSTANCE_TYPE)
    alike = [each.offering_for_labels(labels) for each in catalogs.get(instance.pool, ()) if each.name == name]
    return any(each is not None and each.available and each.price <= instance.price + ROUNDED for each in alike)


def kind_of(instance: RunningInstance) -> Kind:
    """The labels, taints and price of an instance."""
    return tuple(sorted(_labels(instance.claim).items())), instance.claim.spec.taints, instance.price


def add_discontinued(
    pools: Pools, catalogs: Catalogs, instances: Iterable[RunningInstance]
) -> tuple[dict[str, NodePool], dict[str, tuple[InstanceType, ...]]]:
    """NodePools and their instance types, with one more NodePool for each kind of these instances."""
    kinds = {kind_of(each): each for each in instances}
    kept = {f"discontinued {number}": kinds[each] for number, each in enumerate(sorted(kinds, key=repr))}
    return (
        {**pools, **{name: _pool(each.claim) for name, each in kept.items()}},
        {**catalogs, **{name: (_type(each, catalogs),) for name, each in kept.items()}},
    )


def _labels(claim: NodeClaim) -> dict[str, str]:
    return {key: value for key, value in claim.metadata.labels.items() if key != HOSTNAME}


def _pool(claim: NodeClaim) -> NodePool:
    """A NodePool that launches this instance and no other."""
    template = NodeClaimTemplate(
        metadata=TemplateMetadata(labels=_labels(claim)), spec=NodeClaimTemplateSpec(taints=claim.spec.taints)
    )
    return NodePool(metadata=ObjectMeta(name=claim.name), spec=NodePoolSpec(template=template))


def _type(instance: RunningInstance, catalogs: Catalogs) -> InstanceType:
    """The instance type, with the allocatable of the instance or else of the catalog, and one offering at its price."""
    claim = instance.claim
    labels = claim.metadata.labels
    name = labels.get(INSTANCE_TYPE, "")
    alike = (type_ for catalog in catalogs.values() for type_ in catalog if type_.name == name)
    allocatable = claim.status.allocatable or next((type_.allocatable for type_ in alike), {})
    offered = Requirements.from_labels({key: labels[key] for key in (ZONE, CAPACITY_TYPE) if key in labels})
    return InstanceType(name, Requirements.from_labels({}), (Offering(offered, instance.price),), dict(allocatable), {})

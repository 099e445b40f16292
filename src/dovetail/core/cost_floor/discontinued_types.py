"""Machines of the past: they run although their like can be bought no more.

A NodePool that allowed them has changed or is gone, they are sold out, dearer by now, or came with a snapshot. Whoever
asks what pods could cost at least has to count with them. Each stands there as a pool that sells this machine alone.
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

ROUNDED = 1e-6  # what a price may lose on a label
Pools = Mapping[str, NodePool]
Catalogs = Mapping[str, tuple[InstanceType, ...]]
Kind = tuple[tuple[tuple[str, str], ...], tuple[Any, ...], float]
"""What tells machines apart: labels, taints and price."""


class RunningInstance(Protocol):
    """What was bought."""

    @property
    def claim(self) -> NodeClaim:
        """For this claim."""

    @property
    def pool(self) -> str:
        """By this pool."""

    @property
    def price(self) -> float:
        """At this price an hour."""


def is_sold(machine: RunningInstance, pools: Pools, catalogs: Catalogs) -> bool:
    """Whether its pool would buy its like now, at its price or for less."""
    pool, labels, claim = pools.get(machine.pool), machine.claim.metadata.labels, machine.claim
    if pool is None or claim.spec.taints != pool.spec.template.spec.taints:
        return False
    if pool.requirements.intersects(Requirements.from_labels(labels)) is not None:
        return False
    name = labels.get(INSTANCE_TYPE)
    alike = [each.bought_with(labels) for each in catalogs.get(machine.pool, ()) if each.name == name]
    return any(each is not None and each.available and each.price <= machine.price + ROUNDED for each in alike)


def kind_of(machine: RunningInstance) -> Kind:
    """The same for machines of which one is as good as the other."""
    return tuple(sorted(_labels(machine.claim).items())), machine.claim.spec.taints, machine.price


def with_past(
    pools: Pools, catalogs: Catalogs, machines: Iterable[RunningInstance]
) -> tuple[dict[str, NodePool], dict[str, tuple[InstanceType, ...]]]:
    """Pools and what they buy, and a pool for each kind of these machines."""
    kinds = {kind_of(each): each for each in machines}
    kept = {f"{number} of the past": kinds[each] for number, each in enumerate(sorted(kinds, key=repr))}
    return (
        {**pools, **{name: _pool(each.claim) for name, each in kept.items()}},
        {**catalogs, **{name: (_type(each, catalogs),) for name, each in kept.items()}},
    )


def _labels(claim: NodeClaim) -> dict[str, str]:
    return {key: value for key, value in claim.metadata.labels.items() if key != HOSTNAME}


def _pool(claim: NodeClaim) -> NodePool:
    """A pool that would buy this machine and no other."""
    template = NodeClaimTemplate(
        metadata=TemplateMetadata(labels=_labels(claim)), spec=NodeClaimTemplateSpec(taints=claim.spec.taints)
    )
    return NodePool(metadata=ObjectMeta(name=claim.name), spec=NodePoolSpec(template=template))


def _type(machine: RunningInstance, catalogs: Catalogs) -> InstanceType:
    """Its shape as it is sold elsewhere, or else as the machine itself says, at what it costs."""
    claim = machine.claim
    labels = claim.metadata.labels
    name = labels.get(INSTANCE_TYPE, "")
    alike = (type_ for catalog in catalogs.values() for type_ in catalog if type_.name == name)
    room = claim.status.allocatable or next((type_.allocatable for type_ in alike), {})
    bought = Requirements.from_labels({key: labels[key] for key in (ZONE, CAPACITY_TYPE) if key in labels})
    return InstanceType(name, Requirements.from_labels({}), (Offering(bought, machine.price),), dict(room), {})

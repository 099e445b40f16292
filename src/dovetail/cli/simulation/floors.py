"""What the pods of a story could not have cost less than, from look to look.

Pods may be on whatever can be bought at the time, and on whatever runs although it can be bought no more: a NodePool
that allowed it has changed or is gone, it is sold out, or it came with a snapshot. So no story is below its floor.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dovetail.core.bound import BoundUnavailable, Floor
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodePool,
    NodePoolSpec,
    TemplateMetadata,
)
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirements
from dovetail.model.wire import ObjectMeta
from dovetail.ports.cloud import CloudProvider
from dovetail.sim.scenario.meter import Billed

ROUNDED = 1e-6  # what a price may lose on a label
Catalogs = Mapping[str, tuple[InstanceType, ...]]
Machine = tuple[tuple[tuple[str, str], ...], tuple[Any, ...], float]
"""What tells machines apart: labels, taints and price."""


class Floors:
    """The floor of what pods can cost, made anew only when pools, prices or machines of the past change."""

    def __init__(self, state: Any, provider: CloudProvider) -> None:
        self._state = state
        self._provider = provider
        self._market: Any = None
        self._on_sale: dict[str, bool] = {}  # by the uid of a claim: whether its like can be bought now
        self._of: Any = None
        self._floor: Floor | None = None

    async def of(self, pods: Sequence[tuple[Pod, float]], machines: Iterable[Billed]) -> float | None:
        """Dollars an hour for pods that were there for a share of the time, as were these machines."""
        pools = {key.name: pool for key, pool in sorted(self._state.nodepools.items.items())}
        catalogs = {name: await self._provider.instance_types(pool) for name, pool in pools.items()}
        market = tuple((name, pool.metadata.generation, id(catalogs[name])) for name, pool in pools.items())
        if market != self._market:
            self._market, self._catalogs, self._on_sale = market, catalogs, {}
        past = {_machine(each): each for each in machines if not self._can_be_bought(each, pools)}
        if self._floor is None or (market, frozenset(past)) != self._of:
            self._of = (market, frozenset(past))
            kept = {f"{number} of the past": past[each] for number, each in enumerate(sorted(past, key=repr))}
            self._floor = Floor(
                {**pools, **{name: _pool(each.claim) for name, each in kept.items()}},
                {**catalogs, **{name: (_type(each, catalogs),) for name, each in kept.items()}},
            )
        try:
            return self._floor.on_average(pods)
        except BoundUnavailable:
            return None

    def _can_be_bought(self, machine: Billed, pools: Mapping[str, NodePool]) -> bool:
        known = self._on_sale.get(machine.claim.metadata.uid)
        if known is None:
            pool = pools.get(machine.pool)
            known = pool is not None and _sells(pool, self._catalogs[machine.pool], machine)
            self._on_sale[machine.claim.metadata.uid] = known
        return known


def _sells(pool: NodePool, catalog: Iterable[InstanceType], machine: Billed) -> bool:
    """Whether a pool would buy the like of a machine, at its price or for less."""
    labels, claim = machine.claim.metadata.labels, machine.claim
    if claim.spec.taints != pool.spec.template.spec.taints:
        return False
    if pool.requirements.intersects(Requirements.from_labels(labels)) is not None:
        return False
    return any(
        offering.available and offering.price <= machine.price + ROUNDED
        for type_ in catalog
        if type_.name == labels.get(INSTANCE_TYPE)
        for offering in type_.offerings
        if (offering.zone, offering.capacity_type) == (labels.get(ZONE), labels.get(CAPACITY_TYPE))
    )


def _machine(machine: Billed) -> Machine:
    return tuple(sorted(_labels(machine.claim).items())), machine.claim.spec.taints, machine.price


def _labels(claim: NodeClaim) -> dict[str, str]:
    return {key: value for key, value in claim.metadata.labels.items() if key != HOSTNAME}


def _pool(claim: NodeClaim) -> NodePool:
    """A pool that would buy this machine and no other."""
    template = NodeClaimTemplate(
        metadata=TemplateMetadata(labels=_labels(claim)), spec=NodeClaimTemplateSpec(taints=claim.spec.taints)
    )
    return NodePool(metadata=ObjectMeta(name=claim.name), spec=NodePoolSpec(template=template))


def _type(machine: Billed, catalogs: Catalogs) -> InstanceType:
    """Its shape as it is sold elsewhere, or else as the machine itself says, at what it costs."""
    claim = machine.claim
    labels = claim.metadata.labels
    name = labels.get(INSTANCE_TYPE, "")
    alike = (type_ for catalog in catalogs.values() for type_ in catalog if type_.name == name)
    room = claim.status.allocatable or next((type_.allocatable for type_ in alike), {})
    bought = Requirements.from_labels({key: labels[key] for key in (ZONE, CAPACITY_TYPE) if key in labels})
    return InstanceType(name, Requirements.from_labels({}), (Offering(bought, machine.price),), dict(room), {})

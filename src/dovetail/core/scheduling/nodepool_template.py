"""NodePool template: what a new node of a NodePool would be, and the instance types it could have.

The requirements of the NodePool are joined with the labels that every node of it gets. A type fits if its
requirements intersect these and it has an available offering that is compatible. For each type, the DaemonSets that
would run there determine its overhead and its used host ports.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.core.scheduling.daemon_overhead import Daemons
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import INITIALIZED, NODEPOOL, REGISTERED
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import Taint

LIFECYCLE_LABELS = (REGISTERED, INITIALIZED)
"""Labels every node gets while it starts: daemons may select on them, claims must not carry them."""


@dataclass(frozen=True, eq=False)
class CandidateType:
    """An instance type a draft may become, and what daemons would take of it."""

    type: InstanceType
    overhead: Resources
    ports: tuple[HostPort, ...] = ()


@dataclass(frozen=True, eq=False)
class NodePoolTemplate:
    """What a new node of a NodePool would be."""

    pool: NodePool
    requirements: Requirements
    choices: tuple[CandidateType, ...]
    well_known: frozenset[str]

    @lazy
    def defined(self) -> frozenset[str]:
        """The labels its nodes will have: well-known ones, those its requirements ask for, those its types have."""
        asked = (key for key, requirement in self.requirements.items() if not requirement.tolerates_absence)
        said = (key for choice in self.choices for key in choice.type.requirements)
        return self.well_known | frozenset(asked) | frozenset(said)

    @property
    def taints(self) -> tuple[Taint, ...]:
        """What its nodes keep pods away with, from the start."""
        return self.pool.spec.template.spec.taints


def read_template(pool: NodePool, snapshot: Snapshot, daemons: Daemons) -> NodePoolTemplate:
    """The template of a pool with the types that fit it; `choices` is empty when none does."""
    ref = pool.node_class_ref
    fixed = {NODEPOOL: pool.name, ref.label: ref.name, **dict.fromkeys(LIFECYCLE_LABELS, "true")}
    requirements = pool.requirements.add(Requirements.from_labels(fixed))
    types = fitting_types(snapshot.catalogs.get(pool.name, ()), requirements, snapshot.well_known)
    taints = pool.spec.template.spec.taints
    choices = []
    for each in types:
        reached = requirements.add(each.requirements)
        running = daemons.running_on(reached, taints, snapshot.well_known | frozenset(reached))
        choices.append(CandidateType(each, running.overhead, running.ports))
    return NodePoolTemplate(pool, requirements, tuple(choices), snapshot.well_known)


def fitting_types(
    types: Iterable[InstanceType], requirements: Requirements, well_known: frozenset[str]
) -> Iterable[InstanceType]:
    """The types that meet the requirements and have an available offering that does."""
    return (
        each
        for each in types
        if each.requirements.intersects(requirements) is None
        and any(True for _ in each.compatible_offerings(requirements, well_known))
    )

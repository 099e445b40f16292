"""What can be bought: the types a draft has left, the domains it may still become, and what a NodePool may spend."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dovetail.model.catalog import InstanceType
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import NODES, ZERO, Quantity, Resources, maximum, subtract
from reference.amounts import fits, in_units, requested, requested_by, total
from reference.daemons import daemons_of_type
from reference.ports import ports_conflict
from reference.run import Draft, Run, template_requirements

ONE = Quantity.of(1)


def choices(run: Run, pool: NodePool) -> tuple[InstanceType, ...]:
    """The types of the pool: compatible with its template and sold somewhere."""
    template = template_requirements(pool)
    return tuple(
        each for each in run.snapshot.catalogs.get(pool.name, ()) if sold(run, each, template, run.price_ceiling)
    )


def defined_labels(run: Run, pool: NodePool) -> frozenset[str]:
    """The labels nodes of the pool will have: well-known ones, those it asks for, those its types have."""
    template = template_requirements(pool)
    asked = {key for key, requirement in template.items() if not requirement.tolerates_absence}
    said = {key for each in pool_types(run, pool) for key in each.requirements}
    return run.snapshot.well_known | asked | said


def pool_types(run: Run, pool: NodePool) -> tuple[InstanceType, ...]:
    """The types of the pool at whatever price."""
    template = template_requirements(pool)
    return tuple(each for each in run.snapshot.catalogs.get(pool.name, ()) if sold(run, each, template, None))


def sold(run: Run, instance_type: InstanceType, requirements: Requirements, ceiling: float | None) -> bool:
    """Whether the type, and one of its available offerings below the ceiling, agree with the requirements."""
    return instance_type.requirements.intersects(requirements) is None and any(
        offering.available
        and (ceiling is None or offering.price < ceiling)
        and requirements.compatible(offering.requirements, run.snapshot.well_known) is None
        for offering in instance_type.offerings
    )


def types_left(run: Run, draft: Draft, requirements: Requirements, pods: Sequence[Pod]) -> tuple[InstanceType, ...]:
    """The draft's types that would still do for these requirements and could carry these pods beside their daemons."""
    return tuple(
        each
        for each in draft.types
        if sold(run, each, requirements, run.price_ceiling) and carries(run, draft.pool, each, pods)
    )


def carries(run: Run, pool: NodePool, instance_type: InstanceType, pods: Sequence[Pod]) -> bool:
    """Whether pods and daemons together fit, and the last pod's host ports are free of the daemons'.

    The page lists daemons' ports before types are looked at; daemons differ by type, so a type whose daemons
    conflict is out, and the draft refuses when all are.
    """
    daemons = daemons_of_type(run.snapshot, pool, instance_type)
    needed = total([requested_by(pods), *(requested(spec) for spec in daemons)])
    free_of_daemons = not any(ports_conflict(pod.spec, daemons) for pod in pods)
    return free_of_daemons and fits(needed, in_units(instance_type.allocatable))


def possible_domains(run: Run, requirements: Requirements, types: Iterable[InstanceType], key: str) -> set[str]:
    """The values that the requirements leave for a label and that some of the types offers; empty without the label."""
    return _offered(run, requirements, tuple(types), key, run.price_ceiling)


def pool_domains(run: Run, pool: NodePool, node: Requirements, key: str) -> set[str]:
    """The values of a label such a node of the NodePool could have, at whatever price and whatever its limits leave."""
    return _offered(run, node, run.snapshot.catalogs.get(pool.name, ()), key, None)


def _offered(
    run: Run, requirements: Requirements, types: tuple[InstanceType, ...], key: str, ceiling: float | None
) -> set[str]:
    wanted = requirements.get(key)
    named = wanted.values if not wanted.complement else _values_of(types, key)
    return {
        value
        for value in named
        if wanted.has(value)
        and any(sold(run, each, requirements.add(exactly(key, {value})), ceiling) for each in types)
    }


def _values_of(types: Iterable[InstanceType], key: str) -> set[str]:
    values: set[str] = set()
    for instance_type in types:
        for requirements in (instance_type.requirements, *(each.requirements for each in instance_type.offerings)):
            if key in requirements and not requirements.get(key).complement:
                values |= requirements.get(key).values
    return values


def exactly(key: str, values: Iterable[str]) -> Requirements:
    return Requirements.of([Requirement.of(key, "In", tuple(values))])


def variety_suffices(requirements: Requirements, types: Sequence[InstanceType]) -> bool:
    """Whether the types offer `minValues` distinct values, of those still admitted, of every key that asks for it."""
    return all(
        len(_offered_values(requirement, types)) >= requirement.min_values
        for requirement in requirements.values()
        if requirement.min_values is not None
    )


def _offered_values(requirement: Requirement, types: Sequence[InstanceType]) -> set[str]:
    own = (each.requirements.get(requirement.key) for each in types)
    return {value for offered in own if not offered.complement for value in offered.values if requirement.has(value)}


def within_limits(run: Run, pool: NodePool, types: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
    """The types whose capacity does not exceed what remains; none when less than one node is left."""
    remaining = _remaining(run, pool)
    if remaining.get(NODES, ONE) < ONE:
        return ()
    limited = [name for name in remaining if name != NODES]
    return tuple(each for each in types if all(each.capacity.get(name, ZERO) <= remaining[name] for name in limited))


def _remaining(run: Run, pool: NodePool) -> Resources:
    """The limits, less what the pool's nodes have, less what the drafts of this run spent when they were opened.

    A node that the run removes does not count.
    """
    there = replace(run.snapshot, nodes=tuple(each for each in run.snapshot.nodes if each.name != run.removed))
    remaining = subtract(pool.spec.limits, there.usage(pool.name))
    for draft, spent in zip(run.drafts, run.spent, strict=True):
        if draft.pool.name == pool.name:
            remaining = subtract(remaining, spent)
    return {name: amount for name, amount in remaining.items() if name in pool.spec.limits}


def largest_capacity(types: Iterable[InstanceType]) -> Resources:
    """What opening a draft spends: one node, and of every resource the most that any type has."""
    largest: Resources = {NODES: ONE}
    for each in types:
        largest = maximum(largest, each.capacity)
    return largest

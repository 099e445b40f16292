"""Turns a finished draft into the NodeClaim to create.

The claim lists every instance type that holds its pods, cheapest first and at most `MAX_TYPES`, and leaves the choice
to the provider. Its labels, annotations, finalizer and owner are those that Karpenter sets. Where `minValues` of the
NodePool are relaxed, those of the claim are what its types have, and an annotation says so.
"""

from collections.abc import Mapping, Sequence

import msgspec

from dovetail.core.lifecycle.nodepool_hash import hash_annotations
from dovetail.core.provisioning.launch_backoff import Backoffs, launch_annotations
from dovetail.core.scheduling.catalog_table import CandidateType
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import count_values
from dovetail.core.scheduling.instance_type_table import LIFECYCLE_LABELS
from dovetail.model.catalog import InstanceType
from dovetail.model.duration import Duration
from dovetail.model.kube_object import ObjectMeta, OwnerReference
from dovetail.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    NODEPOOL,
    TERMINATION_FINALIZER,
    provider_domain,
)
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodePool, NodeRequirement
from dovetail.model.requirements import EXISTS, Requirement, Requirements
from dovetail.model.resources import Quantity, Resources, add

MAX_TYPES = 600
NO_BACKOFFS: Backoffs = {}
NEVER_ON_CLAIMS = (HOSTNAME, *LIFECYCLE_LABELS)


def claim_for(draft: Draft, backoffs: Backoffs = NO_BACKOFFS) -> NodeClaim:
    """The NodeClaim of a draft. `backoffs` are the recorded failed launches.

    The spec has the form that Go types give it when they read and write it: it is immutable, so an update by a Go
    client, such as Karpenter after a hand-over, would be refused if it changed `[]`, `0.5` or `1h`.
    """
    pool = draft.template.pool
    template = pool.spec.template.spec
    period = template.termination_grace_period
    ordered = draft.choices[:MAX_TYPES]
    types = [each.type for each in ordered]
    relaxed = _relaxed_min_values(draft, types)
    return NodeClaim(
        metadata=_metadata(draft, backoffs, {MIN_VALUES_RELAXED: "true"} if _are_lower(relaxed, pool) else {}),
        spec=NodeClaimSpec(
            taints=tuple(template.taints),  # plain tuples: an absent list stays absent
            startup_taints=tuple(template.startup_taints),
            requirements=_requirements(draft, types, relaxed),
            resources=ClaimResources(requests=_canonical(add(draft.requests, _least_overhead(ordered)))),
            node_class_ref=template.node_class_ref.as_v1,
            termination_grace_period=period and Duration.of(period.span),
            expire_after=pool.hard_expire_after,
            kubelet=template.kubelet,
        ),
    )


def _relaxed_min_values(draft: Draft, types: list[InstanceType]) -> dict[str, int]:
    """The `minValues` of a claim whose NodePool's are relaxed, by label: at most as many values as the types have."""
    written = draft.template.pool.requirements if draft.template.relaxed else Requirements({})
    return {
        key: min(each.min_values, count_values(types, draft.requirements.get(key)))
        for key, each in written.items()
        if each.min_values is not None
    }


def _are_lower(relaxed: Mapping[str, int], pool: NodePool) -> bool:
    return any(number < (pool.requirements.get(key).min_values or 0) for key, number in relaxed.items())


def _requirements(draft: Draft, types: list[InstanceType], relaxed: Mapping[str, int]) -> tuple[NodeRequirement, ...]:
    capacity_types = _capacity_types(draft, types)
    added = [Requirement.of(key, EXISTS, (), number) for key, number in relaxed.items() if number]
    narrowed = draft.requirements.add(
        Requirements.of([Requirement.of(CAPACITY_TYPE, "In", sorted(capacity_types)), *added])
    )
    written = [
        msgspec.convert(entry, NodeRequirement)
        for entry in narrowed.to_wire()
        if entry["key"] not in NEVER_ON_CLAIMS and entry["key"] != INSTANCE_TYPE
    ]
    by_price = NodeRequirement(
        key=INSTANCE_TYPE,
        operator="In",
        values=tuple(each.name for each in types),
        min_values=narrowed.get(INSTANCE_TYPE).min_values,
    )
    return (*written, by_price)


def _capacity_types(draft: Draft, types: list[InstanceType]) -> set[str]:
    """The capacity types of the compatible offerings. Offerings share few distinct requirements, each checked once."""
    wanted, known = draft.requirements, draft.template.well_known
    found: set[str] = set()
    refused: set[Requirements] = set()
    for each in (offering for type_ in types for offering in type_.offerings if offering.available):
        if each.capacity_type not in found and each.requirements not in refused:
            if wanted.compatible(each.requirements, known) is None:
                found.add(each.capacity_type)
            else:
                refused.add(each.requirements)
    return found


def _canonical(amounts: Resources) -> Resources:
    return {name: Quantity(amount.nano, binary=amount.binary) for name, amount in amounts.items()}


def _least_overhead(choices: Sequence[CandidateType]) -> Resources:
    """The daemon overhead that all these types have at least."""
    least: dict[str, Quantity] = dict(choices[0].overhead)
    for each in choices[1:]:
        least = {name: min(amount, each.overhead[name]) for name, amount in least.items() if name in each.overhead}
    return least


def _metadata(draft: Draft, backoffs: Backoffs, marks: Mapping[str, str]) -> ObjectMeta:
    template, requirements = draft.template, draft.requirements
    pool, defined, well_known = template.pool, template.defined, template.well_known
    ref = pool.node_class_ref
    custom = {
        requirement.key: requirement.any()
        for requirement in requirements.values()
        if requirement.key in defined - well_known
        and requirement.key not in NEVER_ON_CLAIMS
        and not provider_domain(requirement.key)  # the instance sets these when it has the property
    }
    return ObjectMeta(
        generate_name=f"{pool.name}-",
        labels={**custom, **pool.spec.template.metadata.labels, NODEPOOL: pool.name, ref.label: ref.name},
        annotations={
            **pool.spec.template.metadata.annotations,
            **hash_annotations(pool),
            **marks,
            **launch_annotations(draft, backoffs),
        },
        finalizers=(TERMINATION_FINALIZER,),  # set at creation, so that no instance can be launched without it
        owner_references=(
            OwnerReference(
                api_version="karpenter.sh/v1",
                kind="NodePool",
                name=pool.name,
                uid=pool.metadata.uid,
                block_owner_deletion=True,
            ),
        ),
    )

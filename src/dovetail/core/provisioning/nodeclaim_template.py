"""Turns a finished draft into the NodeClaim to create.

The claim lists every instance type that holds its pods, cheapest first and at most `MAX_TYPES`, and leaves the choice
to the provider. Its labels, annotations, finalizer and owner are those that Karpenter sets.
"""

from collections.abc import Sequence

import msgspec

from dovetail.core.lifecycle.nodepool_hash import hash_annotations
from dovetail.core.provisioning.launch_backoff import Backoffs, launch_annotations
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.instance_type_table import LIFECYCLE_LABELS, CandidateType
from dovetail.model.catalog import InstanceType
from dovetail.model.kube_object import ObjectMeta, OwnerReference
from dovetail.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODEPOOL,
    TERMINATION_FINALIZER,
)
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodeRequirement
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity, Resources, add

MAX_TYPES = 600
NO_BACKOFFS: Backoffs = {}
NEVER_ON_CLAIMS = (HOSTNAME, *LIFECYCLE_LABELS)


def claim_for(draft: Draft, backoffs: Backoffs = NO_BACKOFFS) -> NodeClaim:
    """The NodeClaim of a draft. `backoffs` are the recorded failed launches."""
    pool = draft.template.pool
    template = pool.spec.template.spec
    ordered = draft.choices[:MAX_TYPES]
    return NodeClaim(
        metadata=_metadata(draft, backoffs),
        spec=NodeClaimSpec(
            taints=template.taints,
            startup_taints=template.startup_taints,
            requirements=_requirements(draft, [each.type for each in ordered]),
            resources=ClaimResources(requests=add(draft.requests, _least_overhead(ordered))),
            node_class_ref=template.node_class_ref,
            termination_grace_period=template.termination_grace_period,
            expire_after=pool.hard_expire_after,
            kubelet=template.kubelet,
        ),
    )


def _requirements(draft: Draft, types: list[InstanceType]) -> tuple[NodeRequirement, ...]:
    capacity_types = _capacity_types(draft, types)
    narrowed = draft.requirements.add(Requirements.of([Requirement.of(CAPACITY_TYPE, "In", sorted(capacity_types))]))
    written = [
        msgspec.convert(entry, NodeRequirement)
        for entry in narrowed.to_wire()
        if entry["key"] not in NEVER_ON_CLAIMS and entry["key"] != INSTANCE_TYPE
    ]
    by_price = NodeRequirement(
        key=INSTANCE_TYPE,
        operator="In",
        values=tuple(each.name for each in types),
        min_values=draft.requirements.get(INSTANCE_TYPE).min_values,
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


def _least_overhead(choices: Sequence[CandidateType]) -> Resources:
    """The daemon overhead that all these types have at least."""
    least: dict[str, Quantity] = dict(choices[0].overhead)
    for each in choices[1:]:
        least = {name: min(amount, each.overhead[name]) for name, amount in least.items() if name in each.overhead}
    return least


def _metadata(draft: Draft, backoffs: Backoffs) -> ObjectMeta:
    template, requirements = draft.template, draft.requirements
    pool, defined, well_known = template.pool, template.defined, template.well_known
    ref = pool.node_class_ref
    custom = {
        requirement.key: requirement.any()
        for requirement in requirements.values()
        if requirement.key in defined - well_known and requirement.key not in NEVER_ON_CLAIMS
    }
    return ObjectMeta(
        generate_name=f"{pool.name}-",
        labels={**custom, **pool.spec.template.metadata.labels, NODEPOOL: pool.name, ref.label: ref.name},
        annotations={
            **pool.spec.template.metadata.annotations,
            **hash_annotations(pool),
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

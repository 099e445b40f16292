"""Minimal claims and catalogs for the kwok tests."""

from dovetail.cloud.kwok.catalog.instance_types_file import InstanceTypeSpec, build, offering
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodeClassRef, NodeRequirement
from dovetail.model.resources import Quantity

CLASS_REF = NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")


def requirement(key, *values, operator="In"):
    return NodeRequirement(key=key, operator=operator, values=values)


def claim(name="pool-a1", *requirements, uid="u1", cpu="1", ref=CLASS_REF):
    return NodeClaim(
        metadata=ObjectMeta(name=name, uid=uid, labels={"karpenter.sh/nodepool": "pool"}),
        spec=NodeClaimSpec(
            requirements=requirements,
            resources=ClaimResources(requests={"cpu": Quantity.of(cpu), "pods": Quantity.of("3")}),
            node_class_ref=ref,
        ),
    )


def instance_type(name, *prices, cpu="4", architecture="amd64", systems=("linux",)):
    """A type whose offerings are (zone, capacity type, price)."""
    return build(
        InstanceTypeSpec(
            name=name,
            architecture=architecture,
            operating_systems=systems,
            resources={"cpu": Quantity.of(cpu), "memory": Quantity.of("8Gi")},
            offerings=tuple(offering(*each) for each in prices),
        )
    )

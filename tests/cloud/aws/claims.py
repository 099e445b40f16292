"""NodeClaims for launch tests."""

import itertools

from dovetail.cloud.aws.provider import AwsProvider, assemble_aws
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import NodeClassRef, NodeRequirement
from dovetail.model.resources import Quantity

REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
_NUMBERS = itertools.count(1)


def wants(key, *values, operator="In", **more):
    return NodeRequirement(key=key, operator=operator, values=values, **more)


ON_DEMAND = wants("karpenter.sh/capacity-type", "on-demand")
SPOT = wants("karpenter.sh/capacity-type", "spot")
RESERVED = wants("karpenter.sh/capacity-type", "reserved")


def types(*names):
    return wants("node.kubernetes.io/instance-type", *names)


def claim(*requirements, name="", requests=None, **spec):
    """A claim of the default pool before it is created."""
    amounts = {key: Quantity.parse(amount) for key, amount in (requests or {}).items()}
    name = name or f"claim-{next(_NUMBERS)}"
    return NodeClaim(
        metadata=ObjectMeta(name=name, labels={"karpenter.sh/nodepool": "default", "team": "a"}),
        spec=NodeClaimSpec(
            requirements=requirements, node_class_ref=REF, resources=ClaimResources(requests=amounts), **spec
        ),
    )


async def asked_for(account, *requirements, **given):
    """A claim from the API server."""
    return await account.world.create(NODE_CLAIM, claim(*requirements, **given))


def launched_as(asked, instance):
    """The claim with its instance in its status, as the lifecycle controller writes it."""
    meta = asked.metadata
    return NodeClaim(
        metadata=ObjectMeta(
            name=meta.name,
            uid=meta.uid,
            labels={**instance.labels, **meta.labels},
            annotations={**meta.annotations, **instance.annotations},
        ),
        spec=asked.spec,
        status=NodeClaimStatus(provider_id=instance.provider_id, image_id=instance.image_id),
    )


def requests(account, operation="CreateFleet"):
    return [asked.given for asked in account.proxy.asked if asked.operation == operation]


def values(request, ending):
    return [value for name, value in request.items() if name.endswith(ending)]


def next_process(account):
    """A new provider without any cached state."""
    parts = account.parts
    return AwsProvider(assemble_aws(account.world, account.clock, parts.settings, parts.aws))

"""Converts between a NodeClaim, the Node that represents its simulated instance, and the `Instance` of the cloud port.

The name of the node derives from its NodeClaim, so a repeated launch for the same claim finds the same node. The labels
are those of Karpenter's kwok provider. Unlike there, the capacity of the node is that of the instance type, not the
resources that the claim requests.
"""

import hashlib

from dovetail.cloud.kwok.offering_selection import SelectedOffering
from dovetail.model.catalog import Instance
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import ARCH, HOSTNAME, INSTANCE, LOST, OS, PLANNED_PODS, provider_domain
from dovetail.model.node import Node, NodeSpec, NodeStatus
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.requirements import Requirement
from dovetail.model.taints import UNREGISTERED_TAINT

GROUP = "karpenter.kwok.sh"
NODE_CLASS_KIND = "KWOKNodeClass"

INSTANCE_SIZE = "karpenter.kwok.sh/instance-size"
INSTANCE_FAMILY = "karpenter.kwok.sh/instance-family"
INSTANCE_CPU = "karpenter.kwok.sh/instance-cpu"
INSTANCE_MEMORY = "karpenter.kwok.sh/instance-memory"
INSTANCE_LABELS = frozenset({INSTANCE_SIZE, INSTANCE_FAMILY, INSTANCE_CPU, INSTANCE_MEMORY})

FAKE_NODE = "kwok.x-k8s.io/node"  # a label and an annotation: KWOK manages the nodes that have it
FAKE = "fake"
PARTITION = "kwok-partition"
PRICE = "eks-node-viewer/instance-price"

PROVIDER_PREFIX = "kwok://"


_MAX_NAME_LENGTH = 253
_MAX_LABEL_LENGTH = 63


def node_name(claim: NodeClaim) -> str:
    """The name of the claim's node: from its provider ID, or else derived from its name and uid."""
    if claim.provider_id.startswith(PROVIDER_PREFIX):
        return claim.provider_id.removeprefix(PROVIDER_PREFIX)
    suffix = f"-{_digest(claim.metadata.uid)}"
    return f"kwok-{claim.name}"[: _MAX_NAME_LENGTH - len(suffix)].rstrip("-.") + suffix


def provider_id(name: str) -> str:
    """The provider ID of the node's instance."""
    return PROVIDER_PREFIX + name


def build_node(claim: NodeClaim, choice: SelectedOffering) -> Node:
    """The node of a claim as it is created: with the unregistered taint, and not ready."""
    name = node_name(claim)
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key != PLANNED_PODS}
    return Node(
        metadata=ObjectMeta(name=name, labels=_labels(claim, choice), annotations={**annotations, FAKE_NODE: FAKE}),
        spec=NodeSpec(provider_id=provider_id(name), taints=(UNREGISTERED_TAINT,)),
        status=NodeStatus(
            capacity=choice.instance_type.capacity, allocatable=choice.instance_type.allocatable, phase="Pending"
        ),
    )


def is_lost(node: Node) -> bool:
    """Whether a label simulates the loss of the instance: the Node exists, but its instance does not."""
    return node.metadata.labels.get(INSTANCE) == LOST


def instance_of(node: Node) -> Instance:
    """The instance that a node represents."""
    return Instance(
        provider_id=node.provider_id,
        labels=dict(node.metadata.labels),
        capacity=node.status.capacity,
        allocatable=node.status.allocatable,
        annotations=dict(node.metadata.annotations),
        terminating=node.deleting,
        launched_at=node.metadata.creation_timestamp,
    )


def _labels(claim: NodeClaim, choice: SelectedOffering) -> dict[str, str]:
    defined = choice.instance_type.requirements.add(choice.offering.requirements)
    requirements = claim.requirements.add(defined)
    settled = requirements.labels().items()
    return {
        **claim.metadata.labels,
        **{key: value for key, value in settled if key in defined or not provider_domain(key)},
        OS: _single_value(requirements.get(OS), "linux"),
        ARCH: _single_value(requirements.get(ARCH), "amd64"),
        HOSTNAME: _hostname(claim),
        FAKE_NODE: FAKE,
        PARTITION: "a",
        PRICE: f"{choice.offering.price:f}",
    }


def _single_value(requirement: Requirement, preferred: str) -> str:
    """The value of a node: the preferred one if the type supports it, else any."""
    return preferred if requirement.has(preferred) else requirement.any()


def _hostname(claim: NodeClaim) -> str:
    if len(claim.name) <= _MAX_LABEL_LENGTH:
        return claim.name
    return f"{claim.name[:54].rstrip('-.')}-{_digest(claim.name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

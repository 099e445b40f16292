"""The Node that stands for a simulated instance, and the instance read back from it. Pure translation.

The node's name follows from its NodeClaim, so whoever launches for the same claim again finds the same node. Unlike
Karpenter's kwok, capacity is that of the instance type and not what the claim happened to ask for.

Names that Karpenter's kwok provider and KWOK itself put on nodes.
"""

import hashlib

from dovetail.cloud.kwok.offering_selection import SelectedOffering
from dovetail.model.catalog import Instance
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import ARCH, HOSTNAME, INSTANCE, LOST, OS
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

FAKE_NODE = "kwok.x-k8s.io/node"  # a label and an annotation: KWOK looks after nodes that carry it
FAKE = "fake"
PARTITION = "kwok-partition"
PRICE = "eks-node-viewer/instance-price"

PROVIDER_PREFIX = "kwok://"


_LONGEST_NAME = 253
_LONGEST_LABEL = 63


def node_name(claim: NodeClaim) -> str:
    """The name of the claim's node: the one on record, or the one it will get."""
    if claim.provider_id.startswith(PROVIDER_PREFIX):
        return claim.provider_id.removeprefix(PROVIDER_PREFIX)
    suffix = f"-{_digest(claim.metadata.uid)}"
    return f"kwok-{claim.name}"[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix


def provider_id(name: str) -> str:
    """The instance behind a node of that name."""
    return PROVIDER_PREFIX + name


def build_node(claim: NodeClaim, choice: SelectedOffering) -> Node:
    """The node of a claim, as it first appears: unregistered, and not yet looked after by any kubelet."""
    name = node_name(claim)
    return Node(
        metadata=ObjectMeta(
            name=name, labels=_labels(claim, choice), annotations={**claim.metadata.annotations, FAKE_NODE: FAKE}
        ),
        spec=NodeSpec(provider_id=provider_id(name), taints=(UNREGISTERED_TAINT,)),
        status=NodeStatus(
            capacity=choice.instance_type.capacity, allocatable=choice.instance_type.allocatable, phase="Pending"
        ),
    )


def is_lost(node: Node) -> bool:
    """Whether the loss of the instance is staged: the Node is still there, and nothing stands behind it."""
    return node.metadata.labels.get(INSTANCE) == LOST


def instance_of(node: Node) -> Instance:
    """The instance a node stands for."""
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
    settled = claim.requirements.add(choice.instance_type.requirements, choice.offering.requirements)
    return {
        **claim.metadata.labels,
        **settled.labels(),
        OS: _one(settled.get(OS), "linux"),
        ARCH: _one(settled.get(ARCH), "amd64"),
        HOSTNAME: _hostname(claim),
        FAKE_NODE: FAKE,
        PARTITION: "a",
        PRICE: f"{choice.offering.price:f}",
    }


def _one(requirement: Requirement, preferred: str) -> str:
    """A type may run several systems; a node runs one."""
    return preferred if requirement.has(preferred) else requirement.any()


def _hostname(claim: NodeClaim) -> str:
    if len(claim.name) <= _LONGEST_LABEL:
        return claim.name
    return f"{claim.name[:54].rstrip('-.')}-{_digest(claim.name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

"""Nodes as the API server shows them."""

from collections.abc import Mapping

import msgspec

from dovetail.model.kube_object import ApiStruct, Condition, KubeObject
from dovetail.model.resources import Quantity
from dovetail.model.taints import Taint


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    """What a node is asked to be."""

    provider_id: str = msgspec.field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """What a node's kubelet says of it."""

    capacity: Mapping[str, Quantity] = {}
    allocatable: Mapping[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()
    phase: str = ""


class Node(KubeObject, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def provider_id(self) -> str:
        """The instance behind it."""
        return self.spec.provider_id

    @property
    def ready(self) -> bool:
        """Its Ready condition is exactly True; a missing one counts as not ready."""
        for condition in self.status.conditions:  # noqa: SIM110 - asked of every node, several times a pass
            if condition.type == "Ready" and condition.status == "True":
                return True
        return False

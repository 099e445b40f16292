"""Nodes of the Kubernetes API."""

from collections.abc import Mapping

import msgspec

from dovetail.model.kube_object import ApiStruct, Condition, KubeObject
from dovetail.model.resources import Quantity
from dovetail.model.taints import Taint


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a node."""

    provider_id: str = msgspec.field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """The state of a node as its kubelet reports it."""

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
        """The id of its instance at the cloud provider."""
        return self.spec.provider_id

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True; a missing condition counts as not ready."""
        for condition in self.status.conditions:  # noqa: SIM110 - faster than any(), called for every node
            if condition.type == "Ready" and condition.status == "True":
                return True
        return False

"""NodeClaims: the request for one instance, and its progress.

A NodeClaim is created by provisioning or disruption, launched by the provider, and passes the conditions Launched,
Registered and Initialized. Its spec is immutable.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from dovetail.model.conditions import find
from dovetail.model.duration import Delay, Duration
from dovetail.model.kube_object import ApiStruct, Condition, Instant, KubeObject
from dovetail.model.labels import NODEPOOL
from dovetail.model.nodepool import ABSENT_REQUIREMENTS, NodeClassRef, NodeRequirement, read_requirements
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Quantity
from dovetail.model.taints import Taint

LAUNCHED = "Launched"
REGISTERED = "Registered"
INITIALIZED = "Initialized"
CONSOLIDATABLE = "Consolidatable"
DRIFTED = "Drifted"
DRAINED = "Drained"
VOLUMES_DETACHED = "VolumesDetached"
INSTANCE_TERMINATING = "InstanceTerminating"
CONSISTENT_STATE_FOUND = "ConsistentStateFound"
DISRUPTION_REASON = "DisruptionReason"

DEPENDENTS = (LAUNCHED, REGISTERED, INITIALIZED)
"""The conditions that together make a NodeClaim Ready."""


class ClaimResources(ApiStruct, frozen=True, kw_only=True):
    """The requests of the pods that the claim was created for."""

    requests: Mapping[str, Quantity] = {}


class NodeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The requested instance. Immutable."""

    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[NodeRequirement, ...] = ABSENT_REQUIREMENTS
    resources: ClaimResources = ClaimResources()
    node_class_ref: NodeClassRef = NodeClassRef()
    termination_grace_period: Duration | None = None
    expire_after: Delay | None = None
    kubelet: Mapping[str, object] | None = None


class NodeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The launched instance, and its conditions."""

    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    image_id: str = msgspec.field(default="", name="imageID")
    capacity: Mapping[str, Quantity] = {}
    allocatable: Mapping[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()
    last_pod_event_time: Instant | None = None


class NodeClaim(KubeObject, frozen=True, kw_only=True):
    """A NodeClaim."""

    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()

    @property
    def provider_id(self) -> str:
        """The id of its instance at the provider; empty until launched."""
        return self.status.provider_id

    @property
    def nodepool_name(self) -> str:
        """The NodePool it belongs to, or empty."""
        return self.metadata.labels.get(NODEPOOL, "")

    @property
    def requirements(self) -> Requirements:
        """The requirements on the instance."""
        return read_requirements(self.spec.requirements)

    @property
    def pods_unchanged_since(self) -> datetime | None:
        """When a pod was last added to or removed from its node, or else when the node was initialized."""
        if self.status.last_pod_event_time is not None:
            return self.status.last_pod_event_time
        initialized = find(self.status.conditions, INITIALIZED)
        return initialized.last_transition_time if initialized is not None and initialized.status == "True" else None

    def has(self, condition: str) -> bool:
        """Whether that condition is True."""
        for each in self.status.conditions:  # noqa: SIM110 - faster than any(), called for every claim
            if each.type == condition and each.status == "True":
                return True
        return False

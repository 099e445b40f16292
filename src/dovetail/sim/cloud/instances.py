"""What the simulated cloud records of each instance, and what it is asked for to launch one.

A record is a frozen value; every change replaces it in `SimulatedCloud.instances` and notifies the listeners. All
instants are seconds of the event loop, as everywhere in `sim`.

    pending -> running -> shutting-down -> terminated

`pending` ends when the instance has booted, whether or not its kubelet then joins the cluster. `shutting-down` begins
with the first call of terminate: from here on nothing runs on the instance. An instance that is reclaimed or lost goes
to `terminated` at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from dovetail.model.resources import Resources

State = Literal["pending", "running", "shutting-down", "terminated"]
EndedBy = Literal["", "terminate", "reclaimed", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One launch as the provider asks for it. `token` makes it safe to repeat: the cloud launches once for a token."""

    token: str  # uid of the NodeClaim
    name: str  # of the Node that the instance will register
    claim: str
    nodepool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float  # per hour
    tags: Mapping[str, str] = field(default_factory=dict)  # labels of the NodeClaim and of what was bought
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)
    registration_delay: float = 0.0  # seconds from the end of the boot to the Node


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """One instance, from its launch to its end and after."""

    provider_id: str
    launched: LaunchRequest
    launched_at: float
    launched_on: datetime  # the same instant by the calendar
    state: State = "pending"
    joins: bool = True  # False: its kubelet never registers a Node
    node_name: str | None = None  # of the Node it registered, also after that Node is gone
    joined_at: float | None = None
    terminate_called_at: float | None = None  # the first call
    ended_at: float | None = None
    ended_by: EndedBy = ""

    @property
    def claim(self) -> str:
        """Name of the NodeClaim it was launched for; empty for an instance that was there before."""
        return self.launched.claim

    @property
    def claim_uid(self) -> str:
        """Uid of that NodeClaim."""
        return self.launched.token

    @property
    def nodepool(self) -> str:
        """Name of the NodePool it was launched for."""
        return self.launched.nodepool

    @property
    def instance_type(self) -> str:
        """Name of its instance type."""
        return self.launched.instance_type

    @property
    def zone(self) -> str:
        """Where it runs."""
        return self.launched.zone

    @property
    def capacity_type(self) -> str:
        """How it is bought."""
        return self.launched.capacity_type

    @property
    def price(self) -> float:
        """What it costs per hour."""
        return self.launched.price

    @property
    def tags(self) -> Mapping[str, str]:
        """Labels it was launched with."""
        return self.launched.tags

    @property
    def runs(self) -> bool:
        """Whether pods can run on it: it has neither ended nor begun to."""
        return self.state in ("pending", "running")

    @property
    def exists(self) -> bool:
        """Whether it is still paid for."""
        return self.state != "terminated"

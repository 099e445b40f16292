"""How the controller responds to each kind of interruption warning, and the deadline of the drain.

Most warnings start a drain ahead of the event, which respects PDBs as long as there is time. If the time of the event
is known, it is the deadline of the drain, so that pods terminate with their own grace period before the instance stops.
An instance that fails its status checks is terminated by force. Events and texts are Karpenter's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a warning. `event` is the reason of the Kubernetes event, `message` its text."""

    event: str
    message: str
    warning: bool = True
    acts: bool = True  # deletes the NodeClaim
    forceful: bool = False  # the drain ends at once
    avoids: bool = False  # marks the offering unavailable, because its capacity is about to run out


_UNHEALTHY = Response("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
_REBALANCE = Response(
    "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", warning=False, acts=False
)
RESPONSES: Mapping[str, Response] = {
    "spot_interrupted": Response("SpotInterrupted", "Spot interruption warning was triggered", avoids=True),
    "rebalance_recommendation": _REBALANCE,
    "scheduled_change": _UNHEALTHY,
    "instance_stopped": Response("InstanceStopping", "Instance is stopping"),
    "instance_terminated": Response("InstanceTerminating", "Instance is terminating"),
    "capacity_reservation_interrupted": Response(
        "CapacityReservationInstanceInterrupted", "Capacity reservation interruption warning was triggered", avoids=True
    ),
    "instance_status": replace(_UNHEALTHY, forceful=True),
    "system_status": replace(_UNHEALTHY, forceful=True),
    "event_status": _UNHEALTHY,
}
"""By kind of warning, as `ports.interruption` names them."""


def respond(kind: str, *, rebalance: bool) -> Response:
    """The response to a warning. A rebalance recommendation is only published unless `rebalance` is set."""
    response = RESPONSES[kind]
    return replace(response, acts=True, avoids=True) if rebalance and response is _REBALANCE else response


def drain_by(response: Response, at: datetime | None, now: datetime) -> datetime | None:
    """The deadline of the drain, or None without one. A time in the past is ignored."""
    if response.forceful:
        return now
    return at if at is not None and at > now else None

"""What each kind of warning about an instance asks for, and by when the node has to be empty.

Most ask for a drain ahead of the event, with every PodDisruptionBudget honoured for as long as there is time. When the
instant of the event is known, it becomes the deadline of the drain: a pod is better stopped with its own grace than
switched off with its machine. A machine that fails its status checks is not drained but let go by force.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Response:
    """What a warning leads to. `event` is the reason of the Kubernetes event, `message` its text."""

    event: str
    message: str
    warning: bool = True
    acts: bool = True
    forceful: bool = False
    avoids: bool = False  # the offering is about to run short


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
"""By kind, as ports name them. Events and texts are Karpenter's."""


def respond(kind: str, *, rebalance: bool) -> Response:
    """What to do about a warning; a recommendation to rebalance is only told unless `rebalance` asks for more."""
    response = RESPONSES[kind]
    return replace(response, acts=True, avoids=True) if rebalance and response is _REBALANCE else response


def drain_by(response: Response, at: datetime | None, now: datetime) -> datetime | None:
    """The instant by which the drain has to be over, or None where it may take its time.

    An instant that has passed tells nothing: if the machine is gone, that shows otherwise.
    """
    if response.forceful:
        return now
    return at if at is not None and at > now else None

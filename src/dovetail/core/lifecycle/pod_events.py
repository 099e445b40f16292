"""Pod events of a node: `consolidateAfter` and `consolidationGracePeriod` count from the last one.

A pod event is a pod being bound, finishing, or being deleted; DaemonSet pods do not count. A restart must not restart
these delays, so a pod that is first seen already bound counts from the time it was bound.
"""

from datetime import datetime, timedelta

from dovetail.model.conditions import find
from dovetail.model.instants import add
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod

DEDUPE = timedelta(seconds=10)


def pod_event_at(before: Pod | None, after: Pod | None, now: datetime) -> datetime | None:
    """The time of the pod event that this change is, or None if it is none."""
    pod = after or before
    if pod is None or pod.daemon or not pod.node_name:
        return None
    if after is None:
        return now if before is not None and before.active else None
    if before is None:
        since = bound_at(after) if after.active else None
        return min(since, now) if since is not None else None
    became_bound = not before.node_name
    ended = before.active and not after.active
    return now if became_bound or ended else None


def bound_at(pod: Pod) -> datetime | None:
    """When the pod was bound: its `PodScheduled` condition, or else its start or creation."""
    scheduled = find(pod.status.conditions, "PodScheduled")
    return (
        (scheduled.last_transition_time if scheduled is not None and scheduled.status == "True" else None)
        or pod.status.start_time
        or pod.metadata.creation_timestamp
    )


def write_at(claim: NodeClaim, event_at: datetime) -> datetime | None:
    """When to write the time of an event to the claim's status, or None if it need not be written.

    At most one write in ten seconds: of a burst, the first event is written at once and the last one after ten seconds.
    A claim that is being deleted needs no pod events.
    """
    stored = claim.status.last_pod_event_time
    if claim.deleting or (stored is not None and event_at.replace(microsecond=0) <= stored):
        return None
    return event_at if stored is None else add(stored, DEDUPE)

"""When something last happened to the pods of a node: the clock behind consolidateAfter and consolidationGracePeriod.

A replay of old news after a restart must not restart that clock, so a pod first seen already bound counts from the
instant it was bound, not from now.
"""

from datetime import datetime, timedelta

from dovetail.model.conditions import find
from dovetail.model.instants import add
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod

DEDUPE = timedelta(seconds=10)


def pod_event_at(before: Pod | None, after: Pod | None, now: datetime) -> datetime | None:
    """The instant of the event this change is, or None if it is none. Daemons do not count."""
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
    """When the scheduler bound it, as far as the pod tells."""
    scheduled = find(pod.status.conditions, "PodScheduled")
    return (
        (scheduled.last_transition_time if scheduled is not None and scheduled.status == "True" else None)
        or pod.status.start_time
        or pod.metadata.creation_timestamp
    )


def write_at(claim: NodeClaim, event_at: datetime) -> datetime | None:
    """When to write the time of an event down, or None for one that is no news.

    At most one write in ten seconds: of a burst the first event is written at once and the last one when the ten
    seconds are over. Of a claim on its way out nobody asks any more how long its node has been quiet.
    """
    stored = claim.status.last_pod_event_time
    if claim.deleting or (stored is not None and event_at.replace(microsecond=0) <= stored):
        return None
    return event_at if stored is None else add(stored, DEDUPE)

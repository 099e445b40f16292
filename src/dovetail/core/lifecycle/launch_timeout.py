"""How long a NodeClaim may take to launch and to register before it is given up."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.model.conditions import find
from dovetail.model.instants import add
from dovetail.model.nodeclaim import LAUNCHED, REGISTERED, NodeClaim

LAUNCH_TIMEOUT = timedelta(minutes=5)
REGISTRATION_TIMEOUT = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether a claim is overdue (`reason` set), or how long until it would be."""

    reason: str = ""
    wait: timedelta | None = None


def judge_liveness(claim: NodeClaim, now: datetime) -> Liveness:
    """Both clocks run from the last change of their condition, which starts at the claim's creation."""
    if claim.has(REGISTERED):
        return Liveness()
    waits = []
    if not claim.has(LAUNCHED):
        waits.append((add(_since(claim, LAUNCHED, now), LAUNCH_TIMEOUT) - now, "launch_timeout"))
    waits.append((add(_since(claim, REGISTERED, now), REGISTRATION_TIMEOUT) - now, "registration_timeout"))
    for wait, reason in waits:
        if wait <= timedelta():
            return Liveness(reason=reason)
    return Liveness(wait=min(wait for wait, _ in waits))


def _since(claim: NodeClaim, condition: str, now: datetime) -> datetime:
    """Since when it waits; a claim that does not say when it was created has only just begun to."""
    found = find(claim.status.conditions, condition)
    return (found.last_transition_time if found is not None else None) or claim.metadata.creation_timestamp or now

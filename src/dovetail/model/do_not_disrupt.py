"""The annotation `karpenter.sh/do-not-disrupt` of a pod: protects it forever, for some time, or not at all.

A duration counts from the creation of the pod and ends at exactly that instant. An invalid value protects forever and
is reported: when in doubt, do not disrupt. Only active pods are protected; daemon and static pods are no exception.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dovetail.model.duration import Duration
from dovetail.model.instants import LAST_INSTANT, add
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Protection:
    """Whether a pod is protected now, when the protection ends, and what is wrong with the annotation."""

    active: bool
    until: datetime | None = None
    fault: str = ""


UNPROTECTED = Protection(active=False)
FOREVER = Protection(active=True)


def protection(pod: Pod, now: datetime) -> Protection:
    """The protection of a pod at this instant."""
    written = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if written is None or written == "false" or not pod.active:
        return UNPROTECTED
    if written == "true":
        return FOREVER
    try:
        span = Duration.parse(written).span
    except ValueError as error:
        return Protection(active=True, fault=f"{written!r} is neither true, false nor a duration: {error}")
    created_at = pod.metadata.creation_timestamp
    if span.total_seconds() <= 0 or created_at is None:
        return Protection(active=True, fault=f"duration {written!r} must be longer than zero")
    until = add(created_at, span)
    return Protection(active=now < until, until=until)


def longest_first(pods: Iterable[Pod], now: datetime) -> list[tuple[Pod, Protection]]:
    """The pods that are protected now with their protections, longest first."""
    held = [(pod, protected) for pod in pods if (protected := protection(pod, now)).active]
    return sorted(held, key=lambda each: each[1].until or LAST_INSTANT, reverse=True)

"""How the world fails. An expected "no" is a returned value; these are for when a call did not do what it was asked.

`OutcomeUnknown` is apart from the rest: the write may have taken effect, so the caller must look before it repeats.
"""

from dovetail.model.kube_object import Fault


class WorldError(Exception):
    """Base of everything a port raises."""


class ApiError(WorldError):
    """The Kubernetes API refused or could not be reached."""


class NotFound(ApiError):
    """There is no such object."""


class AlreadyExists(ApiError):
    """An object of that name is there already."""


class Conflict(ApiError):
    """The object changed since it was read, or a precondition does not hold."""


class Gone(ApiError):
    """The resource version asked for is no longer kept: list again."""


class Invalid(ApiError):
    """The API server will not take the object; `faults` says why."""

    def __init__(self, message: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults


class Denied(ApiError):
    """Not authenticated, or not allowed."""


LONGEST_RETRY_AFTER = 30.0
"""Seconds. A server that asks for more is asked again after this: one bad header must not blind us for a day."""


class Throttled(ApiError):
    """The API server asks to come back later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = min(retry_after, LONGEST_RETRY_AFTER) if retry_after is not None else None


class EvictionBlocked(ApiError):
    """A PodDisruptionBudget does not allow the eviction now."""


class EvictionImpossible(ApiError):
    """More than one PodDisruptionBudget selects the pod; the eviction API refuses such pods."""


class Unavailable(ApiError):
    """The API server is down, overloaded or broken; nothing was written."""


class Corrupted(Unavailable):
    """The answer was cut or mangled on the way; the same request may well get the same answer."""


class OutcomeUnknown(ApiError):
    """The call did not answer in time; it may or may not have taken effect."""


class CloudError(WorldError):
    """The provider refused or could not be reached."""


class InstanceNotFound(CloudError):
    """There is no such instance (any more)."""


class InsufficientCapacity(CloudError):
    """None of the offerings asked for can be had now."""


class NodeClassNotReady(CloudError):
    """The node class is missing or not ready, so nothing can be launched with it."""


class LaunchFailed(CloudError):
    """The launch failed for a reason worth showing on the NodeClaim."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

"""The exceptions of the ports: failed calls to the Kubernetes API or the cloud. Expected refusals are return values.

After `OutcomeUnknown` the write may have taken effect, so the caller must read the object before it retries.
"""

from dovetail.model.kube_object import Fault


class WorldError(Exception):
    """Base class of all errors that ports raise."""


class ApiError(WorldError):
    """The Kubernetes API refused or could not be reached."""


class NotFound(ApiError):
    """The object does not exist."""


class AlreadyExists(ApiError):
    """An object with this name already exists."""


class Conflict(ApiError):
    """The object changed since it was read, or a precondition does not hold."""


class Gone(ApiError):
    """The requested resource version is no longer available (410): list again."""


class Invalid(ApiError):
    """The API server rejected the object; `faults` says why."""

    def __init__(self, message: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults


class Denied(ApiError):
    """Not authenticated, or not allowed."""


class Forbidden(Denied):
    """Authenticated, but not allowed (403)."""


LONGEST_RETRY_AFTER = 30.0
"""Seconds. Upper bound for Retry-After: one bad header must not stop a controller for a day."""


class Throttled(ApiError):
    """The API server asks to retry later (429)."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = min(retry_after, LONGEST_RETRY_AFTER) if retry_after is not None else None


class EvictionBlocked(ApiError):
    """A PodDisruptionBudget does not allow the eviction now."""


class EvictionImpossible(ApiError):
    """More than one PodDisruptionBudget selects the pod, which the eviction API refuses."""


class Unavailable(ApiError):
    """The API server is down, overloaded or broken; nothing was written."""


class Corrupted(Unavailable):
    """The answer was truncated or corrupted in transit; a retry may get the same answer."""


class OutcomeUnknown(ApiError):
    """The call did not answer in time; it may or may not have taken effect."""


class CloudError(WorldError):
    """The provider refused or could not be reached."""


class CloudAccessFailed(CloudError):
    """The cloud refuses the caller, or has not answered for long: an operator must act. `reason` is a condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InstanceNotFound(CloudError):
    """The instance does not exist or is gone."""


class InsufficientCapacity(CloudError):
    """None of the requested offerings is available."""


class NodeClassNotReady(CloudError):
    """The node class is missing or not ready, so nothing can be launched with it."""


class LaunchFailed(CloudError):
    """The launch failed; `reason` is the reason of the NodeClaim's `Launched` condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

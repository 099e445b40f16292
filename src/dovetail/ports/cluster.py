"""The interface of the Kubernetes API: typed reads, watches, merge patches, evictions, and events.

The real adapter and the simulated world implement it, and one contract test suite checks both. Guarantees:

- `list` is consistent at one resource version, and a quorum read unless its options say otherwise. A `watch` from that
  version misses and repeats no change.
- Objects that cannot be decoded are returned as `UnreadableObject`, never dropped.
- A write with a stale `resource_version` raises `Conflict` and changes nothing.
- Every call ends before its deadline, with an answer or an error of `ports.errors`.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.model.pod import Pod

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Every object of a kind at one instant."""

    items: tuple[T, ...]
    resource_version: str
    unreadable: tuple[UnreadableObject, ...] = ()


ChangeType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event of a watch. A bookmark carries no object, only a resource version."""

    type: ChangeType
    resource_version: str
    object: T | UnreadableObject | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch. With `resource_version` it applies only to that version, else raises `Conflict`."""

    body: Mapping[str, Any]
    resource_version: str = ""
    subresource: Literal["", "status"] = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Delete options: the uid precondition and the grace period."""

    uid: str = ""
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects to list or watch; empty fields mean all."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    """For lists. Empty: a quorum read. "0": from the API server's watch cache, which may be old. Another version: not
    older than that."""
    exact: bool = False
    """With a resource version other than 0: the objects exactly at that version, `Gone` if it is no longer kept."""


EVERYTHING = ListOptions()
GRACEFULLY = Deletion()


class Cluster(Protocol):
    """A Kubernetes API."""

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Return every object of the kind that matches the options."""
        ...

    def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Yield changes after resource version `since` until the server ends the watch; raises `Gone` if too old."""
        ...

    async def get(self, kind: Kind[T], key: Key) -> T:
        """Return one object, or raise `NotFound`."""
        ...

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create the object, honoring `metadata.generate_name`; raises `AlreadyExists` if the name is taken."""
        ...

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Apply a merge patch and return the result."""
        ...

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = GRACEFULLY) -> None:
        """Request the deletion; finalizers and the grace period may delay it. Raises `NotFound`."""
        ...

    async def server_version(self) -> str:
        """Return the minor version of the API server, such as 1.33."""
        ...

    async def evict(self, pod: Pod) -> None:
        """Evict through the eviction API, which honors PodDisruptionBudgets, with the pod's uid as precondition."""
        ...


@dataclass(frozen=True, slots=True)
class Notice:
    """A Kubernetes event to publish on an object. `dedupe` replaces object and message as the deduplication key."""

    kind: Kind[Any]
    about: KubeObject
    reason: str
    message: str
    warning: bool = False
    dedupe: tuple[str, ...] = field(default=())
    decision: str = ""  # the id of the ledger entry


class Recorder(Protocol):
    """Publishes notices as Kubernetes events."""

    def publish(self, notice: Notice) -> None:
        """Publish the notice, unless it was published a moment ago. Never raises, never waits."""
        ...

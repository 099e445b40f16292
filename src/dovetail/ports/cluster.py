"""The Kubernetes API as the controllers see it: typed reads, watches, merge patches, evictions.

Both the real adapter and the simulated world implement exactly this; one contract suite holds them to it.
Promises every implementation keeps:

- `list` answers at one resource version: with all that is committed, unless its options ask for less. A `watch` from
  that version misses nothing and repeats nothing.
- Objects that cannot be understood arrive as `UnreadableObject`, never silently dropped.
- A write under a stale `resource_version` raises `Conflict` and changes nothing.
- Every call ends: with an answer, or with an error of `ports.errors` before its deadline.
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
    """One step of a watch. A bookmark carries no object, only how far the watch has come."""

    type: ChangeType
    resource_version: str
    object: T | UnreadableObject | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch. With `resource_version` it holds only if nobody wrote in between."""

    body: Mapping[str, Any]
    resource_version: str = ""
    subresource: Literal["", "status"] = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """How to delete: only this very object (`uid`), and with how much grace."""

    uid: str = ""
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects to list or watch; empty fields mean all."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    """For lists. Empty: a quorum read, all that is committed. "0": what the server has cached, which may be old.
    Another version: not older than that. Whatever must be fresh leaves this empty."""
    exact: bool = False
    """With a resource version other than 0: the objects exactly at that version, `Gone` if it is no longer kept."""


EVERYTHING = ListOptions()
GRACEFULLY = Deletion()


class Cluster(Protocol):
    """A Kubernetes API."""

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Every object of the kind."""
        ...

    def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Changes after resource version `since`. Ends when the server closes it; raises `Gone` if too old."""
        ...

    async def get(self, kind: Kind[T], key: Key) -> T:
        """One object, or `NotFound`."""
        ...

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create it; `metadata.generate_name` is honoured. `AlreadyExists` if the name is taken."""
        ...

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Apply a merge patch and return what it made."""
        ...

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = GRACEFULLY) -> None:
        """Ask for deletion; finalizers and grace may hold the object. `NotFound` if it is not there."""
        ...

    async def evict(self, pod: Pod) -> None:
        """Evict through the eviction API, so that PodDisruptionBudgets are honoured, with the pod's uid."""
        ...


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling the people who look at an object with kubectl."""

    kind: Kind[Any]
    about: KubeObject
    reason: str
    message: str
    warning: bool = False
    dedupe: tuple[str, ...] = field(default=())
    decision: str = ""  # the id under which the ledger keeps what this is about


class Recorder(Protocol):
    """Where notices become Kubernetes events."""

    def publish(self, notice: Notice) -> None:
        """Tell it, unless the same was told a moment ago. Never raises, never waits."""
        ...

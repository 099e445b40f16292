"""Which version of the objects a list answers with, as a real API server decides it.

Without a resource version a list is a quorum read: what is committed now. With `0` it is served from the watch cache,
which may lag behind by as much as the world is told to. Another version means: not older than that, or exactly at it.
Older states are found by taking back the recorded steps, newest first.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from dovetail.model.kube_object import Fault, Key
from dovetail.ports.cluster import ListOptions
from dovetail.ports.errors import Gone, Invalid, Unavailable
from dovetail.sim.kubernetes.store import ObjectVersion, Store, StoreChange, Table


class ListedVersion(NamedTuple):
    """The objects of a kind at one version."""

    records: Iterable[ObjectVersion]
    version: int


def view(store: Store, table: Table, options: ListOptions, lag: float) -> ListedVersion:
    """The objects a list with these options answers with."""
    now = ListedVersion(table.objects.values(), store.version)
    wanted = _wanted(options)
    if wanted is None:
        return now
    if wanted > store.version:
        raise Unavailable(f"Timeout: Too large resource version: {wanted}, current: {store.version}")
    if options.exact:
        if wanted < table.horizon:
            raise Gone(f"The resourceVersion for the provided list is too old: {wanted}")
        return _taken_back(now, table, lambda step: step.version > wanted)._replace(version=wanted)
    cut = store.loop.time() - lag
    cached = _taken_back(now, table, lambda step: step.at > cut)
    return cached if cached.version >= wanted else now


def _wanted(options: ListOptions) -> int | None:
    """The resource version asked for; None for a quorum read."""
    asked = options.resource_version
    if options.exact and asked in ("", "0"):
        fault = Fault("resourceVersionMatch", f"Exact is forbidden for resourceVersion {asked!r}")
        raise Invalid(f"ListOptions is invalid: {fault}", (fault,))
    if not asked:
        return None
    if not asked.isdigit():
        raise Invalid(f"invalid resource version: {asked!r}")
    return int(asked)


def _taken_back(now: ListedVersion, table: Table, undone: Callable[[StoreChange], bool]) -> ListedVersion:
    records: dict[Key, ObjectVersion] | None = None
    version = now.version
    for step in reversed(table.history):
        if not undone(step):
            break
        records = dict(table.objects) if records is None else records
        version = step.version - 1
        if step.before is None:
            del records[step.after.key]
        else:
            records[step.after.key] = step.before
    return now if records is None else ListedVersion(records.values(), version)

"""The event log of a simulated cluster: one line for each write to the store.

Two runs with the same seed and the same API calls have identical logs, which the determinism tests compare.
"""

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from dovetail.model.kube_object import Key
from dovetail.sim.kubernetes.kinds import POD, Resource

if TYPE_CHECKING:
    from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the event log."""

    at: float
    verb: str
    resource: Resource
    key: Key
    version: int
    checksum: int
    summary: str

    def __str__(self) -> str:
        kind = self.resource[1]
        return f"{self.at:.6f} {self.verb} {kind} {self.key} v{self.version} {self.checksum:08x} {self.summary}"


def entry_of(change: "StoreChange") -> LogEntry:
    """The log entry of a change, with a checksum of the whole object."""
    record = change.after
    checksum = zlib.crc32(msgspec.json.encode(record.plain, order="deterministic"))
    return LogEntry(change.at, change.type, record.resource, record.key, record.version, checksum, _summary(record))


def _summary(record: "ObjectVersion") -> str:
    deleting = " deleting" if record.deleting else ""
    if record.resource != POD:
        return deleting.strip()
    return f"{(record.plain.get('status') or {}).get('phase', '-')} {record.node or '-'}{deleting}"

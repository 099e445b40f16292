"""The event log of a simulated cluster: one line for every change, equal for equal seeds and equal calls."""

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
    """One change, as the event log tells it."""

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
    """What the log says of a change."""
    record = change.after
    checksum = zlib.crc32(msgspec.json.encode(record.plain, order="deterministic"))
    return LogEntry(change.at, change.type, record.resource, record.key, record.version, checksum, _summary(record))


def _summary(record: "ObjectVersion") -> str:
    deleting = " deleting" if record.deleting else ""
    if record.resource != POD:
        return deleting.strip()
    return f"{(record.plain.get('status') or {}).get('phase', '-')} {record.node or '-'}{deleting}"

"""A Snapshot as one plain document, and back: load(dump(s)) is s in everything a decision looks at.

Objects are plain Kubernetes objects with only the fields Dovetail models: no environment, no Secret, no ConfigMap is
among them. Annotations can hold copies of whole manifests, so only those that decisions read are written.
All faults of a document are reported together.

Repair statements as a snapshot carries them: what the provider calls unhealthy, and how long it tolerates it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import msgspec

from dovetail.manifest.catalog_codec import dump_catalogs, load_catalogs
from dovetail.manifest.codec import from_plain, ordered
from dovetail.model.duration import Duration
from dovetail.model.kinds import DAEMON_SET, NODE, NODE_CLAIM, NODE_POOL, POD, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.repair import ProviderRepairPolicy
from dovetail.model.snapshot import Snapshot
from dovetail.model.snapshot_builder import INVENTORY, ClusterObjects, build_snapshot, take_apart
from dovetail.model.unreadable_objects import UnreadableEntry

_REMEDY = "write a list of conditionType, status and toleration, such as Ready, Unknown and 10m"


def dump_statements(statements: tuple[ProviderRepairPolicy, ...]) -> dict[str, Any]:
    """The field of a document; none where the provider says nothing."""
    written = [
        {
            "conditionType": each.condition_type,
            "status": each.status,
            "toleration": str(Duration.of(each.toleration)),
        }
        for each in statements
    ]
    return {"repairStatements": written} if written else {}


def load_statements(entries: Any, faults: list[Fault]) -> tuple[ProviderRepairPolicy, ...]:
    """The statements of a document; what cannot be read is a fault."""
    if not isinstance(entries, list):
        faults.append(Fault("repairStatements", "is not a list", entries, _REMEDY))
        return ()
    found = []
    for at, entry in enumerate(entries):
        try:
            toleration = Duration.parse(entry["toleration"]).span
            found.append(ProviderRepairPolicy(str(entry["conditionType"]), str(entry["status"]), toleration))
        except (KeyError, TypeError, ValueError):
            faults.append(Fault(f"repairStatements[{at}]", "is not a repair statement", entry, _REMEDY))
    return tuple(found)


API_VERSION = "dovetail.sh/v1alpha1"
KIND = "Snapshot"
KEPT_ANNOTATIONS = (
    "karpenter.sh",
    "karpenter.kwok.sh",
    "karpenter.k8s.aws",
    "dovetail.sh",
    "controller.kubernetes.io",
    "kwok.x-k8s.io",
)
"""Domains whose annotations are written."""
_WRITTEN_FIRST: tuple[Kind[Any], ...] = (NODE_POOL, NODE_CLAIM, NODE, POD)
_ORDER = (*_WRITTEN_FIRST, *(kind for kind in INVENTORY if kind not in _WRITTEN_FIRST))
_FIELDS = (
    "apiVersion",
    "kind",
    "metadata",
    "nominated",
    "pause",
    "repairStatements",
    "unreadable",
    "wellKnownLabels",
    "objects",
    "catalogs",
)
_AGAIN = "take the snapshot again"
_KINDS: Mapping[tuple[str, str], Kind[Any]] = {(kind.api_version, kind.name): kind for kind in INVENTORY}

Plain = dict[str, Any]


class SnapshotInvalid(Exception):
    """A snapshot that cannot be used; `faults` has all that is wrong with it."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def dump_snapshot(snapshot: Snapshot) -> Plain:
    """The document of a snapshot. Equal snapshots give equal documents, in the same order throughout."""
    inventory = take_apart(snapshot)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"at": ordered(snapshot.at)},
        "nominated": sorted(snapshot.nominated),
        **({"pause": snapshot.pause} if snapshot.pause is not None else {}),
        **dump_statements(snapshot.repair_statements),
        **({"unreadable": [ordered(each) for each in snapshot.unreadable]} if snapshot.unreadable else {}),
        "wellKnownLabels": sorted(snapshot.well_known),
        "objects": [_dump_object(kind, each) for kind in _ORDER for each in inventory.of(kind)],
        "catalogs": dump_catalogs(snapshot.catalogs),
    }


def _dump_object(kind: Kind[Any], value: KubeObject) -> Plain:
    body: Plain = ordered(value)
    _strip(body)
    # A pod template has metadata of its own; a NodePool's goes into the fingerprint of its nodes and stays as it is.
    if kind is DAEMON_SET:
        _strip(body.get("spec", {}).get("template", {}))
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def _strip(holder: Plain) -> None:
    metadata = holder.get("metadata", {})
    written = metadata.get("annotations", {})
    metadata["annotations"] = kept = {key: value for key, value in written.items() if _is_kept(key)}
    if not kept:
        del metadata["annotations"]


def _is_kept(annotation: str) -> bool:
    domain = annotation.partition("/")[0]
    return any(domain == kept or domain.endswith("." + kept) for kept in KEPT_ANNOTATIONS)


def load_snapshot(document: Any) -> Snapshot:
    """The snapshot of a document; `SnapshotInvalid` carries every fault."""
    _check_envelope(document)
    faults: list[Fault] = [
        Fault(str(name), "is not a field of a Snapshot", None, f"use {', '.join(_FIELDS)}")
        for name in document
        if name not in _FIELDS
    ]
    at = _load_instant(document.get("metadata"), faults)
    inventory = _load_objects(document.get("objects"), faults)
    catalogs = load_catalogs(document.get("catalogs", []), faults)
    well_known = _load_names(document.get("wellKnownLabels", sorted(WELL_KNOWN)), "wellKnownLabels", faults)
    nominated = _load_names(document.get("nominated", []), "nominated", faults)
    unreadable = _load_unreadable(document.get("unreadable", []), faults)
    statements = load_statements(document.get("repairStatements", []), faults)
    pause = document.get("pause")
    if not isinstance(pause, str | None):
        faults.append(Fault("pause", "is not text", pause, 'write "true", or the instant until which it lasts'))
    if faults or at is None:
        raise SnapshotInvalid(tuple(faults))
    built = build_snapshot(inventory, at, catalogs, frozenset(well_known))
    return replace(
        built, nominated=frozenset(nominated), pause=pause, repair_statements=statements, unreadable=unreadable
    )


def _check_envelope(document: Any) -> None:
    """What is no snapshot at all is told in one fault, not in one for everything that is missing."""
    remedy = "make one with dovetail snapshot -o FILE"
    if not isinstance(document, dict):
        raise SnapshotInvalid((Fault("$", "is not a snapshot, it is not even a mapping", None, remedy),))
    if document.get("kind") != KIND:
        raise SnapshotInvalid((Fault("kind", f"is not {KIND}", document.get("kind"), remedy),))
    found = document.get("apiVersion")
    if found != API_VERSION:
        known = f"this version reads {API_VERSION}; {_AGAIN}, or use the version that took it"
        raise SnapshotInvalid((Fault("apiVersion", "is unknown", found, known),))


def _load_instant(metadata: Any, faults: list[Fault]) -> datetime | None:
    written = metadata.get("at") if isinstance(metadata, dict) else None
    try:
        at = msgspec.convert(written, datetime)
    except msgspec.ValidationError:
        at = None
    if at is None or at.tzinfo is None:
        remedy = "write an instant with its zone, such as 2026-01-05T12:00:00Z"
        faults.append(Fault("metadata.at", "is missing or no instant", written, remedy))
        return None
    return at


def _load_names(names: Any, path: str, faults: list[Fault]) -> tuple[str, ...]:
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    faults.append(Fault(path, "is not a list of names", names, "write a list of text"))
    return ()


def _load_unreadable(entries: Any, faults: list[Fault]) -> tuple[UnreadableEntry, ...]:
    """A plain text is how older snapshots name a Pod or a PodDisruptionBudget: it may concern any node."""
    if isinstance(entries, list):
        entries = [{"kind": each, "everywhere": True} if isinstance(each, str) else each for each in entries]
    try:
        return msgspec.convert(entries, tuple[UnreadableEntry, ...])
    except msgspec.ValidationError as error:
        faults.append(Fault("unreadable", f"does not list objects: {error}", None, _AGAIN))
        return ()


def _load_objects(entries: Any, faults: list[Fault]) -> ClusterObjects:
    if not isinstance(entries, list):
        faults.append(Fault("objects", "is missing or not a list", None, _AGAIN))
        return ClusterObjects({})
    found: dict[Kind[Any], dict[Any, KubeObject]] = {kind: {} for kind in INVENTORY}
    for at, entry in enumerate(entries):
        path = f"objects[{at}]"
        kind = _kind_of(entry)
        if kind is None:
            faults.append(_unknown(path, entry))
            continue
        value = from_plain(kind, entry)
        if isinstance(value, UnreadableObject):
            faults.extend(_located(fault, path, f"{kind} {value.key}") for fault in value.faults)
        elif not value.name:
            faults.append(Fault(f"{path}.metadata.name", "is missing", None, f"every {kind} has a name"))
        elif value.key in found[kind]:
            faults.append(Fault(path, f"is a second {kind} {value.key}", None, "keep one"))
        else:
            found[kind][value.key] = cast("KubeObject", value)
    return ClusterObjects({kind: values.values() for kind, values in found.items()})


def _kind_of(entry: Any) -> Kind[Any] | None:
    if not isinstance(entry, dict):
        return None
    return _KINDS.get((str(entry.get("apiVersion")), str(entry.get("kind"))))


def _unknown(path: str, entry: Any) -> Fault:
    if not isinstance(entry, dict):
        return Fault(path, "is not a mapping", entry, "write a Kubernetes object")
    shown = f"{entry.get('apiVersion')} {entry.get('kind')}"
    known = ", ".join(f"{kind.api_version} {kind}" for kind in INVENTORY)
    return Fault(path, "is of a kind that snapshots do not have", shown, f"remove it; they have {known}")


def _located(fault: Fault, path: str, name: str) -> Fault:
    where = path if fault.path == "$" else f"{path}.{fault.path}"
    return Fault(where, f"{fault.problem} ({name})", fault.value, fault.remedy or f"correct it, or {_AGAIN}")

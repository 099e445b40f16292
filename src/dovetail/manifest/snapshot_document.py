"""Converts a Snapshot to one plain document and back; every input of a decision survives the round trip.

Objects are plain Kubernetes objects with only the fields of the model: no environment variables, Secrets or ConfigMaps.
Annotations can contain whole manifests, so only those that decisions read are written. All faults of a document are
reported together.

`repairStatements` are the repair policies of the provider: the conditions that make a node unhealthy, and how long each
is tolerated. `missingCatalogs` says why the instance types of a NodePool could not be read.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import msgspec

from dovetail.manifest.catalog_codec import dump_catalogs, load_catalogs
from dovetail.manifest.codec import from_plain, ordered
from dovetail.model.duration import Duration
from dovetail.model.kinds import DAEMON_SET, EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE, NODE_CLAIM, NODE_POOL, POD, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.repair import ProviderRepairPolicy
from dovetail.model.snapshot import Snapshot
from dovetail.model.snapshot_builder import INVENTORY, ClusterObjects, build_snapshot, snapshot_objects
from dovetail.model.unreadable_objects import UnreadableEntry

_REMEDY = "write a list of conditionType, status and toleration, such as Ready, Unknown and 10m"


def dump_statements(statements: tuple[ProviderRepairPolicy, ...]) -> dict[str, Any]:
    """The `repairStatements` field; absent if the provider has no repair policies."""
    written = [
        {
            "conditionType": each.condition_type,
            "status": each.status,
            "toleration": str(Duration.of(each.toleration)),
            **({"nodeClassLabel": each.node_class_label} if each.node_class_label else {}),
        }
        for each in statements
    ]
    return {"repairStatements": written} if written else {}


def load_statements(entries: Any, faults: list[Fault]) -> tuple[ProviderRepairPolicy, ...]:
    """The repair policies of a document; invalid entries are added to `faults`."""
    if not isinstance(entries, list):
        faults.append(Fault("repairStatements", "is not a list", entries, _REMEDY))
        return ()
    found = []
    for index, entry in enumerate(entries):
        try:
            toleration = Duration.parse(entry["toleration"]).span
            label = str(entry.get("nodeClassLabel", ""))
            found.append(ProviderRepairPolicy(str(entry["conditionType"]), str(entry["status"]), toleration, label))
        except (AttributeError, KeyError, TypeError, ValueError):
            faults.append(Fault(f"repairStatements[{index}]", "is not a repair statement", entry, _REMEDY))
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
"""Annotations of these domains are written."""
_FIRST_KINDS: tuple[Kind[Any], ...] = (NODE_POOL, NODE_CLAIM, NODE, POD)
_ORDER = (*_FIRST_KINDS, *(kind for kind in INVENTORY if kind not in _FIRST_KINDS))
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
    "missingCatalogs",
)
_TAKE_AGAIN = "take the snapshot again"
_KINDS: Mapping[tuple[str, str], Kind[Any]] = {(kind.api_version, kind.name): kind for kind in INVENTORY}

Plain = dict[str, Any]


class SnapshotInvalid(Exception):
    """An invalid snapshot; `faults` has everything that is wrong with it."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def dump_snapshot(snapshot: Snapshot) -> Plain:
    """The document of a snapshot. Equal snapshots give equal documents with the same order."""
    inventory = snapshot_objects(snapshot)
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
        **({"missingCatalogs": dict(sorted(snapshot.missing_catalogs.items()))} if snapshot.missing_catalogs else {}),
    }


def _dump_object(kind: Kind[Any], value: KubeObject) -> Plain:
    body: Plain = ordered(value)
    _filter_annotations(body)
    # Pod templates have metadata, too. That of a NodePool's template stays: it is part of the drift hash.
    if kind is DAEMON_SET:
        _filter_annotations(body.get("spec", {}).get("template", {}))
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def _filter_annotations(holder: Plain) -> None:
    metadata = holder.get("metadata", {})
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = kept = {key: value for key, value in annotations.items() if _is_kept(key)}
    if not kept:
        del metadata["annotations"]


def _is_kept(annotation: str) -> bool:
    domain = annotation.partition("/")[0]
    return any(domain == kept or domain.endswith("." + kept) for kept in KEPT_ANNOTATIONS)


def load_snapshot(document: Any) -> Snapshot:
    """The snapshot of a document. Raises `SnapshotInvalid` with every fault."""
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
    missing = _load_missing(document.get("missingCatalogs", {}), faults)
    pause = document.get("pause")
    if not isinstance(pause, str | None):
        faults.append(Fault("pause", "is not text", pause, 'write "true", or the time at which it ends'))
    if faults or at is None:
        raise SnapshotInvalid(tuple(faults))
    built = build_snapshot(inventory, at, catalogs, frozenset(well_known))
    return replace(
        built,
        nominated=frozenset(nominated),
        pause=pause,
        repair_statements=statements,
        unreadable=unreadable,
        missing_catalogs={**_not_in_file(built), **missing},
    )


def _not_in_file(snapshot: Snapshot) -> dict[str, str]:
    """Why instance types of NodePools are not known: a snapshot that is written by hand may have none."""
    provided = {(kind.group, kind.name) for kind in (EC2_NODE_CLASS, KWOK_NODE_CLASS)}
    causes = {}
    for name, pool in snapshot.nodepools.items():
        ref = pool.node_class_ref
        if not ref.kind:
            causes[name] = "spec.template.spec.nodeClassRef is not set"
        elif (ref.api_group, ref.kind) in provided and name not in snapshot.catalogs:
            causes[name] = "they are not in the file"
    return {name: why for name, why in causes.items() if name not in snapshot.unread.pools}


def _check_envelope(document: Any) -> None:
    """Reject a document that is no snapshot with one fault, not with one for every missing field."""
    remedy = "make one with dovetail snapshot -o FILE"
    if not isinstance(document, dict):
        raise SnapshotInvalid((Fault("$", "is not a snapshot: it is not a mapping", None, remedy),))
    if document.get("kind") != KIND:
        raise SnapshotInvalid((Fault("kind", f"is not {KIND}", document.get("kind"), remedy),))
    found = document.get("apiVersion")
    if found != API_VERSION:
        known = f"this version reads {API_VERSION}; {_TAKE_AGAIN}, or use the version that took it"
        raise SnapshotInvalid((Fault("apiVersion", "is unknown", found, known),))


def _load_instant(metadata: Any, faults: list[Fault]) -> datetime | None:
    written = metadata.get("at") if isinstance(metadata, dict) else None
    try:
        at = msgspec.convert(written, datetime)
    except msgspec.ValidationError:
        at = None
    if at is None or at.tzinfo is None:
        remedy = "write a time with its zone, such as 2026-01-05T12:00:00Z"
        faults.append(Fault("metadata.at", "is missing or not a time", written, remedy))
        return None
    return at


def _load_names(names: Any, path: str, faults: list[Fault]) -> tuple[str, ...]:
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    faults.append(Fault(path, "is not a list of names", names, "write a list of text"))
    return ()


def _load_missing(causes: Any, faults: list[Fault]) -> dict[str, str]:
    if isinstance(causes, dict) and all(isinstance(text, str) for text in (*causes, *causes.values())):
        return causes
    remedy = "write the cause by the name of the NodePool"
    faults.append(Fault("missingCatalogs", "is not a mapping of text", causes, remedy))
    return {}


def _load_unreadable(entries: Any, faults: list[Fault]) -> tuple[UnreadableEntry, ...]:
    """Older snapshots have the kind of a Pod or PodDisruptionBudget as text, which may affect any node."""
    if isinstance(entries, list):
        entries = [{"kind": each, "everywhere": True} if isinstance(each, str) else each for each in entries]
    try:
        return msgspec.convert(entries, tuple[UnreadableEntry, ...])
    except msgspec.ValidationError as error:
        faults.append(Fault("unreadable", f"does not list objects: {error}", None, _TAKE_AGAIN))
        return ()


def _load_objects(entries: Any, faults: list[Fault]) -> ClusterObjects:
    if not isinstance(entries, list):
        faults.append(Fault("objects", "is missing or not a list", None, _TAKE_AGAIN))
        return ClusterObjects({})
    found: dict[Kind[Any], dict[Any, KubeObject]] = {kind: {} for kind in INVENTORY}
    for at, entry in enumerate(entries):
        path = f"objects[{at}]"
        kind = _kind_of(entry)
        if kind is None:
            faults.append(_unknown_kind(path, entry))
            continue
        value = from_plain(kind, entry)
        if isinstance(value, UnreadableObject):
            faults.extend(_with_path(fault, path, f"{kind} {value.key}") for fault in value.faults)
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


def _unknown_kind(path: str, entry: Any) -> Fault:
    if not isinstance(entry, dict):
        return Fault(path, "is not a mapping", entry, "write a Kubernetes object")
    shown = f"{entry.get('apiVersion')} {entry.get('kind')}"
    known = ", ".join(f"{kind.api_version} {kind}" for kind in INVENTORY)
    return Fault(path, "has a kind that snapshots do not support", shown, f"remove it; supported are {known}")


def _with_path(fault: Fault, path: str, name: str) -> Fault:
    where = path if fault.path == "$" else f"{path}.{fault.path}"
    return Fault(where, f"{fault.problem} ({name})", fault.value, fault.remedy or f"correct it, or {_TAKE_AGAIN}")

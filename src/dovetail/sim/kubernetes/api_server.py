"""Write semantics of the Kubernetes API: names, versions, generations, merge patches, finalizers, graceful deletion.

Synchronous and without delays: each call is one transaction on the store. `world` adds latency and faults around it;
the simulated controllers call it directly. The contract suite (`tests/contract`) runs the same cases against this
server and against a real kube-apiserver.

A create runs decoding, metadata, admission defaults, validation of built-in kinds, and the hook for custom kinds, in
this order.
"""

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from dovetail.model.kube_object import Fault, Key
from dovetail.ports.cluster import Deletion, Patch
from dovetail.ports.errors import AlreadyExists, Conflict, Invalid, NotFound, Unavailable
from dovetail.sim.kubernetes import admission
from dovetail.sim.kubernetes.kinds import (
    CLUSTER_SCOPED,
    CUSTOM,
    GENERATIONS,
    KWOK_NODE_CLASS,
    NODE,
    PDB,
    POD,
    STATUS,
    Resource,
)
from dovetail.sim.kubernetes.merge_patch import Plain, merge_patch, with_meta
from dovetail.sim.kubernetes.store import ObjectVersion, Store
from dovetail.sim.kubernetes.validation.check import (
    check_change,
    check_identity,
    check_new,
    check_status,
    check_type,
    decode_new,
)

Validator = Callable[[Resource, Plain | None, Plain], Plain]
"""Validation of custom kinds: takes the old (None on creation) and the new object; returns it with defaults, or raises
`Invalid`.

The result must depend on the two objects alone, and not on a generated name: results are cached without it.
"""

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED_BASE = 58
_KEPT_STATUS = {POD, NODE, KWOK_NODE_CLASS}  # pods are reset by admission, the class gets the default of its schema
_META_WITH_STATUS = {POD, NODE, PDB}  # kinds whose status subresource writes labels and annotations too
_IGNORED_ON_CREATE = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"})
_DEFAULT_DELETION = Deletion()
_MOST_ACCEPTED = 256
_NEVER = datetime.min.replace(tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_TO_THE_SECOND = len("2026-01-05T00:00:00")
_SERVER_OWNED = ("name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp")


class ApiServer:
    """The write side of the simulated Kubernetes API."""

    def __init__(self, store: Store, rng: random.Random, validate: Validator | None = None) -> None:
        self.store = store
        self._rng = rng
        self._validate = validate
        self._checked = True
        self._accepted: dict[bytes, Plain] = {}  # validated new objects, by the encoded request without its name
        self._second = (_NEVER, _NEVER, "")  # the last timestamp: begin and end of its second, and its text

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        """Skip validation inside the context, to store objects as a later API version might."""
        self._checked = False
        try:
            yield
        finally:
            self._checked = True

    def timestamp(self, ahead: float = 0.0) -> str:
        """The current time, `ahead` seconds later, truncated to the second as in the API."""
        now = self.store.clock.now()
        if ahead:
            return rfc3339(now + timedelta(seconds=ahead))
        begin, end, written = self._second
        if not begin <= now < end:
            begin, written = now.replace(microsecond=0), rfc3339(now)
            self._second = begin, begin + _SECOND, written
        return written

    def get(self, resource: Resource, key: Key) -> ObjectVersion:
        """One object, or `NotFound`."""
        record = self.store.find(resource, key)
        if record is None:
            raise NotFound(f"{resource[1]} {key} not found")
        return record

    def create(self, resource: Resource, plain: Plain) -> ObjectVersion:
        """Create an object; the server sets its uid, creation time and, with generateName, its name."""
        requested = decode_new(resource, plain) if self._checked else plain
        named = bool((requested.get("metadata") or {}).get("name"))
        created = {**requested, "metadata": self._new_meta(resource, requested.get("metadata") or {})}
        if resource in STATUS and resource not in _KEPT_STATUS:
            created.pop("status", None)
        created = admission.apply_defaults(self.store, resource, created)
        if self._checked:
            check_new(resource, created)
        if self._validate is not None and self._checked and resource in CUSTOM:
            check = self._validate
            created = check(resource, None, created) if named else self._validate_generated(check, resource, created)
        key = Key(created["metadata"].get("namespace", ""), created["metadata"]["name"])
        if self.store.find(resource, key) is not None:
            raise AlreadyExists(f"{resource[1]} {key} already exists")
        if requested.get("metadata", {}).get("resourceVersion"):
            raise Unavailable("resourceVersion should not be set on objects to be created")
        uid = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        return self.store.put(resource, with_meta(created, uid=str(uid)))

    def _new_meta(self, resource: Resource, requested: Plain) -> Plain:
        """Metadata of a new object; fields that the server owns are not taken from the request."""
        meta = {name: value for name, value in requested.items() if name not in _IGNORED_ON_CREATE}
        if resource in CLUSTER_SCOPED:
            meta.pop("namespace", None)
        if not meta.get("name"):
            meta["name"] = self._generated_name(resource, meta)
        meta["creationTimestamp"] = self.timestamp()
        if resource in GENERATIONS:
            meta["generation"] = 1
        return meta

    def _validate_generated(self, check: Validator, resource: Resource, created: Plain) -> Plain:
        """Validate an object with a generated name. Objects that differ only in their names are validated once."""
        meta = created["metadata"]
        own = {"name": meta["name"], "creationTimestamp": meta["creationTimestamp"]}
        nameless = msgspec.json.encode({**created, "metadata": {**meta, **dict.fromkeys(own)}})
        accepted = self._accepted.get(nameless)
        if accepted is None:
            if len(self._accepted) >= _MOST_ACCEPTED:
                self._accepted.clear()
            accepted = self._accepted[nameless] = check(resource, None, created)
        return with_meta(accepted, **own)

    def _generated_name(self, resource: Resource, meta: Plain) -> str:
        base: str = meta.get("generateName", "")[:_LONGEST_GENERATED_BASE]
        if not base:
            problem = "name or generateName is required"
            raise Invalid(f"{resource[1]}: {problem}", (Fault("metadata.name", problem),))
        namespace = meta.get("namespace", "")
        while True:
            name = base + "".join(self._rng.choices(_NAME_LETTERS, k=5))
            if self.store.find(resource, Key(namespace, name)) is None:
                return name

    def patch(self, resource: Resource, key: Key, patch: Patch) -> ObjectVersion:
        """Apply a merge patch to the object or to its status."""
        record = self.get(resource, key)
        if "metadata" in patch.body:
            check_identity(resource, record.meta, patch.body["metadata"])
        if "kind" in patch.body or "apiVersion" in patch.body:
            check_type(resource, record.plain, patch.body)
        wanted = patch.resource_version or (patch.body.get("metadata") or {}).get("resourceVersion", "")
        if wanted and wanted != record.meta["resourceVersion"]:
            if not wanted.isdigit():
                raise Unavailable(f"{resource[1]} {key}: {wanted!r} is not a resource version")
            raise Conflict(f"{resource[1]} {key}: the object has been modified; it is not at version {wanted}")
        merged = merge_patch(record.plain, patch.body)
        return self.update(record, merged, "status" if patch.subresource else "main")

    def update(self, record: ObjectVersion, plain: Plain, part: Literal["main", "status"] = "main") -> ObjectVersion:
        """Write a changed object: everything but the status, or the status alone. No write if nothing changed."""
        before, resource = record.plain, record.resource
        after = self._writable(record, plain, part)
        if self._checked:
            after = self._validated(resource, before, after, part)
        if after == before:
            return record
        if part == "main" and resource in GENERATIONS and _content(after) != _content(before):
            after = with_meta(after, generation=record.meta.get("generation", 0) + 1)
        if "deletionTimestamp" in after["metadata"] and _can_be_removed(after):
            return self.store.remove(record, after)
        return self.store.put(resource, after)

    def _validated(self, resource: Resource, before: Plain, after: Plain, part: Literal["main", "status"]) -> Plain:
        """The changed object with defaults; raises `Invalid`."""
        if part == "main":
            after = admission.apply_update_defaults(resource, before, after)
            check_change(resource, before, after)
        else:
            after = admission.with_allocatable(after) if resource == NODE else after
            check_status(resource, before, after)
        if self._validate is not None and resource in CUSTOM:
            after = self._validate(resource, before, after)
        return after

    def _writable(self, record: ObjectVersion, plain: Plain, part: Literal["main", "status"]) -> Plain:
        before = record.plain
        if part == "status":
            if record.resource not in STATUS:
                raise NotFound(f"{record.resource[1]} has no status subresource")
            after = _with_or_without(before, "status", plain.get("status"))
            same = record.resource not in _META_WITH_STATUS or plain["metadata"] is record.meta
            return after if same else {**after, "metadata": _writable_meta(record, plain)}
        meta = _writable_meta(record, plain)
        after = {**plain, "metadata": meta, "apiVersion": before["apiVersion"], "kind": before["kind"]}
        return _with_or_without(after, "status", before.get("status")) if record.resource in STATUS else after

    def bind(self, pod: ObjectVersion, node: str) -> ObjectVersion:
        """Bind a pod to a node, set PodScheduled and end its nomination, as the binding subresource does."""
        before = {name: value for name, value in (pod.plain.get("status") or {}).items() if name != "nominatedNodeName"}
        status = with_condition(before, {"type": "PodScheduled", "status": "True"}, self.timestamp())
        spec = {**pod.plain["spec"], "nodeName": node}
        return self.store.put(POD, {**pod.plain, "spec": spec, "status": status})

    def delete(self, resource: Resource, key: Key, deletion: Deletion = _DEFAULT_DELETION) -> None:
        """Delete an object: at once, or after its grace period and finalizers."""
        record = self.get(resource, key)
        if deletion.uid and deletion.uid != record.uid:
            raise Conflict(f"{resource[1]} {key}: uid is {record.uid}, not {deletion.uid}")
        grace = _grace(record, deletion.grace_seconds)
        if record.deleting:
            self._shorten_grace(record, grace)
        elif grace == 0 and not record.meta.get("finalizers"):
            self.store.remove(record)
        else:
            self.store.put(resource, self._with_deletion(record, self.timestamp(grace), grace))

    def _shorten_grace(self, record: ObjectVersion, grace: int) -> None:
        """Handle a second delete: it can only shorten the grace period of the first."""
        before = record.meta.get("deletionGracePeriodSeconds", 0)
        if grace >= before:
            return
        if grace == 0 and not record.meta.get("finalizers"):
            self.store.remove(record)
            return
        ends_at = datetime.fromisoformat(record.meta["deletionTimestamp"]) - timedelta(seconds=before - grace)
        self.store.put(record.resource, self._with_deletion(record, rfc3339(ends_at), grace))

    def _with_deletion(self, record: ObjectVersion, deleted_at: str, grace: int) -> Plain:
        generation = record.meta.get("generation")
        bumped = generation + 1 if generation else None
        return with_meta(
            record.plain, deletionTimestamp=deleted_at, deletionGracePeriodSeconds=grace, generation=bumped
        )


def rfc3339(instant: datetime) -> str:
    """An instant as the API writes it: UTC, whole seconds."""
    return f"{instant.isoformat()[:_TO_THE_SECOND]}Z"


def with_condition(status: Plain, condition: Plain, now: str) -> Plain:
    """The status with one condition set; `lastTransitionTime` changes only if the condition's status changes."""
    conditions: list[Plain] = list(status.get("conditions") or ())
    for index, before in enumerate(conditions):
        if before["type"] == condition["type"]:
            same = before.get("status") == condition["status"]
            since = before.get("lastTransitionTime", now) if same else now
            conditions[index] = {**condition, "lastTransitionTime": since}
            break
    else:
        conditions.append({**condition, "lastTransitionTime": now})
    return {**status, "conditions": conditions}


def _writable_meta(record: ObjectVersion, plain: Plain) -> Plain:
    """The metadata to store: fields that the server owns keep their stored values."""
    meta = dict(plain.get("metadata") or {})
    for name in (*_SERVER_OWNED, "deletionGracePeriodSeconds", "resourceVersion"):
        if name in record.meta:
            meta[name] = record.meta[name]
        else:
            meta.pop(name, None)
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not meta.get(name):
            meta.pop(name, None)
    return meta


def _content(plain: Plain) -> Plain:
    return {name: value for name, value in plain.items() if name not in ("metadata", "status")}


def _with_or_without(plain: Plain, name: str, value: object) -> Plain:
    if value is not None:
        return {**plain, name: value}
    return {each: content for each, content in plain.items() if each != name}


def _can_be_removed(plain: Plain) -> bool:
    meta = plain["metadata"]
    return not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")


def _grace(record: ObjectVersion, asked: int | None) -> int:
    """Grace period of a delete: zero, except for bound pods that have not finished."""
    if record.resource != POD:
        return 0
    spec, phase = record.plain["spec"], (record.plain.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
        return 0
    return int(spec.get("terminationGracePeriodSeconds", 30)) if asked is None else asked

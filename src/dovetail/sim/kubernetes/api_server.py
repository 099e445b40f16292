"""What a write to the Kubernetes API means: names, versions, generations, merge patches, finalizers, graceful deletion.

Synchronous and without delays: each call is one transaction. The ports in `world` add time and faults around it; the
simulated controllers use it directly. Semantics are those of a real API server, held to them by the contract suite.
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
"""Hook for custom kinds: old (None on creation) and new object; gives the object with defaults, or raises `Invalid`.

The answer depends on the two objects alone, and not on which name was generated.
"""

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED_BASE = 58
_KEPT_STATUS = {POD, NODE, KWOK_NODE_CLASS}  # pods are reset by admission, the class gets the default of its schema
_META_WITH_STATUS = {POD, NODE, PDB}  # kinds whose status subresource writes labels and annotations too
_NOT_TAKEN = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"})
_PLAINLY = Deletion()
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
        self._accepted: dict[bytes, Plain] = {}  # what became of new objects, by what was asked for
        self._second = (_NEVER, _NEVER, "")  # the second last stamped: its beginning, its end, and how it is written

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        """Store what validation would refuse, such as an object written by a later version."""
        self._checked = False
        try:
            yield
        finally:
            self._checked = True

    def timestamp(self, ahead: float = 0.0) -> str:
        """Now, cut to the second, as the API writes instants."""
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
        """A new object; the server gives it its identity."""
        asked = decode_new(resource, plain) if self._checked else plain
        named = bool((asked.get("metadata") or {}).get("name"))
        created = {**asked, "metadata": self._new_meta(resource, asked.get("metadata") or {})}
        if resource in STATUS and resource not in _KEPT_STATUS:
            created.pop("status", None)
        created = admission.filled_in(self.store, resource, created)
        if self._checked:
            check_new(resource, created)
        if self._validate is not None and self._checked and resource in CUSTOM:
            check = self._validate
            created = check(resource, None, created) if named else self._admitted(check, resource, created)
        key = Key(created["metadata"].get("namespace", ""), created["metadata"]["name"])
        if self.store.find(resource, key) is not None:
            raise AlreadyExists(f"{resource[1]} {key} already exists")
        if asked.get("metadata", {}).get("resourceVersion"):
            raise Unavailable("resourceVersion should not be set on objects to be created")
        uid = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        return self.store.put(resource, with_meta(created, uid=str(uid)))

    def _new_meta(self, resource: Resource, asked: Plain) -> Plain:
        """Metadata of a new object: what the server owns is not taken from the request."""
        meta = {name: value for name, value in asked.items() if name not in _NOT_TAKEN}
        if resource in CLUSTER_SCOPED:
            meta.pop("namespace", None)
        if not meta.get("name"):
            meta["name"] = self._generated_name(resource, meta)
        meta["creationTimestamp"] = self.timestamp()
        if resource in GENERATIONS:
            meta["generation"] = 1
        return meta

    def _admitted(self, check: Validator, resource: Resource, created: Plain) -> Plain:
        """A new object as its schema leaves it. What is made alike, but for the name it was given, is checked once."""
        meta = created["metadata"]
        own = {"name": meta["name"], "creationTimestamp": meta["creationTimestamp"]}
        asked = msgspec.json.encode({**created, "metadata": {**meta, **dict.fromkeys(own)}})
        accepted = self._accepted.get(asked)
        if accepted is None:
            if len(self._accepted) >= _MOST_ACCEPTED:
                self._accepted.clear()
            accepted = self._accepted[asked] = check(resource, None, created)
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
        """Write a changed object. Only the part that is written counts; no change is no write."""
        before, resource = record.plain, record.resource
        after = self._writable(record, plain, part)
        if self._checked:
            after = self._approved(resource, before, after, part)
        if after == before:
            return record
        if part == "main" and resource in GENERATIONS and _content(after) != _content(before):
            after = with_meta(after, generation=record.meta.get("generation", 0) + 1)
        if "deletionTimestamp" in after["metadata"] and _nothing_holds(after):
            return self.store.remove(record, after)
        return self.store.put(resource, after)

    def _approved(self, resource: Resource, before: Plain, after: Plain, part: Literal["main", "status"]) -> Plain:
        """A changed object with its defaults; raises what is wrong with it."""
        if part == "main":
            after = admission.filled_in_again(resource, before, after)
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
        """Bind a pod to a node, as the scheduler's binding does: the pod counts as scheduled at once."""
        status = with_condition(
            pod.plain.get("status") or {}, {"type": "PodScheduled", "status": "True"}, self.timestamp()
        )
        spec = {**pod.plain["spec"], "nodeName": node}
        return self.store.put(POD, {**pod.plain, "spec": spec, "status": status})

    def delete(self, resource: Resource, key: Key, deletion: Deletion = _PLAINLY) -> None:
        """Ask for deletion: at once, or once grace and finalizers are through."""
        record = self.get(resource, key)
        if deletion.uid and deletion.uid != record.uid:
            raise Conflict(f"{resource[1]} {key}: uid is {record.uid}, not {deletion.uid}")
        grace = _grace(record, deletion.grace_seconds)
        if record.deleting:
            self._hasten(record, grace)
        elif grace == 0 and not record.meta.get("finalizers"):
            self.store.remove(record)
        else:
            self.store.put(resource, self._marked(record, self.timestamp(grace), grace))

    def _hasten(self, record: ObjectVersion, grace: int) -> None:
        """A second delete can only shorten the grace of the first."""
        before = record.meta.get("deletionGracePeriodSeconds", 0)
        if grace >= before:
            return
        if grace == 0 and not record.meta.get("finalizers"):
            self.store.remove(record)
            return
        ends_at = datetime.fromisoformat(record.meta["deletionTimestamp"]) - timedelta(seconds=before - grace)
        self.store.put(record.resource, self._marked(record, rfc3339(ends_at), grace))

    def _marked(self, record: ObjectVersion, deleted_at: str, grace: int) -> Plain:
        generation = record.meta.get("generation")
        bumped = generation + 1 if generation else None
        return with_meta(
            record.plain, deletionTimestamp=deleted_at, deletionGracePeriodSeconds=grace, generation=bumped
        )


def rfc3339(instant: datetime) -> str:
    """As the API writes instants: UTC, whole seconds."""
    return f"{instant.isoformat()[:_TO_THE_SECOND]}Z"


def with_condition(status: Plain, condition: Plain, now: str) -> Plain:
    """The status with one condition written; its transition time moves only when its status does."""
    conditions: list[Plain] = list(status.get("conditions") or ())
    for index, before in enumerate(conditions):
        if before["type"] == condition["type"]:
            stays = before.get("status") == condition["status"]
            since = before.get("lastTransitionTime", now) if stays else now
            conditions[index] = {**condition, "lastTransitionTime": since}
            break
    else:
        conditions.append({**condition, "lastTransitionTime": now})
    return {**status, "conditions": conditions}


def _writable_meta(record: ObjectVersion, plain: Plain) -> Plain:
    """Metadata as a write leaves it: what the server owns stays."""
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


def _nothing_holds(plain: Plain) -> bool:
    meta = plain["metadata"]
    return not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")


def _grace(record: ObjectVersion, asked: int | None) -> int:
    """Only pods end gracefully, and of those only the ones a kubelet runs."""
    if record.resource != POD:
        return 0
    spec, phase = record.plain["spec"], (record.plain.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
        return 0
    return int(spec.get("terminationGracePeriodSeconds", 30)) if asked is None else asked

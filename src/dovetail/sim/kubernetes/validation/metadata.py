"""Standard metadata: names, labels, annotations, finalizers and owners, the same for every kind.

Names and keys as the API server reads them, and the fault for one that it does not take.

The paths of faults are the server's own, its quirks included: a bad label is reported at `metadata.labels`, a bad taint
at `metadata.taints`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from dovetail.manifest.patterns import DNS_SUBDOMAIN, LABEL_VALUE, matches
from dovetail.manifest.semantics import is_qualified_name
from dovetail.model.kube_object import Fault
from dovetail.sim.kubernetes.kinds import CUSTOM, NAMESPACE, PRIORITY_CLASS, Resource
from dovetail.sim.kubernetes.merge_patch import Plain

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


@lru_cache(maxsize=1 << 12)
def is_subdomain(text: str) -> bool:
    """Whether it is a DNS-1123 subdomain."""
    return len(text) <= _LONGEST_SUBDOMAIN and matches(DNS_SUBDOMAIN, text)


@lru_cache(maxsize=1 << 12)
def is_label(text: str) -> bool:
    """Whether it is a DNS-1123 label."""
    return len(text) <= _LONGEST_LABEL and matches(_DNS_LABEL, text)


@lru_cache(maxsize=1 << 12)
def is_key(text: str) -> bool:
    """Whether it can be the key of a label or taint, or the name of a resource."""
    return is_qualified_name(text)


@lru_cache(maxsize=1 << 12)
def is_value(text: str) -> bool:
    """Whether it can be the value of a label."""
    return len(text) <= _LONGEST_LABEL and matches(LABEL_VALUE, text)


def refuse(path: str, problem: str, value: object = None) -> Iterator[Fault]:
    """One fault."""
    yield Fault(path, problem, value)


def label_faults(labels: Mapping[str, str] | None, path: str) -> Iterator[Fault]:
    """Bad keys and values of labels, all at the path of the map."""
    for key, value in (labels or {}).items():
        if not is_key(key):
            yield Fault(path, "is not a label key: optional domain and '/', then at most 63 characters", key)
        if not is_value(value or ""):
            yield Fault(path, "is not a label value: at most 63 letters, digits, '-', '_' and '.'", value)


def choice_faults(value: str | None, choices: frozenset[str], path: str) -> Iterator[Fault]:
    """A value that is written and is none of the choices."""
    if value is not None and value not in choices:
        yield Fault(path, f"is not one of {', '.join(sorted(choices))}", value)


MOST_ANNOTATION_BYTES = 256 * 1024
CHECKED = ("labels", "annotations", "finalizers", "ownerReferences")
"""The parts of metadata that can change and are checked when they do."""
_NAMED_BY_LABEL = frozenset({NAMESPACE, ("apps", "StatefulSet")})
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def new_metadata_faults(resource: Resource, meta: Plain) -> Iterator[Fault]:
    """Everything wrong with the metadata of a new object; its name may just have been generated."""
    yield from _name_faults(resource, meta["name"])
    prefix = meta.get("generateName") or ""
    if prefix and not _is_name(resource, _without_trailing_dash(prefix)):
        yield Fault("metadata.generateName", "is not the beginning of a name", prefix)
    for part in CHECKED:
        if meta.get(part):
            yield from part_faults(resource, part, meta)


def part_faults(resource: Resource, part: str, meta: Plain) -> Iterator[Fault]:
    """Everything wrong with one part of the metadata."""
    if part == "labels":
        yield from label_faults(meta.get("labels"), "metadata.labels")
    elif part == "annotations":
        yield from annotation_faults(meta.get("annotations") or {}, "metadata.annotations")
    elif part == "finalizers":
        yield from _finalizer_faults(meta.get("finalizers") or (), builtin=resource not in CUSTOM)
    else:
        yield from _owner_faults(meta.get("ownerReferences") or ())


def annotation_faults(annotations: Plain, path: str) -> Iterator[Fault]:
    """Bad keys, and more text than the server keeps. The domain of a key may have capitals here."""
    for key in annotations:
        if not is_key(key.lower()):
            yield Fault(path, "is not an annotation key: optional domain and '/', then at most 63 characters", key)
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
    if size > MOST_ANNOTATION_BYTES:
        yield Fault(path, f"holds {size} bytes; at most {MOST_ANNOTATION_BYTES} are allowed")


def _name_faults(resource: Resource, name: str) -> Iterator[Fault]:
    if not _is_name(resource, name):
        form = "a DNS label" if resource in _NAMED_BY_LABEL else "a DNS subdomain"
        yield Fault("metadata.name", f"must be {form}: lowercase letters, digits and '-'", name)
    if resource == PRIORITY_CLASS and name.startswith("system-") and name not in _SYSTEM_CLASSES:
        yield Fault("metadata.name", "names that start with system- are reserved", name)


def _is_name(resource: Resource, name: str) -> bool:
    return is_label(name) if resource in _NAMED_BY_LABEL else is_subdomain(name)


def _without_trailing_dash(prefix: str) -> str:
    """A prefix may end with a dash, since more follows."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _finalizer_faults(finalizers: Sequence[str], *, builtin: bool) -> Iterator[Fault]:
    for index, name in enumerate(finalizers):
        if not is_key(name):
            yield Fault("metadata.finalizers", "is not the name of a finalizer", name)
        if builtin and "/" not in name and name not in _STANDARD_FINALIZERS:
            yield Fault(f"metadata.finalizers[{index}]", "must have a domain, such as example.com/name", name)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield Fault("metadata.finalizers", "orphan and foregroundDeletion cannot both be set")


def _owner_faults(owners: Sequence[Plain]) -> Iterator[Fault]:
    path = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version or version.count("/") > 1:
            yield Fault(f"{path}.apiVersion", "must be a group and version", version)
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield Fault(f"{path}.{name}", "must not be empty")
        if version == "v1" and owner.get("kind") == "Event":
            yield Fault(path, "an Event cannot own anything")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        yield Fault(path, "only one owner can be the controller")

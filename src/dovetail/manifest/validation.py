"""Validates documents: everything that is wrong with one, everything odd about it, and the object it becomes.

A document of a kind with a schema is checked against the strict schema of its version, then against `semantics`.
`warnings` looks for settings that are probably mistakes, in the parts that have no faults.

Other kinds have no schema (`other_kind_report`). Kinds that Karpenter removed are rejected with the replacement. Kinds
of Kubernetes that Dovetail reads are decoded, to find objects that the controller could not read. All others are
skipped, with a note.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from dovetail.manifest import codec, node_overlay, semantics
from dovetail.manifest.documents import DocumentInvalid, Report
from dovetail.manifest.ec2nodeclass.semantics import ec2_class_faults
from dovetail.manifest.nodepool_annotations import locate_fault, merge_annotations, spelled_fields, with_value
from dovetail.manifest.placeholders import with_one_placeholder_line
from dovetail.manifest.schema import KINDS, Scope, strict_schema_of
from dovetail.manifest.schema_check import (
    UNEXPECTED_FORM,
    as_stored,
    examine,
    unknown_fields,
    with_defaults,
    without_nulls,
)
from dovetail.manifest.semantics import metadata_faults
from dovetail.manifest.sound_parts import SoundParts, sound_parts
from dovetail.manifest.warnings import old_spelling_warnings, pool_warnings
from dovetail.model import kinds
from dovetail.model.duration import Duration
from dovetail.model.kinds import NODE_POOL, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodepool import NodePool

Plain = Mapping[str, Any]
_OWN_GROUPS = {
    "karpenter.sh": ("NodePool", "NodeClaim"),
    "karpenter.kwok.sh": ("KWOKNodeClass",),
    "karpenter.k8s.aws": ("EC2NodeClass",),
}
_REMOVED_KINDS = {
    "Provisioner": "write a karpenter.sh/v1 NodePool: requirements, taints and labels move under spec.template, "
    "ttlSecondsAfterEmpty and consolidation become spec.disruption, providerRef becomes nodeClassRef",
    "Machine": "write a NodePool; its NodeClaims replace Machines",
    "AWSNodeTemplate": "write a karpenter.k8s.aws/v1 EC2NodeClass",
}
_OVERLAY = ("karpenter.sh/v1alpha1", "NodeOverlay")
_KIND_NAMES = {
    name.lower(): name for name in (*(name for names in _OWN_GROUPS.values() for name in names), "NodeOverlay")
}
_VERSIONS = {
    "karpenter.sh": "use karpenter.sh/v1 or karpenter.sh/v1beta1",
    "karpenter.kwok.sh": "use karpenter.kwok.sh/v1alpha1",
    "karpenter.k8s.aws": "use karpenter.k8s.aws/v1 or karpenter.k8s.aws/v1beta1",
}
_DECODED_KINDS: Mapping[tuple[str, str], Kind[Any]] = {
    (kind.api_version, kind.name): kind
    for kind in vars(kinds).values()
    if isinstance(kind, Kind) and kind.group not in _OWN_GROUPS
}


def other_kind_report(document: Plain, api_version: str, kind: str) -> Report:
    """The report of a document without a schema."""
    name = _name(document)
    if kind in _REMOVED_KINDS and api_version.partition("/")[0] in _OWN_GROUPS:
        fault = Fault(
            "kind", f"{kind} ({api_version}) was removed from Karpenter before v1", kind, _REMOVED_KINDS[kind]
        )
        return Report(kind, name, (fault,))
    if (known := _DECODED_KINDS.get((api_version, kind))) is not None:
        return _decoded_other_kind(document, known)
    group = api_version.partition("/")[0]
    if group in _OWN_GROUPS:
        return Report(kind, name, (_wrong_group_or_version(api_version, group, kind),))
    note = f"{api_version} {kind} is not a kind that dovetail validate checks; skipped"
    return Report(kind, name, warnings=tuple(_do_not_disrupt_warnings(document)), note=note)


def _wrong_group_or_version(api_version: str, group: str, kind: str) -> Fault:
    if kind in _OWN_GROUPS[group]:
        return Fault("apiVersion", f"{kind} does not have this version", api_version, _VERSIONS[group])
    groups = [version for version, name in (_OVERLAY,) if name == kind]
    groups += [group for group, names in _OWN_GROUPS.items() if kind in names]
    remedy = (
        f"it belongs to {' or '.join(groups)}"
        if groups
        else "kinds are NodePool, NodeClaim, NodeOverlay, KWOKNodeClass, EC2NodeClass"
    )
    similar = get_close_matches(kind.lower(), _KIND_NAMES, n=1)
    if not groups and similar:
        remedy = f"did you mean {_KIND_NAMES[similar[0]]}?"
    return Fault("kind", f"{api_version} has no kind {kind}", kind, remedy)


def _checked_overlay(document: Plain) -> Report:
    found = examine(node_overlay.SCHEMA, document)
    faults = _combined(found.faults, [*metadata_faults(document), *node_overlay.overlay_faults(document)])
    warnings = (*unknown_fields(found, node_overlay.SCHEMA), *_namespace_warnings(document))
    return Report("NodeOverlay", _name(document), _unique(faults), warnings)


def _decoded_other_kind(document: Plain, kind: Kind[Any]) -> Report:
    faults = list(metadata_faults(document))
    value = None if faults else codec.from_plain(kind, without_nulls(document))
    if isinstance(value, UnreadableObject):
        faults.extend(value.faults)
    return Report(kind.name, _name(document), tuple(faults), tuple(_do_not_disrupt_warnings(document)))


def _do_not_disrupt_warnings(document: Plain) -> Iterator[Fault]:
    """Warn about pods with an invalid do-not-disrupt value, which protects them forever."""
    places = [("metadata", document)] if document.get("kind") == "Pod" else []
    template: Any = _inner(document, "spec", "template")
    job_template: Any = _inner(document, "spec", "jobTemplate", "spec", "template")
    places += [("spec.template.metadata", template), ("spec.jobTemplate.spec.template.metadata", job_template)]
    for path, holder in places:
        value = _inner(holder, "metadata", "annotations", DO_NOT_DISRUPT)
        if isinstance(value, str) and value not in ("true", "false") and not _is_positive(value):
            problem = "is neither true, false nor a duration above zero, so the pod is protected forever"
            remedy = 'write "true", or a duration such as "4h"'
            yield Fault(f"{path}.annotations[{DO_NOT_DISRUPT}]", problem, value, remedy)


def _is_positive(text: str) -> bool:
    try:
        return Duration.parse(text).nanoseconds > 0
    except ValueError:
        return False


def _inner(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _name(document: Plain) -> str:
    name = _inner(document, "metadata", "name")
    return name if isinstance(name, str) else ""


_SEMANTIC_FAULTS: Mapping[str, Callable[[Plain], Iterator[Fault]]] = {
    "NodePool": semantics.pool_faults,
    "NodeClaim": semantics.claim_faults,
    "EC2NodeClass": ec2_class_faults,
}


def faults_of(document: Any, before: Plain | None = None) -> Report:
    """All faults and warnings of one document. `before`: the object that it would replace."""
    if not isinstance(document, dict):
        problem = "is not a Kubernetes object: a mapping with apiVersion and kind was expected"
        return Report(faults=(Fault("$", problem, _short(document), "check the indentation"),))
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return Report(faults=tuple(_missing_type_faults(document)))
    scope = scope_of(api_version, kind)
    if scope is None and (api_version, kind) != _OVERLAY:
        return other_kind_report(document, api_version, kind)
    report = _checked_overlay(without_nulls(document)) if scope is None else _checked(document, scope, before)
    return with_one_placeholder_line(report, document)


def scope_of(api_version: str, kind: str) -> Scope | None:
    """The kind and version of a document's schema, or None."""
    group, _, version = api_version.partition("/")
    scope = Scope(kind, version)
    return scope if scope in KINDS and KINDS[scope].group == group else None


def read(document: Plain) -> tuple[Kind[Any], KubeObject]:
    """The object of a document, with the defaults of its version. Raises `DocumentInvalid` with every fault."""
    report = faults_of(document)
    scope = scope_of(str(document.get("apiVersion")), str(document.get("kind")))
    if report.faults or scope is None:
        raise DocumentInvalid(report)
    value = _decoded(document, scope)
    assert isinstance(value, KubeObject)
    return KINDS[scope], value


def validate_nodepool(pool: NodePool) -> tuple[Fault, ...]:
    """The faults of a NodePool from the API server, whichever version it was written in."""
    document: Plain = {**codec.to_plain(NODE_POOL, pool), "status": None}  # written by controllers
    document["spec"]["template"]["spec"].setdefault("requirements", [])  # an older CRD did not require them
    for field, value, _ in spelled_fields(document):
        document = with_value(document, field.spells, value)  # as written, with fields that decoding has skipped
    semantic_faults = list(semantics.pool_faults(document))
    # The API server does not record which version an object was written in, so the rules of either version suffice.
    schemas = [strict_schema_of(Scope("NodePool", version)) for version in ("v1", "v1beta1")]
    findings = [examine(schema, with_defaults(schema, counts_as_text(document))) for schema in schemas]
    found = findings[0].faults if all(each.faults for each in findings) else []
    unknown = unknown_fields(findings[0], schemas[0])
    faults = _combined(found, [*semantic_faults, *_annotation_faults(unknown, document)])
    return _unique([locate_fault(fault, document) for fault in faults])


def _annotation_faults(unknown: Iterable[Fault], document: Plain) -> Iterator[Fault]:
    """Unknown fields in annotations: the API server does not drop them, so a typo would stay unnoticed."""
    for fault in unknown:
        if locate_fault(fault, document) is not fault:
            yield fault._replace(problem="is not a field here")


def _checked(document: Plain, scope: Scope, before: Plain | None) -> Report:
    schema, written = strict_schema_of(scope), without_nulls(document)
    known = counts_as_text(written) if scope == _OLD_POOL else written
    annotation_faults: tuple[Fault, ...] = ()
    merged, filled = known, with_defaults(schema, known)
    if scope.kind == "NodePool":
        merged, _ = merge_annotations(known, codec.convert)
        filled, annotation_faults = merge_annotations(filled, codec.convert)
        filled = with_defaults(schema, filled)
    found = examine(schema, filled) if before is None else examine(schema, filled, with_defaults(schema, before))
    unknown = [each for each in unknown_fields(found, schema) if not _in_status(each)]
    semantic_faults = [*semantics.metadata_faults(known), *_beyond_schema(merged, scope)]
    semantic_faults += [*annotation_faults, *_annotation_faults(unknown, known)]
    schema_faults = [each for each in found.faults if not _in_status(each)]
    faults = [locate_fault(fault, known) for fault in _combined(schema_faults, semantic_faults)]
    parts = sound_parts(known, faults, lambda sound: _decoded(sound, scope))
    faults += _hidden_faults(parts, {} if before is not None else schema, {each.path for each in faults})
    warnings = [each for each in unknown if locate_fault(each, known) is each]
    warnings += [*_namespace_warnings(known), *_count_warnings(written, known)]
    if scope.kind == "NodePool":
        warnings.extend(_nodepool_warnings(parts, scope))
    metadata = known.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return Report(scope.kind, str(name), _unique(faults), tuple(warnings))


def _hidden_faults(parts: SoundParts, schema: dict[str, Any], found: set[str]) -> Iterator[Fault]:
    """Faults that another one hides: a rule is not evaluated around a faulty field, and nothing is decoded with it.

    A rule compares the fields of one mapping, so its verdict depends on a removed field beside the one it is about.
    """
    beside = {path.rpartition(".")[0] for path in parts.removed if not path.endswith("]")}
    again = examine(schema, with_defaults(schema, parts.document)).faults if parts.removed and schema else []
    rules = [each for each in again if each.path.rpartition(".")[0] not in beside and not _in_status(each)]
    decoding = parts.value.faults if isinstance(parts.value, UnreadableObject) else ()
    for fault in parts.as_written((*rules, *decoding)):
        if fault.path not in found and not (found and _in_status(fault)):
            yield fault


def _in_status(fault: Fault) -> bool:
    """Whether it is about the status, which the API server does not take from a manifest."""
    return fault.path.partition(".")[0] == "status"


def _beyond_schema(document: Plain, scope: Scope) -> Iterator[Fault]:
    find = _SEMANTIC_FAULTS.get(scope.kind)
    return find(document) if find is not None else iter(())


def _decoded(document: Plain, scope: Scope) -> KubeObject | UnreadableObject:
    if scope.kind == "NodePool":
        document = _with_node_class_ref(document)
    return codec.from_plain(KINDS[scope], as_stored(scope, without_nulls(document)))


_OLD_POOL = Scope("NodePool", "v1beta1")


def counts_as_text(pool: Plain) -> Plain:
    """A NodePool with numbers in budgets as text. The CRD accepts only text, because Karpenter cannot read a number."""
    filled = deepcopy(pool)
    for _, budget in _all_budgets(filled):
        if isinstance(budget.get("nodes"), int) and not isinstance(budget["nodes"], bool):
            budget["nodes"] = str(budget["nodes"])
    return filled


def _all_budgets(pool: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    disruption = _inner(pool, "spec", "disruption")
    return semantics.budgets_of(disruption if isinstance(disruption, dict) else {})


def _count_warnings(written: Plain, known: Plain) -> Iterator[Fault]:
    """Warn about numbers that were read as text."""
    for (path, budget), (_, read) in zip(_all_budgets(written), _all_budgets(known), strict=True):
        if budget.get("nodes") != read.get("nodes"):
            problem = "is a number: the API server accepts only text, because Karpenter cannot read a number"
            yield Fault(f"{path}.nodes", problem, budget["nodes"], f'put it in quotes: "{budget["nodes"]}"')


def _with_node_class_ref(document: Plain) -> Plain:
    """The NodePool with a reference to a node class of an unknown provider, if it has none."""
    ref = "spec.template.spec.nodeClassRef"
    return document if _inner(document, *ref.split(".")) is not None else with_value(document, ref, {"name": "unknown"})


def _nodepool_warnings(parts: SoundParts, scope: Scope) -> Iterator[Fault]:
    if isinstance(parts.value, NodePool):
        yield from parts.as_written(pool_warnings(parts.value))
        yield from parts.as_written(old_spelling_warnings(parts.document) if scope.version == "v1" else ())


def _namespace_warnings(document: Plain) -> Iterator[Fault]:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get("namespace"):
        yield Fault(
            "metadata.namespace", "has no effect: the kind is cluster-wide", metadata["namespace"], "leave it out"
        )


def _missing_type_faults(document: Plain) -> Iterator[Fault]:
    for name, example in (("apiVersion", "karpenter.sh/v1"), ("kind", "NodePool")):
        if not isinstance(document.get(name), str):
            yield Fault(name, "is required, as text", document.get(name), f"add it, such as {name}: {example}")


def _combined(schema: Iterable[Fault], semantic_faults: Iterable[Fault]) -> list[Fault]:
    """Schema faults, then the others, without those at the path of a schema fault."""
    others = list(semantic_faults)
    faults = [each for each in schema if not any(_says_more(other, each) for other in others)]
    reported = {fault.path for fault in faults}
    return [*faults, *(fault for fault in others if fault.path not in reported)]


def _says_more(other: Fault, rule: Fault) -> bool:
    """Whether another fault names the entry that breaks a rule of the schema about the mapping or list around it."""
    same = any(words in other.problem and words in rule.problem for words in ("label domain", "entry in evictionSoft"))
    return same and other.path.startswith(rule.path)


def _unique(faults: list[Fault]) -> tuple[Fault, ...]:
    """The faults in order, without duplicates. Of a value that has not the form of its field, no rule says more."""
    seen: dict[tuple[str, str], Fault] = {}
    malformed = {fault.path for fault in faults if fault.problem == UNEXPECTED_FORM}
    for fault in faults:
        if fault.problem == UNEXPECTED_FORM or fault.path not in malformed:
            seen.setdefault((fault.path, fault.problem), fault)
    return tuple(seen.values())


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

"""Validates documents: everything that is wrong with one, everything odd about it, and the object it becomes.

A document of a kind with a schema is checked against the schema of its version, then against `semantics`; if it has no
faults, `warnings` looks for settings that are probably mistakes.

Other kinds have no schema (`other_kind_report`). Kinds that Karpenter removed are rejected with the replacement. Kinds
of Kubernetes that Dovetail reads are decoded, to find objects that the controller could not read. All others are
skipped, with a note.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dovetail.manifest import codec, semantics
from dovetail.manifest.documents import DocumentInvalid, Report
from dovetail.manifest.ec2nodeclass.semantics import ec2_class_faults, placeholder_warnings
from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.schema_check import examine, unknown_fields, with_defaults, without_nulls
from dovetail.manifest.semantics import metadata_faults
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
_RECOGNIZED = {("karpenter.sh/v1alpha1", "NodeOverlay")}
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
    if (api_version, kind) in _RECOGNIZED:
        warning = Fault(
            "kind", f"{api_version} {kind} is recognized, but not checked", None, "a later version will check it"
        )
        return Report(kind, name, warnings=(warning,), note="recognized, but not checked")
    if (known := _DECODED_KINDS.get((api_version, kind))) is not None:
        return _decoded_other_kind(document, known)
    group = api_version.partition("/")[0]
    if group in _OWN_GROUPS:
        return Report(kind, name, (_wrong_group_or_version(api_version, group, kind),))
    note = f"{api_version} {kind} is not a kind that Dovetail uses; skipped"
    return Report(kind, name, warnings=tuple(_do_not_disrupt_warnings(document)), note=note)


def _wrong_group_or_version(api_version: str, group: str, kind: str) -> Fault:
    if kind in _OWN_GROUPS[group]:
        return Fault("apiVersion", f"{kind} does not have this version", api_version, _VERSIONS[group])
    groups = sorted({version for version, name in _RECOGNIZED if name == kind})
    groups += [group for group, names in _OWN_GROUPS.items() if kind in names]
    remedy = (
        f"it belongs to {' or '.join(groups)}"
        if groups
        else "kinds are NodePool, NodeClaim, KWOKNodeClass, EC2NodeClass"
    )
    return Fault("kind", f"{api_version} has no kind {kind}", kind, remedy)


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
    "KWOKNodeClass": semantics.class_faults,
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
    return other_kind_report(document, api_version, kind) if scope is None else _checked(document, scope, before)


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
    document = codec.to_plain(NODE_POOL, pool)
    semantic_faults = list(semantics.pool_faults(document))
    # The API server does not record which version an object was written in, so the rules of either version suffice.
    found = [examine(schema_of(Scope("NodePool", version)), document).faults for version in ("v1", "v1beta1")]
    return _unique(_combined(found[0] if all(found) else (), semantic_faults))


def _checked(document: Plain, scope: Scope, before: Plain | None) -> Report:
    schema, known = schema_of(scope), without_nulls(document)
    filled = with_defaults(schema, known)
    found = examine(schema, filled) if before is None else examine(schema, filled, with_defaults(schema, before))
    faults = _combined(found.faults, [*semantics.metadata_faults(known), *_SEMANTIC_FAULTS[scope.kind](known)])
    if not faults:
        value = _decoded(document, scope)
        faults.extend(value.faults if isinstance(value, UnreadableObject) else ())
    warnings = [*unknown_fields(found, schema), *_namespace_warnings(known)]
    if not faults and scope.kind == "NodePool":
        warnings.extend(_nodepool_warnings(known, scope))
    if not faults and scope.kind == "EC2NodeClass":
        warnings.extend(placeholder_warnings(known))
    metadata = known.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return Report(scope.kind, str(name), _unique(faults), tuple(warnings))


def _decoded(document: Plain, scope: Scope) -> KubeObject | UnreadableObject:
    return codec.from_plain(KINDS[scope], with_defaults(schema_of(scope), document))


def _nodepool_warnings(document: Plain, scope: Scope) -> Iterator[Fault]:
    pool = _decoded(document, scope)
    assert isinstance(pool, NodePool)
    yield from pool_warnings(pool)
    if scope.version == "v1":
        yield from old_spelling_warnings(document)


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
    faults = list(schema)
    reported = {fault.path for fault in faults}
    return [*faults, *(fault for fault in semantic_faults if fault.path not in reported)]


def _unique(faults: list[Fault]) -> tuple[Fault, ...]:
    """The faults without duplicates of the same path and problem, in order."""
    seen: dict[tuple[str, str], Fault] = {}
    for fault in faults:
        seen.setdefault((fault.path, fault.problem), fault)
    return tuple(seen.values())


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

"""Documents of kinds that have no schema here: refused, recognised, decoded, or passed over.

Kinds Karpenter gave up are refused with the way out. Kinds of Kubernetes that Dovetail reads are decoded, so that what
the controller could not read is known before. Everything else is none of our business, and the report says so.

What a document is, everything that is wrong with it, and the value it becomes.

A document of a kind with a schema is held against that of its version, then against what no schema can say; if nothing
is wrong it is looked over for what was probably not meant. `foreign` answers for the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dovetail.manifest import codec, semantics
from dovetail.manifest.documents import DocumentInvalid, Report
from dovetail.manifest.ec2nodeclass.semantics import class_advice, ec2_class_faults
from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.schema_check import examine, unknown_fields, with_defaults, without_nulls
from dovetail.manifest.semantics import metadata_faults
from dovetail.manifest.warnings import advice_for, spelling_advice
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
_GIVEN_UP = {
    "Provisioner": "write a karpenter.sh/v1 NodePool: requirements, taints and labels move under spec.template, "
    "ttlSecondsAfterEmpty and consolidation become spec.disruption, providerRef becomes nodeClassRef",
    "Machine": "write a NodePool; its NodeClaims replace Machines",
    "AWSNodeTemplate": "write a karpenter.k8s.aws/v1 EC2NodeClass",
}
_RECOGNISED = {("karpenter.sh/v1alpha1", "NodeOverlay")}
_VERSIONS = {
    "karpenter.sh": "use karpenter.sh/v1 or karpenter.sh/v1beta1",
    "karpenter.kwok.sh": "use karpenter.kwok.sh/v1alpha1",
    "karpenter.k8s.aws": "use karpenter.k8s.aws/v1 or karpenter.k8s.aws/v1beta1",
}
_READ: Mapping[tuple[str, str], Kind[Any]] = {
    (kind.api_version, kind.name): kind
    for kind in vars(kinds).values()
    if isinstance(kind, Kind) and kind.group not in _OWN_GROUPS
}


def foreign_report(document: Plain, api_version: str, kind: str) -> Report:
    """What to say about a document without a schema."""
    name = _name(document)
    if kind in _GIVEN_UP and api_version.partition("/")[0] in _OWN_GROUPS:
        fault = Fault("kind", f"{kind} ({api_version}) was given up by Karpenter before v1", kind, _GIVEN_UP[kind])
        return Report(kind, name, (fault,))
    if (api_version, kind) in _RECOGNISED:
        warning = Fault(
            "kind", f"{api_version} {kind} is recognised, not checked", None, "a later version will check it"
        )
        return Report(kind, name, warnings=(warning,), note="recognised, not checked")
    if (known := _READ.get((api_version, kind))) is not None:
        return _decoded_other_kind(document, known)
    group = api_version.partition("/")[0]
    if group in _OWN_GROUPS:
        return Report(kind, name, (_misplaced(api_version, group, kind),))
    note = f"{api_version} {kind} is none of Dovetail's kinds; passed over"
    return Report(kind, name, warnings=tuple(_protection_advice(document)), note=note)


def _misplaced(api_version: str, group: str, kind: str) -> Fault:
    if kind in _OWN_GROUPS[group]:
        return Fault("apiVersion", f"{kind} has no such version", api_version, _VERSIONS[group])
    homes = sorted({version for version, name in _RECOGNISED if name == kind})
    homes += [home for home, names in _OWN_GROUPS.items() if kind in names]
    remedy = (
        f"it belongs to {' or '.join(homes)}" if homes else "kinds are NodePool, NodeClaim, KWOKNodeClass, EC2NodeClass"
    )
    return Fault("kind", f"{api_version} has no kind {kind}", kind, remedy)


def _decoded_other_kind(document: Plain, kind: Kind[Any]) -> Report:
    faults = list(metadata_faults(document))
    value = None if faults else codec.from_plain(kind, without_nulls(document))
    if isinstance(value, UnreadableObject):
        faults.extend(value.faults)
    return Report(kind.name, _name(document), tuple(faults), tuple(_protection_advice(document)))


def _protection_advice(document: Plain) -> Iterator[Fault]:
    """Pods whose do-not-disrupt value is no value: they are protected for ever, which may not be meant."""
    places = [("metadata", document)] if document.get("kind") == "Pod" else []
    template: Any = _inner(document, "spec", "template")
    job_template: Any = _inner(document, "spec", "jobTemplate", "spec", "template")
    places += [("spec.template.metadata", template), ("spec.jobTemplate.spec.template.metadata", job_template)]
    for path, holder in places:
        value = _inner(holder, "metadata", "annotations", DO_NOT_DISRUPT)
        if isinstance(value, str) and value not in ("true", "false") and not _is_positive(value):
            problem = "is neither true, false nor a duration above zero, so the pod is protected for ever"
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


_BEYOND_SCHEMA: Mapping[str, Callable[[Plain], Iterator[Fault]]] = {
    "NodePool": semantics.pool_faults,
    "NodeClaim": semantics.claim_faults,
    "KWOKNodeClass": semantics.class_faults,
    "EC2NodeClass": ec2_class_faults,
}


def faults_of(document: Any, before: Plain | None = None) -> Report:
    """Everything wrong with one document, and everything odd. `before`: the object it would replace."""
    if not isinstance(document, dict):
        problem = "is not a Kubernetes object: a mapping with apiVersion and kind was expected"
        return Report(faults=(Fault("$", problem, _short(document), "check the indentation"),))
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return Report(faults=tuple(_unnamed(document)))
    scope = scope_of(api_version, kind)
    return foreign_report(document, api_version, kind) if scope is None else _checked(document, scope, before)


def scope_of(api_version: str, kind: str) -> Scope | None:
    """The schema a document is read by, if it has one."""
    group, _, version = api_version.partition("/")
    scope = Scope(kind, version)
    return scope if scope in KINDS and KINDS[scope].group == group else None


def read(document: Plain) -> tuple[Kind[Any], KubeObject]:
    """The value of a document, its version's defaults filled in; `DocumentInvalid` has every fault otherwise."""
    report = faults_of(document)
    scope = scope_of(str(document.get("apiVersion")), str(document.get("kind")))
    if report.faults or scope is None:
        raise DocumentInvalid(report)
    value = _decoded(document, scope)
    assert isinstance(value, KubeObject)
    return KINDS[scope], value


def validate_nodepool(pool: NodePool) -> tuple[Fault, ...]:
    """What is wrong with a NodePool read from the API server, whichever version it was written in."""
    document = codec.to_plain(NODE_POOL, pool)
    beyond = list(semantics.pool_faults(document))
    # The server does not tell which version an object was written in, so it may follow the rules of either.
    found = [examine(schema_of(Scope("NodePool", version)), document).faults for version in ("v1", "v1beta1")]
    return _unique(_joined(found[0] if all(found) else (), beyond))


def _checked(document: Plain, scope: Scope, before: Plain | None) -> Report:
    schema, known = schema_of(scope), without_nulls(document)
    filled = with_defaults(schema, known)
    found = examine(schema, filled) if before is None else examine(schema, filled, with_defaults(schema, before))
    faults = _joined(found.faults, [*semantics.metadata_faults(known), *_BEYOND_SCHEMA[scope.kind](known)])
    if not faults:
        value = _decoded(document, scope)
        faults.extend(value.faults if isinstance(value, UnreadableObject) else ())
    warnings = [*unknown_fields(found, schema), *_namespace_advice(known)]
    if not faults and scope.kind == "NodePool":
        warnings.extend(_pool_advice(known, scope))
    if not faults and scope.kind == "EC2NodeClass":
        warnings.extend(class_advice(known))
    metadata = known.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return Report(scope.kind, str(name), _unique(faults), tuple(warnings))


def _decoded(document: Plain, scope: Scope) -> KubeObject | UnreadableObject:
    return codec.from_plain(KINDS[scope], with_defaults(schema_of(scope), document))


def _pool_advice(document: Plain, scope: Scope) -> Iterator[Fault]:
    pool = _decoded(document, scope)
    assert isinstance(pool, NodePool)
    yield from advice_for(pool)
    if scope.version == "v1":
        yield from spelling_advice(document)


def _namespace_advice(document: Plain) -> Iterator[Fault]:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get("namespace"):
        yield Fault(
            "metadata.namespace", "has no effect: the kind is cluster-wide", metadata["namespace"], "leave it out"
        )


def _unnamed(document: Plain) -> Iterator[Fault]:
    for name, example in (("apiVersion", "karpenter.sh/v1"), ("kind", "NodePool")):
        if not isinstance(document.get(name), str):
            yield Fault(name, "is required, as text", document.get(name), f"add it, such as {name}: {example}")


def _joined(schema: Iterable[Fault], beyond: Iterable[Fault]) -> list[Fault]:
    """What the schema says, then what is beyond it; a place that does not fit the schema is not looked at further."""
    faults = list(schema)
    told = {fault.path for fault in faults}
    return [*faults, *(fault for fault in beyond if fault.path not in told)]


def _unique(faults: list[Fault]) -> tuple[Fault, ...]:
    """Each fault once, in the order found; one place is not told twice the same."""
    seen: dict[tuple[str, str], Fault] = {}
    for fault in faults:
        seen.setdefault((fault.path, fault.problem), fault)
    return tuple(seen.values())


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

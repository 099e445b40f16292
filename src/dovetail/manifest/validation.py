"""What a document is, everything that is wrong with it, and the value it becomes.

A document of a kind with a schema is held against that of its version, then against what no schema can say; if nothing
is wrong it is looked over for what was probably not meant. `foreign` answers for the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dovetail.manifest import codec, semantics
from dovetail.manifest.ec2nodeclass.semantics import class_advice, ec2_class_faults
from dovetail.manifest.other_kinds import foreign_report
from dovetail.manifest.report import DocumentInvalid, Report
from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.schema_check import examine, unknown_fields, with_defaults, without_nulls
from dovetail.manifest.warnings import advice_for, spelling_advice
from dovetail.model.kinds import NODE_POOL, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.nodepool import NodePool

Plain = Mapping[str, Any]
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

"""Documents of kinds that have no schema here: refused, recognised, decoded, or passed over.

Kinds Karpenter gave up are refused with the way out. Kinds of Kubernetes that Dovetail reads are decoded, so that what
the controller could not read is known before. Everything else is none of our business, and the report says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.manifest import codec
from dovetail.manifest.report import Report
from dovetail.manifest.schema_check import without_nulls
from dovetail.manifest.semantics import metadata_faults
from dovetail.model import kinds
from dovetail.model.duration import Duration
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Fault, UnreadableObject
from dovetail.model.labels import DO_NOT_DISRUPT

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
        return _decoded(document, known)
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


def _decoded(document: Plain, kind: Kind[Any]) -> Report:
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

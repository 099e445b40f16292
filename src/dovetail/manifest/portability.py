"""Finds what Karpenter v1.14 rejects, drops or reads differently in a manifest that Dovetail accepts.

Karpenter's CRDs serve only v1. They lack fields that Dovetail has, and the API server drops those without a message
unless the client asks for strict validation, as kubectl does. Pods have one difference: Karpenter does not read
durations in the annotation `karpenter.sh/do-not-disrupt`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dovetail.manifest.documents import Report
from dovetail.manifest.ec2nodeclass.passed_on import CPUOptions, KubeletSettings
from dovetail.manifest.schema_check import join
from dovetail.manifest.semantics import budgets_of
from dovetail.manifest.validation import counts_as_text
from dovetail.model.annotated_fields import annotation_for
from dovetail.model.kube_object import ApiStruct, Fault
from dovetail.model.labels import DO_NOT_DISRUPT

Plain = Mapping[str, Any]
_GROUPS = ("karpenter.sh", "karpenter.k8s.aws")
_REASONS = ("Drifted", "Empty", "Underutilized")
_DROPPED = "is not a field of Karpenter's v1 CRDs: the API server drops it"
_PASSED_ON: tuple[tuple[str, type[ApiStruct], str], ...] = (
    ("cpuOptions", CPUOptions, "leave it out"),
    ("kubelet", KubeletSettings, "leave it out, or write it in userData"),
)
"""Settings of which Dovetail passes on all, and Karpenter those that it knows; with the remedy for the others."""
_POD_TEMPLATES = (
    ("metadata",),
    ("spec", "template", "metadata"),
    ("spec", "jobTemplate", "spec", "template", "metadata"),
)


def for_karpenter(report: Report, document: Any) -> Report:
    """The report with the faults that the document has for Karpenter in addition, in order of their kind."""
    if not isinstance(document, dict):
        return report
    reported = {fault.path for fault in report.faults}
    found = [*_version_faults(document), *_do_not_disrupt_faults(document)]
    found += _FAULTS_BY_KIND[report.kind](document) if report.kind in _FAULTS_BY_KIND else ()
    added = [_with_annotation(fault, document) for fault in found if fault.path not in reported]
    paths = {fault.path for fault in added}
    warnings = tuple(each for each in report.warnings if each.path not in paths)
    return replace(report, faults=(*report.faults, *added), warnings=warnings, note="" if added else report.note)


def _with_annotation(fault: Fault, document: Plain) -> Fault:
    """The fault with the annotation that has the effect of the field in Dovetail, on Karpenter's CRDs as well."""
    annotation = annotation_for(fault.path, counts_as_text(document)) if document.get("kind") == "NodePool" else ""
    if not annotation:
        return fault
    return fault._replace(remedy=f"{fault.remedy}; Dovetail reads it as the annotation {annotation}")


def _version_faults(document: Plain) -> Iterator[Fault]:
    group, _, version = str(document.get("apiVersion")).partition("/")
    if group in _GROUPS and version == "v1beta1":
        fix = f"{group}/v1"
        problem = "is not served by Karpenter v1"
        yield Fault("apiVersion", problem, document["apiVersion"], f"write {fix}, and change the fields below", fix)


def _pool_faults(document: Plain) -> Iterator[Fault]:
    disruption, template = _at(document, "spec", "disruption"), _at(document, "spec", "template", "spec")
    path = "spec.disruption"
    if isinstance(disruption, dict):
        yield from _disruption_faults(disruption)
        for place, budget in budgets_of(disruption):
            yield from _budget_faults(budget, place)
    if _at(document, "spec", "repair") is not None:
        remedy = "leave it out: Karpenter repairs nodes of all pools (feature gate NodeRepair), after fixed times"
        yield Fault("spec.repair", _DROPPED, None, remedy)
    soft = _at(document, *path.split("."), "expireAfter")
    if soft is not None:
        enforced = "" if soft == "Never" else ", which Karpenter enforces regardless of budgets"
        remedy = f"write spec.template.spec.expireAfter: {soft}{enforced}"
        yield Fault(f"{path}.expireAfter", _DROPPED, soft, remedy)
    yield from _template_faults(template, "spec.template.spec")


def _disruption_faults(disruption: Plain) -> Iterator[Fault]:
    path = "spec.disruption"
    if disruption.get("consolidateAfter") is None:
        yield Fault(f"{path}.consolidateAfter", "is required beside other fields of disruption", None, "write 0s", "0s")
    if disruption.get("consolidationPolicy") == "WhenUnderutilized":
        fix = "WhenEmptyOrUnderutilized"
        yield Fault(f"{path}.consolidationPolicy", "is the v1beta1 spelling", "WhenUnderutilized", f"write {fix}", fix)
    for name in ("consolidationGracePeriod", "minSavings", "actionControls", "genericPerActionControls"):
        if disruption.get(name) is not None:
            yield Fault(f"{path}.{name}", _DROPPED, None, "leave it out: Karpenter has nothing like it")


def _budget_faults(budget: Plain, path: str) -> Iterator[Fault]:
    nodes, reasons = budget.get("nodes"), budget.get("reasons")
    if isinstance(nodes, int) and not isinstance(nodes, bool):
        problem = "must be text: Karpenter stops on a number"
        yield Fault(f"{path}.nodes", problem, nodes, f'put it in quotes: "{nodes}"', str(nodes))
    for index, reason in enumerate(reasons if isinstance(reasons, list) else ()):
        if reason == "Expired":
            remedy = f"leave it out: Karpenter knows {', '.join(_REASONS)}, and expires nodes regardless of budgets"
            yield Fault(f"{path}.reasons[{index}]", "is not a reason that Karpenter knows", reason, remedy)
    if budget.get("action") is not None:
        remedy = f"write reasons instead: {', '.join(_REASONS)}"
        yield Fault(f"{path}.action", _DROPPED, budget["action"], remedy)


def _claim_faults(document: Plain) -> Iterator[Fault]:
    yield from _template_faults(document.get("spec"), "spec")


def _template_faults(spec: Any, path: str) -> Iterator[Fault]:
    """Faults of the spec of a NodeClaim or of a NodePool's template."""
    if not isinstance(spec, dict):
        return
    if spec.get("requirements") is None:
        yield Fault(f"{path}.requirements", "is required, even if it is empty", None, "write requirements: []", [])
    ref = spec.get("nodeClassRef")
    if isinstance(ref, dict) and ref.get("apiVersion") is not None:
        group = str(ref["apiVersion"]).partition("/")[0]
        remedy = "leave it out" if ref.get("group") else f"write group: {group} instead"
        yield Fault(f"{path}.nodeClassRef.apiVersion", _DROPPED, ref["apiVersion"], remedy)
    for name in ("group", "kind"):
        if isinstance(ref, dict) and not ref.get(name) and not (name == "group" and ref.get("apiVersion")):
            yield Fault(f"{path}.nodeClassRef.{name}", "is required", None, f"name the {name} of the node class")
    if spec.get("kubelet") is not None:
        yield Fault(f"{path}.kubelet", _DROPPED, None, "move these settings to spec.kubelet of the EC2NodeClass")


def _ec2_class_faults(document: Plain) -> Iterator[Fault]:
    spec = document.get("spec")
    if isinstance(spec, dict) and not spec.get("amiSelectorTerms"):
        family = str(spec.get("amiFamily", "AL2023")).lower()
        remedy = f"write amiSelectorTerms: [{{alias: {family}@latest}}]"
        yield Fault("spec.amiSelectorTerms", "is required in v1", None, remedy)
    for field, known, remedy in _PASSED_ON:
        settings = _at(document, "spec", field)
        for name in settings if isinstance(settings, dict) else ():
            if name not in known.__struct_encode_fields__:
                yield Fault(join(f"spec.{field}", name), _DROPPED, settings[name], remedy)


def _do_not_disrupt_faults(document: Plain) -> Iterator[Fault]:
    for place in _POD_TEMPLATES if document.get("kind") == "Pod" else _POD_TEMPLATES[1:]:
        value = _at(document, *place, "annotations", DO_NOT_DISRUPT)
        if isinstance(value, str) and value not in ("true", "false") and document.get("kind") != "NodePool":
            path = f"{'.'.join(place)}.annotations[{DO_NOT_DISRUPT}]"
            problem = 'protects nothing: Karpenter reads only "true"'
            yield Fault(path, problem, value, 'write "true", which protects the pod as long as it runs', "true")


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


_FAULTS_BY_KIND: Mapping[str, Callable[[Plain], Iterator[Fault]]] = {
    "NodePool": _pool_faults,
    "NodeClaim": _claim_faults,
    "EC2NodeClass": _ec2_class_faults,
}

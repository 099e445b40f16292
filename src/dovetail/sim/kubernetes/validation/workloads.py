"""Workloads and disruption budgets."""

import re
from collections.abc import Iterator

from dovetail.model.kube_object import Fault
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.metadata import choice_faults
from dovetail.sim.kubernetes.validation.placement import selector_faults
from dovetail.sim.kubernetes.validation.pods import template_faults

_ALWAYS = frozenset({"Always"})
_TO_AN_END = frozenset({"OnFailure", "Never"})
_STRATEGIES = frozenset({"RollingUpdate", "Recreate"})
_UNHEALTHY = frozenset({"IfHealthyBudget", "AlwaysAllow"})
_PERCENTAGE = re.compile(r"(100|[0-9]{1,2})%")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def workload_faults(kind: str, spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    if (spec.get("replicas") or 0) < 0:
        yield Fault("spec.replicas", "must not be negative", spec["replicas"])
    yield from _selection_faults(kind, spec)
    template = spec.get("template")
    yield from template_faults(template, "spec.template", _ALWAYS)
    if ((template or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None:
        yield Fault("spec.template.spec.activeDeadlineSeconds", f"cannot be set for a {kind}")
    if kind == "Deployment":
        yield from choice_faults((spec.get("strategy") or {}).get("type"), _STRATEGIES, "spec.strategy")


def _selection_faults(kind: str, spec: Plain) -> Iterator[Fault]:
    selector = spec.get("selector")
    if not selector and (selector is not None or kind != "DaemonSet"):
        yield Fault("spec.selector", "must select the pods of the template")
    wrong = list(selector_faults(selector, "spec.selector"))
    yield from wrong
    if wrong and kind in ("Deployment", "ReplicaSet"):
        yield Fault("spec.selector", "is not a label selector")
    elif selector is None or (not wrong and not _selects(selector, _template_labels(spec))):
        yield Fault("spec.template.metadata.labels", "must be selected by spec.selector", _template_labels(spec))


def _template_labels(spec: Plain) -> Plain:
    labels: Plain = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _selects(selector: Plain, labels: Plain) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each["key"], each["operator"], each.get("values") or ()
        if operator in ("In", "Exists") and (key not in labels or (values and labels[key] not in values)):
            return False
        if operator == "DoesNotExist" and key in labels:
            return False
        if operator == "NotIn" and labels.get(key) in values:
            return False
    return True


def job_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a Job; its selector is generated."""
    for name in ("completions", "parallelism"):
        if (spec.get(name) or 0) < 0:
            yield Fault(f"spec.{name}", "must not be negative", spec[name])
    if spec.get("selector") and not spec.get("manualSelector"):
        yield Fault("spec.selector", "is generated", spec["selector"])
        yield Fault("spec.template.metadata.labels", "must be selected by spec.selector", _template_labels(spec))
    yield from template_faults(spec.get("template"), "spec.template", _TO_AN_END)


def budget_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a PodDisruptionBudget."""
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield Fault("spec", "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if isinstance(value, str) and not _PERCENTAGE.fullmatch(value):
            yield Fault(f"spec.{name}", "must be a percentage from 0% to 100%, or a number", value)
        if isinstance(value, int) and value < 0:
            yield Fault(f"spec.{name}", "must not be negative", value)
    yield from choice_faults(spec.get("unhealthyPodEvictionPolicy"), _UNHEALTHY, "spec.unhealthyPodEvictionPolicy")
    yield from selector_faults(spec.get("selector"), "spec.selector")


def budget_status_faults(status: Plain) -> Iterator[Fault]:
    """Everything wrong with the status of a PodDisruptionBudget."""
    for name in _COUNTS:
        if (status.get(name) or 0) < 0:
            yield Fault(f"status.{name}", "must not be negative", status[name])
    for index, condition in enumerate(status.get("conditions") or ()):
        for name in ("type", "status", "reason", "lastTransitionTime"):
            if not condition.get(name):
                yield Fault(f"status.conditions[{index}].{name}", "must not be empty")


def deployment_status_faults(status: Plain) -> Iterator[Fault]:
    """Everything wrong with the status of a Deployment: no part is larger than the whole."""
    most = status.get("replicas") or 0
    if most < 0:
        yield Fault("status.replicas", "must not be negative", most)
    for name in ("updatedReplicas", "readyReplicas", "availableReplicas"):
        if not 0 <= (status.get(name) or 0) <= most:
            yield Fault(f"status.{name}", f"must be from 0 to status.replicas, which is {most}", status.get(name))

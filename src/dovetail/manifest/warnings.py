"""Warnings about NodePools that are valid but probably not intended.

It works on the parsed object, without the parts that have faults. A warning never rejects a NodePool.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from dovetail.manifest.schema_check import join
from dovetail.model.annotated_fields import FIELD_BY_ANNOTATION, annotation_path, value_at
from dovetail.model.budget import Budget
from dovetail.model.kube_object import Fault
from dovetail.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    DO_NOT_DISRUPT,
    INSTANCE_TYPE,
    OS,
    PROVIDER_LABELS,
    ZONE,
    provider_domain,
)
from dovetail.model.nodepool import NodePool
from dovetail.model.pause import PAUSE
from dovetail.model.reason import Reason
from dovetail.model.repair import REPAIR_POLICIES_BY_GROUP, policies_without_effect
from dovetail.model.requirements import Requirement

_BUDGETS = "spec.disruption.budgets"
VALUES_BY_LABEL: Mapping[str, tuple[str, ...]] = {
    CAPACITY_TYPE: CAPACITY_TYPES,
    OS: ("linux", "windows"),
    ARCH: ("amd64", "arm64", "arm", "ppc64le", "riscv64", "s390x"),
    "karpenter.k8s.aws/instance-tenancy": ("default", "dedicated"),
}
"""All values of labels whose values do not depend on the cloud; architectures have the names of Go."""
_EC2 = "karpenter.k8s.aws"
_WHOLE_NUMBER = (re.compile("[0-9]+"), "write a whole number")
_EC2_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    **{
        f"{_EC2}/instance-{name}": _WHOLE_NUMBER
        for name in (
            *("accelerator-count", "cpu", "cpu-sustained-clock-speed-mhz", "ebs-bandwidth", "generation"),
            *("gpu-count", "gpu-memory", "local-nvme", "memory", "network-bandwidth"),
        )
    },
    INSTANCE_TYPE: (re.compile(r"[^.]+\.[^.]+"), "write an instance type such as m5.large"),
    ZONE: (
        re.compile("(?![a-z]{2}(-[a-z]+)+-[0-9]+$).*"),
        "write a zone of this region, such as {}a",
    ),
}
"""The form of every value that an EC2 instance can have, by label, and the remedy for values of another form."""
UNSET_LABELS = frozenset(
    f"{_EC2}/{name}" for name in ("nitro-sandbox", "placement-group-id", "placement-group-partition")
)
"""Labels that Karpenter's AWS provider defines, but that no instance type here has."""
_SPELLINGS = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64"}


def pool_warnings(pool: NodePool) -> Iterator[Fault]:
    """All warnings about a NodePool without faults."""
    yield from _budget_warnings(pool)
    yield from _expiry_warnings(pool)
    yield from _requirement_warnings(pool)
    yield from _ignored_field_warnings(pool)
    yield from _annotation_warnings(pool)
    known = REPAIR_POLICIES_BY_GROUP.get(pool.node_class_ref.api_group)
    yield from policies_without_effect(pool, known) if known is not None else ()
    repair = pool.spec.repair
    for condition, times in Counter(policy.condition_type for policy in (repair.policies if repair else ())).items():
        if times > 1:
            yield Fault(
                "spec.repair.policies",
                f"has {times} policies for {condition}",
                condition,
                "the first one counts; keep one",
            )


def _budget_warnings(pool: NodePool) -> Iterator[Fault]:
    if pool.spec.disruption.budgets == () and not any(controls.budgets for controls in pool.action_controls.values()):
        yield Fault(
            _BUDGETS, "is empty, so nothing limits how many nodes are disrupted at once", None, "leave it out for 10%"
        )
        return
    reasons_by_warning: dict[Fault, list[Reason]] = {}
    for reason in _possible_reasons(pool):
        warning = _budget_warning([each for each in pool.budgets if reason in each.reasons])
        if warning is not None:
            reasons_by_warning.setdefault(warning, []).append(reason)
    for warning, reasons in reasons_by_warning.items():
        yield warning._replace(problem=warning.problem.format(" or ".join(sorted(reasons))))


def _possible_reasons(pool: NodePool) -> list[Reason]:
    """The reasons for which nodes of this pool can be disrupted voluntarily."""
    disruption, controls = pool.spec.disruption, pool.action_controls
    reasons = [Reason.DRIFTED]
    soft = [disruption.expire_after, *(controls[name].disrupt_after for name in ("Expiration",) if name in controls)]
    if any(delay is not None for delay in soft) and not any(delay is not None and delay.never for delay in soft):
        reasons.append(Reason.EXPIRED)
    after = disruption.consolidate_after
    if not pool.static and (after is None or not after.never):
        reasons.append(Reason.EMPTY)
        if pool.consolidation_policy != "WhenEmpty":
            reasons.append(Reason.UNDERUTILIZED)
    return reasons


def _budget_warning(budgets: list[Budget]) -> Fault | None:
    """The warning about the budgets of one reason; `{}` in the problem is replaced by the reason."""
    always = [each for each in budgets if each.window is None or each.window.never_closes]
    blocking = next((each for each in always if not (each.count or each.percent)), None)
    if blocking is not None:
        why = "" if blocking.window is None else " (its window never closes)"
        problem = "allows no node to be disrupted as {}, at any time" + why
        remedy = "these nodes stay forever; allow at least 1, or add a schedule"
        return Fault(blocking.path, problem, f"nodes: {blocking.spec.nodes}", remedy)
    if not budgets:
        problem = "leaves {} without a limit: all these nodes may be disrupted at once"
        return Fault(_BUDGETS, problem, None, "add a budget for it, or one for all reasons")
    if not always:
        problem = "limits {} only while its schedule is active: at other times all these nodes may be disrupted at once"
        return Fault(_BUDGETS, problem, None, "add a budget without schedule")
    return None


def _expiry_warnings(pool: NodePool) -> Iterator[Fault]:
    hard, soft = pool.hard_expire_after, pool.spec.disruption.expire_after
    if soft is not None and not hard.never and not soft.never:
        problem = f"is set in addition to spec.template.spec.expireAfter ({hard}): nodes are replaced at {soft}"
        yield Fault(
            "spec.disruption.expireAfter",
            f"{problem} within budgets, and deleted at {hard} regardless of them",
            str(soft),
            "keep one if only one is intended",
        )


def _requirement_warnings(pool: NodePool) -> Iterator[Fault]:
    requirements = pool.spec.template.spec.requirements
    absent = {entry.key for entry in requirements if entry.operator == "DoesNotExist"}
    group = pool.node_class_ref.api_group
    for index, entry in enumerate(requirements):
        path = f"spec.template.spec.requirements[{index}]"
        yield from _value_warnings(f"{path}.values", entry.key, entry.values)
        if entry.operator == "In":
            yield from _form_warnings(group, f"{path}.values", entry.key, entry.values)
        if not Requirement.of(entry.key, entry.operator, entry.values).tolerates_absence:
            yield from _foreign_label_warnings(group, f"{path}.key", entry.key)
    for key, value in pool.spec.template.metadata.labels.items():
        path = join("spec.template.metadata.labels", key)
        yield from _value_warnings(path, key, (value,))
        yield from _form_warnings(group, path, key, (value,))
        yield from _foreign_label_warnings(group, path, key)
    for requirement in pool.requirements.values():
        if requirement.is_empty and requirement.key not in absent:
            problem = f"and labels together leave no value for {requirement.key}: no node can be launched"
            yield Fault("spec.template.spec.requirements", problem, None, "loosen one of them")


def _value_warnings(path: str, key: str, values: Iterable[str]) -> Iterator[Fault]:
    """Warn about values that no node has."""
    known = VALUES_BY_LABEL.get(key, ())
    for value in values if known else ():
        if value not in known:
            meant = _SPELLINGS.get(value.lower()) or next(iter(get_close_matches(value.lower(), known, n=1)), "")
            hint = f"did you mean {meant}? " if meant in known else ""
            problem = f"can never match: no node has this value of {key}"
            yield Fault(path, problem, value, f"{hint}Known values are {', '.join(known)}")


def _form_warnings(group: str, path: str, key: str, values: Iterable[str]) -> Iterator[Fault]:
    """Warn about values of a form that no value of the label has on EC2."""
    form, remedy = _EC2_FORMS.get(key, (None, ""))
    for value in values if form is not None and group == _EC2 else ():
        if form is not None and not form.fullmatch(value):
            yield Fault(path, f"can never match: no EC2 instance has this value of {key}", value, remedy.format(value))


def _foreign_label_warnings(group: str, path: str, key: str) -> Iterator[Fault]:
    """Warn about a label that no instance has, or only instances of another provider."""
    domain = provider_domain(key)
    if key in UNSET_LABELS:
        yield Fault(path, "is not supported: no node gets this label, so none can be launched", key, "leave it out")
        return
    if domain and group in PROVIDER_LABELS and domain != group:
        name = key.partition("/")[2]
        remedy = f"did you mean {group}/{name}?" if name in PROVIDER_LABELS[group] else "leave it out"
        yield Fault(path, f"is a label of another provider: no node with a node class of {group} has it", key, remedy)


def _ignored_field_warnings(pool: NodePool) -> Iterator[Fault]:
    annotations: Mapping[str, str] = pool.spec.template.metadata.annotations
    mark = annotations.get(DO_NOT_DISRUPT)
    if mark is not None and mark != "true":
        path = f"spec.template.metadata.annotations[{DO_NOT_DISRUPT}]"
        yield Fault(path, 'has no effect: on nodes only "true" counts', mark, 'write "true", or leave it out')
    if pool.static:
        problem = "is not supported: no nodes are launched for a fixed number, and none of them is disrupted"
        yield Fault("spec.replicas", problem, pool.spec.replicas, "leave it out, so that nodes follow the pods")
    after = pool.spec.disruption.consolidate_after
    if pool.static and after is not None and after.span:  # the CRD writes 0s
        yield Fault("spec.disruption.consolidateAfter", "has no effect on a static pool", str(after), "leave it out")


def _annotation_warnings(pool: NodePool) -> Iterator[Fault]:
    """Warn about annotations that were probably meant to spell a field."""
    names = [*FIELD_BY_ANNOTATION, PAUSE]
    for key in pool.metadata.annotations:
        domain = key.partition("/")[0]
        similar = (
            get_close_matches(key, names, n=1, cutoff=0.85) if domain == "dovetail.sh" and key not in names else []
        )
        if similar:
            yield Fault(annotation_path(key), "has no effect: it is unknown", None, f"did you mean {similar[0]}?")
    for key in pool.spec.template.metadata.annotations:
        if key in names:
            path = f"spec.template.metadata.annotations[{key}]"
            yield Fault(path, "has no effect on nodes", None, "move it to metadata.annotations of the NodePool")


def old_spelling_warnings(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Warnings about v1beta1 spellings in a v1 NodePool."""
    if value_at(document, "spec.template.spec.kubelet") is not None:
        yield Fault("spec.template.spec.kubelet", "is a v1beta1 field", None, "move these settings to the node class")

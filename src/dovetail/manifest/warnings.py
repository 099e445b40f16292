"""Warnings about NodePools that are valid but probably not intended.

It works on the parsed object, so it runs only if there are no faults. A warning never rejects a NodePool.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.model.budget import Budget
from dovetail.model.kube_object import Fault
from dovetail.model.labels import CAPACITY_TYPE, CAPACITY_TYPES, DO_NOT_DISRUPT
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.repair import REPAIR_POLICIES_BY_GROUP, policies_without_effect

_BUDGETS = "spec.disruption.budgets"


def pool_warnings(pool: NodePool) -> Iterator[Fault]:
    """All warnings about a NodePool without faults."""
    yield from _budget_warnings(pool)
    yield from _expiry_warnings(pool)
    yield from _requirement_warnings(pool)
    yield from _ignored_field_warnings(pool)
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
    hard, soft = pool.spec.template.spec.expire_after, pool.spec.disruption.expire_after
    if hard is not None and soft is not None and not hard.never and not soft.never:
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
    for index, entry in enumerate(requirements):
        unknown = sorted(set(entry.values) - set(CAPACITY_TYPES)) if entry.key == CAPACITY_TYPE else []
        if unknown:
            path = f"spec.template.spec.requirements[{index}].values"
            yield Fault(path, f"names unknown capacity types: {', '.join(unknown)}", list(entry.values), "remove them")
    for requirement in pool.requirements.values():
        if requirement.is_empty and requirement.key not in absent:
            problem = f"and labels together leave no value for {requirement.key}: no node can be launched"
            yield Fault("spec.template.spec.requirements", problem, None, "loosen one of them")


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
    if pool.static and after is not None:
        yield Fault("spec.disruption.consolidateAfter", "has no effect on a static pool", str(after), "leave it out")


def old_spelling_warnings(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Warnings about v1beta1 spellings in a v1 NodePool."""
    spec = document["spec"]
    if spec.get("disruption", {}).get("consolidationPolicy") == "WhenUnderutilized":
        path = "spec.disruption.consolidationPolicy"
        yield Fault(path, "is the v1beta1 spelling", "WhenUnderutilized", "write WhenEmptyOrUnderutilized")
    template = spec["template"]["spec"]
    if "kubelet" in template:
        yield Fault("spec.template.spec.kubelet", "is a v1beta1 field", None, "move these settings to the node class")
    if "group" not in template["nodeClassRef"]:
        path = "spec.template.spec.nodeClassRef.apiVersion"
        yield Fault(
            path, "is the v1beta1 spelling", template["nodeClassRef"].get("apiVersion"), "write group, without version"
        )

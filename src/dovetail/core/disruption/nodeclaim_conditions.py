"""The `Consolidatable` and `Drifted` conditions of a NodeClaim, when they have to be checked again, and pod events.

Names and reasons are Karpenter's. The conditions inform users and tools; the planner decides about disruption by
itself, except that drift detected by the provider reaches it through `Drifted`. If the provider gives no answer, a
`Drifted` condition that only the provider can judge stays as it is.

`pod_notice` is the event about the do-not-disrupt annotation of a pod.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from dovetail.core.disruption.delays import consolidation_wait
from dovetail.core.disruption.drift import deviation, settles_at
from dovetail.core.lifecycle.nodepool_hash import HASH_ANNOTATIONS
from dovetail.model.catalog import InstanceType
from dovetail.model.conditions import ConditionList, ConditionVerdict, find, without
from dovetail.model.do_not_disrupt import protection
from dovetail.model.kube_object import Condition
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodeclaim import CONSOLIDATABLE, DRIFTED, INITIALIZED, LAUNCHED, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod

RECHECK = timedelta(minutes=5)
"""How often drift is checked when no API object has changed: the provider's answer may have."""

MARKS = frozenset({CONSOLIDATABLE, DRIFTED})
STEPS = frozenset({LAUNCHED, INITIALIZED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFindings:
    """The provider's answers about one claim; None where it gave no answer."""

    types: tuple[InstanceType, ...] | None
    provider_reason: str | None  # why the instance has drifted; empty if it has not
    drift_gate: bool = True


@dataclass(frozen=True, slots=True)
class NodeClaimVerdicts:
    """Conditions to write, conditions to remove, and when the result changes by itself."""

    verdicts: tuple[ConditionVerdict, ...]
    cleared: frozenset[str]
    window_ends: datetime | None
    settles_at: datetime | None  # from then on the claim is checked against the instance types
    rechecked: bool  # whether the provider may change the result

    @property
    def changes_at(self) -> datetime | None:
        """When the result changes by itself; None if it does not."""
        settling = self.settles_at if self.rechecked else None
        return min((each for each in (self.window_ends, settling) if each is not None), default=None)

    def holds(self, now: datetime) -> bool:
        """Whether the same findings still give the same conditions now."""
        quiet, settling = self.window_ends, self.settles_at
        return (quiet is None or now < quiet) and (settling is None or now < settling)


@dataclass(frozen=True, slots=True)
class PodNotice:
    """An event about the do-not-disrupt annotation of a pod, and when the next one is due."""

    reason: str
    message: str
    warning: bool = False
    until: datetime | None = None


def marks(claim: NodeClaim, pool: NodePool, findings: ProviderFindings, now: datetime) -> NodeClaimVerdicts:
    """What both conditions should be now."""
    quiet, window_ends = _consolidatable(claim, pool, now)
    reason = _drifted(claim, pool, findings, now)
    verdicts = []
    if quiet:
        verdicts.append(ConditionVerdict(CONSOLIDATABLE))
    if reason:
        verdicts.append(ConditionVerdict(DRIFTED, reason=reason, message=reason))
    cleared = {CONSOLIDATABLE} if not quiet else set()
    if reason == "":
        cleared.add(DRIFTED)
    rechecked = findings.drift_gate and claim.has(LAUNCHED)
    return NodeClaimVerdicts(tuple(verdicts), frozenset(cleared), window_ends, settles_at(claim, now), rechecked)


def marked(claim: NodeClaim, wanted: NodeClaimVerdicts, now: datetime) -> tuple[Condition, ...]:
    """The claim's conditions with both updated; equal to the present ones if there is nothing to write."""
    created_at, generation = claim.metadata.creation_timestamp or now, claim.metadata.generation
    conditions = claim.status.conditions
    stale = [each for each in wanted.verdicts if not _is_written(conditions, each)]
    conditions = ConditionList(conditions, (), created_at, generation, now).set(*stale)
    for kind in wanted.cleared:
        conditions = without(conditions, kind)
    return conditions


def disturbed(claim: NodeClaim, pool: NodePool, event_at: datetime, now: datetime) -> bool:
    """Whether a pod event at that time ends the claim's `Consolidatable` condition."""
    status = msgspec.structs.replace(claim.status, last_pod_event_time=event_at)
    quiet, _ = _consolidatable(msgspec.structs.replace(claim, status=status), pool, now)
    return claim.has(CONSOLIDATABLE) and not quiet


def conditions_apply(claim: NodeClaim) -> bool:
    """Whether the conditions apply: a claim that is not launched yet has neither."""
    return bool(_relevant(claim.status.conditions))


def equal_condition_inputs(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether neither the two conditions nor their inputs changed between two versions of a claim."""
    old, new = before.metadata, after.metadata
    if old.labels != new.labels or old.creation_timestamp != new.creation_timestamp:
        return False
    if any(old.annotations.get(each) != new.annotations.get(each) for each in HASH_ANNOTATIONS):
        return False
    if before.status.last_pod_event_time != after.status.last_pod_event_time:
        return False
    conditions = before.status.conditions, after.status.conditions
    return conditions[0] == conditions[1] or _relevant(conditions[0]) == _relevant(conditions[1])


def _relevant(conditions: tuple[Condition, ...]) -> list[Condition]:
    """The two conditions, and those they depend on if True."""
    return [each for each in conditions if each.type in MARKS or (each.type in STEPS and each.status == "True")]


def _is_written(conditions: tuple[Condition, ...], verdict: ConditionVerdict) -> bool:
    found = find(conditions, verdict.type)
    written = (found.status, found.reason, found.message) if found is not None else None
    return written == (verdict.status, verdict.reason or verdict.type, verdict.message)


def _consolidatable(claim: NodeClaim, pool: NodePool, now: datetime) -> tuple[bool, datetime | None]:
    """Whether consolidateAfter has passed since the last pod event, or when it will have."""
    if pool.static or not claim.has(INITIALIZED):
        return False, None
    wait = consolidation_wait(pool, claim, now)
    return wait.over, wait.until


def _drifted(claim: NodeClaim, pool: NodePool, findings: ProviderFindings, now: datetime) -> str | None:
    """The reason of drift, empty if there is none, None if only the provider knows and gives no answer."""
    if not findings.drift_gate or not claim.has(LAUNCHED):
        return ""
    # The present condition does not count: it has to end when the provider no longer reports drift.
    types = {each.name: each for each in findings.types} if findings.types is not None else None
    unanswered = findings.types is None or findings.provider_reason is None
    return deviation(claim, pool, types, now) or findings.provider_reason or (None if unanswered else "")


def pod_notice(pod: Pod, now: datetime) -> PodNotice | None:
    """The event about a pod's do-not-disrupt annotation: it is invalid, it ends at an instant, or it has ended."""
    found = protection(pod, now)
    if found.fault:
        message = f"Invalid {DO_NOT_DISRUPT} annotation: {found.fault}; the pod is protected until this is corrected"
        return PodNotice("InvalidDoNotDisruptAnnotation", message, warning=True)
    if found.until is None:
        return None
    if found.active:
        message = f"The {DO_NOT_DISRUPT} grace period will elapse at {found.until:%Y-%m-%dT%H:%M:%SZ}"
        return PodNotice("DoNotDisruptUntil", message, until=found.until)
    message = f"The {DO_NOT_DISRUPT} grace period has elapsed, pod is now disruptable"
    return PodNotice("DoNotDisruptGracePeriodElapsed", message)

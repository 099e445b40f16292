"""What a NodeClaim's `Consolidatable` and `Drifted` conditions should say, and when to look again.

For people and tools that read conditions, with Karpenter's names and reasons. Decides nothing about disruption itself:
whether a node goes is the planner's word. A provider that gives no answer changes nothing it alone could have said.
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
"""How often drift is looked for when nothing that we can see has changed."""

MARKS = frozenset({CONSOLIDATABLE, DRIFTED})
STEPS = frozenset({LAUNCHED, INITIALIZED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFindings:
    """What the provider was asked for one claim; None where it gave no answer."""

    types: tuple[InstanceType, ...] | None
    provider_reason: str | None  # why it says the instance has drifted; empty if it has not
    drift_gate: bool = True


@dataclass(frozen=True, slots=True)
class NodeClaimVerdicts:
    """Conditions to write, conditions to remove, and when time alone changes the answer."""

    verdicts: tuple[ConditionVerdict, ...]
    cleared: frozenset[str]
    window_ends: datetime | None
    settles_at: datetime | None  # from then on the claim is held against the catalogue
    rechecked: bool  # whether somebody we cannot see may change the answer

    @property
    def changes_at(self) -> datetime | None:
        """When time alone changes the answer."""
        settling = self.settles_at if self.rechecked else None
        return min((each for each in (self.window_ends, settling) if each is not None), default=None)

    def holds(self, now: datetime) -> bool:
        """Whether no clock has run out by now, so that the same findings give the same marks."""
        quiet, settling = self.window_ends, self.settles_at
        return (quiet is None or now < quiet) and (settling is None or now < settling)


@dataclass(frozen=True, slots=True)
class PodNotice:
    """Something to tell about the do-not-disrupt annotation of a pod, and when that changes by itself."""

    reason: str
    message: str
    warning: bool = False
    until: datetime | None = None


def marks(claim: NodeClaim, pool: NodePool, findings: ProviderFindings, now: datetime) -> NodeClaimVerdicts:
    """What the two conditions should be now."""
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
    """The claim's conditions with the marks made; equal to those it has when there is nothing to write."""
    created_at, generation = claim.metadata.creation_timestamp or now, claim.metadata.generation
    conditions = claim.status.conditions
    stale = [each for each in wanted.verdicts if not _says(conditions, each)]
    conditions = ConditionList(conditions, (), created_at, generation, now).set(*stale)
    for kind in wanted.cleared:
        conditions = without(conditions, kind)
    return conditions


def disturbed(claim: NodeClaim, pool: NodePool, event_at: datetime, now: datetime) -> bool:
    """Whether a claim that says it is quiet no longer is, with a pod event at that time."""
    status = msgspec.structs.replace(claim.status, last_pod_event_time=event_at)
    quiet, _ = _consolidatable(msgspec.structs.replace(claim, status=status), pool, now)
    return claim.has(CONSOLIDATABLE) and not quiet


def has_marks_to_come(claim: NodeClaim) -> bool:
    """Whether there is anything to judge: a claim that waits for its instance says nothing, and should not."""
    return bool(_judging(claim.status.conditions))


def judged_alike(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether nothing that the marks follow from, nor the marks themselves, changed between two versions of a claim."""
    old, new = before.metadata, after.metadata
    if old.labels != new.labels or old.creation_timestamp != new.creation_timestamp:
        return False
    if any(old.annotations.get(each) != new.annotations.get(each) for each in HASH_ANNOTATIONS):
        return False
    if before.status.last_pod_event_time != after.status.last_pod_event_time:
        return False
    told, tells = before.status.conditions, after.status.conditions
    return told == tells or _judging(told) == _judging(tells)


def _judging(conditions: tuple[Condition, ...]) -> list[Condition]:
    """The marks, and what they follow from once it is so: what a claim still waits for does not matter."""
    return [each for each in conditions if each.type in MARKS or (each.type in STEPS and each.status == "True")]


def _says(conditions: tuple[Condition, ...], verdict: ConditionVerdict) -> bool:
    found = find(conditions, verdict.type)
    said = (found.status, found.reason, found.message) if found is not None else None
    return said == (verdict.status, verdict.reason or verdict.type, verdict.message)


def _consolidatable(claim: NodeClaim, pool: NodePool, now: datetime) -> tuple[bool, datetime | None]:
    """Whether the node has been quiet for long enough, otherwise when it will have been, if ever."""
    if pool.static or not claim.has(INITIALIZED):
        return False, None
    wait = consolidation_wait(pool, claim, now)
    return wait.over, wait.until


def _drifted(claim: NodeClaim, pool: NodePool, findings: ProviderFindings, now: datetime) -> str | None:
    """The reason, empty if there is none, None if only the provider could tell and does not."""
    if not findings.drift_gate or not claim.has(LAUNCHED):
        return ""
    # What was written before is no evidence: a drift that the provider no longer sees has to end.
    types = {each.name: each for each in findings.types} if findings.types is not None else None
    unanswered = findings.types is None or findings.provider_reason is None
    return deviation(claim, pool, types, now) or findings.provider_reason or (None if unanswered else "")


def pod_notice(pod: Pod, now: datetime) -> PodNotice | None:
    """What people should know about a pod's annotation: that it is wrong, when it ends, or that it has ended."""
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

"""Reading and updating lists of status conditions.

An absent condition is Unknown. `lastTransitionTime` changes only when the status does. `Ready` follows from the
conditions it depends on: True when all of them are, False as soon as one is, otherwise Unknown. These are the rules of
Karpenter's status conditions.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from dovetail.model.kube_object import Condition

READY = "Ready"
_NOT_IN_REASONS = re.compile(r"[^A-Za-z0-9_,:]")
_LONGEST_REASON = 1024
_LONGEST_MESSAGE = 32768
AWAITING = Condition(
    type="", status="Unknown", reason="AwaitingReconciliation", message="object is awaiting reconciliation"
)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of that type, if present."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether that condition is present and True."""
    for condition in conditions:  # noqa: SIM110 - called very often, and a generator costs twice as much
        if condition.type == kind and condition.status == "True":
            return True
    return False


def is_unknown(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether that condition is absent or neither True nor False."""
    found = find(conditions, kind)
    return found is None or found.status not in {"True", "False"}


@dataclass(frozen=True, slots=True)
class ConditionVerdict:
    """The new value of one condition. The default reason is the type of the condition."""

    type: str
    status: str = "True"
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ConditionList:
    """The conditions of one object, and what is needed to update them."""

    conditions: tuple[Condition, ...]
    dependents: tuple[str, ...]
    created_at: datetime | None
    generation: int
    now: datetime

    def set(self, *verdicts: ConditionVerdict) -> tuple[Condition, ...]:
        """The list with these values set and `Ready` updated."""
        by_type = {condition.type: self._timed(condition) for condition in self.conditions}
        for dependent in self.dependents:
            if dependent not in by_type:
                by_type[dependent] = self._awaiting(dependent)
        for verdict in verdicts:
            by_type[verdict.type] = self._written(verdict, by_type.get(verdict.type))
        if self.dependents:
            by_type[READY] = self._written(self._root(by_type), by_type.get(READY) or self._awaiting(READY))
        return tuple(by_type.values())

    def _timed(self, condition: Condition) -> Condition:
        """The condition with a transition time, which older CRDs did not require."""
        if condition.last_transition_time is not None:
            return condition
        return msgspec.structs.replace(condition, last_transition_time=self.created_at or self.now)

    def _awaiting(self, kind: str) -> Condition:
        return Condition(
            type=kind,
            status="Unknown",
            reason=AWAITING.reason,
            message=AWAITING.message,
            last_transition_time=self.created_at or self.now,
            observed_generation=self.generation,
        )

    def _written(self, verdict: ConditionVerdict, before: Condition | None) -> Condition:
        moved = before is None or before.status != verdict.status
        return Condition(
            type=verdict.type,
            status=verdict.status,
            reason=_reason(verdict.reason) or verdict.type,
            message=verdict.message[:_LONGEST_MESSAGE],
            last_transition_time=self.now if moved or before is None else before.last_transition_time,
            observed_generation=self.generation,
        )

    def _root(self, by_type: dict[str, Condition]) -> ConditionVerdict:
        seen = [by_type[dependent] for dependent in self.dependents]
        current = [condition.status for condition in seen if condition.observed_generation == self.generation]
        not_true = [condition for condition in seen if condition.status != "True"]
        if not not_true and len(current) == len(seen):
            return ConditionVerdict(READY)
        message = ", ".join([f"{condition.type}={condition.status}" for condition in not_true])
        if "False" in current:
            return ConditionVerdict(READY, "False", "UnhealthyDependents", message)
        return ConditionVerdict(READY, "Unknown", "ReconcilingDependents", message)


def _reason(text: str) -> str:
    """A reason that Karpenter's CRDs accept: they reject the dot of an error code such as `Invalid.NotFound`."""
    letters = _NOT_IN_REASONS.sub("_", text[:_LONGEST_REASON])
    return letters.lstrip("0123456789_,:").rstrip(",:")


@lru_cache(maxsize=4096)  # patches have whole lists of conditions, most of which were written before
def condition_document(condition: Condition) -> dict[str, Any]:
    """The condition as JSON data, which the caller must not change.

    Karpenter's CRDs require a reason and a message, so empty ones are written too. They reject the whole list if one
    entry is wrong, so entries that another program wrote are corrected.
    """
    reason, message = _reason(condition.reason) or condition.type, condition.message[:_LONGEST_MESSAGE]
    required = {"reason": reason, "message": message}
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(condition))
    return {**found, **required, "observedGeneration": condition.observed_generation}


def without(conditions: Iterable[Condition], kind: str) -> tuple[Condition, ...]:
    """The list with that condition removed."""
    return tuple([condition for condition in conditions if condition.type != kind])

"""A disruption as decided: which nodes go and why, what has to be there first, and what it saves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.scheduling.draft import Draft
from dovetail.model.reason import Reason

HOURS_PER_MONTH = 730


class Decision(StrEnum):
    """Whether something has to be bought first."""

    DELETE = "delete"
    REPLACE = "replace"


@dataclass(frozen=True)
class Command:
    """All or nothing: every candidate goes once every replacement is ready."""

    method: str
    reason: Reason
    candidates: tuple[Candidate, ...]
    replacements: tuple[Draft, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What its replacements carry beside what their drafts say."""

    @property
    def decision(self) -> Decision:
        """What kind of command it is."""
        return Decision.REPLACE if self.replacements else Decision.DELETE

    @property
    def saving(self) -> float:
        """What it saves an hour: what the candidates cost, less the cheapest the replacements can be."""
        return sum(each.price for each in self.candidates) - sum(map(cheapest, self.replacements))

    @property
    def pods(self) -> int:
        """How many pods have to move."""
        return sum(len(each.pods_to_reschedule) for each in self.candidates)

    def __str__(self) -> str:
        names = ", ".join(each.name for each in self.candidates)
        number = len(self.replacements)
        bought = f" -> [{number} replacement{'s' * (number > 1)}]" if number else ""
        return f"{self.decision}: [{names}]{bought} (savings: ${self.saving:.2f})"


def cheapest(draft: Draft) -> float:
    """The least a draft can cost an hour."""
    left = draft.options.left(draft.total, draft.below, draft.ports)
    return float(draft.options.prices[left[0]]) if left else 0.0

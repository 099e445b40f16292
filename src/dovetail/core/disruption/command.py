"""A disruption command: the nodes to delete, the reason, the replacements to launch first, and the saving.

A command is all or nothing: no candidate is deleted before every replacement is initialized.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.scheduling.draft import Draft, cheapest
from dovetail.model.reason import Reason

HOURS_PER_MONTH = 730


class Decision(StrEnum):
    """Whether the command launches replacements."""

    DELETE = "delete"
    REPLACE = "replace"


@dataclass(frozen=True)
class Command:
    """Delete the candidates once the replacements are initialized."""

    method: str
    reason: Reason
    candidates: tuple[Candidate, ...]
    replacements: tuple[Draft, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Added to the NodeClaims of the replacements."""

    @property
    def decision(self) -> Decision:
        """`replace` with replacements, `delete` without."""
        return Decision.REPLACE if self.replacements else Decision.DELETE

    @property
    def saving(self) -> float:
        """Dollars an hour: the price of the candidates less the cheapest options of the replacements."""
        return sum(each.price for each in self.candidates) - sum(map(cheapest, self.replacements))

    @property
    def unpriced(self) -> int:
        """The number of candidates whose price is not known, and not in `saving`."""
        return sum(not each.price for each in self.candidates)

    @property
    def pods(self) -> int:
        """The number of pods to reschedule."""
        return sum(len(each.pods_to_reschedule) for each in self.candidates)

    def __str__(self) -> str:
        names = ", ".join(each.name for each in self.candidates)
        number = len(self.replacements)
        launched = f" -> [{number} replacement{'s' * (number > 1)}]" if number else ""
        return f"{self.decision}: [{names}]{launched} (savings: ${self.saving:.2f})"

"""What a method is: a filter over candidates, and commands out of those it keeps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import DelayState
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


@dataclass(frozen=True)
class Proposal:
    """What a method would do, and why it leaves the others alone."""

    commands: tuple[Command, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    eligible: int = 0  # candidates the method was interested in


class Method(Protocol):
    """One way of choosing nodes."""

    name: str
    reason: Reason
    eventual: bool  # PodDisruptionBudgets do not stand in the way of a node whose claim bounds its own drain
    gives_way: bool  # a node is left alone while pods that need a place will run on it

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """Why this method is not interested in a candidate, whichever pods need a place, or None."""
        ...

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """Everything this method has against a candidate, in the order it is looked at."""
        ...

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """Commands for candidates the method is interested in, within their budgets."""
        ...


def expecting(method: Method, candidate: Candidate, context: PassContext) -> Refusal | None:
    """Whether a method gives way to pods that need a place and will run on a node."""
    if method.gives_way and context.expects_pods(candidate.name):
        return Refusal(RefusalCode.EXPECTING, candidate.ref)
    return None


def waiting(candidate: Candidate, reason: Reason, wait: DelayState, *, setting: str = "") -> Refusal | None:
    """The refusal of a clock that has not run out, with the instant it does."""
    if wait.over:
        return None
    never = wait.started and wait.until is None
    code = RefusalCode.NEVER if never else RefusalCode.WAITING
    return Refusal(code, candidate.ref, wait.until, permanent=never, reason=reason, setting=setting)

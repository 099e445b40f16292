"""The interface of a disruption method: it refuses candidates, and proposes commands for the others."""

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
    """The commands of a method, and why it refuses the other nodes."""

    commands: tuple[Command, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    eligible: int = 0  # candidates that the method does not refuse


class Method(Protocol):
    """One way of choosing nodes to disrupt."""

    name: str
    reason: Reason
    eventual: bool  # PDBs do not block a node whose NodeClaim has a terminationGracePeriod
    gives_way: bool  # a node is not taken while waiting pods will be scheduled to it

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """The first reason not to take a candidate, waiting pods aside; or None."""
        ...

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """Every reason not to take a candidate, in the order of the checks."""
        ...

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """Commands for candidates that the method does not refuse, within their budgets."""
        ...


def expecting(method: Method, candidate: Candidate, context: PassContext) -> Refusal | None:
    """The refusal of a node that waiting pods will be scheduled to, if the method gives way to them."""
    if method.gives_way and context.expects_pods(candidate.name):
        return Refusal(RefusalCode.EXPECTING, candidate.ref)
    return None


def waiting(candidate: Candidate, reason: Reason, wait: DelayState, *, setting: str = "") -> Refusal | None:
    """The refusal of a delay that has not passed, with the instant it does; None if it has."""
    if wait.over:
        return None
    never = wait.started and wait.until is None
    code = RefusalCode.NEVER if never else RefusalCode.WAITING
    return Refusal(code, candidate.ref, wait.until, permanent=never, reason=reason, setting=setting)

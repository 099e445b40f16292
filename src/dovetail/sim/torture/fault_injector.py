"""What fails between the controllers and the world: errors before and after the effect, slow calls, and death.

Sits at the one gate every call of the port passes. Each fault is armed by a piece of the story and strikes the next
calls that match it, whoever makes them. A process that died has no effect any more, whatever its tasks still try.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from dovetail.ports.errors import ApiError, Conflict, OutcomeUnknown, Throttled, Unavailable
from dovetail.sim.torture.trial import TrialPiece
from dovetail.sim.world import ApiCall

WRITES = frozenset({"create", "patch", "delete", "evict", "launch", "terminate"})
_BEFORE: dict[str, Callable[[], ApiError]] = {
    "conflict": lambda: Conflict("the object has been modified"),
    "unavailable": lambda: Unavailable("the server is currently unable to handle the request"),
    "throttled": lambda: Throttled("too many requests", 1.0),
    "timeout before effect": lambda: OutcomeUnknown("no answer in time"),
}


@dataclass
class Armed:
    """A fault that waits for its calls."""

    piece: TrialPiece
    left: int

    def matches(self, call: ApiCall) -> bool:
        """Whether it strikes this call."""
        terms = self.piece.terms
        if terms["kind"] not in ("", call.kind):
            return False
        wanted = terms["calls"]
        return wanted in ("any", call.operation) or (wanted == "write" and call.operation in WRITES)


@dataclass
class Lifeline:
    """What befalls one process alone: whether it is still alive, and until when the Lease is out of its reach."""

    identity: str
    died: Callable[[float], None]  # told for how many seconds it stays dead
    dead: bool = False
    cut_off_until: float = 0.0
    crashes: bool = True  # False: crashes strike others

    def die(self, down: float) -> None:
        """Have no effect from here on."""
        self.dead = True
        self.died(down)

    def check(self) -> None:
        """Go no further if dead."""
        if self.dead:
            raise asyncio.CancelledError


@dataclass
class FaultInjector:
    """The faults that are armed now, and what they did so far."""

    witness: Callable[[str, ApiCall], None]  # called right before a call of somebody takes effect
    armed: list[Armed] = field(default_factory=list)
    injected: int = 0
    struck_at: float = 0.0  # when a call was last made to fail or to take long
    strikes: list[float] = field(default_factory=list)  # all such instants
    pods_listed_at: dict[str, float] = field(default_factory=dict)  # by node: when its pods were last listed
    _crash: TrialPiece | None = None
    _calls_to_live: int = 0

    def arm(self, piece: TrialPiece) -> None:
        """Let a fault wait for the calls it strikes."""
        if piece.what == "crash":
            self._crash, self._calls_to_live = piece, int(piece.terms["call"])
        else:
            self.armed.append(Armed(piece, int(piece.terms["times"])))

    def calm(self) -> None:
        """Nothing fails any more."""
        self.armed.clear()
        self._crash = None

    async def before(self, call: ApiCall, life: Lifeline) -> None:
        """Fail, delay or let pass."""
        life.check()
        if life.crashes and call.operation not in {"list", "watch"} and call.kind not in {"Event", "Lease"}:
            self._calls_to_live -= 1
            waits_for_effect = self._crash is not None and self._crash.terms["after"] and call.operation in WRITES
            if self._crash is not None and self._calls_to_live <= 0 and not waits_for_effect:
                self._kill(self._crash, life)
        await self._strike(call)
        await self._hang(call, life)
        life.check()
        self.witness(life.identity, call)

    async def _strike(self, call: ApiCall) -> None:
        if not self.armed:
            return
        struck = next((each for each in self.armed if each.matches(call) and each.piece.what in _BEFORE), None)
        if struck is not None:
            self._spend(struck)
            failure = _BEFORE[struck.piece.what]
            raise failure()
        slow = next((each for each in self.armed if each.matches(call) and each.piece.what == "slow call"), None)
        if slow is not None:
            self._spend(slow)
            await asyncio.sleep(slow.piece.terms["seconds"])

    async def _hang(self, call: ApiCall, life: Lifeline) -> None:
        """One process alone does not get through to the Lease; everything else it does goes on."""
        left = life.cut_off_until - asyncio.get_running_loop().time()
        if call.kind == "Lease" and left > 0:
            self.injected += 1
            await asyncio.sleep(left)
            raise Unavailable("the connection was reset")

    async def after(self, call: ApiCall, life: Lifeline) -> None:
        """Hide an effect, or die right after it."""
        spares = not life.crashes or call.kind in {"Event", "Lease"}
        if self._crash is not None and self._calls_to_live <= 0 and not spares:
            self._kill(self._crash, life)
        for each in self.armed:
            if each.piece.what == "timeout after effect" and each.matches(call):
                self._spend(each)
                raise OutcomeUnknown("no answer in time")

    def _spend(self, armed: Armed) -> None:
        self.injected += 1
        self.struck_at = asyncio.get_running_loop().time()
        self.strikes.append(self.struck_at)
        armed.left -= 1
        if armed.left <= 0:
            self.armed.remove(armed)

    def _kill(self, crash: TrialPiece, life: Lifeline) -> None:
        self.injected += 1
        self.strikes.append(asyncio.get_running_loop().time())
        self._crash = None
        life.die(float(crash.terms["down"]))
        raise asyncio.CancelledError


class Line:
    """Where the faults get at the calls of one process."""

    def __init__(self, trouble: FaultInjector, life: Lifeline) -> None:
        self._trouble = trouble
        self._life = life

    async def before(self, call: ApiCall) -> None:
        """Before the call has any effect."""
        await self._trouble.before(call, self._life)

    async def after(self, call: ApiCall) -> None:
        """After its effect, before its answer."""
        await self._trouble.after(call, self._life)

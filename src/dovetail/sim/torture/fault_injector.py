"""What fails between the controllers and the world: errors before and after the effect, slow calls, and death.

Sits at the one gate every call of the port passes. Each fault is armed by a piece of the story and strikes the next
calls that match it, whoever makes them. A process that died has no effect any more, whatever its tasks still try.

What goes wrong in the cloud of a story: drawn from the seed, carried out on the simulated cloud, and looked for.

Calls of the cloud fail as calls of the API server do, through pieces that name the kind `Instance`. The rest happens to
instances: they register late, the list of instances lags behind, and somebody deletes a Node past its finalizer while
its instance runs on. How long instances take to boot and to shut down, and whether the cluster has a cloud controller
that deletes the Nodes of ended instances, is drawn once for a story.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dovetail.ports.errors import ApiError, Conflict, OutcomeUnknown, Throttled, Unavailable
from dovetail.sim.cloud.service import CapacityShortage, CloudOptions, SimulatedCloud
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from dovetail.sim.torture.trial import TrialPiece
from dovetail.sim.world import ApiCall, World

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


Terms = dict[str, Any]
LEAKS = "no instance leaks"
_FIRST_AT = 60.0  # seconds that a cluster is given to come up
_INSTANCE_CALLS = ("launch", "launch", "terminate", "list", "get", "any")


def _calls(dice: random.Random) -> Terms:
    return {"kind": "Instance", "calls": dice.choice(_INSTANCE_CALLS), "times": dice.choice((1, 2, 5, 20))}


def _writes(dice: random.Random) -> Terms:
    return {
        "kind": "Instance",
        "calls": dice.choice(("launch", "launch", "terminate")),
        "times": dice.choice((1, 2, 4)),
    }


_FAULTS: tuple[tuple[str, int, Callable[[random.Random], Terms]], ...] = (
    ("unavailable", 2, _calls),
    ("throttled", 2, _calls),
    ("timeout before effect", 1, _writes),
    ("timeout after effect", 4, _writes),
    ("slow call", 2, lambda dice: {**_calls(dice), "times": 2, "seconds": dice.choice((2, 15, 45))}),
    ("instance list lags", 3, lambda dice: {"seconds": dice.choice((5, 45, 200))}),
    ("instance joins late", 2, lambda dice: {"seconds": dice.choice((20, 120, 600, 1200))}),
    ("instance never joins", 1, lambda _: {}),
    ("node is removed", 2, lambda dice: {"which": dice.randrange(1000)}),
)


def draw_cloud_options(seed: int) -> CloudOptions:
    """How the cloud of a story behaves."""
    dice = random.Random(f"{seed}/cloud")  # noqa: S311 - reproducible, not secret
    boot = dice.choice(((0.0, 0.0), (0.5, 3.0), (10.0, 60.0)))
    shutdown = dice.choice(((0.0, 0.0), (2.0, 20.0), (20.0, 120.0)))
    return CloudOptions(boot=boot, shutdown=shutdown, deletes_nodes=dice.random() < 0.5)


def draw_cloud_faults(seed: int, peace_at: float) -> list[TrialPiece]:
    """What goes wrong in the cloud. Drawn apart from everything else."""
    dice = random.Random(f"{seed}/cloud faults")  # noqa: S311 - reproducible, not secret
    found = []
    for number in range(dice.choice((0, 1, 3, 8))):
        at = dice.uniform(_FIRST_AT, peace_at)
        what, _, draw = dice.choices(_FAULTS, weights=[weight for _, weight, _ in _FAULTS])[0]
        found.append(TrialPiece(f"c{number}", round(at, 1), what, draw(dice)))
    return found


def carried_out_by(world: World) -> dict[str, Callable[[TrialPiece], None]]:
    """What happens to the cloud itself, by the name of the piece."""
    cloud = world.cloud
    return {
        "shortage": lambda piece: _run_short(world, piece.terms),
        "instance never joins": lambda _: _never_join(cloud),
        "instance joins late": lambda piece: cloud.joining_late.append(piece.terms["seconds"]),
        "instance list lags": lambda piece: cloud.freeze_list(piece.terms["seconds"]),
    }


def _never_join(cloud: SimulatedCloud) -> None:
    cloud.joining_never += 1


def _run_short(world: World, terms: Terms) -> None:
    shortages = world.cloud.shortages
    shortage = CapacityShortage(zone=terms["zone"], capacity_type=terms["capacity_type"])
    shortages.append(shortage)

    def end() -> None:
        if shortage in shortages:
            shortages.remove(shortage)

    world.store.loop.call_later(terms["seconds"], end)


def leaked_instances(world: World) -> Iterator[tuple[str, str]]:
    """Instances that nobody needs and that are still paid for, and claims that have two, as law and message."""
    claims = {claim.uid: claim for claim in world.store.all(NODE_CLAIM)}
    owned = {(claim.plain.get("status") or {}).get("providerID") for claim in claims.values()}
    for record in world.cloud.instances.values():
        if not record.exists:
            continue
        if record.provider_id not in owned:
            yield LEAKS, f"instance {record.provider_id} of {record.claim or 'no claim'} is {record.state}"

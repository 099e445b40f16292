"""Injects faults into calls to the API server and the cloud, and generates and carries out faults of the cloud.

Calls: every call of a controller process passes `FaultInjector`. An armed fault applies to the next calls that match
its operation and kind, from any process: an error before the effect, a timeout after the effect, a delay, or a crash of
the process. Calls to the cloud have the kind `Instance`. A crashed process has no further effect: each of its tasks is
cancelled at its next call.

Cloud: `draw_cloud_options` draws, once for each trial, how long instances take to boot and to shut down, and whether a
cloud controller deletes the Nodes of terminated instances. `draw_cloud_faults` draws faults of calls to the cloud and
of instances: late registration, a stale list of instances, and Nodes that are deleted past their finalizers while their
instance continues.
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
_NEVER_CRASHES_AT = frozenset({"Event", "Lease"})  # kinds
_ERRORS_BEFORE_EFFECT: dict[str, Callable[[], ApiError]] = {
    "conflict": lambda: Conflict("the object has been modified"),
    "unavailable": lambda: Unavailable("the server is currently unable to handle the request"),
    "throttled": lambda: Throttled("too many requests", 1.0),
    "timeout before effect": lambda: OutcomeUnknown("no answer in time"),
}


@dataclass
class ArmedFault:
    """A fault that applies to the next matching calls."""

    piece: TrialPiece
    calls_left: int

    def matches(self, call: ApiCall) -> bool:
        """Whether the fault applies to this call."""
        parameters = self.piece.parameters
        if parameters["kind"] not in ("", call.kind):
            return False
        calls = parameters["calls"]
        return calls in ("any", call.operation) or (calls == "write" and call.operation in WRITES)


@dataclass
class ProcessState:
    """Faults of a single process: whether it crashed, and until when it cannot reach the Lease."""

    identity: str
    on_death: Callable[[float], None]  # called with the seconds until a restart
    dead: bool = False
    lease_blocked_until: float = 0.0
    crashes: bool = True  # False: faults of the kind "crash" skip this process

    def die(self, down: float) -> None:
        """Crash, and stay down for so many seconds."""
        self.dead = True
        self.on_death(down)

    def check(self) -> None:
        """Cancel the calling task if the process crashed."""
        if self.dead:
            raise asyncio.CancelledError


@dataclass
class FaultInjector:
    """The armed faults, and when faults were injected."""

    on_call: Callable[[str, ApiCall], None]  # called with the identity of the process right before the effect
    armed: list[ArmedFault] = field(default_factory=list)
    injected: int = 0
    last_fault_at: float = 0.0  # when a call last failed or was delayed
    fault_times: list[float] = field(default_factory=list)  # of all failed or delayed calls and crashes, ascending
    pods_listed_at: dict[str, float] = field(default_factory=dict)  # by node name: the last list of its pods
    _crash: TrialPiece | None = None
    _calls_until_crash: int = 0

    def arm(self, piece: TrialPiece) -> None:
        """Apply the fault to the next calls that match it."""
        if piece.what == "crash":
            self._crash, self._calls_until_crash = piece, int(piece.parameters["call"])
        else:
            self.armed.append(ArmedFault(piece, int(piece.parameters["times"])))

    def clear_faults(self) -> None:
        """Disarm all faults."""
        self.armed.clear()
        self._crash = None

    async def before(self, call: ApiCall, process_state: ProcessState) -> None:
        """Fail or delay a call before its effect, or crash its process."""
        process_state.check()
        if process_state.crashes and call.operation not in {"list", "watch"} and call.kind not in _NEVER_CRASHES_AT:
            self._calls_until_crash -= 1
            waits_for_effect = self._crash is not None and self._crash.parameters["after"] and call.operation in WRITES
            if self._crash is not None and self._calls_until_crash <= 0 and not waits_for_effect:
                self._kill(self._crash, process_state)
        await self._fail_or_delay(call)
        await self._block_lease_calls(call, process_state)
        process_state.check()
        self.on_call(process_state.identity, call)

    async def _fail_or_delay(self, call: ApiCall) -> None:
        matching = [each for each in self.armed if each.matches(call)]
        failing = next((each for each in matching if each.piece.what in _ERRORS_BEFORE_EFFECT), None)
        if failing is not None:
            self._count_injection(failing)
            make_error = _ERRORS_BEFORE_EFFECT[failing.piece.what]
            raise make_error()
        slow = next((each for each in matching if each.piece.what == "slow call"), None)
        if slow is not None:
            self._count_injection(slow)
            await asyncio.sleep(slow.piece.parameters["seconds"])

    async def _block_lease_calls(self, call: ApiCall, process_state: ProcessState) -> None:
        """Let Lease calls of a process that cannot reach the Lease hang and fail; its other calls are unaffected."""
        remaining = process_state.lease_blocked_until - asyncio.get_running_loop().time()
        if call.kind == "Lease" and remaining > 0:
            self.injected += 1
            await asyncio.sleep(remaining)
            raise Unavailable("the connection was reset")

    async def after(self, call: ApiCall, process_state: ProcessState) -> None:
        """Crash the process or time out after the effect of a call."""
        may_crash = process_state.crashes and call.kind not in _NEVER_CRASHES_AT
        if self._crash is not None and self._calls_until_crash <= 0 and may_crash:
            self._kill(self._crash, process_state)
        for each in self.armed:
            if each.piece.what == "timeout after effect" and each.matches(call):
                self._count_injection(each)
                raise OutcomeUnknown("no answer in time")

    def _count_injection(self, armed: ArmedFault) -> None:
        self.injected += 1
        self.last_fault_at = asyncio.get_running_loop().time()
        self.fault_times.append(self.last_fault_at)
        armed.calls_left -= 1
        if armed.calls_left <= 0:
            self.armed.remove(armed)

    def _kill(self, crash: TrialPiece, process_state: ProcessState) -> None:
        self.injected += 1
        self.fault_times.append(asyncio.get_running_loop().time())
        self._crash = None
        process_state.die(float(crash.parameters["down"]))
        raise asyncio.CancelledError


class CallHooks:
    """Passes the calls of one process to the fault injector."""

    def __init__(self, fault_injector: FaultInjector, process_state: ProcessState) -> None:
        self._fault_injector = fault_injector
        self._process_state = process_state

    async def before(self, call: ApiCall) -> None:
        """Called before the effect."""
        await self._fault_injector.before(call, self._process_state)

    async def after(self, call: ApiCall) -> None:
        """Called after the effect, before the response."""
        await self._fault_injector.after(call, self._process_state)


Parameters = dict[str, Any]
LEAKS = "no instance leaks"
_WARM_UP = 60.0  # seconds without faults at the start
_INSTANCE_CALLS = ("launch", "launch", "terminate", "list", "get", "any")


def _cloud_call(rng: random.Random) -> Parameters:
    return {"kind": "Instance", "calls": rng.choice(_INSTANCE_CALLS), "times": rng.choice((1, 2, 5, 20))}


def _cloud_write(rng: random.Random) -> Parameters:
    return {
        "kind": "Instance",
        "calls": rng.choice(("launch", "launch", "terminate")),
        "times": rng.choice((1, 2, 4)),
    }


_FAULTS: tuple[tuple[str, int, Callable[[random.Random], Parameters]], ...] = (
    ("unavailable", 2, _cloud_call),
    ("throttled", 2, _cloud_call),
    ("timeout before effect", 1, _cloud_write),
    ("timeout after effect", 4, _cloud_write),
    ("slow call", 2, lambda rng: {**_cloud_call(rng), "times": 2, "seconds": rng.choice((2, 15, 45))}),
    ("instance list lags", 3, lambda rng: {"seconds": rng.choice((5, 45, 200))}),
    ("instance joins late", 2, lambda rng: {"seconds": rng.choice((20, 120, 600, 1200))}),
    ("instance never joins", 1, lambda _: {}),
    ("node is force-deleted", 2, lambda rng: {"which": rng.randrange(1000)}),
)


def draw_cloud_options(seed: int) -> CloudOptions:
    """Draw the boot and shutdown times of instances, and whether a cloud controller deletes Nodes."""
    rng = random.Random(f"{seed}/cloud")  # noqa: S311 - reproducible, not secret
    boot = rng.choice(((0.0, 0.0), (0.5, 3.0), (10.0, 60.0)))
    shutdown = rng.choice(((0.0, 0.0), (2.0, 20.0), (20.0, 120.0)))
    return CloudOptions(boot=boot, shutdown=shutdown, deletes_nodes=rng.random() < 0.5)


def draw_cloud_faults(seed: int, faults_end_at: float) -> list[TrialPiece]:
    """Draw faults of the cloud, with a random generator that no other part of the trial uses."""
    rng = random.Random(f"{seed}/cloud faults")  # noqa: S311 - reproducible, not secret
    found = []
    for number in range(rng.choice((0, 1, 3, 8))):
        at = rng.uniform(_WARM_UP, faults_end_at)
        what, _, draw = rng.choices(_FAULTS, weights=[weight for _, weight, _ in _FAULTS])[0]
        found.append(TrialPiece(f"c{number}", round(at, 1), what, draw(rng)))
    return found


def cloud_fault_handlers(world: World) -> dict[str, Callable[[TrialPiece], None]]:
    """The functions that carry out faults of the cloud, by the name of the fault."""
    cloud = world.cloud
    return {
        "shortage": lambda piece: _start_shortage(world, piece.parameters),
        "instance never joins": lambda _: _block_join(cloud),
        "instance joins late": lambda piece: cloud.registration_delays.append(piece.parameters["seconds"]),
        "instance list lags": lambda piece: cloud.freeze_list(piece.parameters["seconds"]),
    }


def _block_join(cloud: SimulatedCloud) -> None:
    cloud.launches_without_node += 1


def _start_shortage(world: World, parameters: Parameters) -> None:
    shortages = world.cloud.shortages
    shortage = CapacityShortage(zone=parameters["zone"], capacity_type=parameters["capacity_type"])
    shortages.append(shortage)

    def end() -> None:
        if shortage in shortages:
            shortages.remove(shortage)

    world.store.loop.call_later(parameters["seconds"], end)


def leaked_instances(world: World) -> Iterator[tuple[str, str]]:
    """Instances that exist and belong to no NodeClaim, as pairs of invariant and message."""
    owned = {(claim.plain.get("status") or {}).get("providerID") for claim in world.store.all(NODE_CLAIM)}
    for record in world.cloud.instances.values():
        if record.exists and record.provider_id not in owned:
            yield LEAKS, f"instance {record.provider_id} of {record.claim or 'no NodeClaim'} is {record.state}"

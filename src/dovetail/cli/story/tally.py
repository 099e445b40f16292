"""The numbers of a run: instances and what they cost, pods and how long they waited. Counts; never acts.

An instance costs from its launch until its Node or its NodeClaim is gone, whichever comes first. Pods of DaemonSets
come with their node and are not counted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from dovetail.cloud.kwok.labels import PRICE
from dovetail.model import kinds
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, POD
from dovetail.sim.kubernetes.store import StoreChange
from dovetail.sim.world import ApiCall, World

_HOUR = 3600.0
_WORTH_TELLING = 10.0  # seconds: shorter waits happen on nodes that were there

Settled = Callable[[int, float], None]
"""Called when no pod waits any more: how many started since the last time, and how long the slowest took."""


@dataclass(frozen=True, slots=True)
class DemoInstance:
    """One instance while it runs."""

    price: float  # dollars an hour
    since: float


@dataclass(slots=True)
class DemoTally:
    """What has happened so far."""

    settled: Settled
    calls: int = 0
    launched: int = 0
    removed: int = 0
    peak: int = 0
    waits: list[float] = field(default_factory=list)
    running: dict[str, DemoInstance] = field(default_factory=dict)  # by provider id
    _spent: float = 0.0  # by instances that are gone
    _ended: set[str] = field(default_factory=set)
    _waiting: dict[str, float] = field(default_factory=dict)  # created at, by pod uid
    _started: list[float] = field(default_factory=list)  # waits since every pod last ran

    def watch(self, world: World) -> None:
        """Hear of every change from now on, and count the calls of the controllers."""
        world.store.listen((NODE, NODE_CLAIM, POD), self.hear)
        world.interference = self

    async def before(self, _: ApiCall) -> None:
        """A controller calls the API."""
        self.calls += 1

    async def after(self, _: ApiCall) -> None:
        """It has its answer."""

    @property
    def pending(self) -> int:
        """Pods that have not run yet."""
        return len(self._waiting)

    @property
    def hourly(self) -> float:
        """What the instances cost an hour now."""
        return sum(each.price for each in self.running.values())

    def spent(self, now: float) -> float:
        """What all instances have cost until now."""
        return self._spent + sum(each.price * (now - each.since) / _HOUR for each in self.running.values())

    def hear(self, step: StoreChange) -> None:
        """A node, a claim or a pod changed."""
        resource = step.after.resource
        if resource == POD:
            pod = step.after.value(kinds.POD)
            if isinstance(pod, Pod) and not pod.daemon:
                self._hear_pod(step, pod)
            return
        value = step.after.value(kinds.NODE) if resource == NODE else step.after.value(kinds.NODE_CLAIM)
        if not isinstance(value, Node | NodeClaim) or not value.provider_id:
            return
        if step.type == "DELETED":
            self._end(value.provider_id, step.at)
        elif isinstance(value, NodeClaim):
            self._begin(value, step.at)

    def _begin(self, claim: NodeClaim, at: float) -> None:
        instance = claim.provider_id
        if instance in self.running or instance in self._ended:
            return
        self.running[instance] = DemoInstance(float(claim.metadata.labels.get(PRICE, 0)), at)
        self.launched += 1
        self.peak = max(self.peak, len(self.running))

    def _end(self, instance: str, at: float) -> None:
        billed = self.running.pop(instance, None)
        if billed is not None:
            self._ended.add(instance)
            self._spent += billed.price * (at - billed.since) / _HOUR
            self.removed += 1

    def _hear_pod(self, step: StoreChange, pod: Pod) -> None:
        uid = pod.metadata.uid
        if step.type == "ADDED":
            self._waiting[uid] = step.at
        elif uid in self._waiting and (step.type == "DELETED" or pod.status.phase != "Pending"):
            wait = step.at - self._waiting.pop(uid)
            if step.type != "DELETED":
                self.waits.append(wait)
                self._started.append(wait)
            self._settle()

    def _settle(self) -> None:
        if self._waiting or not self._started:
            return
        number, slowest = len(self._started), max(self._started)
        self._started.clear()
        if slowest >= _WORTH_TELLING:
            self.settled(number, slowest)

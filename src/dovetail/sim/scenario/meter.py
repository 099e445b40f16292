"""What a run costs and does to its pods, counted from outside: from the objects of the world as they change.

An instance costs from its launch until its NodeClaim or its Node is gone, whichever comes first. Pods of DaemonSets
come with their node and are not counted. Nothing here acts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dovetail.model import kinds
from dovetail.model.conditions import find
from dovetail.model.kube_object import Key
from dovetail.model.labels import INTERRUPT
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DISRUPTION_REASON, NodeClaim
from dovetail.model.pod import Pod
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, POD
from dovetail.sim.kubernetes.store import StoreChange
from dovetail.sim.scenario.from_snapshot import PRICE
from dovetail.sim.scenario.occupancy import Occupancy
from dovetail.sim.world import ApiCall, World

HOUR = 3600.0
DAY = 24 * HOUR
EXPIRED = "Expired"
INTERRUPTED = "Interrupted"
OTHER = "Other"


@dataclass(slots=True)
class BilledInstance:
    """One instance while it runs."""

    pool: str
    price: float  # dollars an hour
    since: float
    claim: NodeClaim


@dataclass(slots=True)
class PoolFigures:
    """What one NodePool came to."""

    cost: float = 0.0
    launched: int = 0
    removed: int = 0
    evictions: int = 0
    waited: float = 0.0  # seconds, of pods that then ran on its nodes
    disrupted: Counter[str] = field(default_factory=Counter)
    most_leaving: int = 0
    most_budgeted: int = 0  # of those, what budgets count
    nodes_then: int = 0
    most_nodes: int = 0


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened to a node."""

    at: float
    what: str  # launched, disrupted, draining (its first pod was evicted), forced (or deleted) or gone
    node: str  # the NodeClaim's name
    pool: str
    reason: str = ""


@dataclass(slots=True)
class PeakCounts:
    """The most of each that there were at once."""

    nodes: int = 0
    pods: int = 0
    pending: int = 0


@dataclass(slots=True)
class Meter:
    """What has happened so far."""

    settled: Callable[[int, float], None] = lambda *_: None
    """Called when no pod waits any more: how many started since the last time, and how long the slowest waited."""
    calls: int = 0
    evictions: int = 0
    waits: list[float] = field(default_factory=list)
    pools: defaultdict[str, PoolFigures] = field(default_factory=lambda: defaultdict(PoolFigures))
    cost_by_day: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    evictions_by_day: Counter[int] = field(default_factory=Counter)
    born_by_day: Counter[int] = field(default_factory=Counter)
    gone_by_day: Counter[int] = field(default_factory=Counter)
    pending_by_day: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    running: dict[str, BilledInstance] = field(default_factory=dict)  # by provider id
    timeline: list[TimelineEntry] = field(default_factory=list)
    pending_since: dict[str, float] = field(default_factory=dict)  # by pod uid
    most_nodes: int = 0
    occupancy: Occupancy = field(default_factory=Occupancy)
    _over: list[BilledInstance] = field(default_factory=list)  # instances that ended since the last look
    _here: set[str] = field(default_factory=set)  # uids of pods that are there and not over
    _most: PeakCounts = field(default_factory=PeakCounts)
    _claims: dict[str, NodeClaim] = field(default_factory=dict)  # by the name of the node
    _warned: set[str] = field(default_factory=set)  # nodes that the cloud wants back
    _drained: set[tuple[str, str]] = field(default_factory=set)  # claims, and what was told of them
    _leaving: dict[str, tuple[str, bool]] = field(default_factory=dict)  # by claim: its pool, and if budgets count it
    _ended: set[str] = field(default_factory=set)
    _started: list[float] = field(default_factory=list)  # waits since every pod last ran
    _now: Callable[[], float] = lambda: 0.0

    def watch(self, world: World, now: Callable[[], float]) -> None:
        """Hear of every change from now on, and count the calls of the controllers."""
        self._now = now
        world.store.listen((NODE, NODE_CLAIM, POD), self.on_change)
        world.interference = self

    def begin_with(self, claims: Iterable[NodeClaim]) -> None:
        """Machines that are there from the start: they cost, but nobody launched them."""
        for claim in claims:
            if claim.provider_id:
                self.running[claim.provider_id] = BilledInstance(claim.nodepool_name, _price(claim), 0.0, claim)
                self.pools[claim.nodepool_name].most_nodes += 1
        self.most_nodes = len(self.running)
        self.most_since()

    async def before(self, _: ApiCall) -> None:
        """A controller calls the API."""
        self.calls += 1

    async def after(self, call: ApiCall) -> None:
        """It has its answer."""
        if call.operation == "evict":
            self.evictions += 1
            self.evictions_by_day[int(self._now() // DAY)] += 1
            claim = self._drain(call.key, "draining")
            if claim is not None:
                self.pools[claim.nodepool_name].evictions += 1
        elif call.operation == "delete" and call.kind == str(kinds.POD):
            self._drain(call.key, "forced")

    @property
    def hourly(self) -> float:
        """What the instances cost an hour now."""
        return sum(each.price for each in self.running.values())

    @property
    def launched(self) -> int:
        """How many instances were launched."""
        return sum(self.born_by_day.values())

    @property
    def removed(self) -> int:
        """How many instances are gone."""
        return sum(self.gone_by_day.values())

    @property
    def cost(self) -> float:
        """What everything that is over has cost; `close` first to have it all."""
        return sum(self.cost_by_day.values())

    def on_change(self, change: StoreChange) -> None:
        """A node, a claim or a pod changed."""
        record = change.after
        if record.resource == POD:
            pod = record.value(kinds.POD)
            if isinstance(pod, Pod) and not pod.daemon:
                self._on_pod_change(change, pod)
        elif record.resource == NODE:
            node = record.value(kinds.NODE)
            if isinstance(node, Node):
                self._on_node_change(change, node)
        else:
            claim = record.value(kinds.NODE_CLAIM)
            if isinstance(claim, NodeClaim):
                self._on_claim_change(change, claim)

    def spent(self, now: float) -> float:
        """What everything has cost until now."""
        return self.cost + sum(each.price * (now - each.since) / HOUR for each in self.running.values())

    def machines(self) -> list[BilledInstance]:
        """Every instance that ran since this was last asked."""
        ran = [*self._over, *self.running.values()]
        self._over = []
        return ran

    def most_since(self) -> PeakCounts:
        """The most there were at once since this was last asked."""
        most = self._most
        self._most = PeakCounts(len(self.running), len(self._here), len(self.pending_since))
        return most

    def close(self, now: float) -> None:
        """The story is over: bill what runs and count what waits until now."""
        for billed in self.running.values():
            self._bill(billed, now)
            billed.since = now
        for since in self.pending_since.values():
            _spread(self.pending_by_day, since, now, 1.0)
        self.pending_since = dict.fromkeys(self.pending_since, now)

    def _on_node_change(self, change: StoreChange, node: Node) -> None:
        if INTERRUPT in node.metadata.labels:
            self._warned.add(node.name)
        if change.type == "DELETED" and node.provider_id:
            self._end(node.provider_id, node.name, change.at)

    def _on_claim_change(self, change: StoreChange, claim: NodeClaim) -> None:
        if change.type != "DELETED" and claim.provider_id:
            self._begin(claim, change.at)
        if claim.status.node_name:
            self._claims[claim.status.node_name] = claim
        pool = self.pools[claim.nodepool_name]
        if change.type == "DELETED":
            self._leaving.pop(claim.name, None)
            self.timeline.append(TimelineEntry(change.at, "gone", claim.name, claim.nodepool_name))
            self._drained -= {(claim.name, "draining"), (claim.name, "forced")}
            self._claims.pop(claim.status.node_name, None)
            if claim.provider_id:
                self._end(claim.provider_id, claim.status.node_name, change.at)
        elif claim.deleting and claim.name not in self._leaving:
            self._leaving[claim.name] = (
                claim.nodepool_name,
                find(claim.status.conditions, DISRUPTION_REASON) is not None,
            )
            why = self._why(claim)
            pool.disrupted[why] += 1
            self.timeline.append(TimelineEntry(change.at, "disrupted", claim.name, claim.nodepool_name, why))
            leaving = [budgeted for name, budgeted in self._leaving.values() if name == claim.nodepool_name]
            pool.most_leaving = max(pool.most_leaving, len(leaving))
            if sum(leaving) > pool.most_budgeted:
                pool.most_budgeted, pool.nodes_then = sum(leaving), self._running_in(claim.nodepool_name)

    def _why(self, claim: NodeClaim) -> str:
        reason = find(claim.status.conditions, DISRUPTION_REASON)
        if reason is not None:
            return reason.reason
        if claim.status.node_name in self._warned:
            return INTERRUPTED
        return EXPIRED if _outlived(claim) else OTHER

    def _drain(self, key: Key | None, what: str) -> NodeClaim | None:
        """A pod was made to go, from this claim's node; the first of it is told."""
        claim = self._claims.get(self.occupancy.node_of(key)) if key is not None else None
        if claim is not None and (claim.name, what) not in self._drained:
            self._drained.add((claim.name, what))
            self.timeline.append(TimelineEntry(self._now(), what, claim.name, claim.nodepool_name))
        return claim

    def _begin(self, claim: NodeClaim, at: float) -> None:
        instance = claim.provider_id
        if instance in self.running or instance in self._ended:
            return
        self.timeline.append(TimelineEntry(at, "launched", claim.name, claim.nodepool_name))
        self.running[instance] = BilledInstance(claim.nodepool_name, _price(claim), at, claim)
        pool = self.pools[claim.nodepool_name]
        pool.launched += 1
        self.most_nodes = max(self.most_nodes, len(self.running))
        self._most.nodes = max(self._most.nodes, len(self.running))
        pool.most_nodes = max(pool.most_nodes, self._running_in(claim.nodepool_name))
        self.born_by_day[int(at // DAY)] += 1

    def _running_in(self, pool: str) -> int:
        return sum(each.pool == pool for each in self.running.values())

    def _end(self, instance: str, node: str, at: float) -> None:
        """A machine is gone, and with it whatever was on it."""
        self.occupancy.remove_node(node, at)
        billed = self.running.pop(instance, None)
        if billed is None:
            return
        self._ended.add(instance)
        self._over.append(billed)
        self._bill(billed, at)
        self.pools[billed.pool].removed += 1
        self.gone_by_day[int(at // DAY)] += 1

    def _stands(self, node: str) -> bool:
        """Whether it is one of ours, and its machine still there."""
        claim = self._claims.get(node)
        return claim is not None and claim.provider_id not in self._ended

    def _bill(self, billed: BilledInstance, until: float) -> None:
        _spread(self.cost_by_day, billed.since, until, billed.price / HOUR)
        self.pools[billed.pool].cost += billed.price * (until - billed.since) / HOUR

    def _on_pod_change(self, change: StoreChange, pod: Pod) -> None:
        key, uid, phase = change.after.key, change.after.uid, pod.status.phase
        gone = change.type == "DELETED" or pod.terminal
        if key in self.occupancy:
            if gone:
                self.occupancy.remove(key, change.at)
        elif not gone and self._stands(pod.node_name):
            self.occupancy.add(key, pod, change.at)
        if gone:
            self._here.discard(uid)
        elif uid not in self._here:
            self._here.add(uid)
            self._most.pods = max(self._most.pods, len(self._here))
        if change.type == "ADDED" and phase in {"", "Pending"}:
            self.pending_since[uid] = change.at
            self._most.pending = max(self._most.pending, len(self.pending_since))
        elif uid in self.pending_since and (change.type == "DELETED" or phase != "Pending"):
            self._end_of_wait(change, pod)

    def _end_of_wait(self, change: StoreChange, pod: Pod) -> None:
        since = self.pending_since.pop(change.after.uid)
        _spread(self.pending_by_day, since, change.at, 1.0)
        if change.type != "DELETED":
            self.waits.append(change.at - since)
            claim = self._claims.get(pod.node_name)
            if claim is not None:
                self.pools[claim.nodepool_name].waited += change.at - since
            self._started.append(change.at - since)
        if self._started and not self.pending_since:
            self.settled(len(self._started), max(self._started))
            self._started.clear()


def _price(claim: NodeClaim) -> float:
    return float(claim.metadata.labels.get(PRICE, 0))


def _spread(by_day: defaultdict[int, float], since: float, until: float, rate: float) -> None:
    """Add what runs from `since` to `until` at a rate a second to the days it falls on."""
    while since < until:
        day = int(since // DAY)
        edge = min(until, (day + 1) * DAY)
        by_day[day] += rate * (edge - since)
        since = edge


def _outlived(claim: NodeClaim) -> bool:
    """Whether it was let go at the end of the life it was given."""
    lives, born, let_go = claim.spec.expire_after, claim.metadata.creation_timestamp, claim.metadata.deletion_timestamp
    if lives is None or lives.span is None or born is None or let_go is None:
        return False
    return let_go - born >= lives.span

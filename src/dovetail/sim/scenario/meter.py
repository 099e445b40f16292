"""Measures a run from the outside: cost, evictions, pod waiting times, launches and disruptions.

`Meter` listens to Nodes, NodeClaims and pods in the store, and counts the API calls of the controllers as the world's
`Interference`. It changes nothing. An instance is billed from its launch until its NodeClaim or its Node is gone,
whichever comes first. DaemonSet pods are not counted. Instants are seconds of the event loop; days count from its
start.
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
    """One instance that is being billed."""

    pool: str
    price: float  # dollars per hour
    since: float
    claim: NodeClaim


@dataclass(slots=True)
class PoolFigures:
    """The totals of one NodePool."""

    cost: float = 0.0
    launched: int = 0
    removed: int = 0
    evictions: int = 0
    waited: float = 0.0  # seconds that pods were pending before they ran on its nodes
    disrupted: Counter[str] = field(default_factory=Counter)
    most_leaving: int = 0  # most nodes being deleted at once
    most_budgeted: int = 0  # most nodes being deleted at once that disruption budgets count
    nodes_then: int = 0  # nodes of the pool at the time of most_budgeted
    most_nodes: int = 0


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One event in the life of a node."""

    at: float
    what: str  # launched, disrupted, draining (first eviction), forced (first pod deleted by a controller) or gone
    node: str  # the NodeClaim's name
    pool: str
    reason: str = ""


@dataclass(slots=True)
class PeakCounts:
    """The most nodes, pods and pending pods at one time."""

    nodes: int = 0
    pods: int = 0
    pending: int = 0


@dataclass(slots=True)
class Meter:
    """The measurements so far."""

    settled: Callable[[int, float], None] = lambda *_: None
    """Called when no pod is pending any more: number of pods started since the last call, and the longest wait."""
    calls: int = 0
    evictions: int = 0
    waits: list[float] = field(default_factory=list)
    pools: defaultdict[str, PoolFigures] = field(default_factory=lambda: defaultdict(PoolFigures))
    cost_by_day: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    evictions_by_day: Counter[int] = field(default_factory=Counter)
    launched_by_day: Counter[int] = field(default_factory=Counter)
    removed_by_day: Counter[int] = field(default_factory=Counter)
    pending_by_day: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    running: dict[str, BilledInstance] = field(default_factory=dict)  # by provider id
    timeline: list[TimelineEntry] = field(default_factory=list)
    pending_since: dict[str, float] = field(default_factory=dict)  # by pod uid
    most_nodes: int = 0
    occupancy: Occupancy = field(default_factory=Occupancy)
    _billed: list[BilledInstance] = field(default_factory=list)  # instances that ended since `machines` was called
    _active_pods: set[str] = field(default_factory=set)  # uids of pods that exist and have not finished
    _peaks: PeakCounts = field(default_factory=PeakCounts)
    _claims: dict[str, NodeClaim] = field(default_factory=dict)  # by node name
    _warned: set[str] = field(default_factory=set)  # names of nodes with an interruption warning
    _drained: set[tuple[str, str]] = field(default_factory=set)  # claim name and "draining" or "forced", if recorded
    _leaving: dict[str, tuple[str, bool]] = field(default_factory=dict)  # claim -> pool, and whether budgets count it
    _ended: set[str] = field(default_factory=set)  # provider ids
    _started: list[float] = field(default_factory=list)  # waits of the pods started since `settled` was called
    _now: Callable[[], float] = lambda: 0.0

    def watch(self, world: World, now: Callable[[], float]) -> None:
        """Start to measure changes of the store and API calls."""
        self._now = now
        world.store.listen((NODE, NODE_CLAIM, POD), self.on_change)
        world.interference = self

    def bill_existing(self, claims: Iterable[NodeClaim]) -> None:
        """Bill the instances of these existing claims from the start, without counting them as launched."""
        for claim in claims:
            if claim.provider_id:
                self.running[claim.provider_id] = BilledInstance(claim.nodepool_name, _price(claim), 0.0, claim)
                self.pools[claim.nodepool_name].most_nodes += 1
        self.most_nodes = len(self.running)
        self.peaks_since_last_call()

    async def before(self, _: ApiCall) -> None:
        """Count an API call."""
        self.calls += 1

    async def after(self, call: ApiCall) -> None:
        """Record an eviction or the deletion of a pod by a controller."""
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
        """Current cost per hour of all instances."""
        return sum(each.price for each in self.running.values())

    @property
    def launched(self) -> int:
        """Number of launched instances."""
        return sum(self.launched_by_day.values())

    @property
    def removed(self) -> int:
        """Number of ended instances."""
        return sum(self.removed_by_day.values())

    @property
    def cost(self) -> float:
        """Cost of the ended instances; after `close`, of all instances."""
        return sum(self.cost_by_day.values())

    def on_change(self, change: StoreChange) -> None:
        """Handle a change of a Node, NodeClaim or pod."""
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
        """Cost of all instances until now."""
        return self.cost + sum(each.price * (now - each.since) / HOUR for each in self.running.values())

    def machines(self) -> list[BilledInstance]:
        """The instances that ran at any time since the last call."""
        ran = [*self._billed, *self.running.values()]
        self._billed = []
        return ran

    def peaks_since_last_call(self) -> PeakCounts:
        """The peak counts since the last call."""
        peaks = self._peaks
        self._peaks = PeakCounts(len(self.running), len(self._active_pods), len(self.pending_since))
        return peaks

    def close(self, now: float) -> None:
        """End the measurement: bill running instances and count pending pods until now."""
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
        return EXPIRED if _has_expired(claim) else OTHER

    def _drain(self, key: Key | None, what: str) -> NodeClaim | None:
        """The claim of the node that a removed pod was on; records the first eviction or deletion of each node."""
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
        self._peaks.nodes = max(self._peaks.nodes, len(self.running))
        pool.most_nodes = max(pool.most_nodes, self._running_in(claim.nodepool_name))
        self.launched_by_day[int(at // DAY)] += 1

    def _running_in(self, pool: str) -> int:
        return sum(each.pool == pool for each in self.running.values())

    def _end(self, instance: str, node: str, at: float) -> None:
        """Stop billing an instance and remove the pods of its node."""
        self.occupancy.remove_node(node, at)
        billed = self.running.pop(instance, None)
        if billed is None:
            return
        self._ended.add(instance)
        self._billed.append(billed)
        self._bill(billed, at)
        self.pools[billed.pool].removed += 1
        self.removed_by_day[int(at // DAY)] += 1

    def _is_billed(self, node: str) -> bool:
        """Whether the node has a NodeClaim whose instance has not ended."""
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
        elif not gone and self._is_billed(pod.node_name):
            self.occupancy.add(key, pod, change.at)
        if gone:
            self._active_pods.discard(uid)
        elif uid not in self._active_pods:
            self._active_pods.add(uid)
            self._peaks.pods = max(self._peaks.pods, len(self._active_pods))
        if change.type == "ADDED" and phase in {"", "Pending"}:
            self.pending_since[uid] = change.at
            self._peaks.pending = max(self._peaks.pending, len(self.pending_since))
        elif uid in self.pending_since and (change.type == "DELETED" or phase != "Pending"):
            self._end_wait(change, pod)

    def _end_wait(self, change: StoreChange, pod: Pod) -> None:
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
    """Add `rate` per second from `since` to `until`, split by day."""
    while since < until:
        day = int(since // DAY)
        edge = min(until, (day + 1) * DAY)
        by_day[day] += rate * (edge - since)
        since = edge


def _has_expired(claim: NodeClaim) -> bool:
    """Whether the claim was deleted after its `expireAfter`."""
    expire_after, meta = claim.spec.expire_after, claim.metadata
    created_at, deleted_at = meta.creation_timestamp, meta.deletion_timestamp
    if expire_after is None or expire_after.span is None or created_at is None or deleted_at is None:
        return False
    return deleted_at - created_at >= expire_after.span

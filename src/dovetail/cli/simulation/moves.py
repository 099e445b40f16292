"""The moves of a simulated cluster in order: each disruption command with its nodes, replacements and evictions.

`MoveLog` reads the commands from the records on NodeClaims, as a new leader would. NodeClaims that are deleted without
a command, by hard expiration for example, and nodes that are launched for pending pods are moves too. It replaces the
meter as the world's `Interference` and passes every call on, to count the evictions of each move.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dovetail.core.lifecycle.expiration import expires_at
from dovetail.model import kinds
from dovetail.model.command import REPLACES_ANNOTATION, read_record
from dovetail.model.conditions import find
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import DISRUPTION_REASON, NodeClaim
from dovetail.model.reason import Reason
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from dovetail.sim.kubernetes.store import StoreChange
from dovetail.sim.scenario.meter import Meter
from dovetail.sim.world import ApiCall, World

PENDING_PODS = "PendingPods"
"""The reason of a launch for pending pods."""


@dataclass(slots=True)
class PlayedMove:
    """Nodes that are removed together, with their replacements; or one node that is launched for pending pods."""

    at: datetime
    reason: str
    method: str = ""
    nodes: list[str] = field(default_factory=list)
    nodepools: list[str] = field(default_factory=list)
    launched: dict[str, str] = field(default_factory=dict)  # NodeClaim -> instance type, empty until it is known
    evictions: int = 0
    rolled_back: bool = False


class MoveLog:
    """Records the moves of one world into a list."""

    def __init__(self, start: datetime, meter: Meter, moves: list[PlayedMove]) -> None:
        self.moves = moves
        self.last_change_at: datetime | None = None
        self._start = start
        self._meter = meter
        self._by_command: dict[str, PlayedMove] = {}
        self._by_claim: dict[str, PlayedMove] = {}  # the move that removes a claim
        self._by_node: dict[str, PlayedMove] = {}  # the same, by the name of the Node
        self._known: set[str] = set()  # claims that existed before, or have been recorded

    def watch(self, world: World) -> None:
        """Start to record."""
        self._known = {claim.name for claim in world.values(kinds.NODE_CLAIM) if claim.provider_id}
        world.store.listen((NODE_CLAIM,), self.on_change)
        world.interference = self

    async def before(self, call: ApiCall) -> None:
        """Pass a call on to the meter."""
        await self._meter.before(call)

    async def after(self, call: ApiCall) -> None:
        """Count an eviction, and pass the call on to the meter."""
        if call.operation == "evict" and call.key is not None:
            move = self._by_node.get(self._meter.occupancy.node_of(call.key))
            if move is not None:
                move.evictions += 1
        await self._meter.after(call)

    def on_change(self, change: StoreChange) -> None:
        """Handle a change of a NodeClaim."""
        claim = change.after.value(kinds.NODE_CLAIM)
        if not isinstance(claim, NodeClaim):
            return
        at = self._start + timedelta(seconds=change.at)
        if change.type == "DELETED":
            self.last_change_at = at
        elif (record := read_record(claim)) is not None:
            move = self._by_command.get(record.id)
            if move is None:
                move = self._by_command[record.id] = self._new_move(at, str(record.reason), record.method)
            self._take(claim, move)
        elif claim.deleting and claim.name not in self._by_claim:
            self._take(claim, self._new_move(at, _why(claim, at)))
        elif not claim.deleting and (undone := self._by_claim.pop(claim.name, None)) is not None:
            undone.rolled_back = True
            self._by_node.pop(claim.status.node_name, None)
        self._note_launch(claim, at)

    def _new_move(self, at: datetime, reason: str, method: str = "") -> PlayedMove:
        move = PlayedMove(at, reason, method)
        self.moves.append(move)
        self.last_change_at = at
        return move

    def _take(self, claim: NodeClaim, move: PlayedMove) -> None:
        """Add a claim to the move that removes it."""
        if claim.name in self._by_claim:
            return
        name = claim.status.node_name or claim.name
        self._by_claim[claim.name] = self._by_node[name] = move
        move.nodes.append(name)
        if claim.nodepool_name not in move.nodepools:
            move.nodepools.append(claim.nodepool_name)

    def _note_launch(self, claim: NodeClaim, at: datetime) -> None:
        """Record a claim that got its instance, as a replacement or as a move of its own."""
        if claim.name in self._known or not claim.provider_id:
            return
        self._known.add(claim.name)
        move = self._by_command.get(claim.metadata.annotations.get(REPLACES_ANNOTATION, ""))
        if move is None:
            move = self._new_move(at, PENDING_PODS)
            move.nodepools.append(claim.nodepool_name)
        move.launched[claim.name] = claim.metadata.labels.get(INSTANCE_TYPE, "")
        self.last_change_at = at


def _why(claim: NodeClaim, at: datetime) -> str:
    """Why a claim is deleted without a command."""
    reason, due_at = find(claim.status.conditions, DISRUPTION_REASON), expires_at(claim)
    if reason is not None:
        return reason.reason
    return str(Reason.EXPIRED) if due_at is not None and due_at <= at else "Deleted"

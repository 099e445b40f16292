"""Consolidation never raises cost: what it launches costs less than what it takes away.

Consolidation moves no pod to a node that is still inside its own quiet period.

`consolidationGracePeriod` and `consolidateAfter` make a node neither source nor destination of consolidation after a
pod came to it or ended on it. The source is judged in `waits`. The destination is not written anywhere, so it is judged
by what is left: when all nodes of a command without replacements are marked Underutilized, each of their pods must fit
on a node that is not surely inside its period, and all of them together on all of these nodes.

Free capacity is taken as the most it could have been when the command was planned: only pods that were on the node all
the time since count against it. Only CPU and memory are compared; what else keeps a pod off a node is not judged here.
"""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import consolidation_window
from dovetail.sim.torture.invariants.objects import (
    ClaimView,
    is_daemon,
    is_finished,
    needs_a_place,
    tolerates_disruption,
)
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import quantity
from dovetail.sim.world import ApiCall


class ConsolidationSaves(Invariant):
    """Every consolidation leaves the cluster cheaper."""

    name = "consolidation never raises cost"

    def about_to(self, call: ApiCall) -> None:
        """The first candidate of a command may go."""
        if call.operation == "delete" and call.kind == "NodeClaim" and call.key is not None:
            story = self.history.claims.get(call.key.name)
            if story is not None and not story.value.deleting:
                self._judge(story.value)

    def _judge(self, claim: ClaimView) -> None:
        command = self.history.commands.get(claim.command.get("id", ""))
        if command is None or claim.reason not in {"Underutilized", "Empty"}:
            return
        before, after = sum(command.candidates.values()), sum(command.replacements.values())
        if command.replacements and after >= before:
            gone, bought = ", ".join(sorted(command.candidates)), ", ".join(sorted(command.replacements))
            self.broken(f"{gone} at {before:.4f} an hour {claim.reason}: replaced by {bought} at {after:.4f}")


SLACK = 12.0  # events are written down within ten seconds; the API keeps whole ones
RESOURCES = ("cpu", "memory")
Amounts = tuple[Decimal, ...]  # one for each of RESOURCES


class DestinationsAreQuiet(Invariant):
    """Nodes where something happened lately take no pods of consolidation."""

    name = "consolidation moves pods to quiet nodes alone"

    def claim_marked(self, story: ClaimHistory, reason: str) -> None:
        """A node was marked: judged once all nodes of its command are."""
        command, history = story.value.command, self.history
        if reason != "Underutilized" or command.get("replacements") != 0 or not command.get("candidates"):
            return
        marked = [each.value for each in history.claims.values() if each.value.command.get("id") == command["id"]]
        if len(marked) < command["candidates"]:
            return
        leaving = {node.value.name for node in map(history.node_of, marked) if node is not None}
        pods_to_reschedule = [_requests(pod) for name in leaving for pod in self._settled_pods(name) if _moves(pod)]
        open_nodes = [name for name in history.node_names if name not in leaving and not self._is_restless(name)]
        free = [self._free(name) for name in open_nodes]
        stranded = next((each for each in pods_to_reschedule if not any(_fits(each, room) for room in free)), None)
        if stranded is not None or not _fits(_sum(pods_to_reschedule), _sum(free)):
            names, quiet = ", ".join(sorted(leaving)), ", ".join(sorted(open_nodes)) or "none"
            self.broken(f"{names}: Underutilized, no replacement, and the pods do not fit on the quiet nodes: {quiet}")

    def _settled_pods(self, node: str) -> Iterable[ObjectVersion]:
        """The pods that were on a node all the time since a command that is marked now could have been planned."""
        history = self.history
        known = history.now - history.stale
        return [pod for pod in history.pods_on(node) if history.since.bound[pod.uid] <= known]

    def _is_restless(self, node: str) -> bool:
        """Whether the node was inside its period all the time since the command could have been planned."""
        history, claim = self.history, self.history.claim_on(node)
        if claim is None:
            return False
        since = history.now - history.stale
        versions = history.versions(claim.value.pool, since)
        window = min(map(consolidation_window, versions), default=0.0)
        begin = history.now + SLACK - window
        if history.supervisor.clock.right_since >= history.world.clock.now() - timedelta(seconds=window):
            return False
        bound = [history.since.bound[pod.uid] for pod in history.pods_on(node) if pod.active and not is_daemon(pod)]
        ends = [at for at in history.since.pod_ends.get(node, ()) if history.calm(at)]
        return any(begin < at <= since for at in (*bound, *ends))

    def _free(self, node: str) -> Amounts:
        story = self.history.node_named(node)
        plain = story.value.plain if story is not None else {}
        allocatable = (plain.get("status") or {}).get("allocatable") or {}
        taken = _sum([_requests(pod) for pod in self._settled_pods(node) if not is_finished(pod)])
        return tuple(quantity(allocatable.get(name, "0")) - used for name, used in zip(RESOURCES, taken, strict=True))


def _moves(pod: ObjectVersion) -> bool:
    return needs_a_place(pod) and not tolerates_disruption(pod)


def _requests(pod: ObjectVersion) -> Amounts:
    containers = pod.plain["spec"]["containers"]
    requests = [(each.get("resources") or {}).get("requests") or {} for each in containers]
    return tuple(sum((quantity(each.get(name, "0")) for each in requests), Decimal()) for name in RESOURCES)


def _sum(amounts: list[Amounts]) -> Amounts:
    return tuple(sum(each, Decimal()) for each in zip(*amounts, strict=True)) or (Decimal(),) * len(RESOURCES)


def _fits(wanted: Amounts, room: Amounts) -> bool:
    return all(need <= free for need, free in zip(wanted, room, strict=True))

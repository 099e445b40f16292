"""Invariants: consolidation lowers cost, and does not move pods to nodes inside their quiet period.

Cost: checked when the first candidate of a command is deleted. The replacements must cost less than the candidates.

Quiet period: `consolidationGracePeriod` and `consolidateAfter` make a node neither source nor destination of
consolidation after a pod was bound to it or ended on it. The source is checked in `disruption_delays`. The destination
is not recorded anywhere, so it is checked by elimination: when all candidates of a command without replacements are
marked Underutilized, each of their pods must fit on a node that is not certainly inside its period, and all of them
together on all of these nodes. Nodes that are being removed or are not initialized do not count, whatever the pods
tolerate. Free capacity is the most it could have been when the command was planned: only pods that were on the node all
the time since then count against it. Only CPU and memory are compared.
"""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import consolidation_window
from dovetail.sim.torture.invariants.objects import is_daemon, is_finished, must_be_rescheduled
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import quantity
from dovetail.sim.world import ApiCall


class ConsolidationSaves(Invariant):
    """Every consolidation makes the cluster cheaper."""

    name = "consolidation never raises cost"

    def before_call(self, call: ApiCall) -> None:
        """Compare the prices of candidates and replacements when a candidate is deleted."""
        claim = self.deleted_claim(call)
        command = self.observer.commands.get(claim.command.get("id", "")) if claim is not None else None
        if claim is None or command is None or claim.reason not in {"Underutilized", "Empty"}:
            return
        before, after = sum(command.candidates.values()), sum(command.replacements.values())
        if command.replacements and after >= before:
            removed, launched = ", ".join(sorted(command.candidates)), ", ".join(sorted(command.replacements))
            self.report(f"{removed} at {before:.4f} an hour {claim.reason}: replaced by {launched} at {after:.4f}")


TIMESTAMP_SLACK = 12.0  # pod events are recorded within ten seconds, and the API stores whole seconds
RESOURCES = ("cpu", "memory")
Amounts = tuple[Decimal, ...]  # one for each of RESOURCES


class DestinationsAreQuiet(Invariant):
    """Consolidation moves no pods to nodes with recent pod events, nor to nodes that start or are being removed."""

    name = "consolidation moves pods to quiet nodes only"

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """Check the destinations once all candidates of a command are marked."""
        command, observer = claim_history.value.command, self.observer
        if reason != "Underutilized" or command.get("replacements") != 0 or not command.get("candidates"):
            return
        marked = [each.value for each in observer.claims.values() if each.value.command.get("id") == command["id"]]
        if len(marked) < command["candidates"]:
            return
        leaving = {node.value.name for node in map(observer.node_of, marked) if node is not None}
        pods_to_reschedule = [
            _requests(pod) for name in leaving for pod in self._settled_pods(name) if must_be_rescheduled(pod)
        ]
        quiet_nodes = [
            name
            for name in observer.provider_id_by_node
            if name not in leaving and self._stays(name) and not self._is_recently_active(name)
        ]
        free = [self._free(name) for name in quiet_nodes]
        all_fit_alone = all(any(_fits(pod, node) for node in free) for pod in pods_to_reschedule)
        if not all_fit_alone or not _fits(_sum(pods_to_reschedule), _sum(free)):
            names, quiet = ", ".join(sorted(leaving)), ", ".join(sorted(quiet_nodes)) or "none"
            self.report(f"{names}: Underutilized, no replacement, and the pods do not fit on the quiet nodes: {quiet}")

    def _settled_pods(self, node: str) -> Iterable[ObjectVersion]:
        """The pods that have been on a node since before a command that is marked now could have been planned."""
        observer = self.observer
        known_before = observer.now - observer.max_staleness
        return [pod for pod in observer.pods_on(node) if observer.since.bound[pod.uid] <= known_before]

    def _stays(self, node: str) -> bool:
        """Whether the node is initialized, and was not being removed when the command could have been planned first."""
        observer, claim = self.observer, self.observer.claim_on(node)
        if claim is None:
            return True
        known_before = observer.now - observer.max_staleness
        removed = any(at is not None and at <= known_before for at in (claim.command_since, claim.deleting_since))
        return not removed and observer.is_initialized(claim.value)

    def _is_recently_active(self, node: str) -> bool:
        """Whether the node has been inside its quiet period since before the command could have been planned."""
        observer, claim = self.observer, self.observer.claim_on(node)
        if claim is None:
            return False
        since = observer.now - observer.max_staleness
        versions = observer.versions(claim.value.pool, since)
        window = min(map(consolidation_window, versions), default=0.0)
        begin = observer.now + TIMESTAMP_SLACK - window
        if observer.supervisor.clock.correct_since >= observer.world.clock.now() - timedelta(seconds=window):
            return False
        bound = [observer.since.bound[pod.uid] for pod in observer.pods_on(node) if pod.active and not is_daemon(pod)]
        ends = [at for at in observer.since.pod_ends.get(node, ()) if observer.undisturbed_since(at)]
        return any(begin < at <= since for at in (*bound, *ends))

    def _free(self, node: str) -> Amounts:
        """What is free on a node; 0 if pods with `spec.nodeName` request more than there is."""
        node_history = self.observer.find_node(node)
        plain = node_history.value.plain if node_history is not None else {}
        allocatable = (plain.get("status") or {}).get("allocatable") or {}
        used = _sum([_requests(pod) for pod in self._settled_pods(node) if not is_finished(pod)])
        return tuple(
            max(quantity(allocatable.get(name, "0")) - each, Decimal())
            for name, each in zip(RESOURCES, used, strict=True)
        )


def _requests(pod: ObjectVersion) -> Amounts:
    containers = pod.plain["spec"]["containers"]
    requests = [(each.get("resources") or {}).get("requests") or {} for each in containers]
    return tuple(sum((quantity(each.get(name, "0")) for each in requests), Decimal()) for name in RESOURCES)


def _sum(amounts: list[Amounts]) -> Amounts:
    return tuple(sum(each, Decimal()) for each in zip(*amounts, strict=True)) or (Decimal(),) * len(RESOURCES)


def _fits(requests: Amounts, free: Amounts) -> bool:
    return all(request <= available for request, available in zip(requests, free, strict=True))

"""Invariants on deletions: they have a cause, follow replacements, keep repair policies and are not retried forever.

Causes for which the controllers may delete a NodeClaim:

- a command marks it;
- without a command (`needs_no_command`): it never registered, its Node is missing or being deleted, the cloud warned of
  its instance, its instance is lost and its node not ready, it expired (`expireAfter` of the NodeClaim), or it has been
  unhealthy for longer than its pool tolerates;
- it is a replacement of a rolled-back command, and no pod on it would have to be rescheduled.

A rolled-back command must not restart immediately and without end: nodes would be tainted and released, and
replacements launched and terminated, every few seconds.
"""

from collections import defaultdict
from datetime import timedelta

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import VOLUNTARY
from dovetail.sim.torture.invariants.instances import bound_before
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView, must_be_rescheduled
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.readers import NEVER, NODEPOOL, duration, parse_time
from dovetail.sim.torture.invariants.repair_policies import (
    PROVIDER_POLICIES,
    is_unhealthy,
    max_unhealthy,
    repair_is_due,
)
from dovetail.sim.world import ApiCall


def needs_no_command(claim: ClaimView, observer: Observer) -> bool:
    """Whether the controllers may delete the claim without a command: no budget, protection or replacement applies."""
    return is_forced_apart_from_repair(claim, observer) or repair_is_due(claim, observer)


def is_forced_apart_from_repair(claim: ClaimView, observer: Observer) -> bool:
    """Whether the claim may be deleted without a command for a reason other than repair."""
    node = observer.node_of(claim)
    if not claim.has("Registered") or node is None or node.value.deleting:
        return True
    if node.value.provider_id in observer.warned:
        return True
    recently_unready = not node.value.ready or observer.now - node.last_unready <= observer.max_staleness
    if node.value.name in observer.lost_nodes and recently_unready:
        return True
    return _is_expired(claim, observer)


def _is_expired(claim: ClaimView, observer: Observer) -> bool:
    seconds = duration(claim.plain["spec"].get("expireAfter") or "Never")
    if seconds == NEVER:
        return False
    expires_at = claim.created_at + timedelta(seconds=seconds)
    return any(now >= expires_at for now in observer.clock_readings())


class DeletionsHaveACause(Invariant):
    """No NodeClaim and no Node is deleted without a cause."""

    name = "every deletion has a cause"

    def before_call(self, call: ApiCall) -> None:
        """Check the deletion of a NodeClaim or Node."""
        claim = self.deleted_claim(call)
        if claim is not None:
            self._check_claim(claim)
        elif call.operation == "delete" and call.kind == "Node" and call.key is not None:
            self._check_node(call.key.name)

    def _check_claim(self, claim: ClaimView) -> None:
        if needs_no_command(claim, self.observer) or claim.reason or self._is_unused_replacement(claim):
            return
        self.report(f"{claim.name} is deleted without a cause")

    def _is_unused_replacement(self, claim: ClaimView) -> bool:
        """Whether it replaces nodes of a command that is not committed, and no pod on it must be rescheduled."""
        node = self.observer.node_of(claim)
        if not claim.replaces or node is None:
            return False
        commands = (each.value.command for each in self.observer.claims.values())
        if any(each.get("id") == claim.replaces and each.get("committed") for each in commands):
            return False
        known_at = bound_before(node.value.name, self.observer)
        pods = self.observer.pods_on(node.value.name)
        return not any(must_be_rescheduled(pod) and self.observer.since.bound[pod.uid] < known_at for pod in pods)

    def _check_node(self, name: str) -> None:
        node = self.observer.find_node(name)
        if node is None or node.value.deleting:
            return
        owners = [e.value for e in self.observer.claims.values() if e.value.provider_id == node.value.provider_id]
        if any(not claim.deleting and claim.has("Initialized") for claim in owners):
            self.report(f"node {name} is deleted, but its NodeClaim is not")


class ReplacementsComeFirst(Invariant):
    """A node is deleted only after its replacements are initialized."""

    name = "replacements come first"

    def before_call(self, call: ApiCall) -> None:
        """Check the replacements of a command that deletes a NodeClaim."""
        claim = self.deleted_claim(call)
        command = self.observer.commands.get(claim.command.get("id", "")) if claim is not None else None
        if claim is None or command is None or needs_no_command(claim, self.observer):
            return
        required = int(command.record.get("replacements", 0))
        ready = sum(name in self.observer.initialized for name in command.replacements)
        if ready < required:
            self.report(f"{claim.name} is deleted with {ready} of its {required} replacements initialized")


class RepairFollowsPolicy(Invariant):
    """Repair waits for the toleration of the pool, and stops while too many nodes of the pool are unhealthy."""

    name = "repair follows its policy"

    def before_call(self, call: ApiCall) -> None:
        """Check the deletion of an unhealthy node."""
        claim = self.deleted_claim(call)
        if claim is None or claim.reason in VOLUNTARY:
            return
        node = self.observer.node_of(claim)
        if node is None or is_forced_apart_from_repair(claim, self.observer) or not is_unhealthy(node.value):
            return
        if repair_is_due(claim, self.observer):
            self._check_unhealthy_share(claim)
        elif not claim.replaces:
            self.report(f"{claim.name} is unhealthy and deleted before the toleration of {claim.pool} ends")

    def _check_unhealthy_share(self, claim: ClaimView) -> None:
        """Compare the nodes that are known to be unhealthy with the most nodes the pool had recently.

        Every Node with the label of the pool counts, also before its NodeClaim has a provider id.
        """
        observer = self.observer
        nodes = [each.value for each in observer.nodes.values() if each.value.labels.get(NODEPOOL) == claim.pool]
        known_before = observer.now - observer.max_staleness
        unhealthy = sum(is_unhealthy(node) and self._unhealthy_since(node) <= known_before for node in nodes)
        limit = max_unhealthy(max(observer.max_nodes(claim.pool), len(nodes)))
        if unhealthy > limit:
            found = f"{unhealthy} unhealthy nodes in {claim.pool}"
            self.report(f"{claim.name} is repaired with {found}; repair stops above {limit}")

    def _unhealthy_since(self, node: NodeView) -> float:
        return min(
            self.observer.seconds_at(parse_time(condition["lastTransitionTime"]))
            for kind, condition in node.conditions.items()
            if (kind, condition["status"]) in PROVIDER_POLICIES
        )


MAX_COMMANDS = 12
WINDOW_SECONDS = 900.0


class CommandsAreNotRepeated(Invariant):
    """Failed commands back off before they are retried."""

    name = "no node is selected over and over"

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self._selected_at: defaultdict[str, dict[str, float]] = defaultdict(dict)  # by claim uid and command id

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """Count the commands that recently selected the node."""
        command = after.command.get("id")
        if command is None or (before is not None and before.command.get("id") == command):
            return
        selected_at = self._selected_at[after.uid]
        selected_at.setdefault(command, self.observer.now)
        recent = sum(self.observer.now - at <= WINDOW_SECONDS for at in selected_at.values())
        if recent > MAX_COMMANDS:
            self.report(f"{after.name} was selected by more than {MAX_COMMANDS} commands in {WINDOW_SECONDS:.0f} s")

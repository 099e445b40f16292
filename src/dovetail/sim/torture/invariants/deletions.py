"""Reasons for which a NodeClaim is deleted without a command: they need no budget, no protection and no replacement.

Every claim the controllers delete has a cause that can be seen, and no node goes before its replacement is there.

Causes: marked by a command; deleted by somebody, itself, its node or its pool; expired for good; never became a node;
its instance is gone; unhealthy for longer than its pool tolerates; warned of by the cloud; a replacement whose
command was taken back, and that no pod came to.

No node is chosen over and over: a command that is taken back is not simply started again, without end.

A decision and the check before its deletion must come to agree, or the next attempt has to wait longer and longer.
Otherwise nodes are tainted and released, and replacements launched and terminated, every few seconds for ever.
"""

from collections import defaultdict
from datetime import timedelta

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.instances import bound_before
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView, needs_a_place
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.readers import NEVER, duration, instant
from dovetail.sim.torture.invariants.repair_policies import PROVIDER_TERMS, is_due, is_unhealthy, most_unhealthy
from dovetail.sim.world import ApiCall


def needs_no_command(claim: ClaimView, history: Observer) -> bool:
    """Whether it goes for such a reason: never a node, deleted with its node, warned of, lost, expired or unhealthy."""
    return is_forced_otherwise(claim, history) or is_due(claim, history)


def is_forced_otherwise(claim: ClaimView, history: Observer) -> bool:
    """Whether it goes for one of these reasons, repair left aside."""
    node = history.node_of(claim)
    if not claim.has("Registered") or node is None or node.value.deleting:
        return True
    if node.value.provider_id in history.warned:
        return True
    unready_lately = not node.value.ready or history.now - node.last_unready <= history.stale
    if node.value.name in history.lost_nodes and unready_lately:
        return True
    return _expired(claim, history)


def _expired(claim: ClaimView, history: Observer) -> bool:
    seconds = duration(claim.plain["spec"].get("expireAfter") or "Never")
    if seconds == NEVER:
        return False
    ends_at = claim.created_at + timedelta(seconds=seconds)
    return any(now >= ends_at for now in history.instants())


class DeletionsHaveACause(Invariant):
    """No node is taken away for nothing."""

    name = "every deletion has a cause"

    def about_to(self, call: ApiCall) -> None:
        """A claim, or a node, may be deleted."""
        if call.operation != "delete" or call.key is None:
            return
        if call.kind == "NodeClaim":
            story = self.history.claims.get(call.key.name)
            if story is not None and not story.value.deleting:
                self._judge(story.value)
        elif call.kind == "Node":
            self._judge_node(call.key.name)

    def _judge(self, claim: ClaimView) -> None:
        if needs_no_command(claim, self.history) or claim.reason or self._unused_replacement(claim):
            return
        self.broken(f"{claim.name} is deleted, and nothing says why")

    def _unused_replacement(self, claim: ClaimView) -> bool:
        """Whether it was launched for a command that takes no node away, and no pod would have to move."""
        node = self.history.node_of(claim)
        if not claim.replaces or node is None:
            return False
        commands = (each.value.command for each in self.history.claims.values())
        if any(each.get("id") == claim.replaces and each.get("committed") for each in commands):
            return False
        known_at = bound_before(node.value.name, self.history)
        pods = self.history.pods_on(node.value.name)
        return not any(needs_a_place(pod) and self.history.since.bound[pod.uid] < known_at for pod in pods)

    def _judge_node(self, name: str) -> None:
        node = self.history.node_named(name)
        if node is None or node.value.deleting:
            return
        owners = [e.value for e in self.history.claims.values() if e.value.provider_id == node.value.provider_id]
        if any(not claim.deleting and claim.has("Initialized") for claim in owners):
            self.broken(f"node {name} is deleted, and its claim stays")


class ReplacementsComeFirst(Invariant):
    """A node that is replaced goes after its replacements are initialized."""

    name = "replacements come first"

    def about_to(self, call: ApiCall) -> None:
        """A claim may be deleted."""
        if call.operation != "delete" or call.kind != "NodeClaim" or call.key is None:
            return
        story = self.history.claims.get(call.key.name)
        command = self.history.commands.get(story.value.command.get("id", "")) if story is not None else None
        if story is None or command is None or story.value.deleting or needs_no_command(story.value, self.history):
            return
        wanted = int(command.record.get("replacements", 0))
        ready = [name for name in command.replacements if name in self.history.initialized]
        if len(ready) < wanted:
            self.broken(f"{story.value.name} goes with {len(ready)} of its {wanted} replacements ready")


class RepairKeepsItsTerms(Invariant):
    """A node is repaired after the toleration of its pool, and while few nodes of the pool are unhealthy."""

    name = "repair keeps its terms"

    def about_to(self, call: ApiCall) -> None:
        """A claim may be deleted for its health."""
        if call.operation != "delete" or call.kind != "NodeClaim" or call.key is None:
            return
        story = self.history.claims.get(call.key.name)
        claim = story.value if story is not None else None
        if claim is None or claim.deleting or claim.reason in ("Empty", "Underutilized", "Drifted", "Expired"):
            return
        node = self.history.node_of(claim)
        if node is None or is_forced_otherwise(claim, self.history) or not is_unhealthy(node.value):
            return
        if not is_due(claim, self.history):
            if not claim.replaces:
                self.broken(f"{claim.name} is unhealthy and deleted before {claim.pool} says it should be")
            return
        self._judge_breaker(claim)

    def _judge_breaker(self, claim: ClaimView) -> None:
        """Count the nodes that have been unhealthy for so long that this was known, against the most there were."""
        history = self.history
        nodes = [node for each in history.of_pool(claim.pool) if (node := history.node_of(each.value)) is not None]
        known = history.now - history.stale
        bad = sum(1 for node in nodes if is_unhealthy(node.value) and self._unhealthy_since(node.value) <= known)
        most = most_unhealthy(max(history.most_nodes(claim.pool), len(nodes)))
        if bad > most:
            self.broken(f"{claim.name} is repaired with {bad} unhealthy nodes in {claim.pool}, and {most} may be")

    def _unhealthy_since(self, node: NodeView) -> float:
        times = (
            self.history.at(instant(said["lastTransitionTime"]))
            for kind, said in node.conditions.items()
            if (kind, said["status"]) in PROVIDER_TERMS
        )
        return min(times)


MOST = 12
WITHIN = 900.0


class CommandsAreNotRepeated(Invariant):
    """Failed commands are tried again at a sensible pace."""

    name = "no node is chosen over and over"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._chosen: defaultdict[str, dict[str, float]] = defaultdict(dict)  # by uid: when, by command

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """A command may have chosen the node."""
        command = after.command.get("id")
        if command is None or (before is not None and before.command.get("id") == command):
            return
        chosen = self._chosen[after.uid]
        chosen.setdefault(command, self.history.now)
        lately = sum(self.history.now - at <= WITHIN for at in chosen.values())
        if lately > MOST:
            self.broken(f"{after.name} was chosen by more than {MOST} commands in {WITHIN:.0f} s")

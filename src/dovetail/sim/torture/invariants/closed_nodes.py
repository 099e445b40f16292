"""Invariant: a node that Dovetail keeps closed for the pods it was launched for is opened soon after it is ready.

The taint is put on the node of a NodeClaim for pending pods, and removed once those pods are nominated. Whatever fails
on the way, a crash included, the node is opened: nothing else would ever remove the taint.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import Observer

LONGEST_CLOSED = 300.0  # seconds, in which a leader, or the next one, must open a ready node


class ReadyNodesAreOpened(Invariant):
    """No ready node stays closed."""

    name = "ready nodes are opened"

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self._closed_since: dict[str, float] = {}  # by provider id: since when it is ready and closed

    def on_tick(self) -> None:
        """Report nodes that have been ready and closed for too long."""
        closed = {
            each.value.provider_id: each.value.name
            for each in self.observer.nodes.values()
            if each.value.is_closed and each.value.ready and not each.value.deleting
        }
        for claim in self.observer.claims.values():
            if claim.value.deleting:
                closed.pop(claim.value.provider_id, None)
        self._closed_since = {each: self._closed_since.get(each, self.observer.now) for each in closed}
        for provider_id, since in self._closed_since.items():
            if self.observer.now - since > LONGEST_CLOSED:
                self.report(f"{closed[provider_id]} has been ready for {LONGEST_CLOSED:.0f} s and is still closed")

"""What a law is."""

from datetime import datetime
from typing import ClassVar

from dovetail.model import kinds
from dovetail.model.labels import TERMINATION_TIMESTAMP
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.wire import Key, Unreadable
from dovetail.sim.faults.history import History
from dovetail.sim.faults.replica import OFFICE
from dovetail.sim.kinds import POD
from dovetail.sim.store import Step
from dovetail.sim.world import Call


class Law:
    """Something that holds whatever happens."""

    name: ClassVar[str]

    def __init__(self, history: History) -> None:
        self.history = history

    def claim_changed(self, before: NodeClaim | None, after: NodeClaim) -> None:
        """A claim is new or changed; the history knows already."""

    def node_gone(self, name: str, provider_id: str) -> None:
        """The instance behind a node begins to end: what ran on it is cut off."""

    def about_to(self, call: Call) -> None:
        """The controllers are about to do this."""

    def acts(self, who: str, call: Call) -> None:
        """One of the replicas is about to write this."""

    def lease_changed(self, holder: str, seconds: float) -> None:
        """The office was taken, renewed or given back; a renewal lasts that many seconds."""

    def look(self) -> None:
        """Some time has passed."""

    def broken(self, message: str) -> None:
        """It does not hold."""
        self.history.broken(self.name, message)

    def pod(self, key: Key | None) -> Pod | None:
        """A pod as it is now."""
        record = self.history.world.store.find(POD, key) if key is not None else None
        value = record.value(kinds.POD) if record is not None else None
        return None if isinstance(value, Unreadable) else value

    def running_pod(self, key: Key | None) -> Pod | None:
        """A pod, if there is still a node for it to run on."""
        pod = self.pod(key)
        names = {each.value.name for each in self.history.nodes.values()}
        return pod if pod is not None and not pod.terminal and pod.node_name in names else None

    def claim_on(self, node_name: str) -> NodeClaim | None:
        """The claim of a node, by the node's name."""
        for each in self.history.nodes.values():
            if each.value.name == node_name:
                owned = (c.value for c in self.history.claims.values() if c.value.provider_id == each.value.provider_id)
                return next(owned, None)
        return None

    def forced(self, claim: NodeClaim | None, grace: float) -> bool:
        """Whether the deadline of the claim's drain allows force on a pod that wants this many seconds to stop."""
        if claim is None or claim.metadata.deletion_timestamp is None:
            return False
        written = claim.metadata.annotations.get(TERMINATION_TIMESTAMP)
        period = claim.spec.termination_grace_period
        if written:
            ends_at = datetime.fromisoformat(written)
        elif period is not None:
            ends_at = claim.metadata.deletion_timestamp + period.span
        else:
            return False
        return any((ends_at - now).total_seconds() <= grace + 1.0 for now in self.history.instants())


def dispatch(laws: tuple[Law, ...], step: Step) -> None:
    """Tell the laws of a change."""
    kind = step.after.resource[1]
    if kind == "NodeClaim" and step.type != "DELETED":
        before = step.before.value(kinds.NODE_CLAIM) if step.before is not None else None
        after = step.after.value(kinds.NODE_CLAIM)
        if isinstance(after, NodeClaim) and not isinstance(before, Unreadable):
            for law in laws:
                law.claim_changed(before, after)
    elif kind == "Lease" and step.type != "DELETED" and step.after.key == OFFICE:
        spec = step.after.plain["spec"]
        for law in laws:
            law.lease_changed(spec.get("holderIdentity", ""), float(spec["leaseDurationSeconds"]))

"""Every claim the controllers delete has a cause that can be seen, and no node goes before its replacement is there.

Causes: marked by a command; bought for a command that was taken back; deleted by somebody, itself, its node or pool;
expired for good; never became a node; its instance is gone; unhealthy in a pool that repairs; warned of by the cloud.
"""

from dovetail.model.command import REPLACES_ANNOTATION, read_record
from dovetail.model.conditions import find
from dovetail.model.kinds import POD
from dovetail.model.nodeclaim import INITIALIZED, REGISTERED, NodeClaim
from dovetail.model.pod import Pod
from dovetail.sim.faults.history import marked_for
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.world import Call

_SICK = {("Ready", "False"), ("Ready", "Unknown"), ("NetworkUnavailable", "True")}
MOMENT = 30.0
"""Seconds that calls may take from the list of a node's pods to the deletion of its claim."""
_PRESSED = {("DiskPressure", "True"), ("MemoryPressure", "True"), ("PIDPressure", "True")}


class DeletionsHaveACause(Law):
    """No node is taken away for nothing, or too early."""

    name = "every deletion has a cause"

    def about_to(self, call: Call) -> None:
        """A claim, or a node, may be deleted."""
        if call.operation != "delete" or call.key is None:
            return
        if call.kind == "NodeClaim":
            story = self.history.claims.get(call.key.name)
            if story is not None and not story.value.deleting:
                self._judge(story.value)
        elif call.kind == "Node":
            self._judge_node(call.key.name)

    def _judge(self, claim: NodeClaim) -> None:
        if self._excused(claim):
            return
        if marked_for(claim) is None:
            self.broken(f"{claim.name} is deleted, and nothing says why")
            return
        record = read_record(claim)
        command = self.history.commands.get(record.id) if record is not None else None
        if record is None or command is None:
            return
        ready = [name for name in command.replacements if name in self.history.initialized]
        if len(ready) < record.replacements:
            self.broken(f"{claim.name} goes with {len(ready)} of its {record.replacements} replacements ready")

    def _excused(self, claim: NodeClaim) -> bool:
        """Whether it goes for a reason that needs no command."""
        node = self.history.node_of(claim)
        if not claim.has(REGISTERED) or node is None or node.value.deleting:
            return True
        if self._unneeded(claim):
            return True
        if node.value.provider_id in self.history.warned:
            return True
        if node.value.name in self.history.lost_nodes and not node.value.ready:
            return True
        return self._expired(claim) or self._sick(claim)

    def _unneeded(self, claim: NodeClaim) -> bool:
        """Whether it replaces nodes of a command that lets none of them go, and nothing runs on it that has to move."""
        command = claim.metadata.annotations.get(REPLACES_ANNOTATION, "")
        if not command or self.history.node_of(claim) is None:
            return False
        records = [read_record(each.value) for each in self.history.claims.values()]
        committed = any(record is not None and record.id == command and record.committed for record in records)
        return not committed and not self._has_pods(claim)

    def _has_pods(self, claim: NodeClaim) -> bool:
        """Whether a pod was bound to its node before the moment in which the controllers looked."""
        node = self.history.node_of(claim)
        pods = self.history.world.store.pods_on(node.value.name) if node is not None else ()
        values = [record.value(POD) for record in pods]
        return any(isinstance(pod, Pod) and pod.reschedulable and self._bound_before(pod) for pod in values)

    def _bound_before(self, pod: Pod) -> bool:
        scheduled = find(pod.status.conditions, "PodScheduled")
        since = scheduled.last_transition_time if scheduled is not None else None
        return since is not None and (self.history.world.clock.now() - since).total_seconds() > MOMENT

    def _expired(self, claim: NodeClaim) -> bool:
        created_at, expire_after = claim.metadata.creation_timestamp, claim.spec.expire_after
        if created_at is None or expire_after is None or expire_after.span is None:
            return False
        return any(now >= created_at + expire_after.span for now in self.history.instants())

    def _sick(self, claim: NodeClaim) -> bool:
        node = self.history.node_of(claim)
        pools = self.history.versions(claim.nodepool_name, self.history.now - 60.0)
        if node is None or not any(pool.spec.repair is not None for pool in pools):
            return False
        said = {(each.type, each.status) for each in node.value.status.conditions}
        return bool(said & (_SICK | _PRESSED))

    def _judge_node(self, name: str) -> None:
        node = next((each for each in self.history.nodes.values() if each.value.name == name), None)
        if node is None or node.value.deleting:
            return
        owners = [e.value for e in self.history.claims.values() if e.value.provider_id == node.value.provider_id]
        if any(not claim.deleting and claim.has(INITIALIZED) for claim in owners):
            self.broken(f"node {name} is deleted, and its claim stays")

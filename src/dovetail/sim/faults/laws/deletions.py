"""Every claim the controllers delete has a cause that can be seen, and no node goes before its replacement is there.

Causes: marked by a command; deleted by somebody, itself, its node or its pool; expired for good; never became a node;
its instance is gone; unhealthy in a pool that repairs; warned of by the cloud; a replacement whose
command was taken back, and that no pod came to.
"""

from dovetail.model.command import read_record
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.sim.faults.history import marked_for
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.faults.laws.causes import needs_no_command
from dovetail.sim.faults.laws.terminations import bound_before
from dovetail.sim.faults.laws.truth import needs_a_place
from dovetail.sim.world import Call


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
        if needs_no_command(claim, self.history):
            return
        if marked_for(claim) is None and self._unused_replacement(claim):
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

    def _unused_replacement(self, claim: NodeClaim) -> bool:
        """Whether it was bought for a command that takes no node away, and no pod would have to move."""
        command = claim.metadata.annotations.get("dovetail.sh/replaces")
        records = (read_record(each.value) for each in self.history.claims.values())
        node = self.history.node_of(claim)
        if command is None or node is None:
            return False
        if any(each.id == command and each.committed for each in records if each is not None):
            return False
        known_at = bound_before(node.value.name, self.history)
        pods = self.history.world.store.pods_on(node.value.name)
        return not any(needs_a_place(pod) and self.history.since.bound[pod.uid] < known_at for pod in pods)

    def _judge_node(self, name: str) -> None:
        node = next((each for each in self.history.nodes.values() if each.value.name == name), None)
        if node is None or node.value.deleting:
            return
        owners = [e.value for e in self.history.claims.values() if e.value.provider_id == node.value.provider_id]
        if any(not claim.deleting and claim.has(INITIALIZED) for claim in owners):
            self.broken(f"node {name} is deleted, and its claim stays")

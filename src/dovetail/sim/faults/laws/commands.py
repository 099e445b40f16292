"""A voluntary command deletes a NodeClaim only while what it was decided on still holds, by what the API server says.

Judged when the controllers delete the claim. The decision is final once the command is recorded as committed, so what
changed after that does not count; nor does what changed less than `GRACE` before it, or after a call was made to fail
or to take long right before it. A command must not go on when, for longer than that:

- a pod on the node is protected by do-not-disrupt, or the node itself is;
- a budget that is always in force allows no node of the pool to be disrupted for this reason;
- the pool is paused;
- the command is for drift, and the template is again the one the claim was made from;
- a PodDisruptionBudget allows no eviction of a pod on the node, and the claim has no terminationGracePeriod.

Claims that go for a reason that needs no command are excused, and so are claims of a pool that is gone.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.sim.eviction import budgets_of
from dovetail.sim.faults.history import History
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.faults.laws.causes import needs_no_command
from dovetail.sim.faults.laws.truth import allows_none, is_paused, is_protected, is_static, tolerates_disruption
from dovetail.sim.world import Call

COMMAND = "dovetail.sh/command"
TEMPLATE_LABEL = "turn"  # the only part of a template that stories change
GRACE = 5.0
SLOWED = 20.0  # seconds by which a call that was made to fail or to take long delays what follows
_VOLUNTARY = {"Empty", "Underutilized", "Drifted", "Expired"}
Fact = tuple[str, float]
"""What stands against a command, and since when."""


class CommandsStillHold(Law):
    """What changed since a command began is respected until it is committed."""

    name = "commands that no longer hold are not carried out"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._committed_at: dict[str, float] = {}

    def claim_changed(self, before: NodeClaim | None, after: NodeClaim) -> None:  # noqa: ARG002 - the record is enough
        """A command may have been committed."""
        record = _record(after)
        if record.get("committed"):
            self._committed_at.setdefault(record["id"], self.history.now)

    def about_to(self, call: Call) -> None:
        """The controllers delete a claim."""
        if call.operation != "delete" or call.kind != "NodeClaim" or call.key is None:
            return
        story = self.history.claims.get(call.key.name)
        record = _record(story.value) if story is not None else {}
        if story is None or story.value.deleting or record.get("reason") not in _VOLUNTARY:
            return
        if needs_no_command(story.value, self.history):
            return
        decided_at = self._committed_at.get(record["id"], self.history.now)
        strikes = [each for each in self.history.supervisor.trouble.strikes if 0 <= decided_at - each <= SLOWED]
        for what, since in self._against(story.value, record["reason"]):
            if since < min([decided_at, *strikes]) - GRACE:
                ago = decided_at - since
                self.broken(f"{story.value.name} is deleted as {record['reason']}, and for {ago:.0f} s {what}")

    def _against(self, claim: NodeClaim, reason: str) -> Iterator[Fact]:
        yield from self._pool_facts(claim, reason)
        node = self.history.node_of(claim)
        if node is not None:
            since = self.history.since.guarded_nodes.get(node.value.metadata.uid)
            if since is not None:
                yield f"{node.value.name} is annotated do-not-disrupt", since
            yield from self._pod_facts(claim, node.value.name)

    def _pool_facts(self, claim: NodeClaim, reason: str) -> Iterator[Fact]:
        pool, made_from = claim.nodepool_name, claim.metadata.labels.get(TEMPLATE_LABEL)

        def reverted(version: NodePool) -> bool:
            return version.spec.template.metadata.labels.get(TEMPLATE_LABEL) == made_from

        checks: list[tuple[str, Callable[[NodePool], bool]]] = [
            (f"{pool} has a budget of 0", lambda version: allows_none(version, reason)),
            (f"{pool} is paused", is_paused),
        ]
        if reason == "Drifted":
            checks.append((f"the template of {pool} is the one it was made from", reverted))
        for what, check in checks:
            since = self._pool_since(pool, check)
            if since is not None:
                yield what, since

    def _pool_since(self, pool: str, check: Callable[[NodePool], bool]) -> float | None:
        """Since when every version of the pool passes the check; None if the last one does not."""
        since: float | None = None
        for at, version in reversed(self.history.pools.get(pool, [])):
            if version.deleting or not check(version):
                break
            since = at
        return since

    def _pod_facts(self, claim: NodeClaim, node: str) -> Iterator[Fact]:
        history = self.history
        for pod in history.world.store.pods_on(node):
            guarded = history.since.guarded.get(pod.uid)
            if guarded is not None and is_protected(pod, history.instants()):
                bounded = ", though its drain is bounded" if claim.spec.termination_grace_period is not None else ""
                yield f"{pod.key} on it is protected{bounded}", guarded
            counted = pod.ready and pod.active and not is_static(pod) and not tolerates_disruption(pod)
            if not counted or claim.spec.termination_grace_period is not None:
                continue
            for budget in budgets_of(history.world.store, pod):
                since = history.since.exhausted.get(budget.uid)
                if since is not None:
                    bound_at = history.since.bound[pod.uid]
                    yield f"{budget.key} allows no eviction of {pod.key} on it", max(since, bound_at)


def _record(claim: NodeClaim) -> dict[str, Any]:
    """What a command wrote on the claim, or nothing."""
    written = claim.metadata.annotations.get(COMMAND)
    return dict(json.loads(written)) if written else {}

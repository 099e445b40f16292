"""A voluntary command deletes a NodeClaim only while what it was decided on still holds, by what the API server says.

Judged when the controllers delete the claim. The decision is final once the command is recorded as committed, so what
changed after that does not count; nor does what changed less than `GRACE` before it, or after a call was made to fail
or to take long right before it. A command must not go on when, for longer than that:

- a pod on the node is protected by do-not-disrupt, or the node itself is;
- a budget that is always in force allows no node of the pool to be disrupted for this reason;
- the pool is paused, by its annotation or by the ConfigMap, or its policy does not take this node any more;
- the command is for drift, and the template is again the one the claim was made from;
- a PodDisruptionBudget allows no eviction of a pod on the node, and the claim has no terminationGracePeriod.

Claims that go for a reason that needs no command are excused, and so are claims of a pool that is gone.
"""

from collections.abc import Callable, Iterator

from dovetail.sim.kubernetes.kinds import PDB
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.deletions import needs_no_command
from dovetail.sim.torture.invariants.disruption_settings import VOLUNTARY, allowed, disruption_of, only_when_empty
from dovetail.sim.torture.invariants.objects import ClaimView, is_protected, is_static, tolerates_disruption
from dovetail.sim.torture.invariants.readers import Plain, is_paused, selects
from dovetail.sim.world import ApiCall

TEMPLATE_LABEL = "turn"  # the only part of a template that stories change
GRACE = 5.0
SLOWED = 20.0  # seconds by which a call that was made to fail or to take long delays what follows
Fact = tuple[str, float]
"""What stands against a command, and since when."""


class CommandsStillHold(Invariant):
    """What changed since a command began is respected until it is committed."""

    name = "commands that no longer hold are not carried out"

    def about_to(self, call: ApiCall) -> None:
        """The controllers delete a claim."""
        if call.operation != "delete" or call.kind != "NodeClaim" or call.key is None:
            return
        story = self.history.claims.get(call.key.name)
        if story is None or story.value.deleting or story.value.command.get("reason") not in VOLUNTARY:
            return
        claim = story.value
        if needs_no_command(claim, self.history):
            return
        committed_at = self.history.commands[claim.command["id"]].committed_at
        decided_at = self.history.now if committed_at is None else committed_at
        strikes = [each for each in self.history.supervisor.trouble.strikes if 0 <= decided_at - each <= SLOWED]
        for what, since in self._against(claim, claim.command["reason"]):
            if since < min([decided_at, *strikes]) - GRACE:
                ago = decided_at - since
                self.broken(f"{claim.name} is deleted as {claim.command['reason']}, and for {ago:.0f} s {what}")

    def _against(self, claim: ClaimView, reason: str) -> Iterator[Fact]:
        yield from self._pool_facts(claim, reason)
        node = self.history.node_of(claim)
        if node is not None:
            since = self.history.since.guarded_nodes.get(node.value.uid)
            if since is not None:
                yield f"{node.value.name} is annotated do-not-disrupt", since
            yield from self._pod_facts(claim, node.value.name)

    def _pool_facts(self, claim: ClaimView, reason: str) -> Iterator[Fact]:
        pool, made_from = claim.pool, claim.labels.get(TEMPLATE_LABEL)
        now, instants = self.history.world.clock.now(), self.history.instants()

        def reverted(version: Plain) -> bool:
            labels = version["spec"]["template"].get("metadata", {}).get("labels") or {}
            return bool(labels.get(TEMPLATE_LABEL) == made_from)

        def forbids(version: Plain) -> bool:
            return not _has_window(disruption_of(version)) and allowed(version, reason, 1, now) == 0

        def pauses(version: Plain) -> bool:
            return all(is_paused(version, each) for each in instants)

        checks: list[tuple[str, Callable[[Plain], bool]]] = [
            (f"{pool} has a budget of 0", forbids),
            (f"{pool} is paused", pauses),
        ]
        if reason == "Drifted":
            checks.append((f"the template of {pool} is the one it was made from", reverted))
        if reason == "Underutilized":
            checks.append((f"{pool} takes empty nodes alone", only_when_empty))
        pool_versions = self.history.pools.get(pool, [])
        facts = [(what, _since(pool_versions, check)) for what, check in checks]
        facts.append(("the ConfigMap pauses every NodePool", _since(self.history.pause_config_maps, pauses)))
        yield from ((what, since) for what, since in facts if since is not None)

    def _pod_facts(self, claim: ClaimView, node: str) -> Iterator[Fact]:
        history = self.history
        for pod in history.pods_on(node):
            guarded = history.since.guarded.get(pod.uid)
            if guarded is not None and is_protected(pod, history.instants()):
                bounded = ", though its drain is bounded" if claim.bounded else ""
                yield f"{pod.key} on it is protected{bounded}", guarded
            counted = pod.ready and pod.active and not is_static(pod) and not tolerates_disruption(pod)
            if not counted or claim.bounded:
                continue
            for budget in history.world.store.all(PDB):
                since = history.since.exhausted.get(budget.uid)
                same = budget.key.namespace == pod.key.namespace
                if since is not None and same and selects(budget.plain["spec"].get("selector"), pod.meta.get("labels")):
                    bound_at = history.since.bound[pod.uid]
                    yield f"{budget.key} allows no eviction of {pod.key} on it", max(since, bound_at)


def _since(versions: list[tuple[float, Plain]], check: Callable[[Plain], bool]) -> float | None:
    """Since when every version of an object passes the check; None if the last one does not."""
    since: float | None = None
    for at, version in reversed(versions):
        if "deletionTimestamp" in version["metadata"] or not check(version):
            break
        since = at
    return since


def _has_window(disruption: Plain) -> bool:
    """Whether a budget holds at some times only: then it is not told here since when one of 0 was in force."""
    controls = (disruption.get("actionControls") or {}).values()
    lists = [disruption.get("budgets"), *(each.get("budgets") for each in controls)]
    return any("schedule" in budget for budgets in lists for budget in budgets or ())

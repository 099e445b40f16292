"""Invariant: a voluntary command deletes a NodeClaim only while the conditions for the command still hold.

Checked when the controllers delete the NodeClaim, against the objects of the API server. A command is final once it is
recorded as committed, so later changes do not count. Nor do changes less than `REACTION_SECONDS` before the commit, or
before a failed or delayed call shortly before the commit. For longer than that, none of these may be true:

- do-not-disrupt protects the node or a pod on it;
- a budget without a schedule allows no disruption of the pool for this reason;
- the pool is paused by its annotation or by the ConfigMap, or its policy no longer covers the node;
- the command is for drift, and the template is again the one that the NodeClaim was created from;
- a PodDisruptionBudget allows no eviction of a pod on the node, and the NodeClaim has no terminationGracePeriod.

NodeClaims that are deleted for a reason that needs no command, and those of a deleted pool, are not checked.
"""

from collections.abc import Callable, Iterator

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.deletions import needs_no_command
from dovetail.sim.torture.invariants.disruption_settings import (
    VOLUNTARY,
    allowed_disruptions,
    disruption_of,
    only_when_empty,
)
from dovetail.sim.torture.invariants.objects import ClaimView, is_protected, is_static, tolerates_disruption
from dovetail.sim.torture.invariants.readers import Plain, is_paused
from dovetail.sim.world import ApiCall

TEMPLATE_LABEL = "turn"  # the only part of a template that trials change
REACTION_SECONDS = 5.0
FAULT_DELAY_SECONDS = 20.0  # how long a failed or delayed call may hold up the following steps
Obstacle = tuple[str, float]
"""Why a command must not continue, and since when."""


class CommandsStillHold(Invariant):
    """A command respects changes until it is committed."""

    name = "commands that no longer hold are not carried out"

    def before_call(self, call: ApiCall) -> None:
        """Check the obstacles of a command that deletes a NodeClaim."""
        claim = self.deleted_claim(call)
        if claim is None or claim.command.get("reason") not in VOLUNTARY or needs_no_command(claim, self.observer):
            return
        reason = claim.command["reason"]
        committed_at = self.observer.commands[claim.command["id"]].committed_at
        decided_at = self.observer.now if committed_at is None else committed_at
        fault_times = self.observer.supervisor.fault_injector.fault_times
        delayed_since = min(
            (each for each in fault_times if 0 <= decided_at - each <= FAULT_DELAY_SECONDS), default=decided_at
        )
        for obstacle, since in self._obstacles(claim, reason):
            if since < delayed_since - REACTION_SECONDS:
                self.report(f"{claim.name} is deleted as {reason}, but for {decided_at - since:.0f} s {obstacle}")

    def _obstacles(self, claim: ClaimView, reason: str) -> Iterator[Obstacle]:
        yield from self._pool_obstacles(claim, reason)
        node = self.observer.node_of(claim)
        if node is not None:
            since = self.observer.since.protected_nodes.get(node.value.uid)
            if since is not None:
                yield f"{node.value.name} is annotated do-not-disrupt", since
            yield from self._pod_obstacles(claim, node.value.name)

    def _pool_obstacles(self, claim: ClaimView, reason: str) -> Iterator[Obstacle]:
        pool, created_from = claim.pool, claim.labels.get(TEMPLATE_LABEL)
        now, clock_readings = self.observer.world.clock.now(), self.observer.clock_readings()

        def is_reverted(version: Plain) -> bool:
            labels = version["spec"]["template"].get("metadata", {}).get("labels") or {}
            return bool(labels.get(TEMPLATE_LABEL) == created_from)

        def forbids(version: Plain) -> bool:
            return not _has_window(disruption_of(version)) and allowed_disruptions(version, reason, 1, now) == 0

        def pauses(version: Plain) -> bool:
            return all(is_paused(version, each) for each in clock_readings)

        checks: list[tuple[str, Callable[[Plain], bool]]] = [
            (f"{pool} has a budget of 0", forbids),
            (f"{pool} is paused", pauses),
        ]
        if reason == "Drifted":
            checks.append((f"the template of {pool} is the one that the NodeClaim was created from", is_reverted))
        if reason == "Underutilized":
            checks.append((f"{pool} consolidates empty nodes only", only_when_empty))
        pool_versions = self.observer.pools.get(pool, [])
        obstacles = [(what, _holds_since(pool_versions, check)) for what, check in checks]
        obstacles.append(("the ConfigMap pauses every NodePool", _holds_since(self.observer.pause_config_maps, pauses)))
        yield from ((what, since) for what, since in obstacles if since is not None)

    def _pod_obstacles(self, claim: ClaimView, node: str) -> Iterator[Obstacle]:
        observer = self.observer
        bounded = claim.has_termination_grace_period
        for pod in observer.pods_on(node):
            protected_since = observer.since.protected.get(pod.uid)
            if protected_since is not None and is_protected(pod, observer.clock_readings()):
                note = ", though the NodeClaim has a terminationGracePeriod" if bounded else ""
                yield f"{pod.key} on it is protected{note}", protected_since
            evictable = pod.ready and pod.active and not is_static(pod) and not tolerates_disruption(pod)
            if not evictable or bounded:
                continue
            for budget in observer.pdbs_of(pod):
                since = observer.since.exhausted.get(budget.uid)
                if since is not None:
                    bound_at = observer.since.bound[pod.uid]
                    yield f"{budget.key} allows no eviction of {pod.key} on it", max(since, bound_at)


def _holds_since(versions: list[tuple[float, Plain]], check: Callable[[Plain], bool]) -> float | None:
    """Since when every version of an object passes the check; None if the last one does not."""
    since: float | None = None
    for at, version in reversed(versions):
        if "deletionTimestamp" in version["metadata"] or not check(version):
            break
        since = at
    return since


def _has_window(disruption: Plain) -> bool:
    """Whether a budget has a schedule: versions of the pool do not show since when its limit applies."""
    controls = (disruption.get("actionControls") or {}).values()
    lists = [disruption.get("budgets"), *(each.get("budgets") for each in controls)]
    return any("schedule" in budget for budgets in lists for budget in budgets or ())

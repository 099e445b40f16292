"""Bugs that are planted by hand, each in the path of an invariant. `patch` is pytest's monkeypatch."""

from dataclasses import replace

from dovetail.cli import torture
from dovetail.controllers import (
    commit_check,
    departure,
    eviction,
    executor,
    garbage,
    lifecycle,
    provisioning,
    termination,
)
from dovetail.controllers.context import Context
from dovetail.core.disruption import candidates, context, progress, recheck
from dovetail.core.disruption.allowance import Allowance
from dovetail.core.disruption.backoff import FailedCommands
from dovetail.core.disruption.methods import consolidating, drift, emptiness, expiration
from dovetail.core.disruption.waits import OVER
from dovetail.core.lifecycle import drain, repair
from dovetail.core.lifecycle.liveness import Liveness
from dovetail.core.scheduling.limits import Limits
from dovetail.model import snapshot
from dovetail.model.budget import Budget, Window
from dovetail.model.kinds import NODE, POD
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodepool import NodePool
from dovetail.model.protection import UNPROTECTED, protection
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cluster import Listing, Patch
from dovetail.runtime.leadership import Election
from dovetail.sim import eviction as eviction_api
from dovetail.sim.cloud.service import SimulatedCloud


def budgets_are_ignored(patch):
    patch.setattr(context, "allowance", lambda *_: Allowance(limit=None, disrupting=0))


def a_marked_node_that_vanishes_is_forgotten(patch):
    patch.setattr(ClusterNode, "counted", property(lambda found: found.initialized and not found.claim.deleting))


def protection_is_ignored_by_the_drain(patch):
    patch.setattr(drain, "protection", lambda *_: UNPROTECTED)
    patch.setattr(eviction, "protection", lambda *_: UNPROTECTED)


def protection_is_ignored_by_the_planner(patch):
    patch.setattr(candidates, "protection", lambda *_: UNPROTECTED)
    patch.setattr(candidates, "longest_first", lambda *_: [])


def pods_are_deleted_instead_of_evicted(patch):
    async def evict(queue, pod, errand):
        await queue._context.cluster.delete(POD, pod.key)

    patch.setattr(eviction.EvictionQueue, "_evict", evict)


def nobody_waits_for_pods(patch):
    patch.setattr(departure, "plan_drain", lambda *_: drain.Drain((), (), ()))


def limits_are_ignored(patch):
    patch.setattr(Limits, "of", classmethod(lambda cls, _snapshot: cls({})))


def every_node_is_taken_for_a_dear_one(patch):
    patch.setattr(candidates, "node_price", lambda *_: 100.0)


def a_rollback_leaves_everything(patch):
    async def nothing(*_):
        return None

    patch.setattr(executor, "release", nothing)


def claims_that_never_register_are_kept(patch):
    patch.setattr(lifecycle, "judge_liveness", lambda *_: Liveness())


def lost_machines_are_never_noticed(patch):
    patch.setattr(garbage, "lost_claims", lambda _: ())
    patch.setattr(garbage, "nodeless_claims", lambda _: ())


def a_drain_goes_on_whatever_became_of_the_machine(patch):
    async def there(*_):
        return False

    patch.setattr(termination.Termination, "_instance_is_gone", there)


def drained_nodes_are_never_let_go(patch):
    patch.setattr(termination, "finalizer_removed", lambda *_: {})


def nobody_launches_for_pods_that_were_displaced(patch):
    real = provisioning.plan_provisioning

    def forgetful(snapshot, **kept):
        plan = real(snapshot, **kept)
        return replace(plan, launches=plan.launches if not snapshot.nodes else ())

    patch.setattr(provisioning, "plan_provisioning", forgetful)


def nodes_go_before_their_replacements_are_ready(patch):
    def hasty(state, **_):
        return progress.Verdict(
            progress.Next.DONE if all(c.deleting for c in state.candidates) else progress.Next.DELETE
        )

    patch.setattr(executor, "judge", hasty)


def commands_never_end(patch):
    patch.setattr(executor, "judge", lambda *_, **__: progress.Verdict(progress.Next.WAIT))


def healthy_machines_are_taken_for_lost(patch):
    async def gone(*_):
        return True

    patch.setattr(garbage, "nothing_is_left", lambda *_: False)
    patch.setattr(garbage, "lost_claims", lambda held: held.claims)
    patch.setattr(garbage.GarbageCollection, "_is_gone", gone)


def nobody_notices_that_the_lease_ran_out(patch):
    patch.setattr(Election, "holds", lambda election: election._ends > float("-inf"))
    patch.setattr(Election, "left", property(lambda _: 1.0))


def the_last_list_of_pods_comes_from_the_cache(patch):
    async def cached(found, node_name):
        pods = [pod for pod in found.state.pods.items.values() if pod.node_name == node_name]
        return Listing(tuple(pods), "")

    patch.setattr(Context, "read_pods", cached)


def commands_are_not_checked_again(patch):
    async def nothing(*_):
        return {}

    patch.setattr(commit_check.CommitCheck, "find_obstacles", nothing)


def commands_that_are_taken_back_start_again_at_once(patch):
    async def always(_, state, *__):
        return {claim.name: Refusal("Budget", claim.name, "planted", permanent=True) for claim in state.candidates}

    patch.setattr(commit_check.CommitCheck, "find_obstacles", always)
    patch.setattr(executor, "after_failure", lambda _, now: FailedCommands(1, now))


def budget_percentages_are_read_as_all(patch):
    patch.setattr(Budget, "limit", lambda budget, total: total if budget.count is None else budget.count)


def windows_of_budgets_are_ignored(patch):
    patch.setattr(Window, "open_at", lambda *_: False)


def consolidate_after_is_ignored(patch):
    patch.setattr(consolidating, "consolidation_wait", lambda *_: OVER)
    patch.setattr(emptiness, "emptiness_wait", lambda *_: OVER)


def the_grace_period_of_consolidation_is_ignored(patch):
    patch.setattr(consolidating, "grace_wait", lambda *_: OVER)


def disrupt_after_of_drift_is_ignored(patch):
    patch.setattr(drift, "drift_wait", lambda *_: OVER)


def soft_expiration_comes_at_once(patch):
    patch.setattr(expiration, "expiration_wait", lambda *_: OVER)


def pools_that_never_consolidate_do(patch):
    consolidate_after_is_ignored(patch)
    patch.setattr(consolidating, "disabled", lambda *_: None)
    patch.setattr(emptiness, "disabled", lambda *_: None)


def when_empty_is_ignored(patch):
    patch.setattr(NodePool, "consolidation_policy", property(lambda _: "WhenEmptyOrUnderutilized"))


def unreadable_protection_protects_nothing(patch):
    def lenient(pod, now):
        written = pod.metadata.annotations.get(DO_NOT_DISRUPT)
        return protection(pod, now) if written == "true" else UNPROTECTED

    patch.setattr(drain, "protection", lenient)
    patch.setattr(eviction, "protection", lenient)


def protection_of_nodes_is_ignored(patch):
    patch.setattr(candidates, "DO_NOT_DISRUPT", "-")
    patch.setattr(recheck, "DO_NOT_DISRUPT", "-")


def pods_are_forced_only_at_the_deadline(patch):
    def late(_, now, deadline):
        return deadline is not None and now >= deadline

    patch.setattr(drain, "must_be_forced", late)
    patch.setattr(eviction, "must_be_forced", late)


def instances_are_never_terminated(patch):
    async def ended(*_):
        return True

    patch.setattr(departure.Departure, "_is_ended", ended)
    patch.setattr(garbage.GarbageCollection, "_leaked", lambda *_: [])


def forced_pods_get_no_grace(patch):
    patch.setattr(eviction, "grace_left", lambda *_: 0)


def forced_pods_get_a_second(patch):
    patch.setattr(eviction, "grace_left", lambda *_: 1)


def drains_know_no_tiers(patch):
    patch.setattr(drain, "tier_of", lambda _: drain.Tier.PODS)


def volumes_are_torn_off(patch):
    patch.setattr(departure.Departure, "_attached", lambda *_: ())


def the_eviction_api_knows_no_budgets(patch):
    patch.setattr(eviction_api, "budgets_of", lambda *_: [])


def toleration_of_repair_is_ignored(patch):
    patch.setattr(repair.Ailment, "due_at", property(lambda ailment: ailment.since))


def repair_knows_no_breaker(patch):
    patch.setattr(repair.Breaker, "open", property(lambda _: False))


def pauses_are_ignored(patch):
    patch.setattr(snapshot, "read_pause", lambda *_: None)
    patch.setattr(executor, "read_pause", lambda *_: None)


def a_dry_run_acts(patch):
    real = torture.launch
    patch.setattr(torture, "launch", lambda cluster, clock, **_: real(cluster, clock))


def nodes_are_patched_without_a_version(patch):
    async def careless(found, node, body):
        return found.state.observe(NODE, await found.cluster.patch(NODE, node.key, Patch(body)))

    patch.setattr(Context, "patch_node", careless)


def a_repeated_launch_does_not_find_the_first(patch):
    patch.setattr(SimulatedCloud, "find", lambda *_: None)

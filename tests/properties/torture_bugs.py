"""Bugs for `test_torture_mutations`, each of which violates an invariant. `patch` is the monkeypatch of pytest."""

from dataclasses import replace

from dovetail.cli import torture
from dovetail.controllers import (
    command_steps,
    disruption,
    disruption_queue,
    eviction_queue,
    garbage_collection,
    node_opening,
    nodeclaim_lifecycle,
    provisioner,
    termination,
    termination_steps,
)
from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.command_steps import CommitCheck
from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption import candidates, command_progress, pass_context
from dovetail.core.disruption.budgets import BudgetAllowance
from dovetail.core.disruption.command_progress import FailedCommands
from dovetail.core.disruption.delays import OVER
from dovetail.core.disruption.methods import consolidation, drift, emptiness, expiration
from dovetail.core.lifecycle import drain, repair
from dovetail.core.lifecycle.registration import Liveness
from dovetail.core.scheduling.nodepool_limits import RemainingLimits
from dovetail.core.scheduling.pod_shapes import left_of
from dovetail.core.scheduling.problem import Problem
from dovetail.model import snapshot
from dovetail.model.budget import Budget, BudgetWindow
from dovetail.model.do_not_disrupt import UNPROTECTED, protection
from dovetail.model.kinds import NODE, POD
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodepool import NodePool
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cluster import Listing, Patch
from dovetail.runtime.leader_election import LeaderElection
from dovetail.sim.cloud.service import SimulatedCloud
from dovetail.sim.kubernetes import pdb_controller


def budgets_are_ignored(patch):
    patch.setattr(pass_context, "allowance", lambda *_: BudgetAllowance(limit=None, disrupting=0))


def a_marked_node_that_vanishes_is_not_counted(patch):
    patch.setattr(ClusterNode, "counted", property(lambda found: found.initialized and not found.claim.deleting))


def protection_is_ignored_by_the_drain(patch):
    patch.setattr(drain, "protection", lambda *_: UNPROTECTED)
    patch.setattr(eviction_queue, "protection", lambda *_: UNPROTECTED)


def protection_is_ignored_by_the_planner(patch):
    patch.setattr(candidates, "protection", lambda *_: UNPROTECTED)
    patch.setattr(candidates, "longest_first", lambda *_: [])


def pods_are_deleted_instead_of_evicted(patch):
    async def evict(queue, pod, request):
        await queue._context.cluster.delete(POD, pod.key)

    patch.setattr(eviction_queue.EvictionQueue, "_evict", evict)


def drains_do_not_wait_for_pods(patch):
    patch.setattr(termination_steps, "plan_drain", lambda *_: drain.DrainPlan((), (), ()))


def limits_are_ignored(patch):
    patch.setattr(RemainingLimits, "of", classmethod(lambda cls, _snapshot: cls({})))


def every_node_is_considered_expensive(patch):
    patch.setattr(candidates, "node_price", lambda *_: 100.0)


def a_rollback_removes_nothing(patch):
    async def nothing(*_):
        return None

    patch.setattr(disruption_queue, "unmark_candidates", nothing)


def claims_that_never_register_are_kept(patch):
    patch.setattr(nodeclaim_lifecycle, "judge_liveness", lambda *_: Liveness())


def lost_instances_are_never_detected(patch):
    patch.setattr(garbage_collection, "lost_claims", lambda _: ())
    patch.setattr(garbage_collection, "nodeless_claims", lambda _: ())


def drains_continue_after_their_instance_is_lost(patch):
    async def there(*_):
        return False

    patch.setattr(termination.TerminationController, "_instance_is_gone", there)


def finalizers_of_drained_nodes_are_never_removed(patch):
    patch.setattr(termination, "finalizer_removed", lambda *_: {})


def nothing_is_launched_for_evicted_pods(patch):
    real = provisioner.plan_provisioning

    def forgetful(snapshot, options, **kept):
        plan = real(snapshot, options, **kept)
        return replace(plan, launches=plan.launches if not snapshot.nodes else ())

    patch.setattr(provisioner, "plan_provisioning", forgetful)


def nodes_are_deleted_before_their_replacements_are_ready(patch):
    def hasty(state, **_):
        return command_progress.ProgressVerdict(
            command_progress.NextStep.DONE
            if all(c.deleting for c in state.candidates)
            else command_progress.NextStep.DELETE
        )

    patch.setattr(disruption_queue, "judge", hasty)


def commands_never_end(patch):
    patch.setattr(
        disruption_queue, "judge", lambda *_, **__: command_progress.ProgressVerdict(command_progress.NextStep.WAIT)
    )


def healthy_instances_are_considered_lost(patch):
    async def gone(*_):
        return True

    patch.setattr(garbage_collection, "has_no_leftovers", lambda *_: False)
    patch.setattr(garbage_collection, "lost_claims", lambda held: held.claims)
    patch.setattr(garbage_collection.GarbageCollection, "_instance_is_gone", gone)


def an_expired_lease_still_counts(patch):
    patch.setattr(LeaderElection, "holds", lambda election: election._held_until > float("-inf"))
    patch.setattr(LeaderElection, "remaining", property(lambda _: 1.0))


def the_last_list_of_pods_is_read_from_the_cache(patch):
    async def cached(found, node_name):
        pods = [pod for pod in found.state.pods.items.values() if pod.node_name == node_name]
        return Listing(tuple(pods), "")

    patch.setattr(ControllerContext, "read_pods", cached)


def commands_are_not_validated_before_the_commit(patch):
    async def nothing(*_):
        return {}

    patch.setattr(command_steps.CommitCheck, "find_obstacles", nothing)


def rolled_back_commands_restart_immediately(patch):
    async def always(_, state, *__):
        code = RefusalCode.DO_NOT_DISRUPT_NODE
        return {claim.name: Refusal(code, node_ref(claim.name), permanent=True) for claim in state.candidates}

    patch.setattr(command_steps.CommitCheck, "find_obstacles", always)
    patch.setattr(disruption_queue, "after_failure", lambda _, now: FailedCommands(1, now))


def budget_percentages_allow_all_nodes(patch):
    patch.setattr(Budget, "limit", lambda budget, total: total if budget.count is None else budget.count)


def windows_of_budgets_are_ignored(patch):
    patch.setattr(BudgetWindow, "open_at", lambda *_: False)


def consolidate_after_is_ignored(patch):
    patch.setattr(consolidation, "consolidation_wait", lambda *_: OVER)
    patch.setattr(emptiness, "emptiness_wait", lambda *_: OVER)


def the_grace_period_of_consolidation_is_ignored(patch):
    patch.setattr(consolidation, "grace_wait", lambda *_: OVER)


def the_cool_down_of_moved_pods_is_ignored(patch):
    patch.setattr(consolidation, "cool_down", lambda *_: OVER)


def nodes_are_never_opened(patch):
    async def reconcile(*_):
        return None

    patch.setattr(node_opening.NodeOpening, "reconcile", reconcile)


def all_nodes_are_marked_as_removed_next(patch):
    real = disruption.removed_next_patch
    patch.setattr(disruption, "removed_next_patch", lambda node, **_: real(node, wanted=True))


def destinations_inside_their_grace_period_are_used(patch):
    patch.setattr(pass_context.PassContext, "_recently_active_nodes", frozenset())


def nodes_of_commands_take_pods_that_tolerate_their_taint(patch):
    def free_on(found, row):
        node = found.existing_nodes.nodes[row]
        return left_of(node, found.bound_pods[row], found.units)

    patch.setattr(Problem, "_free_on", free_on)


def disrupt_after_of_drift_is_ignored(patch):
    patch.setattr(drift, "drift_wait", lambda *_: OVER)


def soft_expiration_is_immediate(patch):
    patch.setattr(expiration, "expiration_wait", lambda *_: OVER)


def consolidate_after_never_is_ignored(patch):
    consolidate_after_is_ignored(patch)
    patch.setattr(consolidation, "disabled", lambda *_: None)
    patch.setattr(emptiness, "disabled", lambda *_: None)


def when_empty_is_ignored(patch):
    patch.setattr(NodePool, "consolidation_policy", property(lambda _: "WhenEmptyOrUnderutilized"))


def unreadable_protection_protects_nothing(patch):
    def lenient(pod, now):
        written = pod.metadata.annotations.get(DO_NOT_DISRUPT)
        return protection(pod, now) if written == "true" else UNPROTECTED

    patch.setattr(drain, "protection", lenient)
    patch.setattr(eviction_queue, "protection", lenient)


def protection_of_nodes_is_ignored(patch):
    patch.setattr(candidates, "DO_NOT_DISRUPT", "-")


def pods_are_forced_only_at_the_deadline(patch):
    def late(_, now, deadline):
        return deadline is not None and now >= deadline

    patch.setattr(drain, "must_be_forced", late)
    patch.setattr(eviction_queue, "must_be_forced", late)


def instances_are_never_terminated(patch):
    async def ended(*_):
        return True

    patch.setattr(termination_steps.NodeTermination, "_is_terminated", ended)
    patch.setattr(garbage_collection.GarbageCollection, "_leaked", lambda *_: [])


def forced_pods_get_no_grace(patch):
    patch.setattr(eviction_queue, "grace_left", lambda *_: 0)


def forced_pods_get_one_second(patch):
    patch.setattr(eviction_queue, "grace_left", lambda *_: 1)


def drains_ignore_tiers(patch):
    patch.setattr(drain, "tier_of", lambda _: drain.Tier.PODS)


def volumes_are_not_detached(patch):
    patch.setattr(termination_steps.NodeTermination, "_attached", lambda *_: ())


def the_eviction_api_ignores_budgets(patch):
    patch.setattr(pdb_controller, "budgets_of", lambda *_: [])


def toleration_of_repair_is_ignored(patch):
    patch.setattr(repair.UnhealthyCondition, "due_at", property(lambda unhealthy_condition: unhealthy_condition.since))


def repair_ignores_the_share_of_unhealthy_nodes(patch):
    patch.setattr(repair.Breaker, "open", property(lambda _: False))


def pauses_are_ignored(patch):
    patch.setattr(snapshot, "read_pause", lambda *_: None)
    patch.setattr(disruption_queue, "read_pause", lambda *_: None)


def the_pause_of_all_pools_is_ignored(patch):
    patch.setattr(ClusterState, "pause", property(lambda _: None))


def the_pause_of_all_pools_is_not_read_before_the_commit(patch):
    real = CommitCheck.find_obstacles

    async def cached(check, *arguments):
        with patch.context() as inner:
            inner.setattr(ClusterState, "observe_all", lambda *_: None)
            return await real(check, *arguments)

    patch.setattr(CommitCheck, "find_obstacles", cached)


def a_dry_run_writes(patch):
    real = torture.start_controllers
    patch.setattr(torture, "start_controllers", lambda cluster, clock, **_: real(cluster, clock))


def nodes_are_patched_without_a_version(patch):
    async def careless(found, node, body):
        return found.state.observe(NODE, await found.cluster.patch(NODE, node.key, Patch(body)))

    patch.setattr(ControllerContext, "patch_node", careless)


def a_repeated_launch_creates_a_second_instance(patch):
    patch.setattr(SimulatedCloud, "find", lambda *_: None)

"""A torture that finds nothing proves nothing: for each law, a bug in its path, planted by hand, must be found."""

from dataclasses import replace

import pytest

from dovetail.cli.torture import tell_seed
from dovetail.controllers import departure, eviction, executor, garbage, lifecycle, provisioning, termination
from dovetail.core.disruption import candidates, context, progress
from dovetail.core.disruption.allowance import Allowance
from dovetail.core.lifecycle import drain
from dovetail.core.lifecycle.liveness import Liveness
from dovetail.core.scheduling.limits import Limits
from dovetail.model.kinds import POD
from dovetail.model.protection import UNPROTECTED
from dovetail.runtime.leadership import Election

WITHIN = 12  # stories


def budgets_are_ignored(patch):
    patch.setattr(context, "allowance", lambda *_: Allowance(limit=None, disrupting=0))


def protection_is_ignored_by_the_drain(patch):
    patch.setattr(drain, "protection", lambda *_: UNPROTECTED)
    patch.setattr(eviction, "protection", lambda *_: UNPROTECTED)


def protection_is_ignored_by_the_planner(patch):
    patch.setattr(candidates, "protection", lambda *_: UNPROTECTED)


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

    patch.setattr(executor.Executor, "_release", nothing)


def claims_that_never_register_are_kept(patch):
    patch.setattr(lifecycle, "judge_liveness", lambda *_: Liveness())


def lost_machines_are_never_noticed(patch):
    patch.setattr(garbage, "lost_claims", lambda _: ())


def drained_nodes_are_never_let_go(patch):
    patch.setattr(termination, "finalizer_removed", lambda *_: {})


def nobody_launches_for_pods_that_were_displaced(patch):
    real = provisioning.plan_provisioning

    def forgetful(snapshot):
        plan = real(snapshot)
        return replace(plan, launches=plan.launches if not snapshot.nodes else ())

    patch.setattr(provisioning, "plan_provisioning", forgetful)


def nodes_go_before_their_replacements_are_ready(patch):
    def hasty(state, *, planned, now):
        return progress.Verdict(
            progress.Next.DONE if all(c.deleting for c in state.candidates) else progress.Next.DELETE
        )

    patch.setattr(executor, "judge", hasty)


def commands_never_end(patch):
    patch.setattr(executor, "judge", lambda *_, **__: progress.Verdict(progress.Next.WAIT))


def healthy_machines_are_taken_for_lost(patch):
    async def gone(*_):
        return True

    patch.setattr(garbage, "lost_claims", lambda held: held.claims)
    patch.setattr(garbage.GarbageCollection, "_is_gone", gone)


def nobody_notices_that_the_lease_ran_out(patch):
    patch.setattr(Election, "holds", lambda election: election._ends > float("-inf"))
    patch.setattr(Election, "left", property(lambda _: 1.0))


MUTATIONS = (
    (budgets_are_ignored, "budgets are never exceeded", 1),
    (protection_is_ignored_by_the_drain, "protected pods are never evicted", 0),
    (protection_is_ignored_by_the_planner, "protected pods are never evicted", 0),
    (pods_are_deleted_instead_of_evicted, "disruption budgets are never violated", 0),
    (nobody_waits_for_pods, "disruption budgets are never violated", 0),
    (limits_are_ignored, "limits of NodePools are kept", 6),
    (every_node_is_taken_for_a_dear_one, "consolidation never raises cost", 30),
    (a_rollback_leaves_everything, "no mark is left behind", 19),
    (claims_that_never_register_are_kept, "no instance and no claim leaks", 2),
    (lost_machines_are_never_noticed, "no instance and no claim leaks", 2),
    (drained_nodes_are_never_let_go, "the system settles", 1),
    (nobody_launches_for_pods_that_were_displaced, "no pod is lost", 6),
    (nodes_go_before_their_replacements_are_ready, "every deletion has a cause", 2),
    (healthy_machines_are_taken_for_lost, "every deletion has a cause", 0),
    (commands_never_end, "no mark is left behind", 0),
    (nobody_notices_that_the_lease_ran_out, "never two act at once", 2),
)


@pytest.mark.parametrize(("bug", "law", "first"), MUTATIONS, ids=[bug.__name__ for bug, _, _ in MUTATIONS])
def test_a_planted_bug_is_found(bug, law, first, monkeypatch):
    bug(monkeypatch)
    found = set()
    for seed in range(first, first + WITHIN):
        found |= {each.law for each in tell_seed(seed).violations}
        if law in found:
            return
    pytest.fail(f"{WITHIN} stories did not find it, only {found or 'nothing'}")

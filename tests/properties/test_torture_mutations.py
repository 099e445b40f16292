"""A torture that finds nothing proves nothing: for each law, a bug in its path, planted by hand, must be found.

What every other story meets is found in stories drawn from a few seeds; for what is rare there is one written for it.
"""

from dataclasses import replace

import pytest

from dovetail.cli.torture import tell
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
from dovetail.core.disruption import candidates, context, progress
from dovetail.core.disruption.allowance import Allowance
from dovetail.core.disruption.backoff import FailedCommands
from dovetail.core.lifecycle import drain
from dovetail.core.lifecycle.liveness import Liveness
from dovetail.core.scheduling.limits import Limits
from dovetail.model.kinds import POD
from dovetail.model.protection import UNPROTECTED
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cluster import Listing
from dovetail.runtime.leadership import Election
from dovetail.sim.faults.scene import CLASS_REF, STARTING, draw_pool
from dovetail.sim.faults.script import draw_story
from dovetail.sim.faults.story import Piece, Story
from stories import deployment

WITHIN = 12  # stories


def told(*incidents, metadata=None, **disruption):
    """One pool and one small workload, and what happens to them at which second."""
    pool = draw_pool(0, 0)
    template = {"nodeClassRef": CLASS_REF, "requirements": REQUIREMENTS, "expireAfter": "Never"}
    free = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption}
    pool["spec"] = {"template": {"metadata": metadata or {}, "spec": template}, "disruption": free}
    scene = [Piece("p0", 0, "NodePool", {"manifest": pool}, needed=True)]
    scene.append(Piece("w0", 0, "Deployment", {"manifests": [deployment("app", 3, cpu="900m")]}))
    happens = [Piece(f"f{n}", at, what, terms) for n, (at, what, terms) in enumerate(incidents)]
    return (Story(0, (*scene, *happens), 1800.0),)


def drawn(first):
    """The stories of a few seeds."""
    return (draw_story(seed) for seed in range(first, first + WITHIN))


REQUIREMENTS = [
    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]},
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
]
NEVER_JOINS = (300.0, "instance never joins", {})
GROWS = (310.0, "scale", {"which": 0, "replicas": 10})
ONE_MORE = (300.0, "scale", {"which": 0, "replicas": 5})
CHANGES = (310.0, "change template", {"which": 0, "label": "1"})
TWO_NODES = (120.0, "scale", {"which": 0, "replicas": 10})
FIRST_VANISHES = (340.0, "instance vanishes", {"which": 0})
PROTECTED = (250.0, "protect pod", {"which": 0, "until": "true"})
DELETED = (300.0, "delete claim", {"which": 0})
LOST_IN_THE_DRAIN = (320.0, "instance is lost", {"which": 0, "draining": True})
ONE_AT_A_TIME = {"budgets": [{"nodes": "1"}], "consolidateAfter": "Never"}
SLOWLY = {"annotations": {STARTING: "100s"}}
BY_HAND_ALONE = {"consolidateAfter": "Never"}
EMPTIED = (200.0, "scale", {"which": 0, "replicas": 0})
SILENT = (295.0, "watch is silent", {"kind": "Pod", "seconds": 120})
FILLED = (300.0, "scale", {"which": 0, "replicas": 3})
DELETED_SOON = (310.0, "delete node", {"which": 0})
CHANGED_BACK = (330.0, "revert template", {"which": 0})
NODE_PROTECTED = (330.0, "protect node", {"which": 0, "leaving": True})
NO_BUDGET = (330.0, "change budgets", {"which": 0, "budgets": [{"nodes": "0"}]})


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


MUTATIONS = (
    (budgets_are_ignored, "budgets are never exceeded", drawn(1)),
    (
        a_marked_node_that_vanishes_is_forgotten,
        "budgets are never exceeded",
        told(TWO_NODES, NEVER_JOINS, CHANGES, FIRST_VANISHES, **ONE_AT_A_TIME),
    ),
    (protection_is_ignored_by_the_drain, "protected pods are never evicted", drawn(0)),
    (protection_is_ignored_by_the_planner, "protected pods are never evicted", drawn(0)),
    (pods_are_deleted_instead_of_evicted, "disruption budgets are never violated", drawn(0)),
    (nobody_waits_for_pods, "disruption budgets are never violated", drawn(0)),
    (
        the_last_list_of_pods_comes_from_the_cache,
        "no instance ends under a running pod",
        told(EMPTIED, SILENT, FILLED, DELETED_SOON, **BY_HAND_ALONE),
    ),
    *(
        (
            commands_are_not_checked_again,
            "commands that no longer hold are not carried out",
            told(*edited, metadata=SLOWLY),
        )
        for edited in ((CHANGES, CHANGED_BACK), (CHANGES, NODE_PROTECTED), (CHANGES, NO_BUDGET))
    ),
    (
        commands_that_are_taken_back_start_again_at_once,
        "no node is chosen over and over",
        told(CHANGES, **BY_HAND_ALONE),
    ),
    (limits_are_ignored, "limits of NodePools are kept", drawn(6)),
    (every_node_is_taken_for_a_dear_one, "consolidation never raises cost", told(ONE_MORE)),
    (a_rollback_leaves_everything, "no mark is left behind", told(NEVER_JOINS, CHANGES, consolidateAfter="Never")),
    (claims_that_never_register_are_kept, "no instance and no claim leaks", told(NEVER_JOINS, GROWS)),
    (lost_machines_are_never_noticed, "no instance and no claim leaks", drawn(2)),
    (
        a_drain_goes_on_whatever_became_of_the_machine,
        "lost machines are let go",
        told(PROTECTED, DELETED, LOST_IN_THE_DRAIN),
    ),
    (drained_nodes_are_never_let_go, "the system settles", drawn(1)),
    (nobody_launches_for_pods_that_were_displaced, "no pod is lost", drawn(6)),
    (nodes_go_before_their_replacements_are_ready, "every deletion has a cause", drawn(2)),
    (healthy_machines_are_taken_for_lost, "every deletion has a cause", drawn(0)),
    (commands_never_end, "no mark is left behind", drawn(0)),
    (nobody_notices_that_the_lease_ran_out, "never two act at once", drawn(2)),
)


@pytest.mark.parametrize(("bug", "law", "stories"), MUTATIONS, ids=[bug.__name__ for bug, _, _ in MUTATIONS])
def test_a_planted_bug_is_found(bug, law, stories, monkeypatch):
    bug(monkeypatch)
    found = set()
    for story in stories:
        found |= {each.law for each in tell(story).violations}
        if law in found:
            return
    pytest.fail(f"the stories did not find it, only {found or 'nothing'}")


@pytest.mark.parametrize(
    "story",
    [
        *told(ONE_MORE),
        *told(NEVER_JOINS, GROWS),
        *told(NEVER_JOINS, CHANGES),
        *told(PROTECTED, DELETED, LOST_IN_THE_DRAIN),
        *told(TWO_NODES, NEVER_JOINS, CHANGES, FIRST_VANISHES, **ONE_AT_A_TIME),
        *told(EMPTIED, SILENT, FILLED, DELETED_SOON, **BY_HAND_ALONE),
        *told(CHANGES, CHANGED_BACK, metadata=SLOWLY),
        *told(CHANGES, NODE_PROTECTED, metadata=SLOWLY),
        *told(CHANGES, NO_BUDGET, metadata=SLOWLY),
    ],
)
def test_without_a_bug_the_written_stories_break_no_law(story):
    assert tell(story).violations == ()

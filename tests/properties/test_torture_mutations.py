"""A torture that finds nothing proves nothing: for each invariant, a bug in its path, planted by hand, must be found.

What every other story meets is found in stories drawn from a few seeds; for what is rare there is one written for it.
"""

import pytest

from dovetail.cli.torture import tell
from dovetail.sim.torture.cluster_generator import CLASS_REF, STARTING, draw_pool
from dovetail.sim.torture.fault_generator import draw_story
from dovetail.sim.torture.invariants import INVARIANTS
from dovetail.sim.torture.special_cases import deployment_with_volume
from dovetail.sim.torture.trial import Trial, TrialPiece
from properties import torture_bugs as bugs
from stories import budget, deployment

WITHIN = 12  # stories


def told(*incidents, workloads=None, template=None, metadata=None, spec=None, **disruption):
    """One pool and a small workload, and what happens to them at which second."""
    pool = draw_pool(0, 0)
    written = {"nodeClassRef": CLASS_REF, "requirements": REQUIREMENTS, "expireAfter": "Never", **(template or {})}
    free = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption}
    pool["spec"] = {"template": {"metadata": metadata or {}, "spec": written}, "disruption": free, **(spec or {})}
    scene = [TrialPiece("p0", 0, "NodePool", {"manifest": pool}, needed=True)]
    scene.append(TrialPiece("w0", 0, "Deployment", {"manifests": workloads or [deployment("app", 3, cpu="900m")]}))
    happens = [TrialPiece(f"f{n}", at, what, terms) for n, (at, what, terms) in enumerate(incidents)]
    return (Trial(0, (*scene, *happens), 1800.0),)


def drawn(first):
    """The stories of a few seeds."""
    return tuple(draw_story(seed) for seed in range(first, first + WITHIN))


REQUIREMENTS = [
    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]},
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
]
NEVER_JOINS = (300.0, "instance never joins", {})
LAUNCH_UNANSWERED = (305.0, "timeout after effect", {"kind": "Instance", "calls": "launch", "times": 2})
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


SICK = (300.0, "node is sick", {"which": 0, "condition": "Ready", "status": "False"})
ALL_SICK = tuple((300.0 + n, "node is sick", {"which": n, "condition": "Ready", "status": "False"}) for n in range(3))
PAUSED = (200.0, "pause pool", {"which": 0, "until": "true"})
ALL_PAUSED = (200.0, "pause everything", {"until": "true"})
PAUSED_UNSEEN = (
    (320.0, "watch is silent", {"kind": "ConfigMap", "seconds": 240}),
    (335.0, "pause everything", {"until": "true"}),
)
DELETED_NODE = (300.0, "delete node", {"which": 0})
FEWER = (400.0, "scale", {"which": 0, "replicas": 4})
DRY_RUN = (0.0, "dry run", {"manifests": []})
BOUNDED = {"template": {"terminationGracePeriod": "5m"}, **BY_HAND_ALONE}
STUBBORN = {"workloads": [deployment("app", 3, cpu="900m"), budget("app", maxUnavailable=0)]}
UNREADABLE = {"which": 0, "until": "soon"}
ORDINARY = deployment("app", 2, cpu="300m")
TIERS = [ORDINARY, budget("app", maxUnavailable=0), deployment("dns", 2, priorityClassName="system-cluster-critical")]
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "app"}}}
        ]
    }
}
THREE_NODES = {"workloads": [deployment("app", 3, cpu="900m", affinity=APART)]}
WINDOW = [{"nodes": "100%"}, {"nodes": "0", "schedule": "* * * * *", "duration": "5m"}]

TWO_APPS = [deployment("app", 3, cpu="900m", memory="1Gi"), deployment("more", 0, cpu="900m", memory="1Gi")]
ONE_NODE_STIRRED = (
    (120.0, "scale", {"which": 1, "replicas": 3}),
    (150.0, "scale", {"which": 0, "replicas": 1}),
    (400.0, "run pod on node", {"which": 0, "leaving": False, "tolerates": "nothing", "name": "by-name-0"}),
)

BUDGETS = "budgets are never exceeded"
WAITS = "no node is marked before its time"
PROTECTED_PODS = "protected pods are never evicted"
PDBS = "PodDisruptionBudgets are never violated"
GRACES = "pods keep their grace period"
UNDER_PODS = "no instance ends under a running pod"
STILL_HOLD = "commands that no longer hold are not carried out"
LEAKS = "no instance and no claim leaks"
MARKS = "no mark is left behind"
REPAIR = "repair keeps its terms"

MUTATIONS = (
    (bugs.budgets_are_ignored, BUDGETS, drawn(1)),
    (bugs.budget_percentages_are_read_as_all, BUDGETS, told(CHANGES, **THREE_NODES, budgets=[{"nodes": "34%"}])),
    (bugs.windows_of_budgets_are_ignored, BUDGETS, told(CHANGES, budgets=WINDOW)),
    (
        bugs.a_marked_node_that_vanishes_is_forgotten,
        BUDGETS,
        told(TWO_NODES, NEVER_JOINS, CHANGES, FIRST_VANISHES, **ONE_AT_A_TIME),
    ),
    (bugs.consolidate_after_is_ignored, WAITS, told(ONE_MORE, EMPTIED, consolidateAfter="8m")),
    (bugs.pools_that_never_consolidate_do, WAITS, told(EMPTIED, consolidateAfter="Never")),
    (bugs.when_empty_is_ignored, WAITS, told(TWO_NODES, FEWER, consolidationPolicy="WhenEmpty")),
    (
        bugs.the_grace_period_of_consolidation_is_ignored,
        WAITS,
        told(EMPTIED, consolidationGracePeriod="8m"),
    ),
    (
        bugs.destinations_inside_their_grace_period_are_used,
        "consolidation moves pods to quiet nodes alone",
        told(*ONE_NODE_STIRRED, workloads=TWO_APPS, consolidationGracePeriod="8m"),
    ),
    (
        bugs.disrupt_after_of_drift_is_ignored,
        WAITS,
        told(CHANGES, actionControls={"Drift": {"disruptAfter": "8m"}}, **BY_HAND_ALONE),
    ),
    (bugs.soft_expiration_comes_at_once, WAITS, told(expireAfter="25m", **BY_HAND_ALONE)),
    (bugs.protection_is_ignored_by_the_drain, PROTECTED_PODS, drawn(0)),
    (bugs.protection_is_ignored_by_the_planner, PROTECTED_PODS, drawn(0)),
    (
        bugs.unreadable_protection_protects_nothing,
        PROTECTED_PODS,
        told((200.0, "protect pod", UNREADABLE), DELETED, **BY_HAND_ALONE),
    ),
    (
        bugs.protection_of_nodes_is_ignored,
        PROTECTED_PODS,
        told(CHANGES, metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
    ),
    (bugs.pauses_are_ignored, "paused pools are left alone", told(PAUSED, CHANGES, **BY_HAND_ALONE)),
    (
        bugs.the_pause_of_everything_is_ignored,
        "paused pools are left alone",
        told(ALL_PAUSED, CHANGES, **BY_HAND_ALONE),
    ),
    (
        bugs.a_pause_of_everything_is_not_read_before_the_commit,
        STILL_HOLD,
        told(CHANGES, *PAUSED_UNSEEN, metadata=SLOWLY, **BY_HAND_ALONE),
    ),
    (bugs.a_dry_run_acts, "a dry run writes nothing", told(DRY_RUN)),
    (bugs.pods_are_deleted_instead_of_evicted, PDBS, drawn(0)),
    (
        bugs.the_eviction_api_knows_no_budgets,
        PDBS,
        told(DELETED, workloads=[deployment("app", 3, cpu="900m"), budget("app", maxUnavailable=1)], **BY_HAND_ALONE),
    ),
    (bugs.pods_are_forced_only_at_the_deadline, GRACES, told(DELETED, **BOUNDED, **STUBBORN)),
    (bugs.forced_pods_get_no_grace, GRACES, told(DELETED, **BOUNDED, **STUBBORN)),
    (bugs.forced_pods_get_a_second, GRACES, told(DELETED, **BOUNDED, **STUBBORN)),
    (bugs.drains_know_no_tiers, "drains go tier by tier", told(DELETED, workloads=TIERS, **BY_HAND_ALONE)),
    (
        bugs.volumes_are_torn_off,
        "volumes are detached before the instance ends",
        told(DELETED_NODE, workloads=deployment_with_volume("200s"), **BY_HAND_ALONE),
    ),
    (bugs.nobody_waits_for_pods, UNDER_PODS, drawn(0)),
    (
        bugs.the_last_list_of_pods_comes_from_the_cache,
        UNDER_PODS,
        told(EMPTIED, SILENT, FILLED, DELETED_SOON, **BY_HAND_ALONE),
    ),
    *(
        (bugs.commands_are_not_checked_again, STILL_HOLD, told(*edited, metadata=SLOWLY))
        for edited in ((CHANGES, CHANGED_BACK), (CHANGES, NODE_PROTECTED), (CHANGES, NO_BUDGET))
    ),
    (
        bugs.commands_that_are_taken_back_start_again_at_once,
        "no node is chosen over and over",
        told(CHANGES, **BY_HAND_ALONE),
    ),
    (bugs.limits_are_ignored, "limits of NodePools are kept", drawn(6)),
    (bugs.every_node_is_taken_for_a_dear_one, "consolidation never raises cost", told(ONE_MORE)),
    (bugs.a_rollback_leaves_everything, MARKS, told(NEVER_JOINS, CHANGES, consolidateAfter="Never")),
    (bugs.commands_never_end, MARKS, drawn(0)),
    (bugs.claims_that_never_register_are_kept, LEAKS, told(NEVER_JOINS, GROWS)),
    (bugs.lost_machines_are_never_noticed, LEAKS, drawn(2)),
    (
        bugs.a_drain_goes_on_whatever_became_of_the_machine,
        "lost instances are let go",
        told(PROTECTED, DELETED, LOST_IN_THE_DRAIN),
    ),
    (bugs.instances_are_never_terminated, "no instance leaks", told(EMPTIED)),
    (bugs.a_repeated_launch_does_not_find_the_first, "one instance for a claim", told(LAUNCH_UNANSWERED, GROWS)),
    (bugs.drained_nodes_are_never_let_go, "the cluster comes to rest", drawn(1)),
    (bugs.nobody_launches_for_pods_that_were_displaced, "every pod runs in the end", drawn(6)),
    (bugs.nodes_go_before_their_replacements_are_ready, "replacements come first", drawn(2)),
    (bugs.healthy_machines_are_taken_for_lost, "every deletion has a cause", drawn(0)),
    (bugs.toleration_of_repair_is_ignored, REPAIR, told(SICK, spec={"repair": {}}, **BY_HAND_ALONE)),
    (bugs.repair_knows_no_breaker, REPAIR, told(*ALL_SICK, **THREE_NODES, spec={"repair": {}}, **BY_HAND_ALONE)),
    (bugs.nobody_notices_that_the_lease_ran_out, "only the holder of the Lease writes", drawn(2)),
    (bugs.nodes_are_patched_without_a_version, "patches of node lists carry a resourceVersion", told(CHANGES)),
)


@pytest.mark.parametrize(("bug", "invariant", "stories"), MUTATIONS, ids=[bug.__name__ for bug, _, _ in MUTATIONS])
def test_a_planted_bug_is_found(bug, invariant, stories, monkeypatch):
    bug(monkeypatch)
    found = set()
    for story in stories:
        found |= {each.invariant for each in tell(story).violations}
        if invariant in found:
            return
    pytest.fail(f"the stories did not find it, only {found or 'nothing'}")


WRITTEN = {str(story): story for _, _, stories in MUTATIONS for story in stories if len(stories) == 1}


@pytest.mark.parametrize("story", WRITTEN.values())
def test_without_a_bug_the_written_stories_break_no_invariant(story):
    assert tell(story).violations == ()


def test_there_is_a_planted_bug_for_every_invariant():
    assert {each.name for each in INVARIANTS} <= {name for _, name, _ in MUTATIONS}

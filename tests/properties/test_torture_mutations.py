"""Mutation tests of the invariants: for each invariant, torture must detect a planted bug that violates it.

Common situations occur in trials drawn from a few seeds; for rare ones there is a hand-written trial.
"""

import pytest

from dovetail.cli.torture import run_with_controllers
from dovetail.sim.torture.cluster_generator import CLASS_REF, NODE_READY_DELAY, draw_pool
from dovetail.sim.torture.fault_generator import draw_trial
from dovetail.sim.torture.invariants import INVARIANTS
from dovetail.sim.torture.special_cases import deployment_with_volume
from dovetail.sim.torture.trial import Trial, TrialPiece
from properties import torture_bugs as bugs
from stories import budget, deployment

TRIALS_DRAWN = 12


def written(*incidents, workloads=None, template=None, metadata=None, spec=None, **disruption):
    """A trial with one pool, a small workload, and incidents given as time, name and parameters."""
    pool = draw_pool(0, 0)
    template_spec = {"nodeClassRef": CLASS_REF, "requirements": REQUIREMENTS, "expireAfter": "Never"}
    pool["spec"] = {
        "template": {"metadata": metadata or {}, "spec": {**template_spec, **(template or {})}},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption},
        **(spec or {}),
    }
    manifests = workloads or [deployment("app", 3, cpu="900m")]
    pieces = (
        TrialPiece("p0", 0, "NodePool", {"manifest": pool}, needed=True),
        TrialPiece("w0", 0, "Deployment", {"manifests": manifests}),
        *(TrialPiece(f"f{n}", at, what, parameters) for n, (at, what, parameters) in enumerate(incidents)),
    )
    return (Trial(0, pieces, 1800.0),)


def drawn(first):
    """The trials of a few seeds."""
    return tuple(draw_trial(seed) for seed in range(first, first + TRIALS_DRAWN))


REQUIREMENTS = [
    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]},
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
]
NEVER_JOINS = (300.0, "instance never joins", {})
LAUNCH_UNANSWERED = (305.0, "timeout after effect", {"kind": "Instance", "calls": "launch", "times": 2})
SCALED_TO_TEN = (310.0, "scale", {"which": 0, "replicas": 10})
SCALED_TO_FIVE = (300.0, "scale", {"which": 0, "replicas": 5})
TEMPLATE_CHANGED = (310.0, "change template", {"which": 0, "label": "1"})
TWO_NODES = (120.0, "scale", {"which": 0, "replicas": 10})
FIRST_VANISHES = (340.0, "instance vanishes", {"which": 0})
PROTECTED = (250.0, "protect pod", {"which": 0, "until": "true"})
CLAIM_DELETED = (300.0, "delete claim", {"which": 0})
LOST_IN_DRAIN = (320.0, "instance is lost", {"which": 0, "draining": True})
ONE_AT_A_TIME = {"budgets": [{"nodes": "1"}], "consolidateAfter": "Never"}
SLOW_NODES = {"annotations": {NODE_READY_DELAY: "100s"}}
NO_CONSOLIDATION = {"consolidateAfter": "Never"}
SCALED_TO_ZERO = (200.0, "scale", {"which": 0, "replicas": 0})
POD_WATCH_SILENT = (295.0, "watch is silent", {"kind": "Pod", "seconds": 120})
SCALED_TO_THREE = (300.0, "scale", {"which": 0, "replicas": 3})
NODE_DELETED_AFTER_PODS = (310.0, "delete node", {"which": 0})
TEMPLATE_REVERTED = (330.0, "revert template", {"which": 0})
NODE_PROTECTED = (330.0, "protect node", {"which": 0, "leaving": True})
NO_BUDGET = (330.0, "change budgets", {"which": 0, "budgets": [{"nodes": "0"}]})


UNHEALTHY = (300.0, "node is unhealthy", {"which": 0, "condition": "Ready", "status": "False"})
ALL_UNHEALTHY = tuple(
    (300.0 + n, "node is unhealthy", {"which": n, "condition": "Ready", "status": "False"}) for n in range(3)
)
PAUSED = (200.0, "pause pool", {"which": 0, "until": "true"})
ALL_PAUSED = (200.0, "pause all pools", {"until": "true"})
PAUSED_WHILE_WATCH_SILENT = (
    (320.0, "watch is silent", {"kind": "ConfigMap", "seconds": 240}),
    (335.0, "pause all pools", {"until": "true"}),
)
NODE_DELETED = (300.0, "delete node", {"which": 0})
SCALED_TO_FOUR = (400.0, "scale", {"which": 0, "replicas": 4})
DRY_RUN = (0.0, "dry run", {"manifests": []})
BOUNDED = {"template": {"terminationGracePeriod": "5m"}, **NO_CONSOLIDATION}
BLOCKED_BY_PDB = {"workloads": [deployment("app", 3, cpu="900m"), budget("app", maxUnavailable=0)]}
UNREADABLE_PROTECTION = {"which": 0, "until": "soon"}
ORDINARY = deployment("app", 2, cpu="300m")
TIERS = [ORDINARY, budget("app", maxUnavailable=0), deployment("dns", 2, priorityClassName="system-cluster-critical")]
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "app"}}}
        ]
    }
}
THREE_NODES = {"workloads": [deployment("app", 3, cpu="900m", affinity=ANTI_AFFINITY)]}
WINDOW = [{"nodes": "100%"}, {"nodes": "0", "schedule": "* * * * *", "duration": "5m"}]

TWO_APPS = [deployment("app", 3, cpu="900m", memory="1Gi"), deployment("more", 0, cpu="900m", memory="1Gi")]
POD_EVENT_ON_ONE_NODE = (
    (120.0, "scale", {"which": 1, "replicas": 3}),
    (150.0, "scale", {"which": 0, "replicas": 1}),
    (400.0, "run pod on node", {"which": 0, "leaving": False, "tolerates": "nothing", "name": "by-name-0"}),
)

TOLERANT = deployment("tolerant", 1, cpu="1500m", tolerations=[{"operator": "Exists"}])
DRIFTS_FIRST = deployment("low", 1, cpu="1500m", priorityClassName="low")
SLOW_NODES_OF_ONE_SIZE = {
    "template": {"requirements": [{**REQUIREMENTS[0], "values": ["2"]}, *REQUIREMENTS[1:]]},
    "metadata": {"annotations": {NODE_READY_DELAY: "200s"}},
}

GROWN_AND_SHRUNK = ((120.0, "scale", {"which": 0, "replicas": 10}), (200.0, "scale", {"which": 0, "replicas": 4}))

BUDGETS = "budgets are never exceeded"
DELAYS = "no node is marked too early"
PROTECTED_PODS = "protected pods are never evicted"
PDBS = "PodDisruptionBudgets are never violated"
GRACE_PERIODS = "pods keep their grace period"
UNDER_PODS = "no instance terminates under a running pod"
STILL_HOLD = "commands that no longer hold are not carried out"
LEAKS = "no instance and no NodeClaim leaks"
MARKS = "no mark is left behind"
COOL_DOWN = "consolidation leaves pods alone that just moved"
QUIET_NODES = "consolidation moves pods to quiet nodes only"
REPAIR = "repair follows its policy"

MUTATIONS = (
    (bugs.budgets_are_ignored, BUDGETS, drawn(1)),
    (
        bugs.budget_percentages_allow_all_nodes,
        BUDGETS,
        written(TEMPLATE_CHANGED, **THREE_NODES, budgets=[{"nodes": "34%"}]),
    ),
    (bugs.windows_of_budgets_are_ignored, BUDGETS, written(TEMPLATE_CHANGED, budgets=WINDOW)),
    (
        bugs.a_marked_node_that_vanishes_is_not_counted,
        BUDGETS,
        written(TWO_NODES, NEVER_JOINS, TEMPLATE_CHANGED, FIRST_VANISHES, **ONE_AT_A_TIME),
    ),
    (bugs.consolidate_after_is_ignored, DELAYS, written(SCALED_TO_FIVE, SCALED_TO_ZERO, consolidateAfter="8m")),
    (bugs.consolidate_after_never_is_ignored, DELAYS, written(SCALED_TO_ZERO, consolidateAfter="Never")),
    (bugs.when_empty_is_ignored, DELAYS, written(TWO_NODES, SCALED_TO_FOUR, consolidationPolicy="WhenEmpty")),
    (
        bugs.the_grace_period_of_consolidation_is_ignored,
        DELAYS,
        written(SCALED_TO_ZERO, consolidationGracePeriod="8m"),
    ),
    (bugs.the_cool_down_of_moved_pods_is_ignored, COOL_DOWN, written(*GROWN_AND_SHRUNK, minSavings="1%")),
    (bugs.all_nodes_are_marked_as_removed_next, MARKS, written(minSavings="0%")),
    (
        bugs.nodes_of_commands_take_pods_that_tolerate_their_taint,
        QUIET_NODES,
        written(
            (300.0, "change template", {"which": 0, "label": "1"}),
            workloads=[TOLERANT, DRIFTS_FIRST],
            consolidateAfter="5m",
            budgets=[{"nodes": "1", "reasons": ["Drifted"]}],
            **SLOW_NODES_OF_ONE_SIZE,
        ),
    ),
    (
        bugs.destinations_inside_their_grace_period_are_used,
        QUIET_NODES,
        written(*POD_EVENT_ON_ONE_NODE, workloads=TWO_APPS, consolidationGracePeriod="8m"),
    ),
    (
        bugs.disrupt_after_of_drift_is_ignored,
        DELAYS,
        written(TEMPLATE_CHANGED, actionControls={"Drift": {"disruptAfter": "8m"}}, **NO_CONSOLIDATION),
    ),
    (bugs.soft_expiration_is_immediate, DELAYS, written(expireAfter="25m", **NO_CONSOLIDATION)),
    (bugs.protection_is_ignored_by_the_drain, PROTECTED_PODS, drawn(0)),
    (bugs.protection_is_ignored_by_the_planner, PROTECTED_PODS, drawn(0)),
    (
        bugs.unreadable_protection_protects_nothing,
        PROTECTED_PODS,
        written((200.0, "protect pod", UNREADABLE_PROTECTION), CLAIM_DELETED, **NO_CONSOLIDATION),
    ),
    (
        bugs.protection_of_nodes_is_ignored,
        PROTECTED_PODS,
        written(TEMPLATE_CHANGED, metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
    ),
    (
        bugs.pauses_are_ignored,
        "paused NodePools are not disrupted",
        written(PAUSED, TEMPLATE_CHANGED, **NO_CONSOLIDATION),
    ),
    (
        bugs.the_pause_of_all_pools_is_ignored,
        "paused NodePools are not disrupted",
        written(ALL_PAUSED, TEMPLATE_CHANGED, **NO_CONSOLIDATION),
    ),
    (
        bugs.the_pause_of_all_pools_is_not_read_before_the_commit,
        STILL_HOLD,
        written(TEMPLATE_CHANGED, *PAUSED_WHILE_WATCH_SILENT, metadata=SLOW_NODES, **NO_CONSOLIDATION),
    ),
    (bugs.a_dry_run_writes, "a dry run writes nothing", written(DRY_RUN)),
    (bugs.pods_are_deleted_instead_of_evicted, PDBS, drawn(0)),
    (
        bugs.the_eviction_api_ignores_budgets,
        PDBS,
        written(
            CLAIM_DELETED,
            workloads=[deployment("app", 3, cpu="900m"), budget("app", maxUnavailable=1)],
            **NO_CONSOLIDATION,
        ),
    ),
    (bugs.pods_are_forced_only_at_the_deadline, GRACE_PERIODS, written(CLAIM_DELETED, **BOUNDED, **BLOCKED_BY_PDB)),
    (bugs.forced_pods_get_no_grace, GRACE_PERIODS, written(CLAIM_DELETED, **BOUNDED, **BLOCKED_BY_PDB)),
    (bugs.forced_pods_get_one_second, GRACE_PERIODS, written(CLAIM_DELETED, **BOUNDED, **BLOCKED_BY_PDB)),
    (bugs.drains_ignore_tiers, "drains go tier by tier", written(CLAIM_DELETED, workloads=TIERS, **NO_CONSOLIDATION)),
    (
        bugs.volumes_are_not_detached,
        "volumes are detached before the instance terminates",
        written(NODE_DELETED, workloads=deployment_with_volume("200s"), **NO_CONSOLIDATION),
    ),
    (bugs.drains_do_not_wait_for_pods, UNDER_PODS, drawn(0)),
    (
        bugs.the_last_list_of_pods_is_read_from_the_cache,
        UNDER_PODS,
        written(SCALED_TO_ZERO, POD_WATCH_SILENT, SCALED_TO_THREE, NODE_DELETED_AFTER_PODS, **NO_CONSOLIDATION),
    ),
    *(
        (bugs.commands_are_not_validated_before_the_commit, STILL_HOLD, written(*edited, metadata=SLOW_NODES))
        for edited in (
            (TEMPLATE_CHANGED, TEMPLATE_REVERTED),
            (TEMPLATE_CHANGED, NODE_PROTECTED),
            (TEMPLATE_CHANGED, NO_BUDGET),
        )
    ),
    (
        bugs.rolled_back_commands_restart_immediately,
        "no node is selected over and over",
        written(TEMPLATE_CHANGED, **NO_CONSOLIDATION),
    ),
    (bugs.nodes_are_never_opened, "ready nodes are opened", written()),
    (bugs.limits_are_ignored, "limits of NodePools are never exceeded", drawn(6)),
    (bugs.every_node_is_considered_expensive, "consolidation never raises cost", written(SCALED_TO_FIVE)),
    (bugs.a_rollback_removes_nothing, MARKS, written(NEVER_JOINS, TEMPLATE_CHANGED, consolidateAfter="Never")),
    (bugs.commands_never_end, MARKS, drawn(0)),
    (bugs.claims_that_never_register_are_kept, LEAKS, written(NEVER_JOINS, SCALED_TO_TEN)),
    (bugs.lost_instances_are_never_detected, LEAKS, drawn(2)),
    (
        bugs.drains_continue_after_their_instance_is_lost,
        "lost instances are removed",
        written(PROTECTED, CLAIM_DELETED, LOST_IN_DRAIN),
    ),
    (bugs.instances_are_never_terminated, "no instance leaks", written(SCALED_TO_ZERO)),
    (
        bugs.a_repeated_launch_creates_a_second_instance,
        "one instance for each NodeClaim",
        written(LAUNCH_UNANSWERED, SCALED_TO_TEN),
    ),
    (bugs.finalizers_of_drained_nodes_are_never_removed, "the cluster settles", drawn(1)),
    (bugs.nothing_is_launched_for_evicted_pods, "every pod runs in the end", drawn(6)),
    (bugs.nodes_are_deleted_before_their_replacements_are_ready, "replacements come first", drawn(2)),
    (bugs.healthy_instances_are_considered_lost, "every deletion has a cause", drawn(0)),
    (bugs.toleration_of_repair_is_ignored, REPAIR, written(UNHEALTHY, spec={"repair": {}}, **NO_CONSOLIDATION)),
    (
        bugs.repair_ignores_the_share_of_unhealthy_nodes,
        REPAIR,
        written(*ALL_UNHEALTHY, **THREE_NODES, spec={"repair": {}}, **NO_CONSOLIDATION),
    ),
    (bugs.an_expired_lease_still_counts, "only the holder of the Lease writes", drawn(2)),
    (
        bugs.nodes_are_patched_without_a_version,
        "patches of node lists carry a resourceVersion",
        written(TEMPLATE_CHANGED),
    ),
)


@pytest.mark.parametrize(("bug", "invariant", "trials"), MUTATIONS, ids=[bug.__name__ for bug, _, _ in MUTATIONS])
def test_a_planted_bug_is_detected(bug, invariant, trials, monkeypatch):
    bug(monkeypatch)
    found = set()
    for trial in trials:
        found |= {each.invariant for each in run_with_controllers(trial).violations}
        if invariant in found:
            return
    pytest.fail(f"{invariant!r} was not violated, but {found or 'nothing'}")


WRITTEN_TRIALS = {str(trial): trial for _, _, trials in MUTATIONS for trial in trials if len(trials) == 1}


@pytest.mark.parametrize("trial", WRITTEN_TRIALS.values())
def test_written_trials_violate_no_invariant_without_a_bug(trial):
    assert run_with_controllers(trial).violations == ()


def test_there_is_a_planted_bug_for_every_invariant():
    assert {each.name for each in INVARIANTS} <= {name for _, name, _ in MUTATIONS}

"""Bugs in the selection of disruption candidates."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="nominated-nodes-disrupted",
        says="A node that was just nominated for pods may be disrupted.",
        file="core/disruption/candidates.py",
        before=" and node.name not in snapshot.nominated\n",
        after="\n",
        tests=("tests/acceptance/test_candidates.py",),
    ),
    Bug(
        id="protected-node-disrupted",
        says="do-not-disrupt on a Node does not keep it from becoming a candidate.",
        file="core/disruption/candidates.py",
        before='    return kube_node.metadata.annotations.get(DO_NOT_DISRUPT) != "true" and bool(node.nodepool_name)\n',
        after="    return bool(node.nodepool_name)\n",
        tests=("tests/acceptance/test_candidates.py", "tests/acceptance/test_do_not_disrupt.py"),
    ),
    Bug(
        id="timed-protection-ignored",
        says="do-not-disrupt with a duration does not protect a pod from the planner.",
        file="core/disruption/candidates.py",
        before="if DO_NOT_DISRUPT in pod.metadata.annotations or pod.spec.resource_claims",
        after='if pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true" or pod.spec.resource_claims',
        tests=("tests/acceptance/test_do_not_disrupt.py", "tests/acceptance/test_seed_do_not_disrupt_grace_period.py"),
    ),
    Bug(
        id="one-open-budget-is-enough",
        says="A node is a candidate if one of its PodDisruptionBudgets allows an eviction, not all of them.",
        file="core/disruption/candidates.py",
        before="(bounded or facts.pdb_sets <= permissive)",
        after="(bounded or facts.pdb_sets & permissive or not facts.pdb_sets)",
        tests=("tests/acceptance/test_pdbs.py",),
    ),
    Bug(
        id="bounded-drain-ignores-protection",
        says="Drift takes nodes with protected pods where a terminationGracePeriod bounds the drain.",
        file="core/disruption/candidates.py",
        before="    return not bounded or block.code == RefusalCode.DO_NOT_DISRUPT_POD\n",
        after="    return not bounded\n",
        tests=("tests/acceptance/test_drift.py", "tests/acceptance/test_candidates.py"),
    ),
    Bug(
        id="paused-pool-disrupted",
        says="The nodes of a paused NodePool are candidates.",
        file="core/disruption/candidates.py",
        before=" if name in snapshot.catalogs and snapshot.pause_of(name) is None}",
        after=" if name in snapshot.catalogs}",
        tests=("tests/scenarios/test_pause.py", "tests/acceptance/test_candidates.py"),
    ),
    Bug(
        id="unreadable-pods-forgotten",
        says="A node with an unreadable pod is a candidate.",
        file="core/disruption/candidates.py",
        before="        free = free and (all_read or not (snapshot.unread.everywhere or snapshot.unread_on(node)))\n",
        after="        free = free and (all_read or not snapshot.unread.everywhere)\n",
        tests=("tests/core/disruption/test_unreadable_objects.py", "tests/scenarios/test_unreadable.py"),
    ),
    Bug(
        id="dearest-first",
        says="Candidates are tried in the wrong order: the most disruptive first.",
        file="core/disruption/candidates.py",
        before="        return self.weight, self.name\n",
        after="        return -self.weight, self.name\n",
        tests=("tests/acceptance/test_costs.py",),
    ),
)

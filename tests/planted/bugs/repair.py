"""Bugs in the repair of unhealthy nodes."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="breaker-never-opens",
        says="The breaker opens only when more nodes are unhealthy than there are.",
        file="core/lifecycle/repair.py",
        before="        return self.unhealthy > self.allowed\n",
        after="        return self.unhealthy > self.total\n",
        tests=("tests/core/lifecycle/test_repair.py",),
    ),
    Bug(
        id="default-toleration-wins",
        says="defaultTolerationDuration wins over the policy for a condition.",
        file="core/lifecycle/repair.py",
        before="        if policy.condition_type == statement.condition_type:\n",
        after="""\
        if policy.condition_type == statement.condition_type and repair.default_toleration_duration is None:
""",
        tests=("tests/core/lifecycle/test_repair.py",),
    ),
    Bug(
        id="repaired-by-a-stale-cache",
        says="A node is repaired based on a stale cache.",
        file="controllers/node_repair.py",
        before="""\
        if context.state.stale():
            return STALE_SECONDS  # it may have recovered since
""",
        after="",
        tests=("tests/scenarios/test_repair.py", "tests/scenarios/test_stale_caches.py"),
    ),
    Bug(
        id="repair-without-opting-in",
        says="NodePools without a repair block are repaired.",
        file="core/lifecycle/repair.py",
        before="        return written if written is not None or not self.options.repair_without_block else Repair()\n",
        after="        return written if written is not None else Repair()\n",
        tests=("tests/core/lifecycle/test_repair.py", "tests/scenarios/test_repair.py"),
    ),
    Bug(
        id="repair-waits-for-budgets",
        says="The drain of a node that is repaired has no deadline and waits for PodDisruptionBudgets.",
        file="controllers/node_repair.py",
        before="        if patch and claim.deleting:\n",
        after="        if patch and not claim.deleting:\n",
        tests=("tests/scenarios/test_repair.py",),
    ),
    Bug(
        id="breaker-of-all-pools",
        says="The breaker of a NodePool counts the nodes of all NodePools.",
        file="controllers/node_repair.py",
        before="if not pool or node.metadata.labels.get(NODEPOOL) == pool]",
        after="if not pool or node.metadata.labels.get(NODEPOOL)]",
        tests=("tests/scenarios/test_repair.py",),
    ),
)

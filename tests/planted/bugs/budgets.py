"""Bugs in disruption budgets."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="percentage-is-all",
        says="Every percentage of a budget is read as 100 %.",
        file="model/budget.py",
        before="        return -(-total * (self.percent or 0) // 100)\n",
        after="        return total if self.percent else 0\n",
        tests=("tests/acceptance/test_budgets.py",),
    ),
    Bug(
        id="percentage-rounds-down",
        says="A percentage is rounded down, so that 10 % of nine nodes is none.",
        file="model/budget.py",
        before="        return -(-total * (self.percent or 0) // 100)\n",
        after="        return total * (self.percent or 0) // 100\n",
        tests=("tests/acceptance/test_budgets.py",),
    ),
    Bug(
        id="loosest-budget-wins",
        says="Of several budgets in force the loosest wins.",
        file="core/disruption/budgets.py",
        before="    tightest = min(in_force, key=",
        after="    tightest = max(in_force, key=",
        tests=("tests/acceptance/test_budgets.py",),
    ),
    Bug(
        id="not-ready-nodes-not-counted",
        says="Nodes that are not ready do not use up a budget.",
        file="model/snapshot.py",
        before="return self.record is not None or self.deleting or self.node is None or not self.node.ready",
        after="return self.record is not None or self.deleting or self.node is None",
        tests=("tests/acceptance/test_budgets.py", "tests/core/disruption/test_methods.py"),
    ),
    Bug(
        id="closed-window-counts",
        says="A budget is in force outside of its window, too.",
        file="model/budget.py",
        before="        return self.window is None or self.window.open_at(now)\n",
        after="        return self.window is None or self.window.duration is not None\n",
        tests=("tests/acceptance/test_budgets.py",),
    ),
    Bug(
        id="unreadable-budget-opens",
        says="A NodePool with a budget that cannot be read has no limit at all.",
        file="model/nodepool.py",
        before="return (unreadable_budget(str(error)),)",
        after="return ()",
        tests=("tests/acceptance/test_unreadable_budget.py",),
    ),
    Bug(
        id="reasons-ignored",
        says="A budget for one reason limits every reason.",
        file="core/disruption/budgets.py",
        before="[budget for budget in pool.budgets if budget.governs(reason, now)]",
        after="[budget for budget in pool.budgets if budget.in_force(now)]",
        tests=("tests/acceptance/test_budgets.py",),
    ),
    Bug(
        id="budget-spent-once",
        says="What a pass has spent of a budget is forgotten: the first answer for a NodePool is kept.",
        file="core/disruption/pass_context.py",
        before="        self._refusals.pop(pool, None)\n",
        after="",
        tests=("tests/acceptance/test_budgets.py", "tests/acceptance/test_emptiness.py"),
    ),
    Bug(
        id="commit-check-counts-one",
        says="The check before the commit allows each node of a command as if it were the only one.",
        file="core/disruption/validation.py",
        before="""\
            self._taken[pool.name] += 1
            return None
""",
        after="            return None\n",
        tests=("tests/core/disruption/test_recheck.py",),
    ),
)

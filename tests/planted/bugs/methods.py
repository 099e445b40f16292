"""Bugs in the disruption methods and their delays."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="consolidate-after-ignored",
        says="consolidateAfter is ignored by consolidation.",
        file="core/disruption/delays.py",
        before="    return longer(pool.spec.disruption.consolidate_after, control(pool, Reason.UNDERUTILIZED))\n",
        after="    return longer(control(pool, Reason.UNDERUTILIZED))\n",
        tests=("tests/acceptance/test_single_node.py", "tests/core/disruption/test_methods.py"),
    ),
    Bug(
        id="emptiness-does-not-wait",
        says="consolidateAfter is ignored for empty nodes.",
        file="core/disruption/delays.py",
        before="longer(pool.spec.disruption.consolidate_after, control(pool, Reason.EMPTY))",
        after="longer(control(pool, Reason.EMPTY))",
        tests=("tests/acceptance/test_emptiness.py",),
    ),
    Bug(
        id="when-empty-ignored",
        says="The consolidation policy WhenEmpty is ignored.",
        file="core/disruption/methods/consolidation.py",
        before='    if pool.consolidation_policy == "WhenEmpty":\n',
        after='    if pool.consolidation_policy == "WhenEmpty" and candidate.empty:\n',
        tests=("tests/acceptance/test_single_node.py", "tests/core/disruption/test_methods.py"),
    ),
    Bug(
        id="grace-period-ignored",
        says="consolidationGracePeriod does not exclude nodes with recent pod events.",
        file="core/disruption/methods/consolidation.py",
        before="""\
    grace = settling(candidate, context)
    if grace is not None:
        yield grace
""",
        after="",
        tests=("tests/acceptance/test_seed_consolidation_grace_period.py",),
    ),
    Bug(
        id="restless-nodes-take-pods",
        says="Consolidation moves pods to nodes inside their own consolidateAfter window.",
        file="core/disruption/pass_context.py",
        before="closed = self._uninitialized | (self._recently_active_nodes if consolidating else frozenset())",
        after="closed = self._uninitialized",
        tests=("tests/acceptance/test_seed_consolidation_grace_period.py", "tests/core/disruption/test_methods.py"),
    ),
    Bug(
        id="cheapest-offering-decides",
        says="A replacement counts as cheaper if its cheapest offering is, not if its most expensive one is.",
        file="core/disruption/methods/consolidation.py",
        before="for each in left if draft.options.most_expensive(each) < ceiling)",
        after="for each in left if float(draft.options.prices[each]) < ceiling)",
        tests=("tests/core/disruption/test_consolidation.py",),
    ),
    Bug(
        id="equal-price-is-worth-it",
        says="A node is replaced by one that costs the same.",
        file="core/disruption/candidates.py",
        before="sum(each.price for each in candidates) - LEAST_SAVING\n",
        after="sum(each.price for each in candidates)\n",
        tests=("tests/core/disruption/test_consolidation.py", "tests/acceptance/test_multi_node.py"),
    ),
    Bug(
        id="multi-node-without-ceiling",
        says="Multi-node consolidation takes more than a hundred nodes at once.",
        file="core/disruption/methods/multi_node.py",
        before="self._longest(allowed[:MOST_AT_ONCE], context)",
        after="self._longest(allowed, context)",
        tests=("tests/acceptance/test_multi_node.py",),
    ),
    Bug(
        id="spot-gate-ignored",
        says="Spot nodes are replaced by spot nodes although the feature gate is off.",
        file="core/disruption/methods/consolidation.py",
        before="    if not context.options.spot_to_spot:\n",
        after="    if not context.options.drift:\n",
        tests=("tests/acceptance/test_multi_node.py",),
    ),
    Bug(
        id="first-move-taken",
        says="Single-node consolidation takes the first move, not the one that saves most.",
        file="core/disruption/methods/single_node.py",
        before="    for move in sorted(moves, key=lambda move: -move.saving):\n",
        after="    for move in list(moves):\n",
        tests=("tests/acceptance/test_single_node.py", "tests/acceptance/test_replacements.py"),
    ),
    Bug(
        id="multi-node-overspends",
        says="Multi-node consolidation takes more nodes than the budget allows.",
        file="core/disruption/methods/multi_node.py",
        before="refusals = {each.name: budget_tracker.take(each) for each in ordered}",
        after="refusals = {each.name: budget_tracker.refusal(each) for each in ordered}",
        tests=("tests/acceptance/test_multi_node.py", "tests/acceptance/test_budgets.py"),
    ),
    Bug(
        id="expected-pods-ignored",
        says="A node is consolidated although pending pods will run on it.",
        file="core/disruption/methods/base.py",
        before="    if method.gives_way and context.expects_pods(candidate.name):\n",
        after="    if not method.gives_way and context.expects_pods(candidate.name):\n",
        tests=("tests/acceptance/test_delete.py",),
    ),
    Bug(
        id="drift-control-ignored",
        says="disruptAfter for drift counts from the creation of the node, not from when it drifted.",
        file="core/disruption/delays.py",
        before="    return elapsed(since, longer(control(pool, Reason.DRIFTED)), now)\n",
        after="    return elapsed(claim.metadata.creation_timestamp, longer(control(pool, Reason.DRIFTED)), now)\n",
        tests=("tests/acceptance/test_drift.py", "tests/acceptance/test_seed_budgets_by_action.py"),
    ),
    Bug(
        id="second-look-skipped",
        says="A consolidation command is started without validation.",
        file="core/disruption/validation.py",
        before="    checked = _recheck(command, ahead)\n",
        after="    checked: Command | Refusal = command\n",
        tests=("tests/acceptance/test_validation.py",),
    ),
)

"""Bugs in node drains and instance termination."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="instances-never-terminated",
        says="Instances are never terminated: every one counts as gone already.",
        file="controllers/termination_steps.py",
        before="gone = claim.metadata.uid in self._terminated or await self._is_terminated(claim)",
        after="gone = True",
        tests=("tests/scenarios/test_writes.py",),
    ),
    Bug(
        id="claim-gone-before-instance",
        says="The finalizer of a NodeClaim is removed as soon as the termination of its instance is requested.",
        file="controllers/termination.py",
        before="""\
        wait = await self._steps.terminate_instance(claim) if claim.provider_id else None
        if wait is not None:
            return wait
""",
        after="""\
        if claim.provider_id:
            await self._steps.terminate_instance(claim)
""",
        tests=("tests/scenarios/test_termination.py",),
    ),
    Bug(
        id="drained-by-the-cache",
        says="An instance ends without the pods of its node being listed from the API server once more.",
        file="controllers/termination_steps.py",
        before="        wait = await self._recheck_pods(node, claim, deadline)\n",
        after="        wait = None\n",
        tests=("tests/scenarios/test_stale_caches.py", "tests/scenarios/test_late_watches.py"),
    ),
    Bug(
        id="volumes-not-awaited",
        says="Without a deadline an instance ends while volumes are still attached to its node.",
        file="controllers/termination_steps.py",
        before="if attached and (deadline is None or now <= deadline):",
        after="if attached and deadline is not None and now <= deadline:",
        tests=("tests/scenarios/test_termination.py",),
    ),
    Bug(
        id="two-claims-are-none",
        says="The finalizer of a node with two NodeClaims for its instance is removed without a drain.",
        file="controllers/termination.py",
        before="        return not self._context.state.claims_of(node)\n",
        after="        return self._context.state.claim_of(node) is None\n",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="ready-node-not-drained",
        says="The finalizer of a Ready node is removed without a drain when the provider does not know its instance.",
        file="controllers/termination.py",
        before="        if node.ready or not node.provider_id:\n",
        after="        if not node.provider_id:\n",
        tests=("tests/scenarios/test_lost_instances.py", "tests/scenarios/test_termination_faults.py"),
    ),
    Bug(
        id="crash-after-registration",
        says="A node that registered before its NodeClaim says so is not drained.",
        file="controllers/termination.py",
        before="        if claim.has(REGISTERED) or any(map(_is_registered, nodes)):\n",
        after="        if claim.has(REGISTERED):\n",
        tests=("tests/scenarios/test_termination_faults.py", "tests/scenarios/test_termination.py"),
    ),
    Bug(
        id="unknown-node-not-asked-for",
        says="An instance ends although the API server has a node of it that the cache does not know.",
        file="controllers/termination.py",
        before="            if self._node_is_unreadable(claim) or await self._node_exists(claim):\n",
        after="            if self._node_is_unreadable(claim):\n",
        tests=("tests/scenarios/test_late_watches.py", "tests/scenarios/test_stale_caches.py"),
    ),
    Bug(
        id="pods-do-not-wake-the-drain",
        says="A drain does not react to the removal of a pod before its next periodic check.",
        file="controllers/termination.py",
        before="        if before is not None and before.node_name and before.node_name != name:\n",
        after="        if before is not None and after is not None and before.node_name != name:\n",
        tests=("tests/scenarios/test_termination_timeline.py",),
    ),
)

"""Bugs in the lifecycle of NodeClaims: launch, registration, initialization."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="launch-before-finalizer",
        says="The instance is launched before the finalizer is on its NodeClaim.",
        file="controllers/nodeclaim_lifecycle.py",
        before="""\
        if TERMINATION_FINALIZER not in claim.metadata.finalizers:
            claim = await self._context.patch_claim(claim, finalizer_added(claim, TERMINATION_FINALIZER))
        if is_unknown(claim.status.conditions, LAUNCHED):
            launched = await self._launch(claim)
            if launched is None:
                return None
            claim = launched
""",
        after="""\
        if is_unknown(claim.status.conditions, LAUNCHED):
            launched = await self._launch(claim)
            if launched is None:
                return None
            claim = launched
        if TERMINATION_FINALIZER not in claim.metadata.finalizers:
            claim = await self._context.patch_claim(claim, finalizer_added(claim, TERMINATION_FINALIZER))
""",
        tests=("tests/scenarios/test_writes.py",),
    ),
    Bug(
        id="given-up-and-launched-again",
        says="A NodeClaim that timed out is launched again before the watch delivers its deletion.",
        file="controllers/nodeclaim_lifecycle.py",
        before="""\
        if claim.metadata.uid in self._given_up:
            return None  # another launch would leave an unused instance
""",
        after="",
        tests=("tests/scenarios/test_launch_given_up.py", "tests/scenarios/test_late_watches.py"),
    ),
    Bug(
        id="registration-counted-again",
        says="Every later write of a registered NodeClaim counts its registration again.",
        file="controllers/nodeclaim_lifecycle.py",
        before="        if after.has(REGISTERED) and not before.has(REGISTERED):\n",
        after="        if after.has(REGISTERED):\n",
        tests=("tests/scenarios/test_counted_once.py",),
    ),
    Bug(
        id="any-capacity-is-consistent",
        says="A node with far less capacity than its instance type is not reported.",
        file="core/lifecycle/registration.py",
        before="        if amount and expected and actual.number < MINIMUM_CAPACITY * expected.number:\n",
        after="        if amount and expected and expected.number < MINIMUM_CAPACITY * actual.number:\n",
        tests=("tests/scenarios/test_consistency.py", "tests/core/lifecycle/test_lifecycle.py"),
    ),
    Bug(
        id="registration-never-times-out",
        says="A NodeClaim that was launched and never registers is never deleted.",
        file="core/lifecycle/registration.py",
        before="""\
    if claim.has(REGISTERED_CONDITION):
        return Liveness()
""",
        after="""\
    if claim.has(LAUNCHED):
        return Liveness()
""",
        tests=("tests/core/lifecycle/test_lifecycle.py",),
    ),
    Bug(
        id="startup-taints-not-awaited",
        says="A node is initialized while its startup taints are still there.",
        file="core/lifecycle/registration.py",
        before="        if any(taint.matches(startup) for startup in claim.spec.startup_taints):\n",
        after="        if any(taint.matches(startup) for startup in claim.spec.taints):\n",
        tests=("tests/core/lifecycle/test_lifecycle.py",),
    ),
    Bug(
        id="devices-not-awaited",
        says="A node is initialized before it reports a resource that its pods request.",
        file="core/lifecycle/registration.py",
        before="        if amount and not node.status.allocatable.get(name, ZERO):\n",
        after="        if amount and name in node.status.allocatable and not node.status.allocatable[name]:\n",
        tests=("tests/core/lifecycle/test_lifecycle.py",),
    ),
    Bug(
        id="startup-taints-not-synced",
        says="A node that joins does not get the startup taints of its NodeClaim.",
        file="core/lifecycle/registration.py",
        before="    for taint in (*claim.spec.taints, *claim.spec.startup_taints, *closing):\n",
        after="    for taint in (*claim.spec.taints, *closing):\n",
        tests=("tests/core/lifecycle/test_lifecycle.py", "tests/scenarios/test_scale_out.py"),
    ),
    Bug(
        id="finalizers-of-others-removed",
        says="Registration replaces the finalizers that others put on the node.",
        file="core/lifecycle/registration.py",
        before='metadata["finalizers"] = [*node.metadata.finalizers, TERMINATION_FINALIZER]',
        after='metadata["finalizers"] = [TERMINATION_FINALIZER]',
        tests=("tests/core/lifecycle/test_lifecycle.py",),
    ),
    Bug(
        id="node-patch-without-version",
        says="Nodes are patched without the version that was read, so that taints of others are lost.",
        file="controllers/context.py",
        before="        patch = Patch(body, node.metadata.resource_version)\n",
        after="        patch = Patch(body)\n",
        tests=("tests/scenarios/test_writes.py",),
    ),
    Bug(
        id="claim-patch-without-version",
        says="NodeClaims are patched without the version that was read.",
        file="controllers/context.py",
        before='patch = Patch(body, claim.metadata.resource_version, "status" if status else "")',
        after='patch = Patch(body, "", "status" if status else "")',
        tests=("tests/scenarios/test_writes.py",),
    ),
    Bug(
        id="hard-expiration-never",
        says="A NodeClaim that has not expired yet is not requeued, so it never expires.",
        file="controllers/expiration.py",
        before="""\
        if left > timedelta():
            return left.total_seconds()
""",
        after="""\
        if left > timedelta():
            return None
""",
        tests=(
            "tests/scenarios/test_termination_timeline.py",
            "tests/scenarios/test_ledger.py",
        ),
    ),
    Bug(
        id="empty-list-hashed-as-absent",
        says="`taints: []` and no `taints` have the same hash, which Karpenter's hash tells apart.",
        file="core/lifecycle/nodepool_hash.py",
        before="    if taints is ABSENT_LIST:\n",
        after="    if not taints:\n",
        tests=("tests/core/lifecycle/test_nodepool_hash.py",),
    ),
    Bug(
        id="own-fields-never-drift",
        says="A changed `kubelet` of a template is not noticed as drift.",
        file="core/lifecycle/nodepool_hash.py",
        before='    return (annotations[NODEPOOL_HASH], annotations.get(OWN_NODEPOOL_HASH, "")) != _hashes(pool)\n',
        after="    return annotations[NODEPOOL_HASH] != template_hash(pool)\n",
        tests=("tests/core/lifecycle/test_nodepool_hash.py",),
    ),
)

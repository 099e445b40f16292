"""Bugs in provisioning for pending pods."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="replaced-nodes-pods-forgotten",
        says="Pods of nodes that a command is about to delete are missing from the plan.",
        file="core/provisioning/eligible_pods.py",
        before="        if node.deleting or node.name in snapshot.replaced\n",
        after="        if node.deleting\n",
        tests=("tests/acceptance/test_ahead.py",),
    ),
    Bug(
        id="limits-not-spent",
        says="Nodes of one batch are each checked against the whole limit of their NodePool.",
        file="core/scheduling/purchasable.py",
        before="""\
            self._limits.spend(options.type_table, options.types[options.left(draft.total, draft.below, draft.ports)])
""",
        after="",
        tests=("tests/core/scheduling/test_nodepool_limits.py",),
    ),
    Bug(
        id="chosen-nodes-at-any-price",
        says="Nodes chosen by price are used although they cost more than nodes added one by one.",
        file="core/provisioning/node_sizing.py",
        before=" and sum(map(cheapest, chosen.drafts)) < most:\n",
        after=":\n",
        tests=("tests/core/provisioning/test_node_sizing.py",),
    ),
    Bug(
        id="chosen-nodes-ignore-other-pods",
        says="A node is chosen by price although the anti-affinity of a running pod keeps its pods out.",
        file="core/scheduling/placement.py",
        before=" or not rules(each[0]).unconstrained for each in levels):\n",
        after=" for each in levels):\n",
        tests=("tests/core/provisioning/test_node_sizing.py",),
    ),
    Bug(
        id="lightest-pool-first",
        says="NodePools are tried from the lowest weight up.",
        file="core/provisioning/eligible_pods.py",
        before="    ready.sort(key=lambda pool: -pool.weight)\n",
        after="    ready.sort(key=lambda pool: pool.weight)\n",
        tests=("tests/core/provisioning/test_plan.py", "tests/core/scheduling/test_solver.py"),
    ),
    Bug(
        id="unready-pools-used",
        says="Nodes are launched for NodePools that are not ready.",
        file="core/provisioning/eligible_pods.py",
        before="    return not pool.deleting and not pool.static and is_true(pool.status.conditions, READY)\n",
        after="    return not pool.deleting and not pool.static\n",
        tests=("tests/core/provisioning/test_plan.py", "tests/scenarios/test_scale_out.py"),
    ),
    Bug(
        id="two-buyers-at-once",
        says="Provisioning does not wait for the launches of a command: both use the same capacity below a limit.",
        file="controllers/provisioner.py",
        before="""\
            async with self._context.launch_lock:
                plan = await self._provision()
""",
        after="            plan = await self._provision()\n",
        tests=("tests/scenarios/test_limits.py",),
    ),
    Bug(
        id="unanswered-create-repeated",
        says="After a create without a response a second NodeClaim is created without checking for the first.",
        file="controllers/context.py",
        before="""\
            created = await self.cluster.create(NODE_CLAIM, claim)
        except OutcomeUnknown:
            await self.refresh_claims()
            raise
""",
        after="""\
            created = await self.cluster.create(NODE_CLAIM, claim)
        except OutcomeUnknown:
            raise
""",
        tests=("tests/scenarios/test_unknown_outcomes.py",),
    ),
    Bug(
        id="triggers-seen-for-ever",
        says="A pod triggers provisioning once in the life of the process.",
        file="controllers/provisioner.py",
        before="""\
        self._triggered.clear()
        self._seen.clear()
""",
        after="        self._triggered.clear()\n",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="launching-claims-not-counted",
        says="NodeClaims that have no node yet are not part of the cluster: their pods get a second node.",
        file="controllers/cluster_state.py",
        before="            if claim.status.provider_id not in self._nodes_by_provider_id:\n",
        after="            if claim.provider_id and claim.status.provider_id not in self._nodes_by_provider_id:\n",
        tests=("tests/controllers/test_cluster_state.py",),
    ),
    Bug(
        id="backoff-never-ends",
        says="A back-off that is over still keeps pods waiting.",
        file="core/provisioning/plan.py",
        before="                if backoff is not None and backoff.until > self._snapshot.at:\n",
        after="                if backoff is not None:\n",
        tests=("tests/scenarios/test_launch_backoff.py", "tests/core/provisioning/test_launch_backoff.py"),
    ),
)

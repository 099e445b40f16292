"""Bugs in caches: an input that is missing from a key, or a missing invalidation."""

from planted.bug import Bug

REMEMBERED = ("tests/core/scheduling/test_removal_cache.py",)

BUGS = (
    Bug(
        id="facts-old-pods",
        says="Cached facts about the pods of a node are kept when the node or its pods change.",
        file="core/disruption/candidates.py",
        before="        if known is None or (known.node is not node and known.node != node):\n",
        after="        if known is None:\n",
        tests=REMEMBERED,
    ),
    Bug(
        id="facts-old-selectors",
        says="A PodDisruptionBudget with another selector still guards the pods it guarded before.",
        file="core/disruption/candidates.py",
        before="        if selectors != self._selectors or len(self._facts)",
        after="        if len(selectors) != len(self._selectors) or len(self._facts)",
        tests=REMEMBERED,
    ),
    Bug(
        id="market-old-catalogue",
        says="A NodePool uses the instance types and prices of an older catalog.",
        file="core/scheduling/instance_type_table.py",
        before="            self.types == snapshot.catalogs.get(pool.name, ())\n            and self.type_table",
        after="            self.type_table",
        tests=REMEMBERED,
    ),
    Bug(
        id="market-old-daemons",
        says="Instance types are chosen for the DaemonSets there were before.",
        file="core/scheduling/instance_type_table.py",
        before="            and self.daemons == daemons\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="market-old-nodepool",
        says="A NodePool whose requirements changed keeps its old instance types.",
        file="core/scheduling/instance_type_table.py",
        before="            and self.pool.equal_ignoring_counts(pool)\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-catalogue",
        says="Simulations go on with an older catalogue.",
        file="core/disruption/simulation_cache.py",
        before="        and old.catalogs == new.catalogs\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-daemons",
        says="Simulations go on with the DaemonSets there were before.",
        file="core/disruption/simulation_cache.py",
        before="        and read_daemons(old) == read_daemons(new)\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-nodepools",
        says="Simulations go on with NodePools that have changed.",
        file="core/disruption/simulation_cache.py",
        before="        and all(pool.equal_ignoring_counts(new.nodepools[name])"
        " for name, pool in old.nodepools.items())\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-namespaces",
        says="Simulations go on with the labels that namespaces had before.",
        file="core/disruption/simulation_cache.py",
        before="        and old.namespaces == new.namespaces\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-labels",
        says="A node whose labels changed is simulated with those it had before.",
        file="core/disruption/simulation_cache.py",
        before="        and before.labels == after.labels\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-taints",
        says="A node whose taints changed is simulated with those it had before.",
        file="core/disruption/simulation_cache.py",
        before="        and before.all_taints == after.all_taints\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="sweep-old-allocatable",
        says="A node that reports other resources is simulated with those it had before.",
        file="core/disruption/simulation_cache.py",
        before="        and before.allocatable == after.allocatable\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="lodgings-old-pods",
        says="The free capacity of a node is kept when other pods run there.",
        file="core/scheduling/pod_shapes.py",
        before="        if entry is None or (entry.node is not node and entry.node != node):\n",
        after="        if entry is None:\n",
        tests=REMEMBERED,
    ),
    Bug(
        id="shapes-old-storage",
        says="Pods are placed by the volumes there were before.",
        file="core/scheduling/pod_shapes.py",
        before="            and self._storage == snapshot.storage\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="shapes-without-tolerations",
        says="Pods that differ in their tolerations alone are taken for equal.",
        file="core/scheduling/pod_shapes.py",
        before="            id(spec.tolerations),\n",
        after="",
        tests=REMEMBERED,
    ),
    Bug(
        id="state-old-node",
        says="The joined view of a node is kept when the Node changes.",
        file="controllers/cluster_state.py",
        before="""\
        for node in (before, after):
            if node is not None:
                self._cluster_node_by_name.pop(node.name, None)
""",
        after="",
        tests=("tests/controllers/test_cluster_state.py",),
    ),
    Bug(
        id="state-old-claim",
        says="The joined view of a node is kept when its NodeClaim changes.",
        file="controllers/cluster_state.py",
        before="""\
                for node in self.nodes_of(claim):
                    self._cluster_node_by_name.pop(node.name, None)
""",
        after="",
        tests=("tests/controllers/test_cluster_state.py",),
    ),
    Bug(
        id="state-old-list",
        says="The list of all nodes is kept when a pod is bound or goes.",
        file="controllers/cluster_state.py",
        before="""\
                self._cluster_nodes = None
                self._cluster_node_by_name.pop(pod.node_name, None)
""",
        after="                self._cluster_node_by_name.pop(pod.node_name, None)\n",
        tests=("tests/controllers/test_cluster_state.py",),
    ),
    Bug(
        id="validity-old-annotations",
        says="The validity of a NodePool is kept when its annotations change.",
        file="controllers/nodepools.py",
        before="        written = (pool.spec, pool.metadata.labels, pool.metadata.annotations)\n",
        after="        written = (pool.spec, pool.metadata.labels, {})\n",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="marks-old-catalogue",
        says="A claim whose instance type is no longer sold is not marked as drifted.",
        file="controllers/nodeclaim_conditions.py",
        before="            and self.findings.types is findings.types\n",
        after="",
        tests=("tests/scenarios/test_marking.py",),
    ),
    Bug(
        id="bought-node-still-offered",
        says="After a launch the NodePool offers instance types that its limit no longer allows.",
        file="core/scheduling/purchasable.py",
        before="            self._roots.pop(draft.options.type_table, None)\n",
        after="",
        tests=("tests/core/provisioning/test_plan.py",),
    ),
    Bug(
        id="sweep-old-capacity",
        says="A node that reports another capacity counts against limits with the one it had before.",
        file="core/disruption/simulation_cache.py",
        before="        and before.capacity == after.capacity\n",
        after="",
        tests=("tests/core/disruption/test_simulation_cache.py",),
    ),
    Bug(
        id="sweep-old-answers",
        says="Answers about other nodes are kept when the pods of a node need other capacity.",
        file="core/scheduling/removal_simulation.py",
        before="        self._forget(row, everything=gone or before != after)\n",
        after="        self._forget(row, everything=gone)\n",
        tests=("tests/properties/test_following.py", *REMEMBERED),
    ),
)

"""Bugs in the execution of disruption commands."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="delete-before-commit",
        says="A command deletes its NodeClaims first and writes the commit afterwards.",
        file="controllers/disruption_queue.py",
        before="        claims = await for_each(commit, claims)\n",
        after="""\
        await self._delete(claims, record)
        claims = await for_each(commit, claims)
""",
        tests=("tests/scenarios/test_commit_faults.py", "tests/scenarios/test_faults.py"),
    ),
    Bug(
        id="commit-not-written",
        says="A command deletes its NodeClaims without ever writing the commit.",
        file="controllers/disruption_queue.py",
        before="        claims = await for_each(commit, claims)\n",
        after="",
        tests=("tests/scenarios/test_commit_faults.py", "tests/scenarios/test_faults.py"),
    ),
    Bug(
        id="commit-check-skipped",
        says="A command is committed without reading its objects from the API server right before.",
        file="controllers/disruption_queue.py",
        before="obstacles = await self._commit_check.find_obstacles(state, self._planned_pods.get(state.record.id))",
        after="obstacles: dict[str, Refusal] = {}",
        tests=("tests/scenarios/test_commit_check.py",),
    ),
    Bug(
        id="taken-while-planned",
        says="A command starts on a node that was deleted, disrupted or nominated while the command was planned.",
        file="controllers/disruption.py",
        before=" or self._taken_refusal(checked) or checked",
        after=" or checked",
        tests=("tests/scenarios/test_slow_plans.py",),
    ),
    Bug(
        id="deleting-while-planned",
        says="A command starts on a node whose deletion began while the command was planned.",
        file="controllers/disruption.py",
        before="        if claim.deleting or any(node.deleting for node in self._context.state.nodes_of(claim)):\n",
        after="        if False:\n",
        tests=("tests/scenarios/test_slow_plans.py",),
    ),
    Bug(
        id="starts-while-pods-are-placed",
        says="A command starts while the provisioner plans to use its nodes for pending pods.",
        file="controllers/disruption.py",
        before="            async with self._context.launch_lock:\n",
        after="            if True:\n",
        tests=("tests/scenarios/test_slow_plans.py",),
    ),
    Bug(
        id="plans-on-the-event-loop",
        says="Planning blocks the event loop: the thread for computations calls the work where it is requested.",
        file="runtime/compute_thread.py",
        before="        self._requests.put((future, work))\n        return",
        after="        _answer(future, work)\n        return",
        tests=("tests/runtime/test_compute_thread.py",),
    ),
    Bug(
        id="survivors-examined-again",
        says="Each full garbage collection examines every object, with a pause that grows with the cluster.",
        file="runtime/short_collections.py",
        before="        gc.freeze()\n",
        after="",
        tests=("tests/runtime/test_short_collections.py",),
    ),
    Bug(
        id="registered-is-ready",
        says="Nodes are deleted as soon as their replacements are registered, before these are initialized.",
        file="core/disruption/command_progress.py",
        before="all(claim.has(INITIALIZED) for claim in alive)",
        after="all(claim.has(REGISTERED) for claim in alive)",
        tests=("tests/acceptance/test_progress.py", "tests/acceptance/test_executor.py"),
    ),
    Bug(
        id="rollback-keeps-replacements",
        says="A rolled-back command deletes the replacements that registered and keeps the others.",
        file="core/disruption/command_progress.py",
        before="if not claim.deleting and not claim.has(REGISTERED)]",
        after="if not claim.deleting and claim.has(REGISTERED)]",
        tests=("tests/acceptance/test_progress.py", "tests/acceptance/test_executor.py"),
    ),
    Bug(
        id="replacement-counts-twice",
        says="The nodes a command removes count against the limits of its replacements.",
        file="controllers/disruption_queue.py",
        before="planned[0], [each.name for each in state.candidates])",
        after="planned[0], [])",
        tests=("tests/scenarios/test_limits.py", "tests/acceptance/test_replace.py"),
    ),
    Bug(
        id="pool-pause-ignored-by-commands",
        says="A pause of a NodePool does not stop a command in progress.",
        file="controllers/disruption_queue.py",
        before="""\
        written.extend((pool.metadata.annotations.get(PAUSE), f"NodePool {pool.name}") for pool in pools)
""",
        after="",
        tests=("tests/scenarios/test_commit_check.py",),
    ),
    Bug(
        id="later-command-goes-first",
        says="Where a budget was lowered, the command that started later is committed first.",
        file="core/disruption/validation.py",
        before="return (record.started_at, record.id) > (self._record.started_at, self._record.id)",
        after="return (record.started_at, record.id) < (self._record.started_at, self._record.id)",
        tests=("tests/core/disruption/test_recheck.py",),
    ),
    Bug(
        id="marked-late",
        says="The nodes of a command are not kept free of new pods while they are checked before the commit.",
        file="controllers/disruption_queue.py",
        before="""\
            await mark_candidates(self._context, remaining, state.record)  # keeps new pods away during the check
""",
        after="",
        tests=("tests/scenarios/test_writes.py",),
    ),
    Bug(
        id="another-commands-record",
        says="The record of a command is written over that of another one.",
        file="controllers/disruption_queue.py",
        before="        if record.committed if written is None else written.id != record.id:\n",
        after="        if record.committed and written is None:\n",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="pause-by-a-late-watch",
        says="The ConfigMap that pauses is not read from the API server before nodes are deleted.",
        file="controllers/command_steps.py",
        before="        context.state.observe_all(CONFIG_MAP, switch)\n",
        after="",
        tests=("tests/scenarios/test_commit_check.py",),
    ),
    Bug(
        id="pods-from-the-watch-cache",
        says="The last list of a node's pods is served from the API server's watch cache.",
        file="controllers/context.py",
        before='ListOptions(field_selector=f"spec.nodeName={node_name}"))',
        after='ListOptions(field_selector=f"spec.nodeName={node_name}", resource_version="0"))',
        tests=("tests/scenarios/test_lagging_watch_cache.py",),
    ),
    Bug(
        id="claims-from-the-watch-cache",
        says="A NodeClaim whose create had no response is read from the API server's watch cache.",
        file="controllers/context.py",
        before="                listing = await self.cluster.list(NODE_CLAIM)\n",
        after='                listing = await self.cluster.list(NODE_CLAIM, ListOptions(resource_version="0"))\n',
        tests=("tests/scenarios/test_lagging_watch_cache.py",),
    ),
)

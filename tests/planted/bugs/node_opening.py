"""Bugs in nodes that stay closed until the pods they were launched for are nominated."""

from planted.bug import Bug

OPENING = "tests/core/lifecycle/test_opening.py"
PLANNED = "tests/core/provisioning/test_planned_pods.py"
STORIES = "tests/scenarios/test_node_opening.py"

BUGS = (
    Bug(
        id="opened-before-nominations",
        says="A node is opened before its pods are nominated, so that kube-scheduler distributes them.",
        file="controllers/node_opening.py",
        before="""\
        outcomes = Counter(await asyncio.gather(*(self._nominate(pod, node) for pod in pods)))
        with suppress(NotFound):
            await self._open(node)
""",
        after="""\
        with suppress(NotFound):
            await self._open(node)
            outcomes = Counter(await asyncio.gather(*(self._nominate(pod, node) for pod in pods)))
""",
        tests=(STORIES,),
    ),
    Bug(
        id="failed-nomination-keeps-closed",
        says="A node whose pods cannot be nominated is not opened.",
        file="controllers/node_opening.py",
        before="""\
            log.warning("pod not nominated", extra={"pod": str(pod.key), "node": node.name, "error": str(error)})
            return _FAILED
""",
        after="            raise\n",
        tests=(STORIES,),
    ),
    Bug(
        id="nomination-without-uid",
        says="A new pod with the name of a planned one is nominated in its place.",
        file="controllers/node_opening.py",
        before='{"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node.name}}',
        after='{"status": {"nominatedNodeName": node.name}}',
        tests=(STORIES,),
    ),
    Bug(
        id="opened-while-not-ready",
        says="A node is opened as soon as it has registered, when no pod can be bound to it yet.",
        file="core/lifecycle/opening.py",
        before="    return node.ready and not any(",
        after="    return not any(",
        tests=(OPENING, STORIES),
    ),
    Bug(
        id="opened-under-startup-taint",
        says="A node is opened while a startup taint of its NodePool still keeps pods off, so nominations are lost.",
        file="core/lifecycle/opening.py",
        before="is_ephemeral(each) or any(map(each.matches, startup)) for",
        after="is_ephemeral(each) for",
        tests=(OPENING, STORIES),
    ),
    Bug(
        id="slow-node-stays-closed",
        says="A node that does not become ready stays closed, also to the DaemonSet that it may wait for.",
        file="core/lifecycle/opening.py",
        before="        return Opening(wait=left) if left > timedelta() else Opening(problem=",
        after="        return Opening(wait=LONGEST_START) if left else Opening(problem=",
        tests=(OPENING, STORIES),
    ),
    Bug(
        id="closed-without-plan",
        says="A closed node whose NodeClaim names no pods waits like others.",
        file="core/lifecycle/opening.py",
        before="    if claim is None or not planned_pods(claim):\n",
        after="    if claim is None:\n",
        tests=(OPENING,),
    ),
    Bug(
        id="closed-for-running-pods",
        says="A node that replaces others starts closed, for pods that run elsewhere and cannot be nominated.",
        file="core/lifecycle/opening.py",
        before="    uids = sorted(pod.metadata.uid for pod in pods if not pod.node_name)\n",
        after="    uids = sorted(pod.metadata.uid for pod in pods)\n",
        tests=(OPENING,),
    ),
    Bug(
        id="closed-to-daemon-it-needs",
        says="A node is closed to a DaemonSet whose pods it needs to become ready.",
        file="core/lifecycle/opening.py",
        before=" or any(_starts_nodes(each, starting) for each in daemon_sets):\n",
        after=":\n",
        tests=(OPENING, STORIES),
    ),
    Bug(
        id="planned-pods-planned-again",
        says="Every plan distributes the pods of starting nodes again, which launches more nodes.",
        file="core/provisioning/planned_pods.py",
        before="        if node.claim is not None and not node.leaving and _may_be_bound_to(node.claim, snapshot.at)\n",
        after="        if node.claim is not None and node.leaving\n",
        tests=(PLANNED,),
    ),
    Bug(
        id="unbound-pods-keep-their-place",
        says="Pods that their node does not accept are never planned again.",
        file="core/provisioning/planned_pods.py",
        before="    return now < add(found.last_transition_time, BINDING_TIME)\n",
        after="    return True\n",
        tests=(PLANNED, "tests/scenarios/test_launch_backoff.py"),
    ),
    Bug(
        id="nominated-in-vain",
        says="A pod that stays nominated to a node that does not accept it is never planned again.",
        file="core/provisioning/eligible_pods.py",
        before="    return all(each.claim is not None and pod.metadata.uid in planned_pods(each.claim) for each in ",
        after="    return not any(each for each in ",
        tests=(PLANNED, "tests/scenarios/test_launch_backoff.py"),
    ),
)

"""Bugs in the eviction queue."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="forced-only-at-the-deadline",
        says="Pods are deleted at the deadline of their node, not early enough for their own grace period.",
        file="core/lifecycle/drain.py",
        before="    return now >= instants.subtract(deadline, grace_of(pod))\n",
        after="    return now >= deadline\n",
        tests=("tests/core/lifecycle/test_drain.py", "tests/scenarios/test_termination_timeline.py"),
    ),
    Bug(
        id="protected-pods-evicted",
        says="The eviction queue evicts pods that were protected after they were enqueued.",
        file="controllers/eviction_queue.py",
        before="protected = protection(pod, now).active and not request.evicts_protected",
        after="protected = False",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="drain-evicts-protected",
        says="The drain sends protected pods to the eviction queue.",
        file="core/lifecycle/drain.py",
        before="not pod.deleting and (unprotected or not protection(pod, now).active)",
        after="not pod.deleting",
        tests=("tests/core/lifecycle/test_drain.py",),
    ),
    Bug(
        id="tiers-ignored",
        says="DaemonSet pods and critical pods are evicted together with all others.",
        file="core/lifecycle/drain.py",
        before="        if tier_of(pod) == tier and not pod.deleting",
        after="        if tier is not None and not pod.deleting",
        tests=("tests/core/lifecycle/test_drain.py",),
    ),
    Bug(
        id="forced-by-name",
        says="A pod is deleted by name: a new pod of the same name may be hit.",
        file="controllers/eviction_queue.py",
        before="Deletion(uid=request.uid, grace_seconds=grace)",
        after="Deletion(grace_seconds=grace)",
        tests=("tests/scenarios/test_writes.py",),
    ),
    Bug(
        id="later-deadline-wins",
        says="A pod that is already being evicted keeps the later of two deadlines.",
        file="controllers/eviction_queue.py",
        before="        deadline = min(instants, default=None)\n",
        after="        deadline = max(instants, default=None)\n",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="budget-opens-unnoticed",
        says="A PodDisruptionBudget that allows disruptions again does not requeue the pods that wait for it.",
        file="controllers/eviction_queue.py",
        before="            if left > 0 and pod is not None and matching(pod, [budget]):\n",
        after="            if left < 0 and pod is not None and matching(pod, [budget]):\n",
        tests=("tests/controllers/test_eviction_queue.py", "tests/scenarios/test_termination_timeline.py"),
    ),
    Bug(
        id="stuck-pods-waited-for",
        says="A drain waits forever for a pod that is long past its grace period.",
        file="core/lifecycle/drain.py",
        before="    if deleted_at is not None and now - deleted_at > STUCK_AFTER:\n",
        after="    if deleted_at is not None and deleted_at - now > STUCK_AFTER:\n",
        tests=("tests/core/lifecycle/test_drain.py",),
    ),
)

"""Bugs in garbage collection."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="in-flight-counted-as-leaked",
        says="An instance whose NodeClaim does not know it yet counts as leaked.",
        file="core/lifecycle/garbage_collection.py",
        before="        and not any(_may_be_of(claim, instance) for claim in unlaunched)\n",
        after="",
        tests=("tests/core/lifecycle/test_garbage_collection.py",),
    ),
    Bug(
        id="young-instances-leaked",
        says="An instance counts as leaked in the moment it is launched.",
        file="core/lifecycle/garbage_collection.py",
        before="    return since is not None and now - since > YOUNG\n",
        after="    return since is not None and now - since >= timedelta()\n",
        tests=("tests/core/lifecycle/test_garbage_collection.py",),
    ),
    Bug(
        id="young-leaks-forgotten",
        says="An instance that was too young to be a leak when it was compared is never compared again.",
        file="core/lifecycle/garbage_collection.py",
        before="    later = now + 2 * YOUNG\n",
        after="    later = now\n",
        tests=("tests/core/lifecycle/test_garbage_collection.py", "tests/scenarios/test_leaks.py"),
    ),
    Bug(
        id="leaks-by-the-cache",
        says="Instances are terminated as leaked by what the NodeClaim cache says, without a list.",
        file="controllers/garbage_collection.py",
        before="""\
            await self._context.refresh_claims()
            leaked = self._leaked(instances)
""",
        after="            leaked = self._leaked(instances)\n",
        tests=("tests/scenarios/test_leaks.py", "tests/scenarios/test_late_watches.py"),
    ),
    Bug(
        id="list-believed-at-once",
        says="A NodeClaim is deleted because a list of instances lacks it, without asking for the instance.",
        file="controllers/garbage_collection.py",
        before="        if await self._instance_is_gone(claim) or await self._has_no_node(claim):\n",
        after="        if True:\n",
        tests=("tests/scenarios/test_leaks.py", "tests/scenarios/test_lost_instances.py"),
    ),
    Bug(
        id="ready-orphans-deleted",
        says="A node without NodeClaim and instance is deleted although it reports Ready.",
        file="core/lifecycle/garbage_collection.py",
        before="        and not node.ready\n",
        after="",
        tests=("tests/core/lifecycle/test_garbage_collection.py",),
    ),
    Bug(
        id="failed-list-is-empty",
        says="A failed list of instances counts as an empty list.",
        file="controllers/garbage_collection.py",
        before="""\
        instances = await guarded("nodeclaim.garbagecollection", self._cloud.list)
        if instances is None:
            return False
""",
        after='        instances = await guarded("nodeclaim.garbagecollection", self._cloud.list) or ()\n',
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="stale-caches-compared",
        says="Instances are compared with caches that are stale.",
        file="controllers/garbage_collection.py",
        before="""\
        if self._context.state.stale():
            return False
""",
        after="",
        tests=("tests/controllers/test_guards.py",),
    ),
    Bug(
        id="no-claims-no-instances",
        says="With no NodeClaim at startup, all instances of the cluster are terminated as leaked.",
        file="controllers/garbage_collection.py",
        before="            self._claims_missing = await self._check_first_round(instances)\n",
        after="            self._claims_missing = False\n",
        tests=("tests/scenarios/test_leaks.py",),
    ),
    Bug(
        id="one-claim-ends-the-stop",
        says="A NodeClaim that appears later makes instances from before the start count as leaked.",
        file="controllers/garbage_collection.py",
        before="            found = tuple(instance for instance in found if instance.provider_id in self._seen)\n",
        after="            found = () if not holdings.claims else found\n",
        tests=("tests/scenarios/test_leaks.py",),
    ),
)

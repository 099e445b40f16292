"""Bugs in the AWS provider."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="instances-of-all-clusters",
        says="The list of instances includes those of other clusters in the account.",
        file="cloud/aws/instances.py",
        before="""\
            named(f"tag:{CLUSTER_NAME_TAG}", self._cluster_name),
            named("instance-state-name", *_PRESENT),
""",
        after="""\
            named("tag-key", CLUSTER_NAME_TAG),
            named("instance-state-name", *_PRESENT),
""",
        tests=("tests/cloud/aws/test_instances.py",),
    ),
    Bug(
        id="terminating-counts-as-gone",
        says="An instance counts as gone when its termination was requested, while it still runs.",
        file="cloud/aws/instances.py",
        before="            gone |= {id_: id_ in over for id_ in left}\n",
        after="            gone |= dict.fromkeys(left, True) if over is not None else {}\n",
        tests=("tests/cloud/aws/test_instances.py", "tests/cloud/aws/test_contract.py"),
    ),
    Bug(
        id="stopped-instances-vanish",
        says="Stopped instances are not listed, so that they are never terminated.",
        file="cloud/aws/instances.py",
        before='_PRESENT = ("pending", "running", "stopping", "stopped", "shutting-down")',
        after='_PRESENT = ("pending", "running", "shutting-down")',
        tests=("tests/cloud/aws/test_instances.py",),
    ),
    Bug(
        id="old-prices-kept",
        says="Instance types keep the prices they were first made with.",
        file="cloud/aws/catalog/catalog.py",
        before="        key = (shape, amis, market, self._prices.version)\n",
        after="        key = (shape, amis, market)\n",
        tests=("tests/cloud/aws/test_catalog.py",),
    ),
    Bug(
        id="old-shortages-kept",
        says="An offering that EC2 had none of is still offered: the catalogue is kept across shortages.",
        file="cloud/aws/catalog/catalog.py",
        before="        marked = (key, self._unavailable.version, self._seen.version)\n",
        after="        marked = (key, self._seen.version)\n",
        tests=("tests/cloud/aws/test_catalog.py", "tests/cloud/aws/test_refusals.py"),
    ),
    Bug(
        id="shortages-never-end",
        says="A shortage that is over is not noticed: the version of the shortages stays the same.",
        file="cloud/aws/catalog/offerings.py",
        before="        self._version += bool(over)\n",
        after="",
        tests=("tests/cloud/aws/test_catalog.py", "tests/cloud/aws/test_refusals.py"),
    ),
    Bug(
        id="seen-memory-ignored",
        says="The memory that nodes turned out to have does not change instance types that were made before.",
        file="cloud/aws/catalog/catalog.py",
        before="        marked = (key, self._unavailable.version, self._seen.version)\n",
        after="        marked = (key, self._unavailable.version)\n",
        tests=("tests/cloud/aws/catalog/test_observed_memory.py",),
    ),
    Bug(
        id="new-token-for-each-try",
        says="Each retry of a launch has a new client token: a launch without a response is made twice.",
        file="cloud/aws/launch/launcher.py",
        before='        request = order.request(f"{order.claim.metadata.uid}-{tries.number}")\n',
        after="""\
        tries.number += 1
        request = order.request(f"{order.claim.metadata.uid}-{tries.number}")
""",
        tests=("tests/cloud/aws/test_launch.py", "tests/cloud/aws/test_refusals.py"),
    ),
)

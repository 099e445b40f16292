"""Bugs in the AWS provider."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="instances-of-all-clusters",
        says="The list of instances includes those of other clusters in the account.",
        file="cloud/aws/instances.py",
        before="""\
            ec2_filter(f"tag:{CLUSTER_NAME_TAG}", self._cluster_name),
            ec2_filter("instance-state-name", *_EXISTING_STATES),
""",
        after="""\
            ec2_filter("tag-key", CLUSTER_NAME_TAG),
            ec2_filter("instance-state-name", *_EXISTING_STATES),
""",
        tests=("tests/cloud/aws/test_instances.py",),
    ),
    Bug(
        id="terminating-counts-as-gone",
        says="An instance counts as gone when its termination was requested, while it still runs.",
        file="cloud/aws/instances.py",
        before="            gone |= {id_: id_ in terminated for id_ in left}\n",
        after="            gone |= dict.fromkeys(left, True) if terminated is not None else {}\n",
        tests=("tests/cloud/aws/test_instances.py", "tests/cloud/aws/test_contract.py"),
    ),
    Bug(
        id="stopped-instances-vanish",
        says="Stopped instances are not listed, so that they are never terminated.",
        file="cloud/aws/instances.py",
        before='_EXISTING_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")',
        after='_EXISTING_STATES = ("pending", "running", "shutting-down")',
        tests=("tests/cloud/aws/test_instances.py",),
    ),
    Bug(
        id="old-prices-kept",
        says="Instance types keep the prices of their first computation.",
        file="cloud/aws/catalog/catalog.py",
        before="        key = (shape, amis, scope, self._prices.version)\n",
        after="        key = (shape, amis, scope)\n",
        tests=("tests/cloud/aws/test_catalog.py",),
    ),
    Bug(
        id="old-shortages-kept",
        says="An offering without capacity is still offered: the cached instance types ignore shortages.",
        file="cloud/aws/catalog/catalog.py",
        before="        current_key = (key, self._unavailable.version, self._observed_memory.version)\n",
        after="        current_key = (key, self._observed_memory.version)\n",
        tests=("tests/cloud/aws/test_catalog.py", "tests/cloud/aws/test_refusals.py"),
    ),
    Bug(
        id="shortages-never-end",
        says="The end of a shortage is not noticed: the version of the shortages stays the same.",
        file="cloud/aws/catalog/offerings.py",
        before="        self._version += bool(expired)\n",
        after="",
        tests=("tests/cloud/aws/test_catalog.py", "tests/cloud/aws/test_refusals.py"),
    ),
    Bug(
        id="seen-memory-ignored",
        says="Observed memory does not change instance types that are already cached.",
        file="cloud/aws/catalog/catalog.py",
        before="        current_key = (key, self._unavailable.version, self._observed_memory.version)\n",
        after="        current_key = (key, self._unavailable.version)\n",
        tests=("tests/cloud/aws/catalog/test_observed_memory.py",),
    ),
    Bug(
        id="new-token-for-each-try",
        says="Each retry of a launch has a new client token: a launch without a response is made twice.",
        file="cloud/aws/launch/launcher.py",
        before='        request = fleet.request(f"{fleet.claim.metadata.uid}-{attempts.number}")\n',
        after="""\
        attempts.number += 1
        request = fleet.request(f"{fleet.claim.metadata.uid}-{attempts.number}")
""",
        tests=("tests/cloud/aws/test_launch.py", "tests/cloud/aws/test_refusals.py"),
    ),
)

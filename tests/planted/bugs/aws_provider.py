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
    Bug(
        id="no-volumes-hashed-as-absent",
        says="`blockDeviceMappings: []` and none have the same hash, which Karpenter's hash tells apart.",
        file="cloud/aws/nodeclass_hash.py",
        before="    if spec.block_device_mappings is ABSENT_LIST:\n",
        after="    if not spec.block_device_mappings:\n",
        tests=("tests/cloud/aws/test_nodeclass_hash.py",),
    ),
    Bug(
        id="volume-size-hashed-raw",
        says="`1024Gi` and `1Ti` have different hashes, which are equal for Karpenter.",
        file="cloud/aws/nodeclass_hash.py",
        before="Quantity.parse(ebs.volume_size).canonical if ebs.volume_size else None",
        after="ebs.volume_size or None",
        tests=("tests/cloud/aws/test_nodeclass_hash.py",),
    ),
    Bug(
        id="foreign-class-hash-copied",
        says="A launch takes over the hash of another version from the tags of its instance.",
        file="cloud/aws/nodeclass_hash.py",
        before="    if written.get(CLASS_HASH_VERSION) != HASH_VERSION:\n",
        after="    if CLASS_HASH not in written:\n",
        tests=("tests/cloud/aws/test_nodeclass_hash.py", "tests/cloud/aws/test_drift.py"),
    ),
    Bug(
        id="class-drift-forgotten",
        says="A change of the hash version forgets that a claim has drifted.",
        file="cloud/aws/nodeclass_status.py",
        before="        written = {CLASS_HASH_VERSION: HASH_VERSION} if drifted else annotations\n",
        after="        written = annotations\n",
        tests=("tests/cloud/aws/test_nodeclass_status.py",),
    ),
    Bug(
        id="zones-asked-without-permission",
        says="A call that Karpenter's IAM policy does not allow is made for every list of instances.",
        file="cloud/aws/instances.py",
        before="        found = {each.id: each async for each in self._read(filters)}\n        self._known = found\n",
        after="""\
        await self._aws.call("ec2", "describe_availability_zones")
        found = {each.id: each async for each in self._read(filters)}
        self._known = found
""",
        tests=("tests/cloud/aws/test_permissions.py",),
    ),
    Bug(
        id="profile-without-region-tag",
        says="Instance profiles lack the tag of the region, without which Karpenter's policy denies their creation.",
        file="cloud/aws/resolve/instance_profiles.py",
        before="                REGION: self._aws.region,\n",
        after="",
        tests=("tests/cloud/aws/test_permissions.py",),
    ),
    Bug(
        id="interfaces-not-tagged",
        says="Network interfaces get no tags, without which Karpenter's policy denies the launch.",
        file="cloud/aws/launch/launch_templates.py",
        before='    tagged = ["network-interface", *(',
        after="    tagged = [*(",
        tests=("tests/cloud/aws/test_permissions.py",),
    ),
    Bug(
        id="profile-of-karpenter-dropped",
        says="The instance profile that Karpenter made is replaced although it has the right role.",
        file="cloud/aws/resolve/instance_profiles.py",
        before="        name = node_class.status.instance_profile\n",
        after='        name = ""\n',
        tests=("tests/cloud/aws/test_nodeclass_status.py",),
    ),
)

"""Reconciliation of node classes, over HTTP: resolution, conditions and deletion."""

import re

import pytest

from cloud.aws.account import NOON, parameter
from dovetail.cloud.aws.clients import AwsError
from dovetail.cloud.aws.drift import NODE_CLASS_DRIFT, static_drift
from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, INSTANCE_PROFILE_NAME, TERMINATION_FINALIZER
from dovetail.cloud.aws.nodeclass_hash import HASH_ANNOTATIONS, hash_annotations
from dovetail.model.conditions import find, is_true
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodeClassRef
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import CloudAccessFailed, NotFound

REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


def said(node_class, condition):
    found = find(node_class.status.conditions, condition)
    return found.status, found.reason


def test_a_class_is_resolved_and_becomes_ready(live):
    async def story(account):
        await account.create(account.node_class())
        assert (await account.kept()).after == 60.0
        made = await account.read()
        assert {subnet.id for subnet in made.status.subnets} == set(account.subnets)
        assert [
            (subnet.zone, bool(subnet.zone_id)) for subnet in sorted(made.status.subnets, key=lambda s: s.zone)
        ] == [
            ("us-east-1a", True),
            ("us-east-1b", True),
        ]
        assert [(group.id, group.name) for group in made.status.security_groups] == [
            (account.group, f"{account.name}-nodes")
        ]
        assert {ami.id for ami in made.status.amis} == set(account.images.values())
        assert made.status.instance_profile.startswith(f"{account.name}_")
        assert is_true(made.status.conditions, "Ready")
        assert made.metadata.finalizers == (TERMINATION_FINALIZER,)
        assert made.metadata.annotations[CLASS_HASH].isdigit()
        state = await account.provider.node_class(REF)
        assert (state.deleting, state.ready.status) == (False, "True")

    live(story)


def test_a_second_look_writes_nothing_and_asks_next_to_nothing(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        before, _ = await account.read(), account.proxy.calls.clear()
        await account.kept()
        assert (await account.read()).metadata.resource_version == before.metadata.resource_version
        assert account.proxy.calls.total() == 0
        account.clock.pass_(minutes=1)
        await account.kept()
        assert dict(account.proxy.calls) == {"DescribeSubnets": 1, "DescribeImages": 1}

    live(story)


LACKING = [
    ({"subnetSelectorTerms": [{"id": "subnet-0"}]}, "SubnetsReady", "SubnetsNotFound"),
    ({"securityGroupSelectorTerms": [{"name": "nobody"}]}, "SecurityGroupsReady", "SecurityGroupsNotFound"),
    ({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, "AMIsReady", "AMINotFound"),
    ({"amiSelectorTerms": [{"alias": "windows2025@latest"}]}, "AMIsReady", "UnsupportedAlias"),
    ({"role": None, "instanceProfile": "nobody"}, "ValidationSucceeded", "InstanceProfileNotFound"),
    ({"userData": "x" * 17000}, "ValidationSucceeded", "UserDataSizeLimitExceeded"),
]


def test_a_selector_without_matches_is_shown_in_its_condition(live):
    async def story(account):
        for number, (spec, condition, reason) in enumerate(LACKING):
            name = f"class-{number}"
            await account.create({**account.node_class(**spec), "metadata": {"name": name}})
            await account.kept(name=name)
            made = await account.read(name)
            assert said(made, condition) == ("False", reason)
            assert find(made.status.conditions, "Ready").status == "False"

    live(story)


def test_terms_are_alternatives_and_tags_hold_together(live):
    async def story(account):
        first, second = account.subnets
        other = {"tags": {**account.tags, "tier": "none"}}
        await account.create(account.node_class(subnetSelectorTerms=[{"id": first}, {"id": second}, other]))
        await account.kept()
        assert {subnet.id for subnet in (await account.read()).status.subnets} == {first, second}
        assert account.proxy.calls["DescribeSubnets"] == 2  # the ids together, the tags apart

    live(story)


def test_a_new_image_behind_the_alias_is_found(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        newer = await account.new_image(parameter("x86_64"), "x86_64")
        account.clock.pass_(minutes=6)
        await account.kept()
        amis = {ami.requirements[0].values: ami.id for ami in (await account.read()).status.amis}
        assert amis == {("amd64",): newer, ("arm64",): account.images["arm64"]}

    live(story)


def test_images_by_id_name_and_parameter(live):
    async def story(account):
        parameter = "/aws/service/mine"  # others need a permission that Karpenter's policy does not have
        account.proxy.parameters[parameter] = account.images["arm64"]
        name = f"{account.name}-image-*"
        terms_by_name = {
            "first": [{"id": account.images["x86_64"]}, {"ssmParameter": parameter}],
            "second": [{"name": name, "owner": "self"}],
        }
        for made, terms in terms_by_name.items():
            document = account.node_class(amiFamily="AL2023", amiSelectorTerms=terms)
            await account.create({**document, "metadata": {"name": made}})
            await account.kept(name=made)
            assert {ami.id for ami in (await account.read(made)).status.amis} == set(account.images.values())
        assert not any("clusters" in operation for operation in account.proxy.calls)  # the version does not matter

    live(story)


def test_what_aws_cannot_answer_changes_nothing(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        account.clock.pass_(minutes=10)
        account.proxy.refuse("DescribeSubnets", "RequestLimitExceeded", status=503)
        with pytest.raises(AwsError) as caught:
            await account.kept()
        assert caught.value.throttled
        made = await account.read()
        assert is_true(made.status.conditions, "Ready")
        assert len(made.status.subnets) == 2

    live(story)


def test_a_denied_request_is_shown_in_the_condition(live):
    async def story(account):
        await account.create(account.node_class())
        account.proxy.refuse("DescribeSecurityGroups", "UnauthorizedOperation", status=403)
        with pytest.raises(CloudAccessFailed):
            await account.kept()
        assert said(await account.read(), "SecurityGroupsReady") == ("False", "UnauthorizedOperation")

    live(story)


def test_a_profile_that_was_cut_short_is_finished(live):
    async def story(account):
        await account.create(account.node_class())
        account.proxy.refuse("AddRoleToInstanceProfile", "ServiceFailure", status=400, times=1)
        with pytest.raises(AwsError):
            await account.kept()
        await account.kept()
        name = (await account.read()).status.instance_profile
        found = await account.aws.call("iam", "get_instance_profile", InstanceProfileName=name)
        assert [role["RoleName"] for role in found["InstanceProfile"]["Roles"]] == [account.role]
        assert account.proxy.calls["CreateInstanceProfile"] == 1

    live(story)


def claim(name="one", **annotations):
    metadata = ObjectMeta(name=name, annotations=annotations, creation_timestamp=NOON)
    return NodeClaim(metadata=metadata, spec=NodeClaimSpec(node_class_ref=REF))


def test_a_new_role_gets_a_new_profile_and_the_unused_one_is_deleted(live):
    """moto gives profiles the system time, so the test clock is set to it."""

    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        first = (await account.read()).status.instance_profile
        await account.add_role("other")
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"role": "other"}}))
        account.clock.pass_(days=365)
        exists = account.parts.resolvers.profiles._lookup
        for claims, kept in (
            ([claim()], True),
            ([claim(**{INSTANCE_PROFILE_NAME: first})], True),
            ([], False),
        ):
            await account.kept(claims)
            assert await exists(first) is kept
            account.clock.pass_(minutes=15)
        second = (await account.read()).status.instance_profile
        assert second != first
        assert await exists(second)

    live(story)


def test_the_profile_that_karpenter_made_is_kept_while_it_has_the_role(live):
    async def story(account):
        made = await account.create(account.node_class())
        name, path = f"{account.name}_1234", f"/karpenter/us-east-1/{account.name}/{made.metadata.uid}/"
        tags = [{"Key": f"kubernetes.io/cluster/{account.name}", "Value": "owned"}]
        await account.aws.call("iam", "create_instance_profile", InstanceProfileName=name, Path=path, Tags=tags)
        given = {"InstanceProfileName": name, "RoleName": account.role}
        await account.aws.call("iam", "add_role_to_instance_profile", **given)
        theirs = Patch({"status": {"instanceProfile": name}}, subresource="status")
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), theirs)
        await account.kept()
        assert (await account.read()).status.instance_profile == name
        assert account.proxy.calls["CreateInstanceProfile"] == 1  # that of the owner
        await account.add_role("another")
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"role": "path/another"}}))
        await account.kept()
        second = (await account.read()).status.instance_profile
        assert re.fullmatch(rf"{account.name}_[0-9]+", second)
        assert second != name
        found = (await account.aws.call("iam", "get_instance_profile", InstanceProfileName=second))["InstanceProfile"]
        assert (found["Path"], [role["RoleName"] for role in found["Roles"]]) == (path, ["another"])

    live(story)


def test_a_profile_that_the_policy_does_not_let_us_delete_does_not_block_the_class(live, caplog):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        await account.add_role("other")
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"role": "other"}}))
        account.clock.pass_(days=365)
        account.proxy.refuse("RemoveRoleFromInstanceProfile", "AccessDenied", status=403)
        await account.kept([])
        assert is_true((await account.read()).status.conditions, "InstanceProfileReady")
        assert "could not delete an unused instance profile" in caplog.text

    live(story)


def test_an_idle_hour_costs_what_one_class_costs_whatever_the_cluster(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        account.proxy.calls.clear()
        for _ in range(60):
            account.clock.pass_(minutes=1)
            await account.kept([claim(f"claim-{number}") for number in range(100)])
        assert dict(account.proxy.calls) == {
            "DescribeSubnets": 60,
            "DescribeSecurityGroups": 12,
            "DescribeImages": 60,
            "GetParameter": 60,
            "ListInstanceProfiles": 4,
            f"GET /clusters/{account.name}": 4,
        }

    live(story)


def test_a_deleted_class_waits_for_its_claims_and_leaves_nothing_behind(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        profile = (await account.read()).status.instance_profile
        await account.world.delete(EC2_NODE_CLASS, Key("", "default"))
        waiting = await account.kept([claim()])
        assert (waiting.after, "one" in waiting.waiting_for) == (600.0, True)
        assert TERMINATION_FINALIZER in (await account.read()).metadata.finalizers
        await account.kept()
        with pytest.raises(NotFound):
            await account.read()
        assert not await account.parts.resolvers.profiles.exists(profile)

    live(story)


@pytest.mark.parametrize("version", ["v6", "dovetail-v1"])
def test_claims_with_another_hash_version_get_the_current_hash_and_do_not_drift(live, version):
    """Those of a newer Karpenter, and those of an earlier Dovetail."""

    async def story(account):
        await account.create(account.node_class(kubelet={"containerLogMaxSize": "10Mi"}))
        theirs = {CLASS_HASH: "1", CLASS_HASH_VERSION: version}
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"metadata": {"annotations": theirs}}))
        old = await account.world.create(NODE_CLAIM, claim(**theirs))
        gone = await account.world.create(NODE_CLAIM, claim("drifted", **theirs))
        drifted = {"status": {"conditions": [{"type": "Drifted", "status": "True"}]}}
        gone = await account.world.patch(NODE_CLAIM, gone.key, Patch(drifted, subresource="status"))
        await account.kept([old, gone])
        node_class = await account.read()
        hashes = [node_class.metadata.annotations[name] for name in HASH_ANNOTATIONS]
        assert hashes == list(hash_annotations(node_class, "").values())
        old, gone = [await account.world.get(NODE_CLAIM, each.key) for each in (old, gone)]
        assert [old.metadata.annotations[name] for name in HASH_ANNOTATIONS] == hashes
        assert static_drift(old, node_class) == ""
        assert [gone.metadata.annotations.get(name) for name in HASH_ANNOTATIONS] == ["1", "v5", None]
        assert static_drift(gone, node_class) == NODE_CLASS_DRIFT  # what has drifted already stays so

    live(story)


def test_a_claim_that_is_up_to_date_keeps_its_stamp_when_the_class_changes(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        first = (await account.read()).metadata.annotations[CLASS_HASH]
        mine = await account.world.create(NODE_CLAIM, claim(**{CLASS_HASH: first, CLASS_HASH_VERSION: "v5"}))
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"userData": "echo"}}))
        assert (await account.provider.node_class(REF)).ready.status == "Unknown"
        await account.kept([mine])
        assert (await account.read()).metadata.annotations[CLASS_HASH] != first
        assert (await account.world.get(NODE_CLAIM, mine.key)).metadata.annotations[CLASS_HASH] == first

    live(story)

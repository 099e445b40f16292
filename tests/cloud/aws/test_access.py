"""No credentials, rejected ones, missing permissions, no answer, over HTTP: the class shows them, and recovers."""

import pytest

from cloud.aws.claims import ON_DEMAND as ON_DEMAND_ONLY
from cloud.aws.claims import asked_for
from cloud.aws.living import ON_DEMAND, alive, ec2_pool
from cloud.aws.proxy import ec2_reply, error_reply
from dovetail.cloud.aws.access import access_problem
from dovetail.cloud.aws.clients import AwsError
from dovetail.cloud.aws.drift import DriftUnknown
from dovetail.model.conditions import find
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import DRIFTED
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import CloudAccessFailed, CloudError, NodeClassNotReady
from stories import deployment

DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/karpenter/x is not authorized "
    "to perform: ec2:DescribeSubnets on resource: arn:aws:ec2:us-east-1:1:subnet/* because no identity-based policy "
    "allows the action. Encoded authorization failure message: Zm9v"
)
NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there."""


async def refused(account):
    """Reconcile once; the error names a cause, and so does Ready."""
    with pytest.raises(CloudAccessFailed) as caught:
        await account.kept()
    ready = await ready_of(account)
    assert (ready.status, ready.reason, ready.message) == ("False", caught.value.reason, str(caught.value))
    return ready


async def ready_of(account):
    return find((await account.read()).status.conditions, "Ready")


def said(code, message="", operation="ec2.describe_subnets"):
    return access_problem(AwsError(operation, code, message))


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        ("UnauthorizedOperation", DENIED, "AWS does not allow ec2:DescribeSubnets (UnauthorizedOperation: You are not"),
        ("UnauthorizedOperation", DENIED, "on resource: arn:aws:ec2:us-east-1:1:subnet/* because no identity-based"),
        ("AuthFailure", "Not authorized for images: [ami-1]", "AWS does not allow ec2:DescribeSubnets"),
        ("AuthFailure", "AWS was not able to validate the provided access credentials", "rejects the credentials"),
        ("ExpiredToken", "The security token included in the request is expired", "have expired"),
        ("InvalidClientTokenId", "The security token included in the request is invalid.", "rejects the credentials"),
        ("NoCredentials", "set AWS_PROFILE", "there are no AWS credentials for ec2:DescribeSubnets: set AWS_PROFILE"),
        ("Unreachable", 'Could not connect to "https://ec2.us-est-1.amazonaws.com/"', "check the region (AWS_REGION)"),
    ],
)
def test_a_refusal_names_action_cause_and_fix(code, message, words):
    problem = said(code, message)
    assert problem.reason == code
    assert words in problem.message
    assert "Encoded" not in problem.message


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "InvalidSubnetID.NotFound"])
def test_what_a_retry_or_another_message_settles_is_no_refusal(code):
    assert said(code) is None


def test_the_action_is_the_one_of_policies():
    assert AwsError("arc-zonal-shift.get_managed_resource", "", "").action == "arc-zonal-shift:GetManagedResource"
    assert AwsError("sts.AssumeRoleWithWebIdentity", "", "").action == "sts:AssumeRoleWithWebIdentity"


OPERATIONS = {
    "DescribeSubnets": ("SubnetsReady", "UnauthorizedOperation", "ec2:DescribeSubnets"),
    "DescribeSecurityGroups": ("SecurityGroupsReady", "ExpiredToken", "ec2:DescribeSecurityGroups"),
    "DescribeImages": ("AMIsReady", "AuthFailure", "ec2:DescribeImages"),
    "GetParameter": ("AMIsReady", "AccessDeniedException", "ssm:GetParameter"),
    "ListInstanceProfiles": ("InstanceProfileReady", "AccessDenied", "iam:ListInstanceProfiles"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_class_is_not_ready_while_a_request_is_refused_and_keeps_what_it_selected(live, operation):
    condition, code, action = OPERATIONS[operation]

    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        before = (await account.read()).status
        account.clock.pass_(days=2)
        account.proxy.on(operation, lambda asked: error_reply(asked.service, code, "no"))
        ready = await refused(account)
        assert ready.reason == code
        assert action in ready.message
        after = (await account.read()).status
        assert find(after.conditions, condition).message == ready.message
        assert (after.subnets, after.amis, after.security_groups) == (
            before.subnets,
            before.amis,
            before.security_groups,
        )
        assert after.instance_profile == before.instance_profile
        account.proxy.heal()
        await account.kept()
        assert (await ready_of(account)).status == "True"

    live(story)


def test_without_credentials_a_class_is_not_ready_until_there_are_some(live, monkeypatch):
    async def story(account):
        await account.create(account.node_class())
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        ready = await refused(account)
        assert ready.reason == "NoCredentials"
        assert "give the pod an identity" in ready.message
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        await account.kept()
        assert (await ready_of(account)).status == "True"

    live(story)


def test_a_missing_identity_token_is_missing_credentials(live, monkeypatch):
    async def story(account):
        await account.create(account.node_class())
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/karpenter")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token")
        ready = await refused(account)
        assert ready.reason == "NoCredentials"
        assert "/nonexistent/token" in ready.message

    live(story)


def test_an_identity_that_may_not_take_the_role_is_named(live, monkeypatch, tmp_path):
    token = tmp_path / "token"
    token.write_text("token")

    async def story(account):
        await account.create(account.node_class())
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/karpenter")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        account.proxy.on("AssumeRoleWithWebIdentity", lambda _asked: error_reply("iam", "AccessDenied", "no"))
        ready = await refused(account)
        assert "AWS does not allow sts:AssumeRoleWithWebIdentity (AccessDenied: no)" in ready.message

    live(story)


def test_credentials_of_a_file_are_read_again_after_aws_rejected_them(live, monkeypatch, tmp_path):
    file = tmp_path / "credentials"

    def write(key):
        file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")

    def only_new(asked):
        return error_reply(asked.service, "ExpiredToken", "expired") if asked.caller == "old" else None

    async def story(account):
        await account.create(account.node_class())
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        write("old")
        account.proxy.on("*", only_new)
        assert "have expired" in (await refused(account)).message
        write("new")
        await refused(account)  # which notices that there are others
        await account.kept()
        assert (await ready_of(account)).status == "True"

    live(story)


def test_a_class_that_never_reached_aws_says_so_at_once(live, monkeypatch):
    async def story(account):
        await account.create(account.node_class())
        monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
        ready = await refused(account)
        assert ready.reason == "Unreachable"
        assert NOWHERE in ready.message
        monkeypatch.setenv("AWS_ENDPOINT_URL", account.proxy.address)
        account.parts.aws._clients.clear()  # clients keep the endpoint
        await account.kept()
        assert (await ready_of(account)).status == "True"

    live(story)


def test_a_ready_class_stays_ready_while_aws_does_not_answer_for_five_minutes(live, monkeypatch):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        for address, minutes, ready in ((NOWHERE, 2, True), (NOWHERE, 4, True), (NOWHERE, 2, False)):
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            account.parts.aws._clients.clear()
            account.clock.pass_(minutes=minutes)
            with pytest.raises(CloudError) as caught:
                await account.kept()
            assert isinstance(caught.value, CloudAccessFailed) is not ready
            assert ((await ready_of(account)).status == "True") is ready
        monkeypatch.setenv("AWS_ENDPOINT_URL", account.proxy.address)
        account.parts.aws._clients.clear()
        await account.kept()
        assert (await ready_of(account)).status == "True"
        monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
        account.parts.aws._clients.clear()
        account.clock.pass_(minutes=10)
        with pytest.raises(AwsError):
            await account.kept()  # another outage, which has just begun

    live(story)


def test_drift_is_not_decided_with_what_a_refused_class_selected_before(ready):
    async def story(account):
        claim = await asked_for(account, ON_DEMAND_ONLY)
        instance = await account.provider.launch(claim)
        patch = Patch({"status": {"providerID": instance.provider_id}}, subresource="status")
        launched = await account.world.patch(NODE_CLAIM, claim.key, patch)
        assert await account.provider.drift(launched) == ""
        account.proxy.on("DescribeSubnets", lambda _asked: ec2_reply("DescribeSubnets", "<subnetSet/>"))
        terms = Patch({"spec": {"subnetSelectorTerms": [{"id": "subnet-12345678"}]}})
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), terms)
        account.proxy.refuse("DescribeSubnets", "UnauthorizedOperation", status=403)
        await refused(account)
        with pytest.raises(DriftUnknown, match="SubnetsReady is False: AWS does not allow ec2:DescribeSubnets"):
            await account.provider.drift(launched)
        with pytest.raises(NodeClassNotReady, match="AWS does not allow ec2:DescribeSubnets"):
            await account.provider.launch(await asked_for(account, ON_DEMAND_ONLY))

    ready(story)


def test_a_class_that_cannot_be_deleted_says_why(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        await account.world.delete(EC2_NODE_CLASS, Key("", "default"))
        account.proxy.on("ListInstanceProfiles", lambda _asked: error_reply("iam", "AccessDenied", "no"))
        with pytest.raises(CloudAccessFailed, match="AWS does not allow iam:ListInstanceProfiles"):
            await account.kept()
        account.proxy.heal()
        await account.kept()

    live(story)


def test_nothing_is_disrupted_while_the_credentials_are_expired_and_all_goes_on_afterwards(moto, monkeypatch):
    async def story(life):
        def ready():
            return find(life.world.values(EC2_NODE_CLASS)[0].status.conditions, "Ready")

        await life.until(lambda: life.running(2) and life.settled(), within=1800)
        claims = [claim.name for claim in life.claims]
        life.proxy.refuse_all("ExpiredToken")
        life.proxy.calls.clear()
        await life.until(lambda: ready().status == "False", within=1800)
        life.world.apply(deployment(replicas=4, cpu="1500m"))
        pool = lambda: find(life.pool().status.conditions, "NodeClassReady")  # noqa: E731 - read again and again
        await life.until(lambda: pool().status == "False" and life.events("CloudAccessFailed"), within=1800)
        assert pool().message == ready().message
        assert "the AWS credentials have expired" in ready().message
        [event] = life.events("CloudAccessFailed")[:1]
        assert (event.type, event.involved_object.kind) == ("Warning", "EC2NodeClass")
        assert [claim.name for claim in life.claims] == claims
        assert not any(claim.deleting or claim.has(DRIFTED) for claim in life.claims)
        assert life.proxy.calls["TerminateInstances"] == life.proxy.calls["CreateFleet"] == 0
        assert (
            'controller_runtime_reconcile_errors_total{controller="nodeclass"}' in life.parts.metrics.render().decode()
        )
        life.proxy.heal()
        await life.until(lambda: ready().status == "True" and life.running(4) and life.settled(), within=1800)
        assert set(claims) <= {claim.name for claim in life.claims}

    never = {"consolidateAfter": "Never"}
    pods = deployment(replicas=2, cpu="500m")
    alive(story, moto, monkeypatch, ec2_pool(ON_DEMAND, disruption=never), pods)

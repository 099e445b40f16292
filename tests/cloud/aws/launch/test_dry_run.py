"""Launch dry runs, over HTTP: denied permissions are shown on the class, other errors are not."""

import pytest

from cloud.aws.claims import requests
from cloud.aws.living import REF
from cloud.aws.proxy import ec2_error
from dovetail.cloud.aws.clients import AwsError
from dovetail.model.conditions import find, is_true
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from stories import node_pool

STEPS = ("CreateLaunchTemplate", "CreateFleet", "RunInstances")


@pytest.fixture
def tried(live):
    """A scenario on an account with dry runs enabled."""
    return lambda story, **given: live(story, disable_dry_run=False, **given)


def tries(account):
    """How often each step was requested."""
    return [account.proxy.calls[step] for step in STEPS]


def only_trials(account, code, step):
    """Let the dry run of a step fail with this code."""
    account.proxy.on(step, lambda asked: ec2_error(code, 403) if asked.given.get("DryRun") == "true" else None)


def test_a_class_is_ready_once_the_dry_run_succeeds_and_nothing_is_launched(tried):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        assert is_true((await account.read()).status.conditions, "Ready")
        assert tries(account) == [1, 1, 1]
        [fleet], [single] = requests(account, "CreateFleet"), requests(account, "RunInstances")
        [template] = requests(account, "CreateLaunchTemplate")
        for request in (fleet, single):
            assert request["DryRun"] == "true"
            assert template["LaunchTemplateName"] in request.values()
            assert {"eks:eks-cluster-name", account.name} <= set(request.values())
        assert fleet["ClientToken"]  # one of its own: it must not answer a later launch with the trial
        assert await account.provider.list() == ()

    tried(story)


def test_what_went_well_is_good_for_half_an_hour_or_until_the_class_changes(tried):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        account.clock.pass_(minutes=29)
        await account.kept()
        assert tries(account) == [1, 1, 1]
        account.clock.pass_(minutes=1)
        await account.parts.templates.delete_unused()
        await account.kept()
        assert tries(account) == [2, 2, 2]
        patch = Patch({"spec": {"userData": "echo"}})
        await account.world.patch(EC2_NODE_CLASS, Key("", "default"), patch)
        await account.kept()
        assert tries(account) == [3, 3, 3]

    tried(story)


@pytest.mark.parametrize("step", STEPS)
def test_a_denied_permission_is_shown_and_checked_again_a_minute_later(tried, step):
    async def story(account):
        account.proxy.refuse(step, "UnauthorizedOperation", status=403)
        await account.create(account.node_class())
        assert (await account.kept()).after == 60.0
        said = find((await account.read()).status.conditions, "ValidationSucceeded")
        assert (said.status, said.reason) == ("False", f"{step}AuthCheckFailed")
        assert f"ec2:{step}" in said.message
        assert not is_true((await account.read()).status.conditions, "Ready")
        account.proxy.heal()  # somebody has corrected the policy
        account.clock.pass_(minutes=1)
        await account.kept()
        assert is_true((await account.read()).status.conditions, "Ready")

    tried(story)


def test_the_encoded_half_of_a_refusal_is_left_out(tried):
    async def story(account):
        body = "You are not authorized. Encoded authorization failure message: " + "x" * 900
        text = f"<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>{body}</Message></Error></Errors>"
        reply = ec2_error("UnauthorizedOperation", 403)
        reply.text = f"{text}<RequestID>proxy</RequestID></Response>"
        account.proxy.on("RunInstances", lambda _asked: reply)
        await account.create(account.node_class())
        await account.kept()
        said = find((await account.read()).status.conditions, "ValidationSucceeded").message
        assert said.endswith("You are not authorized.")

    tried(story)


def test_other_faults_of_a_trial_are_left_to_the_launch_to_tell(tried):
    async def story(account):
        only_trials(account, "InvalidParameterValue", "RunInstances")
        await account.create(account.node_class())
        await account.kept()
        assert is_true((await account.read()).status.conditions, "Ready")
        account.clock.pass_(minutes=1)
        await account.kept()
        assert account.proxy.calls["RunInstances"] == 2  # nothing was learned that could be kept

    tried(story)


def test_while_ec2_is_unreachable_a_new_class_waits_and_a_ready_one_stays_ready(tried):
    async def story(account):
        only_trials(account, "RequestLimitExceeded", "CreateFleet")
        await account.create(account.node_class())
        with pytest.raises(AwsError):
            await account.kept()
        made = await account.read()
        assert find(made.status.conditions, "Ready").status == "Unknown"
        assert made.status.subnets  # what was found is said all the same
        account.proxy.heal()
        await account.kept()
        account.clock.pass_(minutes=30)
        only_trials(account, "RequestLimitExceeded", "CreateFleet")
        with pytest.raises(AwsError):
            await account.kept()
        assert is_true((await account.read()).status.conditions, "Ready")

    tried(story)


def test_only_types_that_the_pools_of_the_class_allow_are_tried(tried):
    """An account may deny types that no NodePool uses; that must not keep a class from being ready."""

    async def story(account):
        spot = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"]}
        large = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge", "p4d.24xlarge"]}
        for name, ref, wanted in (("mine", REF, [spot, zone, large]), ("theirs", REF | {"name": "other"}, [])):
            account.world.apply(node_pool(name=name, template={"nodeClassRef": ref, "requirements": wanted}))
        await account.create(account.node_class())
        await account.kept()
        [single] = requests(account, "RunInstances")
        assert single["InstanceType"] == "m5.2xlarge"
        described = await account.aws.call("ec2", "describe_subnets", SubnetIds=[single["SubnetId"]])
        assert described["Subnets"][0]["AvailabilityZone"] == "us-east-1b"
        assert is_true((await account.read()).status.conditions, "Ready")

    tried(story)


def test_where_nothing_can_be_tried_the_class_is_ready_without(tried):
    async def story(account):
        nothing = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["x9.huge"]}
        account.world.apply(node_pool(template={"nodeClassRef": REF, "requirements": [nothing]}))
        await account.create(account.node_class())
        await account.kept()
        assert tries(account) == [0, 0, 0]
        assert is_true((await account.read()).status.conditions, "Ready")

    tried(story)


def test_a_class_with_interfaces_of_its_own_is_tried_with_the_first_of_them(tried):
    async def story(account):
        await account.create(account.node_class(associatePublicIPAddress=False))
        await account.kept()
        [single] = requests(account, "RunInstances")
        assert single["NetworkInterface.1.SubnetId"] in account.subnets
        assert "SubnetId" not in single

    tried(story)

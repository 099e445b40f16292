"""The lifecycle of EC2 nodes with the real controllers, a simulated cluster, and EC2 over HTTP."""

import pytest

from cloud.aws.account import parameter
from cloud.aws.fleets import ICE
from cloud.aws.living import ON_DEMAND, alive, ec2_pool
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import DRIFTED, LAUNCHED
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import OutcomeUnknown
from dovetail.sim.kubernetes.kinds import DEPLOYMENT
from stories import deployment

WEB = deployment(replicas=2, cpu="500m")
PATIENT = 1800  # in hurried seconds: for a machine that is busy with other things
AT_ONCE = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}


@pytest.fixture
def life(moto, monkeypatch):
    return lambda story, *manifests, **given: alive(story, moto, monkeypatch, *manifests, **given)


async def settled(life, pods=2):
    await life.until(lambda: life.running(pods) and life.settled(), within=PATIENT)


def test_pods_get_an_instance_and_move_to_another_when_it_is_terminated(life):
    async def story(life):
        await settled(life)
        [instance], [claim], [node] = await life.instances(), life.claims, life.nodes
        assert claim.provider_id == node.provider_id == instance.provider_id
        assert claim.status.image_id == instance.image_id
        assert node.metadata.labels["karpenter.sh/capacity-type"] == "on-demand"
        assert node.metadata.labels["karpenter.k8s.aws/instance-family"]
        assert not node.spec.taints
        await life.parts.manager.gauges.refresh()
        told = life.parts.metrics.render().decode()
        counts = [
            line for line in told.splitlines() if line.startswith("operator_ec2nodeclass_status_condition_count{")
        ]
        assert any('type="Ready"' in line and 'status="True"' in line and line.endswith(" 1.0") for line in counts), (
            counts
        )
        assert 'controller_runtime_reconcile_total{controller="nodeclass"' in told
        assert f'instance_type_cpu_cores{{instance_type="{instance.instance_type}"}}' in told
        await life.world.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: claim.name not in {each.name for each in life.claims}, within=PATIENT)
        await settled(life)
        [other] = await life.instances()
        assert other.id != instance.id
        assert node.name not in {each.name for each in life.nodes}

    life(story, ec2_pool(ON_DEMAND), WEB)


class Crash:
    """Claims cannot be patched once an instance was launched: the process dies before it records the launch."""

    def __init__(self, fleets):
        self.fleets = fleets

    async def before(self, call):
        if call.operation == "patch" and call.kind == "NodeClaim" and self.fleets.launched:
            raise OutcomeUnknown("the process is about to die")

    async def after(self, call):
        pass


def test_a_crash_between_fleet_and_status_launches_nothing_twice(life):
    async def story(life):
        fleets = life.proxy.fleets
        life.world.interference = Crash(fleets)
        await life.until(lambda: fleets.launched, within=PATIENT)
        assert not any(claim.has(LAUNCHED) for claim in life.claims)
        await life.stop()
        life.world.interference = None
        life.parts = life._parts()  # a new process, made as the story makes it
        life.start()
        await settled(life)
        assert len(fleets.launched) == len(life.claims) == len(await life.instances()) == 1

    life(story, ec2_pool(ON_DEMAND), WEB)


def test_what_is_short_is_left_for_the_next_best_and_spot_for_on_demand(life):
    async def story(life):
        fleets = life.proxy.fleets
        fleets.only, fleets.short = "spot", {"*": ICE}
        await settled(life)
        [claim] = life.claims
        assert claim.metadata.labels["karpenter.sh/capacity-type"] == "on-demand"
        assert life.events("InsufficientCapacityError")
        first = claim.metadata.labels["node.kubernetes.io/instance-type"]
        fleets.only, fleets.short = "", {first: ICE}
        await life.world.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: claim.name not in {each.name for each in life.claims}, within=PATIENT)
        await settled(life)
        [second] = life.bought
        assert second != first
        assert len(fleets.launched) == 2  # a claim that was given up buys nothing more

    life(story, ec2_pool(), WEB)


def test_a_new_image_behind_the_alias_replaces_the_nodes_of_the_old(life):
    async def story(life):
        await settled(life)
        [before] = await life.instances()
        image = await life.account.new_image(parameter("x86_64"), "x86_64")
        await life.restart()  # a process that starts asks anew; one that runs does so after five minutes
        gone = lambda: before.provider_id not in {claim.provider_id for claim in life.claims}  # noqa: E731
        await life.until(gone, within=PATIENT)
        await settled(life)
        [after] = await life.instances()
        assert (before.image_id != image, after.image_id) == (True, image)

    life(story, ec2_pool(ON_DEMAND, disruption=AT_ONCE), WEB)


def test_a_class_that_changes_marks_its_nodes_at_once(life):
    async def story(life):
        await settled(life)
        [claim] = life.claims
        await life.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"tags": {"team": "b"}}}))
        await life.until(lambda: any(each.has(DRIFTED) for each in life.claims), within=240)  # not five minutes
        assert {each.name for each in life.claims} == {claim.name}

    never = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
    life(story, ec2_pool(ON_DEMAND, disruption=never), WEB)


def test_throttling_is_survived(life):
    async def story(life):
        for operation in ("CreateFleet", "DescribeInstances", "CreateLaunchTemplate", "DescribeSubnets"):
            life.proxy.refuse(operation, "RequestLimitExceeded", status=503, times=2)
        await settled(life)
        assert len(life.proxy.fleets.launched) == len(await life.instances()) == 1
        life.proxy.refuse("TerminateInstances", "RequestLimitExceeded", status=503, times=2)
        scale = Patch({"spec": {"replicas": 0}})
        await life.world.patch(DEPLOYMENT, life.world.values(DEPLOYMENT)[0].key, scale)
        [claim] = life.claims
        await life.world.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: not life.claims and not life.nodes, within=PATIENT)
        assert await life.instances() == []

    life(story, ec2_pool(ON_DEMAND), WEB)

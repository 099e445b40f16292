"""Nodes on their way out, each at its documented instant: slow pods, stuck budgets, protection, volumes, machines."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.model.conditions import find
from dovetail.model.kinds import NODE_CLAIM as CLAIM
from dovetail.model.kinds import VOLUME_ATTACHMENT
from dovetail.model.kube_object import Key
from dovetail.sim.cloud.service import CloudOptions
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, PDB
from leaving import QUIET, Calls, Diary, nothing_left, seconds, sleep_until
from stories import budget, deployment, live, node_class, node_pool, seeded

A_MOMENT = 1.0  # watches and calls take a few milliseconds each
ANNOTATION = "karpenter.sh/nodeclaim-termination-timestamp"


def pool(**template):
    return node_pool(template=template, disruption=QUIET)


def protected(manifest, value):
    manifest["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": value}
    return manifest


def one_node(life):
    assert len(life.nodes) == len(life.claims) == 1
    return life.nodes[0], life.claims[0]


async def gone(life, node, claim, within):
    await life.until(lambda: nothing_left(life, [node], [claim]), within=within)


def test_a_pre_stop_hook_within_a_long_grace_is_waited_for_to_its_end():
    """The hook sleeps ten minutes of fifteen; the node goes when the pod has, no sooner and not much later."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        began_at = life.world.clock.now()
        life.world.api.delete(NODE, node.key)
        await gone(life, node, claim, within=1200)
        assert 0 <= seconds(diary.deleted_at(pod.metadata.uid) - began_at) < A_MOMENT
        assert diary.grace_of(pod.metadata.uid) == 900
        assert 600 <= seconds(diary.gone_at(pod.metadata.uid) - began_at) < 604
        assert 0 <= seconds(diary.gone_at(node.metadata.uid) - diary.gone_at(pod.metadata.uid)) < A_MOMENT
        assert diary.condition_at(claim.metadata.uid, "Drained", "True") >= diary.gone_at(pod.metadata.uid)
        assert find(life.claims[0].status.conditions, "Drained") is None  # of the new one

    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 600}}}}
    slow = deployment(replicas=1, terminationGracePeriodSeconds=900)
    slow["spec"]["template"]["spec"]["containers"][0].update(hook)
    live(story, node_class(), pool(), slow)


def test_a_pre_stop_hook_longer_than_the_grace_is_cut_off_by_the_kubelet():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        life.world.api.delete(NODE, node.key)
        await gone(life, node, claim, within=1200)
        lasted = diary.gone_at(pod.metadata.uid) - diary.deleted_at(pod.metadata.uid)
        assert 59 <= seconds(lasted) <= 60

    slow = deployment(replicas=1, terminationGracePeriodSeconds=60)
    slow["spec"]["template"]["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 600}}}
    live(story, node_class(), pool(), slow)


def test_a_stuck_budget_holds_a_node_for_as_long_as_it_stands_and_says_so():
    """No limit on the drain: a day later the pod runs, the node is there, and events name pod and budget."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod = one_node(life), life.pods[0]
        calls = life.world.interference = Calls()
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(24 * 3600)
        assert life.pods[0].metadata.uid == pod.metadata.uid
        assert not life.pods[0].deleting
        assert [each.name for each in life.claims] == [claim.name]  # nothing is bought for a pod that cannot go
        told = [event.message for event in life.events("FailedDraining") if "PDB" in event.message]
        since = life.nodes[0].metadata.deletion_timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
        lasting = f"permanent: needs a manual change, since {since}"
        facts = f"Pod={pod.key}, PodDisruptionBudget=[default/web], {lasting}"
        assert set(told) == {f"Failed to drain node, evicting pod violates a PDB ({facts})"}
        asked = calls.made["evict", "Pod", pod.key]
        assert asked <= 24 * 360 + 10  # every ten seconds, once it has backed off
        assert sum(calls.about(node, claim).values()) <= 6
        life.world.api.delete(PDB, Key("default", "web"))
        await gone(life, node, claim, within=60)

    live(story, node_class(), pool(), deployment(replicas=1), budget(maxUnavailable=0))


def test_two_budgets_for_one_pod_are_told_as_such():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        node, claim = one_node(life)
        life.world.api.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: any("multiple PDBs" in event.message for event in life.events("FailedDraining")))
        life.world.api.delete(PDB, Key("default", "second"))
        await gone(life, node, claim, within=60)

    second = budget("second", maxUnavailable=1)
    second["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    live(story, node_class(), pool(), deployment(replicas=1), budget(maxUnavailable=1), second)


def test_a_budget_that_opens_lets_the_next_pod_go_at_once():
    """Six pods, one away at a time: nobody sits out a ten second pause while the budget is open."""

    async def story(life):
        await life.until(lambda: life.running(6) and life.settled())
        node, claim = one_node(life)
        diary, began_at = Diary(life.world), life.world.clock.now()
        life.world.api.delete(NODE, node.key)
        await gone(life, node, claim, within=600)
        assert diary.broken_budgets() == []
        return seconds(life.world.clock.now() - began_at)

    assert live(story, node_class(), pool(), deployment(replicas=6), budget(maxUnavailable=1)) < 90


def test_the_grace_period_ends_a_drain_that_a_budget_would_hold_for_ever():
    """Deleted at T with an hour: the pod keeps its 300 s and goes at T+55m, budget or not; at T+1h all is over."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        life.world.api.delete(NODE_CLAIM, claim.key)
        deleted_at = next(each for each in life.claims).metadata.deletion_timestamp
        deadline = deleted_at + timedelta(hours=1)
        await sleep_until(life.world, deadline - timedelta(seconds=301))
        assert life.claims[0].metadata.annotations[ANNOTATION] == deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
        assert not life.pods[0].deleting
        await gone(life, node, claim, within=400)
        assert 0 <= seconds(diary.deleted_at(pod.metadata.uid) - (deadline - timedelta(seconds=300))) < 0.1
        assert diary.grace_of(pod.metadata.uid) == 300
        assert diary.gone_at(pod.metadata.uid) <= deadline
        assert diary.gone_at(node.metadata.uid) <= deadline + timedelta(seconds=A_MOMENT)
        assert {event.involved_object.kind for event in life.events("TerminationGracePeriodExpiring")} == {
            "Node",
            "NodeClaim",
        }
        (told,) = life.events("Disrupted")
        assert "granted 300 seconds" in told.message
        assert "bypasses the PDB" in told.message

    slow = deployment(replicas=1, terminationGracePeriodSeconds=300)
    slow["spec"]["template"]["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 200}}}
    live(story, node_class(), pool(terminationGracePeriod="1h"), slow, budget(maxUnavailable=0))


@pytest.mark.parametrize("held", ["budget", "annotation"])
def test_room_for_pods_that_cannot_go_is_brought_five_minutes_before_they_have_to(held):
    """Twenty minutes for the drain: for fifteen nothing is bought; when the pod is stopped, its next node is there."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        life.world.api.delete(NODE_CLAIM, claim.key)
        deadline = life.claims[0].metadata.deletion_timestamp + timedelta(minutes=20)
        await sleep_until(life.world, deadline - timedelta(minutes=5, seconds=1))
        assert [each.name for each in life.claims] == [claim.name]
        await gone(life, node, claim, within=400)
        (successor,) = life.claims
        asked_at = successor.metadata.creation_timestamp
        assert 0 <= seconds(asked_at - (deadline - timedelta(minutes=5))) < 15
        ready_at = diary.condition_at(successor.metadata.uid, "Initialized", "True")
        assert ready_at < diary.deleted_at(pod.metadata.uid)
        await life.until(lambda: life.running(1) and life.settled(), within=60)

    workload = deployment(replicas=1) if held == "budget" else protected(deployment(replicas=1), "true")
    budgets = [budget(maxUnavailable=0)] if held == "budget" else []
    live(story, node_class(), pool(terminationGracePeriod="20m"), workload, *budgets)


def test_a_pod_whose_grace_is_longer_than_the_whole_period_is_deleted_at_once_with_what_there_is():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        life.world.api.delete(NODE_CLAIM, claim.key)
        began_at = life.world.clock.now()
        await gone(life, node, claim, within=3700)
        assert seconds(diary.deleted_at(pod.metadata.uid) - began_at) < A_MOMENT
        assert 3599 <= diary.grace_of(pod.metadata.uid) <= 3600

    slow = protected(deployment(replicas=1, terminationGracePeriodSeconds=7200), "true")
    live(story, node_class(), pool(terminationGracePeriod="1h"), slow)


def test_a_pod_protected_for_four_hours_is_evicted_when_they_are_over():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        calls = life.world.interference = Calls()
        life.world.api.delete(NODE_CLAIM, claim.key)
        end = pod.metadata.creation_timestamp + timedelta(hours=4)
        await sleep_until(life.world, end - timedelta(seconds=1))
        assert life.pods[0].metadata.uid == pod.metadata.uid
        assert calls.made["evict", "Pod", pod.key] == 0
        await gone(life, node, claim, within=60)
        assert 0 <= seconds(diary.deleted_at(pod.metadata.uid) - end) < 0.1
        assert [event.message for event in life.events("Evicted")] == ["Evicted pod: Forceful Termination"]

    live(story, node_class(), pool(), protected(deployment(replicas=1), "4h"))


def disk(name="disk", **annotations):
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": name},
            "claimRef": {"name": "data"},
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "volumeName": name,
            "storageClassName": "",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return volume, {**claim, "status": {"phase": "Bound"}}


def with_disk(**pod_spec):
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return deployment(replicas=1, volumes=volumes, **pod_spec)


LATE = {"volume-detach.stage.kwok.x-k8s.io/delay": "20m"}


def test_a_volume_that_detaches_late_is_waited_for():
    """The pod is gone within seconds, its disk hangs on for twenty minutes: so does the machine."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        (attached,) = life.world.values(VOLUME_ATTACHMENT)
        assert attached.spec.node_name == node.name
        life.world.api.delete(NODE, node.key)
        await life.until(lambda: life.events("AwaitingVolumeDetachment"), within=60)
        (told,) = life.events("AwaitingVolumeDetachment")
        assert told.message == f"Awaiting deletion of bound volumeattachments ({attached.name})"
        await gone(life, node, claim, within=1300)
        late = diary.gone_at(node.metadata.uid) - diary.gone_at(pod.metadata.uid)
        assert 1200 <= seconds(late) < 1202
        uid = claim.metadata.uid
        assert diary.condition_at(uid, "VolumesDetached", "Unknown") < diary.condition_at(
            uid, "VolumesDetached", "True"
        )
        assert diary.condition_at(uid, "VolumesDetached", "True") <= diary.condition_at(
            uid, "InstanceTerminating", "True"
        )

    live(story, node_class(), pool(), *disk(**LATE), with_disk())


def test_a_volume_is_not_waited_for_beyond_the_deadline():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), diary = one_node(life), Diary(life.world)
        life.world.api.delete(NODE_CLAIM, claim.key)
        deadline = life.claims[0].metadata.deletion_timestamp + timedelta(minutes=10)
        await gone(life, node, claim, within=700)
        assert 0 < seconds(diary.gone_at(node.metadata.uid) - deadline) < A_MOMENT
        assert diary.condition_at(claim.metadata.uid, "VolumesDetached", "False") > deadline

    live(story, node_class(), pool(terminationGracePeriod="10m"), *disk(**LATE), with_disk())


def test_a_machine_that_dies_while_its_pods_stop_is_not_waited_for_longer_than_a_minute():
    """The provider still lists it. Its pod should end after 30 s; a minute later nobody waits for it any more."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), pod, diary = one_node(life), life.pods[0], Diary(life.world)
        life.world.kill_instance(node.name)
        life.world.api.delete(NODE, node.key)
        await gone(life, node, claim, within=400)
        due = diary.deleted_at(pod.metadata.uid).replace(microsecond=0) + timedelta(seconds=90)
        assert 0 < seconds(diary.gone_at(node.metadata.uid) - due) < 2
        await life.until(lambda: life.running(1) and life.settled(), within=600)

    live(story, node_class(), pool(), deployment(replicas=1))


def test_a_node_whose_claim_is_gone_is_let_go_without_a_drain():
    """Somebody took the claim's finalizer off by force: nothing is left to drain the node for."""

    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        node, claim = one_node(life)
        record = life.world.store.find(NODE_CLAIM, claim.key)
        life.world.api.delete(NODE_CLAIM, claim.key)
        record = life.world.store.find(NODE_CLAIM, claim.key)
        life.world.api.update(record, {**record.plain, "metadata": {**record.meta, "finalizers": []}})
        assert life.world.values(CLAIM) == ()
        life.world.api.delete(NODE, node.key)
        await gone(life, node, claim, within=5)
        await life.until(lambda: life.running(2) and life.settled())

    live(story, node_class(), pool(), deployment(replicas=2))


def test_an_empty_node_is_watched_for_five_seconds_before_it_goes():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (node, claim), diary = one_node(life), Diary(life.world)
        record = life.world.store.find(("apps", "Deployment"), Key("default", "web"))
        life.world.api.update(record, {**record.plain, "spec": {**record.plain["spec"], "replicas": 0}})
        await life.until(lambda: not life.pods)
        life.world.api.delete(NODE, node.key)
        await gone(life, node, claim, within=60)
        uid = claim.metadata.uid
        took = diary.condition_at(uid, "Drained", "True") - diary.condition_at(uid, "Drained", "Unknown")
        assert 4.99 <= seconds(took) < 5.1  # from stamp to stamp five seconds; each is written a moment later

    live(story, node_class(), pool(), deployment(replicas=1))


def test_a_claim_stays_until_its_instance_has_ended():
    """The instance takes a minute to end and has no Node yet: only the claim knows of it."""

    async def story(life):
        await life.until(lambda: life.world.cloud.instances)
        (claim,), (instance,) = life.claims, life.world.cloud.instances
        life.world.apply(deployment(replicas=0))
        life.world.api.delete(NODE_CLAIM, claim.key)

        def ended():
            return life.world.cloud.instances[instance].state == "terminated"

        await life.until(lambda: not life.claims or ended())
        assert ended(), "the claim is gone, and its instance still shuts down"
        await life.until(lambda: not life.claims, within=60)

    slowly = seeded(0, cloud=CloudOptions(shutdown=(60.0, 60.0)))
    live(story, node_class(nodeRegistrationDelay="600s"), pool(), deployment(replicas=1), options=slowly)

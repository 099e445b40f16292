"""Lifetimes that end: hard expiration at its instant, and the eventual timeline of a node with protected pods."""

from datetime import timedelta

from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from leaving import QUIET, Calls, Diary, nothing_left, seconds, sleep_until
from stories import ACTING, budget, deployment, live, node_class, node_pool

HOUR = timedelta(hours=1)


def protected(manifest, value):
    manifest["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": value}
    return manifest


def test_a_claim_is_deleted_the_very_instant_its_lifetime_is_over():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        claim, node, diary = life.claims[0], life.nodes[0], Diary(life.world)
        due = claim.metadata.creation_timestamp + 24 * HOUR
        await sleep_until(life.world, due - timedelta(seconds=1))
        assert not life.claims[0].deleting
        await life.until(lambda: nothing_left(life, [node], [claim]) and life.running(3) and life.settled())
        assert 0 <= seconds(diary.deleted_at(claim.metadata.uid) - due) < 0.05
        told = [event.message for event in life.events("DisruptionTerminating")]
        assert sorted(told) == ["Disrupting Node: Expired", "Disrupting NodeClaim: Expired"]

    live(story, node_class(), node_pool(template={"expireAfter": "24h"}, disruption=QUIET), deployment(replicas=3))


def test_a_restart_does_not_forget_the_clock():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        claim, diary = life.claims[0], Diary(life.world)
        due = claim.metadata.creation_timestamp + 6 * HOUR
        await sleep_until(life.world, due - HOUR)
        await life.restart()
        await sleep_until(life.world, due + timedelta(seconds=1))
        return 0 <= seconds(diary.deleted_at(claim.metadata.uid) - due) < 0.05

    assert live(
        story, node_class(), node_pool(template={"expireAfter": "6h"}, disruption=QUIET), deployment(replicas=1)
    )


def test_protection_that_outlives_the_lifetime_is_waited_for_after_it():
    """Expired after an hour, protected for four: claim deleted at 1 h, pod evicted at 4 h, then everything goes."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        claim, node, pod, diary = life.claims[0], life.nodes[0], life.pods[0], Diary(life.world)
        await life.until(lambda: nothing_left(life, [node], [claim]), within=5 * 3600)
        expired = diary.deleted_at(claim.metadata.uid) - claim.metadata.creation_timestamp
        evicted = diary.deleted_at(pod.metadata.uid) - pod.metadata.creation_timestamp
        assert 0 <= seconds(expired - HOUR) < 0.05
        assert 0 <= seconds(evicted - 4 * HOUR) < 0.1

    pool = node_pool(template={"expireAfter": "1h"}, disruption=QUIET)
    live(story, node_class(), pool, protected(deployment(replicas=1), "4h"))


def test_eventual_timeline_0_to_4_hours_protected_4_to_72_disruptable_then_forced():
    """The node is deleted at 0 h with terminationGracePeriod 72h; its pod is protected for 4 h, and a budget is stuck.

    0-4 h nobody asks the pod. From 4 h on it is asked through the eviction API, and the budget says no. 30 s, its own
    grace, before 72 h it is deleted whatever the budget says, and at 72 h the node is empty.
    """

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        claim, node, pod, diary = life.claims[0], life.nodes[0], life.pods[0], Diary(life.world)
        calls = life.world.interference = Calls()
        life.world.api.delete(NODE_CLAIM, claim.key)
        deleted_at = life.claims[0].metadata.deletion_timestamp
        protected_until = pod.metadata.creation_timestamp + 4 * HOUR
        deadline = deleted_at + 72 * HOUR

        await sleep_until(life.world, protected_until - timedelta(seconds=0.5))
        assert calls.made["evict", "Pod", pod.key] == 0

        await sleep_until(life.world, protected_until + timedelta(seconds=0.5))
        assert calls.made["evict", "Pod", pod.key] >= 1
        assert "web" in next(event.message for event in life.events("FailedDraining") if "PDB" in event.message)

        await sleep_until(life.world, deadline - timedelta(seconds=31))
        assert not life.pods[0].deleting
        assert diary.broken_budgets() == []
        assert calls.made["delete", "Pod", pod.key] == 0

        await life.until(lambda: nothing_left(life, [node], [claim]), within=60)
        assert 0 <= seconds(diary.deleted_at(pod.metadata.uid) - (deadline - timedelta(seconds=30))) < 0.1
        assert diary.gone_at(pod.metadata.uid) <= deadline
        assert diary.gone_at(node.metadata.uid) <= deadline
        assert calls.made["delete", "Pod", pod.key] == 1

    pool = node_pool(
        template={"terminationGracePeriod": "72h"}, disruption={"consolidationPolicy": "WhenEmpty", **QUIET}
    )
    live(story, node_class(), pool, protected(deployment(replicas=1), "4h"), budget(maxUnavailable=0))


def test_eventual_timeline_a_drifted_node_goes_when_protection_ends_and_is_replaced_first():
    """Without anybody deleting it: drifted at 0 h, and without a deadline of its own, the node is taken at 4 h."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        node, pod, diary = life.nodes[0], life.pods[0], Diary(life.world)
        life.world.apply(node_pool(template_metadata={"labels": {"team": "a"}}, disruption=QUIET))
        until = pod.metadata.creation_timestamp + 4 * HOUR
        await sleep_until(life.world, until - timedelta(seconds=1))
        assert [each.name for each in life.nodes] == [node.name]
        await life.until(lambda: diary.gone_at(node.metadata.uid) is not None, within=600)
        evicted_at = diary.deleted_at(pod.metadata.uid)
        assert until <= evicted_at
        await life.until(lambda: life.running(1) and life.settled())
        assert [event.message for event in life.events("Evicted")] == ["Evicted pod: Drifted"]

    pool = node_pool(disruption=QUIET)
    live(story, node_class(), pool, protected(deployment(replicas=1), "4h"), settings=ACTING)

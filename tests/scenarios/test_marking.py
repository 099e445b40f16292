"""Conditions on claims and events on pods say what is true, also when nothing is disrupted."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dovetail.cloud.kwok.offering_selection import Availability
from dovetail.model.conditions import find
from dovetail.model.kinds import NODE_CLAIM, NODE_POOL, POD
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Unavailable
from stories import GENERIC, deployment, live, node_class, node_pool

WINDOW = timedelta(minutes=5)
UNGATED = replace(GENERIC, feature_gates="Drift=false")


def pool(**disruption):
    return node_pool(disruption={"consolidateAfter": "5m", **disruption})


def condition(life, kind):
    (claim,) = life.claims
    return find(claim.status.conditions, kind)


async def settled(life, pods=3):
    await life.until(lambda: life.running(pods) and life.settled())


async def change_template(life, team):
    labels = {"team": team} if team is not None else None
    body = {"spec": {"template": {"metadata": {"labels": labels}}}}
    await life.world.patch(NODE_POOL, Key("", "default"), Patch(body))


def test_consolidatable_appears_when_the_window_ends_and_goes_with_the_next_pod():
    async def story(life):
        await settled(life)
        assert condition(life, "Consolidatable") is None
        for pods in (2, 3, 2):
            await life.until(lambda: condition(life, "Consolidatable"), within=400)
            pods_unchanged_since = life.claims[0].status.last_pod_event_time
            late = condition(life, "Consolidatable").last_transition_time - (pods_unchanged_since + WINDOW)
            assert timedelta() <= late < timedelta(milliseconds=1)
            assert condition(life, "Consolidatable").reason == "Consolidatable"
            await asyncio.sleep(60)
            life.world.apply(deployment(replicas=pods))
            await life.until(lambda: condition(life, "Consolidatable") is None, within=30)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_pod_that_goes_costs_its_claim_one_write():
    """When it went, and that the node is not quiet any more, are written together."""

    async def story(life):
        await settled(life)
        await life.until(lambda: condition(life, "Consolidatable"), within=400)
        await asyncio.sleep(60)
        written = []
        life.parts.manager.state.claims.listen(lambda before, after: written.append((before.status, after.status)))
        life.world.apply(deployment(replicas=2))
        await asyncio.sleep(60)
        ((before, after),) = written
        assert find(before.conditions, "Consolidatable") is not None
        assert find(after.conditions, "Consolidatable") is None
        assert after.last_pod_event_time > before.last_pod_event_time

    live(story, node_class(), pool(), deployment(replicas=3))


def test_never_takes_consolidatable_away_and_a_quiet_claim_is_not_written_again():
    async def story(life):
        await settled(life)
        await life.until(lambda: condition(life, "Consolidatable"), within=400)
        version = life.claims[0].metadata.resource_version
        await asyncio.sleep(3600)
        assert life.claims[0].metadata.resource_version == version
        life.world.apply(pool(consolidateAfter="Never"))
        await life.until(lambda: condition(life, "Consolidatable") is None, within=5)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_drift_is_marked_after_a_change_of_the_template_and_unmarked_when_it_is_taken_back():
    async def story(life):
        await settled(life)
        await change_template(life, "a")
        await life.until(lambda: condition(life, "Drifted"), within=5)
        drifted = condition(life, "Drifted")
        assert (drifted.status, drifted.reason, drifted.message) == ("True", "NodePoolDrifted", "NodePoolDrifted")
        await asyncio.sleep(900)
        assert condition(life, "Drifted") == drifted
        await change_template(life, None)
        await life.until(lambda: condition(life, "Drifted") is None, within=5)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_closing_the_gate_removes_drift():
    async def story(life):
        await settled(life)
        await change_template(life, "a")
        await life.until(lambda: condition(life, "Drifted"), within=5)
        life.settings = UNGATED
        await life.restart()
        await life.until(lambda: condition(life, "Drifted") is None, within=5)
        await asyncio.sleep(900)
        assert condition(life, "Drifted") is None

    live(story, node_class(), pool(), deployment(replicas=3))


def test_what_the_provider_says_is_asked_every_five_minutes_and_its_failures_change_nothing(monkeypatch):
    answers = {"now": ""}

    async def drift(_claim):
        if answers["now"] == "fail":
            raise Unavailable("try again")
        return answers["now"]

    async def story(life):
        monkeypatch.setattr(life.parts.provider.market, "drift", drift)
        monkeypatch.setattr(life.parts.provider.market, "can_drift", True)
        await settled(life)
        answers["now"] = "ImageDrift"
        await life.until(lambda: condition(life, "Drifted"), within=301)
        assert condition(life, "Drifted").reason == "ImageDrift"
        answers["now"] = "fail"
        await asyncio.sleep(1200)
        assert condition(life, "Drifted").reason == "ImageDrift"
        answers["now"] = ""
        await life.until(lambda: condition(life, "Drifted") is None, within=31)

    live(story, node_class(), pool(), deployment(replicas=3))


@pytest.mark.parametrize("age", [600, 3000, 7200])
def test_a_type_that_is_no_longer_sold_is_noticed_within_five_minutes_unless_the_node_is_young(age):
    async def story(life):
        await settled(life)
        provider, born = life.parts.provider.market, life.claims[0].metadata.creation_timestamp
        full, name = provider.availability, life.claims[0].metadata.labels["node.kubernetes.io/instance-type"]
        await asyncio.sleep(age)
        for _ in range(2):
            provider.availability = Availability(tuple(each for each in full.catalog if each.name != name))
            began = life.world.clock.now()
            await life.until(lambda: condition(life, "Drifted"), within=3700)
            assert condition(life, "Drifted").reason == "InstanceTypeNotFound"
            due = max(began + timedelta(minutes=5), born + timedelta(hours=1))
            assert born + timedelta(hours=1) < life.world.clock.now() <= due + timedelta(seconds=2)
            provider.availability = full
            await life.until(lambda: condition(life, "Drifted") is None, within=302)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_what_does_not_concern_the_marks_does_not_keep_the_provider_from_being_asked(monkeypatch):
    """A claim on which somebody else wrote something is still one of those asked about in the next round."""
    answers = {"now": ""}

    async def drift(_claim):
        return answers["now"]

    async def story(life):
        monkeypatch.setattr(life.parts.provider.market, "drift", drift)
        monkeypatch.setattr(life.parts.provider.market, "can_drift", True)
        await settled(life)
        await life.until(lambda: condition(life, "Consolidatable"), within=400)
        await life.world.patch(NODE_CLAIM, life.claims[0].key, Patch({"metadata": {"annotations": {"a.b/c": "d"}}}))
        await asyncio.sleep(10)
        answers["now"] = "ImageDrift"
        await life.until(lambda: condition(life, "Drifted"), within=301)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_what_is_written_on_a_claim_while_it_is_marked_is_not_missed(monkeypatch):
    """A pod event that comes between the mark and its answer: the node is not quiet after all."""

    async def story(life):
        await settled(life)
        patch, written = life.world.patch, []

        async def slow(kind, key, asked):
            answer = await patch(kind, key, asked)
            marks = [each["type"] for each in asked.body.get("status", {}).get("conditions", ())]
            if "Consolidatable" in marks and not written:
                written.append(key)
                now = life.world.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
                await patch(kind, key, Patch({"status": {"lastPodEventTime": now}}, subresource="status"))
                await asyncio.sleep(1)
            return answer

        monkeypatch.setattr(life.world, "patch", slow)
        await life.until(lambda: written, within=400)
        await life.until(lambda: condition(life, "Consolidatable") is None, within=10)

    live(story, node_class(), pool(), deployment(replicas=3))


async def annotate(life, value):
    target = life.pods[0]
    body = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}}
    await life.world.patch(POD, target.key, Patch(body))
    return target


def test_an_annotation_that_cannot_be_understood_is_told_on_its_pod():
    async def story(life):
        await settled(life)
        target = await annotate(life, "tomorrow")
        await life.until(lambda: life.events("InvalidDoNotDisruptAnnotation"), within=5)
        (event,) = life.events("InvalidDoNotDisruptAnnotation")
        assert (event.type, event.involved_object.name) == ("Warning", target.name)
        assert "'tomorrow'" in event.message

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_duration_is_told_while_it_runs_and_when_it_is_over():
    async def story(life):
        await settled(life)
        target = await annotate(life, "10m")
        await life.until(lambda: life.events("DoNotDisruptUntil"), within=5)
        ends_at = target.metadata.creation_timestamp + timedelta(minutes=10)
        (event,) = life.events("DoNotDisruptUntil")
        assert event.message.endswith(f"will elapse at {ends_at:%Y-%m-%dT%H:%M:%SZ}")
        await life.until(lambda: life.events("DoNotDisruptGracePeriodElapsed"), within=601)
        (event,) = life.events("DoNotDisruptGracePeriodElapsed")
        assert timedelta() <= event.first_timestamp - ends_at <= timedelta(seconds=1)
        await asyncio.sleep(7200)
        assert len(life.events("DoNotDisruptGracePeriodElapsed")) == 1

    live(story, node_class(), pool(), deployment(replicas=3))


def test_the_last_pod_event_of_a_burst_is_recorded_within_ten_seconds():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        await asyncio.sleep(60)
        for left in (2, 1, 0):
            life.world.apply(deployment(replicas=left))
            await life.until(lambda left=left: len([pod for pod in life.pods if not pod.deleting]) == left)
            last_at = life.world.clock.now()
            await asyncio.sleep(3)
        await asyncio.sleep(10)
        (claim,) = life.claims
        assert abs((claim.status.last_pod_event_time - last_at).total_seconds()) <= 2

    quiet = node_pool(disruption={"consolidateAfter": "1h"})
    live(story, node_class(), quiet, deployment(replicas=3))

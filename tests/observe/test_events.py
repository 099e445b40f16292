import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.planned_faults import PlannedFaults
from dovetail.model.kinds import EVENT, NODE, POD
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.observe.events import EventLimits, EventRecorder
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import Denied, Throttled, Unavailable
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions

NODE_A = Node(metadata=ObjectMeta(name="a", uid="u-a"))
POD_B = Pod(metadata=ObjectMeta(name="b", namespace="shop", uid="u-b"))


def lived(story, **limits):
    """Run a story with a recorder that writes to a fresh cluster."""

    async def main():
        cluster = World(WorldOptions(call_time=(0.0, 0.0)), interference=PlannedFaults())
        recorder = EventRecorder(cluster, cluster.clock, EventLimits(**limits))
        writing = asyncio.create_task(recorder.run())
        await story(cluster, recorder)
        writing.cancel()

    run(main(), limit=10 * 3600)


async def events(cluster, recorder):
    await recorder.flush()
    return (await cluster.list(EVENT)).items


def about_node(reason="Disrupted", message="gone", **more):
    return Notice(NODE, NODE_A, reason, message, **more)


def test_a_notice_becomes_an_event_beside_its_object():
    async def story(cluster, recorder):
        recorder.publish(about_node(warning=True))
        recorder.publish(Notice(POD, POD_B, "Nominated", "to a"))
        first, second = await events(cluster, recorder)
        assert (first.metadata.namespace, first.type, first.reason, first.message) == (
            "default",
            "Warning",
            "Disrupted",
            "gone",
        )
        assert (first.involved_object.kind, first.involved_object.name, first.involved_object.uid) == (
            "Node",
            "a",
            "u-a",
        )
        assert (first.count, first.source.component) == (1, "dovetail")
        assert (second.metadata.namespace, second.type, second.involved_object.namespace) == ("shop", "Normal", "shop")
        assert recorder.counts.written == 2

    lived(story)


def test_a_recorder_that_is_muted_says_nothing_any_more():
    async def story(cluster, recorder):
        recorder.publish(about_node(message="heard"))
        recorder.mute()
        recorder.publish(about_node(message="unheard"))
        assert [each.message for each in await events(cluster, recorder)] == ["heard"]

    lived(story)


def test_the_same_is_not_said_again_within_two_minutes():
    async def story(cluster, recorder):
        for _ in range(3):
            recorder.publish(about_node())
        await asyncio.sleep(119)
        recorder.publish(about_node())
        assert [event.count for event in await events(cluster, recorder)] == [1]
        assert recorder.counts.repeated == 3
        await asyncio.sleep(1)
        recorder.publish(about_node())
        (event,) = await events(cluster, recorder)
        assert event.count == 2
        assert event.last_timestamp - event.first_timestamp == timedelta(minutes=2)

    lived(story)


def test_another_message_or_object_is_another_notice_unless_dedupe_values_say_otherwise():
    async def story(cluster, recorder):
        recorder.publish(about_node(message="one"))
        recorder.publish(about_node(message="two"))
        assert len(await events(cluster, recorder)) == 2
        recorder.publish(about_node("Blocked", "three", dedupe=("pool",)))
        recorder.publish(about_node("Blocked", "four", dedupe=("pool",)))
        assert len(await events(cluster, recorder)) == 3

    lived(story)


def test_after_an_hour_an_event_is_made_anew():
    async def story(cluster, recorder):
        recorder.publish(about_node())
        await asyncio.sleep(3600)
        recorder.publish(about_node())
        assert [event.count for event in await events(cluster, recorder)] == [1, 1]

    lived(story)


def test_an_event_the_server_forgot_is_made_anew():
    async def story(cluster, recorder):
        recorder.publish(about_node())
        (event,) = await events(cluster, recorder)
        await cluster.delete(EVENT, event.key)
        await asyncio.sleep(180)
        recorder.publish(about_node())
        assert [event.count for event in await events(cluster, recorder)] == [1]

    lived(story)


def test_noisy_reasons_are_limited_and_quiet_ones_are_not():
    async def story(cluster, recorder):
        for number in range(30):
            recorder.publish(about_node("Nominated", f"pod {number}"))
            recorder.publish(about_node("Disrupted", f"pod {number}"))
        await recorder.flush()
        assert (recorder.counts.limited, recorder.counts.written) == (20, 40)
        await asyncio.sleep(1)
        for number in range(30, 40):
            recorder.publish(about_node("Nominated", f"pod {number}"))
        assert recorder.counts.limited == 25
        recorder.publish(about_node("Nominated", "pod 29"))
        assert recorder.counts.repeated == 0, "what was never said is not a repetition"

    lived(story)


def test_a_full_queue_drops_and_counts():
    async def story(cluster, recorder):
        for number in range(5):
            recorder.publish(about_node(message=str(number)))
        assert recorder.counts.dropped == 3
        assert len(await events(cluster, recorder)) == 2
        recorder.publish(about_node(message="4"))
        assert len(await events(cluster, recorder)) == 3, "a dropped notice may be said again"

    lived(story, size=2)


def test_warnings_are_written_first_and_the_rest_makes_way_for_them(caplog):
    """Nobody writes while a storm of notices comes in; the log tells of it once."""

    async def story(cluster, recorder):
        for number in range(3):
            recorder.publish(about_node(message=f"calm {number}"))
        for number in range(3):
            recorder.publish(about_node(message=f"warning {number}", warning=True))
        recorder.publish(about_node(message="calm 3"))
        assert recorder.counts.dropped == 3
        recorder.publish(about_node(message="calm 0"))  # dropped before, so not a repetition
        assert recorder.counts.repeated == 0
        written = [event.message for event in await events(cluster, recorder)]
        assert sorted(written) == ["calm 2", "warning 0", "warning 1", "warning 2"]

    lived(story, size=4)
    assert [record.message for record in caplog.records].count("events dropped, too many wait to be written") == 1


@pytest.mark.parametrize(
    ("errors", "written"),
    [
        ([Throttled("slow", retry_after=5.0)], 1),
        ([Unavailable("down"), Unavailable("down")], 1),
        ([Unavailable("down")] * 3, 0),
        ([Denied("no")], 0),
    ],
)
def test_trouble_is_tried_again_and_refusal_is_not(errors, written):
    async def story(cluster, recorder):
        for error in errors:
            cluster.interference.fail("create", error)
        recorder.publish(about_node())
        assert len(await events(cluster, recorder)) == written
        assert recorder.counts.failed == 1 - written
        recorder.publish(about_node(message="later"))
        assert len(await events(cluster, recorder)) == written + 1

    lived(story)


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from("abc"), st.sampled_from(["Nominated", "Evicted"]))))
def test_every_notice_is_accounted_for(notices):
    async def story(cluster, recorder):
        for gap, message, reason in notices:
            await asyncio.sleep(gap)
            recorder.publish(about_node(reason, message))
        await recorder.flush()
        counts = recorder.counts
        total = counts.written + counts.repeated + counts.limited + counts.dropped + counts.failed
        assert total == len(notices)
        assert sum(event.count for event in await events(cluster, recorder)) == counts.written

    lived(story, size=4)


def test_one_event_that_cannot_be_written_for_whatever_reason_does_not_stop_the_others(caplog):
    async def story(cluster, recorder):
        odd = Node(metadata=ObjectMeta(name="\ud800", uid="u-odd"))  # no text that could be sent
        recorder.publish(Notice(NODE, odd, "Disrupted", "gone"))
        recorder.publish(about_node())
        (written,) = await events(cluster, recorder)
        assert written.involved_object.name == "a"
        assert recorder.counts.failed == 1

    lived(story)
    assert any(record.getMessage() == "event broke" for record in caplog.records)

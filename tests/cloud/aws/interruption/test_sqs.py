"""An SQS queue as an interruption source, over HTTP."""

import asyncio
import json

import pytest

from cloud.aws.interruption.backlog import figure, new_backlog
from cloud.aws.interruption.events import SENT, spot
from cloud.aws.proxy import json_reply
from dovetail.cloud.aws.clients import AwsError
from dovetail.cloud.aws.interruption.sqs import Polling, QueueMissing, SqsQueue
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.interruption import InterruptionKind

BRIEF = Polling(wait=1, visibility=1)


def source(account, **given):
    return SqsQueue(account.parts.aws, account.name, **{"polling": Polling(wait=1), **given})


def warned(deliveries):
    return sorted(each for delivery in deliveries for each in delivery.interruption.instance_ids)


def refused(code, status=400):
    return json_reply({"__type": f"com.amazonaws.sqs#{code}", "message": code}, status)


def test_a_message_is_deleted_only_once_it_is_acknowledged(live):
    async def story(account):
        backlog, queue = await new_backlog(account), source(account, polling=BRIEF)
        await backlog.send(spot("i-1"))
        [first] = await queue.receive()
        assert first.interruption.kind is InterruptionKind.SPOT_INTERRUPTED
        assert first.sent_at == SENT
        assert await backlog.waiting() == 1
        again = []
        while not again:
            again = await queue.receive()  # the time it was hidden for is over
        assert again[0].interruption == first.interruption
        await queue.acknowledge(again)
        assert await backlog.waiting() == 0

    live(story)


def test_what_cannot_be_read_is_set_aside_and_counted_and_does_not_hold_up_the_rest(live, caplog):
    async def story(account):
        metrics = PrometheusMetrics(strict=True)
        backlog, queue = await new_backlog(account), source(account, metrics=metrics)
        junk = "x" * 5000
        await backlog.send(junk, spot("i-1"), spot(7), "{")
        assert warned(await queue.receive()) == ["i-1"]
        assert await backlog.waiting() == 1
        assert figure(metrics, "dovetail_interruption_messages_set_aside_total") == 3
        assert figure(metrics, "karpenter_interruption_received_messages_total") == 3
        told = [record for record in caplog.records if record.message == "malformed message discarded"]
        assert max(len(record.excerpt) for record in told) == 200
        assert all(record.why and record.id and record.queue == account.name for record in told)

    live(story)


def test_what_cannot_be_set_aside_now_does_not_hold_up_the_rest_either(live):
    async def story(account):
        metrics = PrometheusMetrics(strict=True)
        backlog, queue = await new_backlog(account), source(account, metrics=metrics)
        account.proxy.on("DeleteMessageBatch", lambda _: refused("RequestThrottled"))
        await backlog.send("{", spot("i-1"))
        assert warned(await queue.receive()) == ["i-1"]
        assert figure(metrics, "dovetail_interruption_messages_set_aside_total") == 0

    live(story)


def test_a_queue_that_is_missing_is_named_with_the_remedy_and_found_once_it_is_there(live):
    async def story(account):
        queue = source(account)
        for _ in range(2):
            with pytest.raises(QueueMissing, match=rf"{account.name}.*us-east-1.*INTERRUPTION_QUEUE"):
                await queue.receive()
        backlog = await new_backlog(account)
        await backlog.send(spot("i-1"))
        [delivery] = await queue.receive()
        await account.aws.call("sqs", "delete_queue", QueueUrl=backlog.url)
        with pytest.raises(QueueMissing):
            await queue.acknowledge([delivery])
        before = account.proxy.calls["GetQueueUrl"]
        with pytest.raises(QueueMissing):
            await queue.receive()
        assert account.proxy.calls["GetQueueUrl"] == before + 1

    live(story)


def test_a_full_queue_is_read_by_up_to_ten_receivers_and_an_empty_one_by_one(live):
    async def story(account):
        queue, rounds, full = source(account), [], [True]
        await new_backlog(account)
        message = {"MessageId": "m", "ReceiptHandle": "r", "Body": spot("i-1")}
        waits = []

        def answer(asked):
            waits.append(asked.given["WaitTimeSeconds"])
            return json_reply({"Messages": [message] * 10 if full[0] else []})

        account.proxy.on("ReceiveMessage", answer)
        for _ in range(6):
            before = account.proxy.calls["ReceiveMessage"]
            received = await queue.receive()
            rounds.append(account.proxy.calls["ReceiveMessage"] - before)
            assert len(received) == 10 * rounds[-1]
        assert rounds == [1, 2, 4, 8, 10, 10]
        assert waits == [1] + [0] * 34
        full[0] = False
        assert await queue.receive() == []
        before = account.proxy.calls["ReceiveMessage"]
        assert await queue.receive() == []
        assert account.proxy.calls["ReceiveMessage"] - before == 1

    live(story)


def test_messages_of_one_receiver_are_not_lost_when_another_one_fails(live):
    async def story(account):
        backlog, queue = await new_backlog(account), source(account)
        await backlog.send(*(spot(f"i-{number}") for number in range(25)))
        assert len(await queue.receive()) == 10
        failing = iter([refused("RequestThrottled"), None])
        account.proxy.on("ReceiveMessage", lambda _: next(failing, None))
        assert len(await queue.receive()) == 10
        account.proxy.on("ReceiveMessage", lambda _: refused("RequestThrottled"))
        with pytest.raises(AwsError) as caught:
            await queue.receive()
        assert caught.value.throttled

    live(story)


def test_acknowledging_many_takes_a_request_for_every_ten(live):
    async def story(account):
        backlog, queue = await new_backlog(account), source(account)
        await backlog.send(*(spot(f"i-{number}") for number in range(23)))
        deliveries = []
        while len(deliveries) < 23:
            deliveries.extend(await queue.receive())
        await queue.acknowledge(deliveries)
        assert account.proxy.calls["DeleteMessageBatch"] == 3
        assert await backlog.waiting() == 0
        await queue.acknowledge(deliveries)  # seen twice, acknowledged twice

    live(story)


def test_a_message_that_could_not_be_deleted_is_reported(live):
    async def story(account):
        backlog, queue = await new_backlog(account), source(account)
        await backlog.send(spot("i-1"))
        deliveries = await queue.receive()
        failed = {"Id": "0", "Code": "InternalError", "SenderFault": False}
        account.proxy.on("DeleteMessageBatch", lambda _: json_reply({"Successful": [], "Failed": [failed]}))
        with pytest.raises(AwsError, match="InternalError: 1 message"):
            await queue.acknowledge(deliveries)

    live(story)


def test_waiting_for_messages_can_be_called_off(live):
    async def story(account):
        await new_backlog(account)
        waiting = asyncio.create_task(source(account).receive())
        while not account.proxy.calls["ReceiveMessage"]:  # noqa: ASYNC110 - the proxy only counts
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting], timeout=5)
        assert waiting.cancelled()

    live(story)


def test_the_queue_is_read_with_long_polling(live):
    async def story(account):
        await new_backlog(account)
        account.proxy.on("ReceiveMessage", lambda _: json_reply({}))
        assert await SqsQueue(account.parts.aws, account.name).receive() == []
        [asked] = [each for each in account.proxy.asked if each.operation == "ReceiveMessage"]
        told = json.loads(asked.body)
        assert (told["WaitTimeSeconds"], told["VisibilityTimeout"], told["MaxNumberOfMessages"]) == (20, 20, 10)

    live(story)

"""An SQS queue as a source of warnings: long polling while it is quiet, ten receivers at once while it is full.

A message stays in the queue until what it asks for is done. Nothing is held here between two calls: what was received
and not acknowledged comes again when SQS shows it again. Messages that cannot be read are set aside: logged with an
excerpt, counted, deleted. They never reach the handler, and never stop it.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.cloud.aws.interruption.messages import Malformed, read_message
from dovetail.ports.errors import CloudError
from dovetail.ports.interruption import Delivery
from dovetail.ports.metrics import Metrics, NoMetrics

log = logging.getLogger(__name__)
RECEIVERS = 10
BATCH = 10  # the most that SQS gives or deletes at once
EXCERPT = 200
_MISSING = ("NonExistentQueue", "QueueDoesNotExist")


@dataclass(frozen=True, slots=True)
class Polling:
    """How the queue is asked, in seconds."""

    wait: int = 20  # the longest that SQS lets a question stand
    hidden: int = 20  # until a message that was not handled comes again; a spot warning leaves 120


class QueueMissing(CloudError):
    """There is no queue of that name."""

    def __init__(self, name: str, region: str) -> None:
        super().__init__(
            f"there is no SQS queue {name!r} in {region}: nothing is known ahead of interruptions;"
            " create it, or correct --interruption-queue (INTERRUPTION_QUEUE)"
        )


USUAL = Polling()


class SqsQueue:
    """The queue of that name in the account and region of the default chain."""

    shared = False

    def __init__(self, aws: AwsClients, name: str, metrics: Metrics | None = None, polling: Polling = USUAL) -> None:
        self._aws = aws
        self._name = name
        self._metrics = metrics or NoMetrics()
        self._polling = polling
        self._url = ""
        self._receivers = 1

    async def receive(self) -> Sequence[Delivery]:
        """The next messages, at most a hundred. Waits for one only while the last round did not come back full."""
        url, alone = await self._find(), self._receivers == 1
        asked = (self._ask(url, self._polling.wait if alone else 0) for _ in range(self._receivers))
        rounds = await asyncio.gather(*asked, return_exceptions=True)
        answers = [each for each in rounds if not isinstance(each, BaseException)]
        if not answers:
            self._receivers = 1
            raise next(each for each in rounds if isinstance(each, BaseException))
        messages = [message for answer in answers for message in answer]
        full = len(messages) == BATCH * self._receivers
        self._receivers = min(self._receivers * 2, RECEIVERS) if full else 1
        return await self._read_all(messages)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Delete them, ten at a time."""
        await self._delete([delivery.id for delivery in deliveries])

    async def _find(self) -> str:
        if not self._url:
            answer = await self._call("get_queue_url", QueueName=self._name)
            self._url = str(answer["QueueUrl"])
        return self._url

    async def _ask(self, url: str, wait: int) -> list[Any]:
        given = {"MaxNumberOfMessages": BATCH, "WaitTimeSeconds": wait, "VisibilityTimeout": self._polling.hidden}
        answer = await self._call("receive_message", QueueUrl=url, **given)
        return list(answer.get("Messages", ()))

    async def _read_all(self, messages: Iterable[Any]) -> list[Delivery]:
        deliveries, unreadable = [], []
        for message in messages:
            try:
                read = read_message(message["Body"])
            except Malformed as error:
                self._tell(message, error)
                unreadable.append(message["ReceiptHandle"])
            else:
                deliveries.append(Delivery(message["ReceiptHandle"], read.interruption, read.sent_at))
        await self._set_aside(unreadable)
        return deliveries

    def _tell(self, message: Any, error: Malformed) -> None:
        self._metrics.count("karpenter_interruption_received_messages_total", message_type="malformed")
        excerpt = message["Body"][:EXCERPT]
        log.warning(
            "message set aside",
            extra={"queue": self._name, "id": message["MessageId"], "why": str(error), "excerpt": excerpt},
        )

    async def _set_aside(self, handles: Sequence[str]) -> None:
        """What cannot be deleted now comes again; the readable messages beside it must not wait for that."""
        if not handles:
            return
        try:
            await self._delete(handles)
        except AwsError as error:
            log.warning("messages not set aside", extra={"queue": self._name, "error": str(error)})
        else:
            self._metrics.count("dovetail_interruption_messages_set_aside_total", float(len(handles)))

    async def _delete(self, handles: Sequence[str]) -> None:
        url = await self._find()
        some = (handles[start : start + BATCH] for start in range(0, len(handles), BATCH))
        answers = await asyncio.gather(*(self._delete_some(url, each) for each in some))
        failed = [each for answer in answers for each in answer]
        if failed:
            raise AwsError(
                "sqs.delete_message_batch", str(failed[0].get("Code")), f"{len(failed)} messages not deleted"
            )

    async def _delete_some(self, url: str, handles: Sequence[str]) -> list[Any]:
        entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)]
        answer = await self._call("delete_message_batch", QueueUrl=url, Entries=entries)
        return list(answer.get("Failed", ()))

    async def _call(self, operation: str, **given: Any) -> Any:
        try:
            return await self._aws.call("sqs", operation, **given)
        except AwsError as error:
            if error.code.endswith(_MISSING):
                self._url = ""
                raise QueueMissing(self._name, self._aws.region) from error
            raise

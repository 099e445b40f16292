"""Interruption notices from an SQS queue with EventBridge events.

An event is identified by its exact version, source and detail-type. An unknown event and an empty body need no action.
A known event that lacks its documented fields is `Malformed`; it is never interpreted by guessing.

`SqsQueue` receives with one long poll while the queue is quiet and with up to ten receivers while every response is
full. A message is deleted only after it was handled; until then SQS delivers it again after the visibility timeout. No
message is stored between two calls. Malformed messages are logged with an excerpt, counted and deleted, so that they
neither reach the handler nor block the queue.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, TypeVar

import msgspec

from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.ports.errors import CloudError
from dovetail.ports.interruption import Delivery, Interruption, InterruptionKind
from dovetail.ports.metrics import Metrics, NoMetrics

NOTICE = timedelta(minutes=2)
"""The time between the notice for a spot or reserved instance and its end."""
_EC2, _HEALTH = "aws.ec2", "aws.health"
_STATES = {
    "stopping": InterruptionKind.INSTANCE_STOPPED,
    "stopped": InterruptionKind.INSTANCE_STOPPED,
    "shutting-down": InterruptionKind.INSTANCE_TERMINATED,
    "terminated": InterruptionKind.INSTANCE_TERMINATED,
}

S = TypeVar("S", bound=msgspec.Struct)
InstanceId = Annotated[str, msgspec.Meta(pattern="^i-[0-9a-f]+$")]


class Malformed(ValueError):
    """The message is not an EventBridge event, or lacks fields of its detail-type."""


class _Event(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    version: str
    source: str
    detail_type: str
    time: datetime
    detail: msgspec.Raw


class _Instance(msgspec.Struct, frozen=True, rename={"instance_id": "instance-id"}):
    instance_id: InstanceId


class _Action(msgspec.Struct, frozen=True, rename={"instance_id": "instance-id", "action": "instance-action"}):
    instance_id: InstanceId
    action: str


class _State(msgspec.Struct, frozen=True, rename={"instance_id": "instance-id"}):
    instance_id: InstanceId
    state: str


class _Entity(msgspec.Struct, frozen=True, rename="camel"):
    entity_value: str


class _Health(msgspec.Struct, frozen=True, rename="camel"):
    service: str
    event_type_category: str
    start_time: str = ""
    status_code: str = ""
    affected_entities: tuple[_Entity, ...] = ()


class Message(msgspec.Struct, frozen=True):
    """A parsed message. `interruption` is None if it needs no action."""

    interruption: Interruption | None = None
    sent_at: datetime | None = None


def parse_message(body: str) -> Message:
    """Parse the body of a message; `Malformed` if that fails."""
    if not body.strip():
        return Message()
    event = _decode(body, _Event)
    if event.time.tzinfo is None:
        raise Malformed("time: no time zone is given")
    read = _PARSERS.get((event.version, event.source, event.detail_type))
    try:
        return Message(read(event) if read else None, event.time.astimezone(UTC))
    except OverflowError as error:  # beyond the year 9999
        raise Malformed(f"time: {error}") from error


def _spot(event: _Event) -> Interruption:
    detail = _decode(event.detail, _Action)
    return Interruption(InterruptionKind.SPOT_INTERRUPTED, (detail.instance_id,), event.time + NOTICE)


def _reservation(event: _Event) -> Interruption:
    detail = _decode(event.detail, _Action)
    return Interruption(InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED, (detail.instance_id,), event.time + NOTICE)


def _rebalance(event: _Event) -> Interruption:
    detail = _decode(event.detail, _Instance)
    return Interruption(InterruptionKind.REBALANCE_RECOMMENDATION, (detail.instance_id,))


def _state(event: _Event) -> Interruption | None:
    detail = _decode(event.detail, _State)
    kind = _STATES.get(detail.state.lower())
    return Interruption(kind, (detail.instance_id,)) if kind else None


def _health(event: _Event) -> Interruption | None:
    """Future scheduled changes of EC2 instances. Other affected resources, for example volumes, are ignored."""
    detail = _decode(event.detail, _Health)
    if (detail.service, detail.event_type_category) != ("EC2", "scheduledChange") or detail.status_code == "closed":
        return None
    ids = tuple(each.entity_value for each in detail.affected_entities if each.entity_value.startswith("i-"))
    return Interruption(InterruptionKind.SCHEDULED_CHANGE, ids, _instant(detail.start_time)) if ids else None


_PARSERS: Mapping[tuple[str, str, str], Callable[[_Event], Interruption | None]] = {
    ("0", _EC2, "EC2 Spot Instance Interruption Warning"): _spot,
    ("0", _EC2, "EC2 Instance Rebalance Recommendation"): _rebalance,
    ("0", _EC2, "EC2 Instance State-change Notification"): _state,
    ("0", _EC2, "EC2 Capacity Reservation Instance Interruption Warning"): _reservation,
    ("0", _HEALTH, "AWS Health Event"): _health,
}
EVENTS = tuple((source, detail_type) for _, source, detail_type in _PARSERS)
"""Source and detail-type of every parsed event: the EventBridge rules that the queue needs."""


def _decode(text: str | msgspec.Raw, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _instant(text: str) -> datetime | None:
    """Parse RFC 3339, or the mail format of AWS Health. None otherwise: the drain then has no deadline."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(text)
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


log = logging.getLogger(__name__)
RECEIVERS = 10
BATCH = 10  # messages per request, an SQS limit
EXCERPT = 200
_NOT_FOUND_CODES = ("NonExistentQueue", "QueueDoesNotExist")


@dataclass(frozen=True, slots=True)
class Polling:
    """Timing of receive requests, in seconds."""

    wait: int = 20  # duration of a long poll; the maximum of SQS
    visibility: int = (
        20  # visibility timeout: unhandled messages are delivered again after it; a spot notice leaves 120
    )


class QueueMissing(CloudError):
    """The queue does not exist."""

    def __init__(self, name: str, region: str) -> None:
        super().__init__(
            f"there is no SQS queue {name!r} in {region}: nodes are not drained before interruptions;"
            " create it, or correct --interruption-queue (INTERRUPTION_QUEUE)"
        )


DEFAULT_POLLING = Polling()


class SqsQueue:
    """Receives from the queue of that name in the account and region of the default chain."""

    shared = False

    def __init__(
        self, aws: AwsClients, name: str, metrics: Metrics | None = None, polling: Polling = DEFAULT_POLLING
    ) -> None:
        self._aws = aws
        self._name = name
        self._metrics = metrics or NoMetrics()
        self._polling = polling
        self._url = ""
        self._receivers = 1

    async def receive(self) -> Sequence[Delivery]:
        """Receive up to 100 messages. Uses a long poll unless the last round was full."""
        url, single = await self._queue_url(), self._receivers == 1
        requests = (self._receive(url, self._polling.wait if single else 0) for _ in range(self._receivers))
        rounds = await asyncio.gather(*requests, return_exceptions=True)
        answers = [each for each in rounds if not isinstance(each, BaseException)]
        if not answers:
            self._receivers = 1
            raise next(each for each in rounds if isinstance(each, BaseException))
        messages = [message for answer in answers for message in answer]
        full = len(messages) == BATCH * self._receivers
        self._receivers = min(self._receivers * 2, RECEIVERS) if full else 1
        return await self._parse_all(messages)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Delete the messages, ten per request."""
        await self._delete([delivery.id for delivery in deliveries])

    async def _queue_url(self) -> str:
        if not self._url:
            answer = await self._call("get_queue_url", QueueName=self._name)
            self._url = str(answer["QueueUrl"])
        return self._url

    async def _receive(self, url: str, wait: int) -> list[Any]:
        parameters = {
            "MaxNumberOfMessages": BATCH,
            "WaitTimeSeconds": wait,
            "VisibilityTimeout": self._polling.visibility,
        }
        answer = await self._call("receive_message", QueueUrl=url, **parameters)
        return list(answer.get("Messages", ()))

    async def _parse_all(self, messages: Iterable[Any]) -> list[Delivery]:
        deliveries, malformed = [], []
        for message in messages:
            try:
                read = parse_message(message["Body"])
            except Malformed as error:
                self._log_malformed(message, error)
                malformed.append(message["ReceiptHandle"])
            else:
                deliveries.append(Delivery(message["ReceiptHandle"], read.interruption, read.sent_at))
        await self._discard(malformed)
        return deliveries

    def _log_malformed(self, message: Any, error: Malformed) -> None:
        self._metrics.count("karpenter_interruption_received_messages_total", message_type="malformed")
        excerpt = message["Body"][:EXCERPT]
        log.warning(
            "malformed message discarded",
            extra={"queue": self._name, "id": message["MessageId"], "why": str(error), "excerpt": excerpt},
        )

    async def _discard(self, handles: Sequence[str]) -> None:
        """Delete malformed messages. A failure is only logged: readable messages must not wait for it."""
        if not handles:
            return
        try:
            await self._delete(handles)
        except AwsError as error:
            log.warning(
                "could not delete malformed messages, they will be delivered again",
                extra={"queue": self._name, "error": str(error)},
            )
        else:
            self._metrics.count("dovetail_interruption_messages_set_aside_total", float(len(handles)))

    async def _delete(self, handles: Sequence[str]) -> None:
        url = await self._queue_url()
        batches = (handles[start : start + BATCH] for start in range(0, len(handles), BATCH))
        answers = await asyncio.gather(*(self._delete_batch(url, each) for each in batches))
        failed = [each for answer in answers for each in answer]
        if failed:
            raise AwsError(
                "sqs.delete_message_batch", str(failed[0].get("Code")), f"{len(failed)} messages were not deleted"
            )

    async def _delete_batch(self, url: str, handles: Sequence[str]) -> list[Any]:
        entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)]
        answer = await self._call("delete_message_batch", QueueUrl=url, Entries=entries)
        return list(answer.get("Failed", ()))

    async def _call(self, operation: str, **parameters: Any) -> Any:
        try:
            return await self._aws.call("sqs", operation, **parameters)
        except AwsError as error:
            if error.code.endswith(_NOT_FOUND_CODES):
                self._url = ""
                raise QueueMissing(self._name, self._aws.region) from error
            raise

"""EventBridge events, as they lie in the queue, read strictly into warnings.

An event is known by its version, source and detail-type, word for word. One nobody knows asks for nothing, and so does
an empty body. One that is known and does not look as documented is `Malformed`: it is never guessed at.

An SQS queue as a source of warnings: long polling while it is quiet, ten receivers at once while it is full.

A message stays in the queue until what it asks for is done. Nothing is held here between two calls: what was received
and not acknowledged comes again when SQS shows it again. Messages that cannot be read are set aside: logged with an
excerpt, counted, deleted. They never reach the handler, and never stop it.
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
"""Between a warning about a spot or reserved instance and its end."""
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
    """The message is no EventBridge event, or not what its kind promises."""


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
    """A message that was understood. `interruption` is None where it asks for nothing."""

    interruption: Interruption | None = None
    sent_at: datetime | None = None


def read_message(body: str) -> Message:
    """What the body of a message says; `Malformed` if that cannot be told."""
    if not body.strip():
        return Message()
    event = _decode(body, _Event)
    if event.time.tzinfo is None:
        raise Malformed("time: no time zone is given")
    read = _READERS.get((event.version, event.source, event.detail_type))
    try:
        return Message(read(event) if read else None, event.time.astimezone(UTC))
    except OverflowError as error:  # at the end of time
        raise Malformed(f"time: {error}") from error


def _spot(event: _Event) -> Interruption:
    told = _decode(event.detail, _Action)
    return Interruption(InterruptionKind.SPOT_INTERRUPTED, (told.instance_id,), event.time + NOTICE)


def _reservation(event: _Event) -> Interruption:
    told = _decode(event.detail, _Action)
    return Interruption(InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED, (told.instance_id,), event.time + NOTICE)


def _rebalance(event: _Event) -> Interruption:
    told = _decode(event.detail, _Instance)
    return Interruption(InterruptionKind.REBALANCE_RECOMMENDATION, (told.instance_id,))


def _state(event: _Event) -> Interruption | None:
    told = _decode(event.detail, _State)
    kind = _STATES.get(told.state.lower())
    return Interruption(kind, (told.instance_id,)) if kind else None


def _health(event: _Event) -> Interruption | None:
    """Only changes that are still to come, and only those of EC2. Volumes may be affected too: they are left out."""
    told = _decode(event.detail, _Health)
    if (told.service, told.event_type_category) != ("EC2", "scheduledChange") or told.status_code == "closed":
        return None
    ids = tuple(each.entity_value for each in told.affected_entities if each.entity_value.startswith("i-"))
    return Interruption(InterruptionKind.SCHEDULED_CHANGE, ids, _instant(told.start_time)) if ids else None


_READERS: Mapping[tuple[str, str, str], Callable[[_Event], Interruption | None]] = {
    ("0", _EC2, "EC2 Spot Instance Interruption Warning"): _spot,
    ("0", _EC2, "EC2 Instance Rebalance Recommendation"): _rebalance,
    ("0", _EC2, "EC2 Instance State-change Notification"): _state,
    ("0", _EC2, "EC2 Capacity Reservation Instance Interruption Warning"): _reservation,
    ("0", _HEALTH, "AWS Health Event"): _health,
}
EVENTS = tuple((source, detail_type) for _, source, detail_type in _READERS)
"""Source and detail-type of all that is understood: what has to be led to the queue."""


def _decode(text: str | msgspec.Raw, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _instant(written: str) -> datetime | None:
    """AWS Health writes instants as mail does, other services as RFC 3339. Without one the drain has no deadline."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(written)
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


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

"""EventBridge events, as they lie in the queue, read strictly into warnings.

An event is known by its version, source and detail-type, word for word. One nobody knows asks for nothing, and so does
an empty body. One that is known and does not look as documented is `Malformed`: it is never guessed at.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Annotated, TypeVar

import msgspec

from dovetail.ports.interruption import Interruption, InterruptionKind

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

"""Which sources of warnings there are on AWS: status checks and ends of capacity blocks always, the queue if named."""

from dovetail.cloud.aws.interruption.sqs import SqsQueue
from dovetail.cloud.aws.interruption.status_checks import EndingCapacityBlocks, StatusChecks
from dovetail.cloud.aws.provider import AwsParts
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.metrics import Metrics


def find_sources(parts: AwsParts, metrics: Metrics) -> tuple[InterruptionSource, ...]:
    """The sources the settings ask for. Nothing is asked yet."""
    always = (
        StatusChecks(parts.aws, parts.clock),
        EndingCapacityBlocks(parts.resolvers.reservations, parts.instances, parts.clock),
    )
    name = parts.settings.interruption_queue
    return (SqsQueue(parts.aws, name, metrics), *always) if name else always

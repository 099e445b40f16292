"""Which sources of warnings there are on AWS: status checks always, the queue if one is named."""

from dovetail.cloud.aws.interruption.queue import SqsQueue
from dovetail.cloud.aws.interruption.status_checks import StatusChecks
from dovetail.cloud.aws.provider import AwsParts
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.metrics import Metrics


def find_sources(parts: AwsParts, metrics: Metrics) -> tuple[InterruptionSource, ...]:
    """The sources the settings ask for. Nothing is asked yet."""
    checks, name = StatusChecks(parts.aws, parts.clock), parts.settings.interruption_queue
    return (SqsQueue(parts.aws, name, metrics), checks) if name else (checks,)

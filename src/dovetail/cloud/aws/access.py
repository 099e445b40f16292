"""Why AWS refuses the controller: no credentials, credentials it rejects, a missing permission, or no answer at all.

These failures last until an operator changes something, so they are shown where an operator looks: in the conditions of
the EC2NodeClass and in an event. `access_problem` names the action, such as ec2:DescribeSubnets; AWS itself names the
caller and the resource. Throttling, errors of AWS itself and missing resources are not refusals.

One request that AWS did not answer proves nothing. `Outages` remembers since when a class could not be resolved for
want of an answer.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.cloud.aws.clients import NO_CREDENTIALS, UNREACHABLE, AwsError
from dovetail.ports.clock import Clock

UNREACHABLE_AFTER = timedelta(minutes=5)
_ENCODED = "Encoded authorization failure message"
_SESSION_CODES = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")


@dataclass(frozen=True, slots=True)
class AccessProblem:
    """The reason, an AWS error code or one of `clients`, and a sentence with the cause and the fix."""

    reason: str
    message: str


def access_problem(error: AwsError) -> AccessProblem | None:
    """What an operator must change, or None if a retry may succeed."""
    said = without_encoded_part(error.message).rstrip(".")
    match error:
        case _ if error.code == NO_CREDENTIALS:
            message = f"there are no AWS credentials for {error.action}: {said}"
        case _ if error.code == UNREACHABLE:
            remedy = "check the region (AWS_REGION), the network, and in a private VPC the endpoint of the service"
            message = f"AWS does not answer {error.action}: {said}; {remedy}"
        case _ if error.code in _SESSION_CODES:
            message = f"the AWS credentials have expired ({error.action}: {error.code}: {said}); renew them"
        case _ if error.credentials_rejected and not _about_a_permission(said):
            remedy = "check the credentials, and the clock of the controller"
            message = f"AWS rejects the credentials ({error.action}: {error.code}: {said}); {remedy}"
        case _ if error.unauthorized:
            remedy = "allow it in the policies of the controller's role"
            message = f"AWS does not allow {error.action} ({error.code}: {said}); {remedy}"
        case _:
            return None
    return AccessProblem(error.code, message)


def _about_a_permission(said: str) -> bool:
    """Whether AWS knows the caller: AuthFailure is the code for unknown credentials and for a missing permission."""
    return "not authorized" in said.lower()


def without_encoded_part(message: str) -> str:
    """What AWS says, in one line, without the encoded message that only another request can decode."""
    return " ".join(message.partition(_ENCODED)[0].split())


class Outages:
    """By node class: since when AWS has not answered. It starts afresh with each process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at: dict[str, datetime] = {}

    def ended(self, node_class: str) -> None:
        """AWS answered everything that the class needs, or the class is gone."""
        self._began_at.pop(node_class, None)

    def lasts(self, node_class: str) -> bool:
        """Whether AWS has not answered for so long that it is not a matter of retries."""
        began_at = self._began_at.setdefault(node_class, self._clock.now())
        return self._clock.now() - began_at >= UNREACHABLE_AFTER

"""What it means when EC2 does not launch: nothing to be had now, or a reason worth showing on the NodeClaim.

Quotas count as shortages: another type, zone or way to buy may be within them. All of a fleet's errors are shortages:
the claim is given up and the next one asks for something else; any other error is shown, and the launch tried again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.cloud.aws.catalog.unavailable_offerings import OfferingKey, UnavailableOfferings
from dovetail.cloud.aws.clients import NO_CREDENTIALS, THROTTLED, UNAUTHORIZED, UNREACHABLE
from dovetail.model.labels import RESERVED, SPOT
from dovetail.ports.errors import CloudError, InsufficientCapacity, LaunchFailed

SHORTAGES = frozenset(
    {
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    }
)
NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_REASONS = {
    NO_SPOT_ROLE: "SpotSLRCreationFailed",
    NO_CREDENTIALS: "Unauthorized",
    UNREACHABLE: "Unreachable",
    "InvalidParameter": "InvalidParameter",
    "InvalidAMIID.Malformed": "InvalidAMIID",
    "InvalidAMIID.NotFound": "AMINotFound",
    "InvalidAMIID.Unavailable": "AMINotFound",
    "InvalidSubnetID.NotFound": "SubnetNotFound",
    "InvalidGroup.NotFound": "SecurityGroupNotFound",
    "InvalidIamInstanceProfile": "InstanceProfileNotFound",
    "IncorrectSpotRequestState": "SpotRequestFailed",
    "InstanceLimitExceeded": "InstanceLimitExceeded",
    "VolumeLimitExceeded": "VolumeLimitExceeded",
    "SpotMaxPriceTooLow": "SpotMaxPriceTooLow",
}
_VPC_MISMATCH = "Security group and subnet belong to different networks"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetError:
    """Why a fleet did not launch something, and what that was."""

    code: str
    message: str
    instance_type: str = ""
    zone: str = ""
    subnet_id: str = ""
    reservation_id: str = ""


def remember(errors: Sequence[FleetError], capacity_type: str, unavailable: UnavailableOfferings) -> None:
    """Keep what was short from being asked for again right away, even if the fleet got something else."""
    for error in errors:
        if error.code == NO_SPOT_ROLE:
            unavailable.mark_all_spot()
        if error.code not in SHORTAGES or not error.instance_type:
            continue
        sold = error.reservation_id if capacity_type == RESERVED else error.instance_type
        unavailable.mark(OfferingKey(capacity_type, sold or error.instance_type, error.zone))
        if error.code == NO_ADDRESSES and error.subnet_id:
            unavailable.mark_subnet(error.subnet_id)


def judge(errors: Sequence[FleetError], capacity_type: str) -> CloudError:
    """What to raise when a fleet launched nothing."""
    told = _summary(errors)
    others = [error for error in errors if error.code not in SHORTAGES]
    if not others:
        return InsufficientCapacity(told or "the fleet launched nothing and does not say why")
    if capacity_type == SPOT and all(error.code == NO_SPOT_ROLE for error in others):
        return LaunchFailed(_REASONS[NO_SPOT_ROLE], told)
    return LaunchFailed(reason_of(others[0].code, others[0].message), told)


def reason_of(code: str, message: str) -> str:
    """The reason shown on the NodeClaim for one of EC2's codes."""
    if code in _REASONS and code != "InvalidParameter":
        return _REASONS[code]
    if code in UNAUTHORIZED:
        return "Unauthorized"
    if code in THROTTLED:
        return "RequestLimitExceeded"
    if _VPC_MISMATCH in message:
        return "SecurityGroupSubnetVPCMismatch"
    return "LaunchFailed"


def _summary(errors: Sequence[FleetError]) -> str:
    """Each code once, with what it says and how often it came."""
    by_code: dict[str, list[FleetError]] = {}
    for error in errors:
        by_code.setdefault(error.code, []).append(error)
    return "; ".join(
        f"{code}: {many[0].message}" + (f" (and {len(many) - 1} more)" if len(many) > 1 else "")
        for code, many in sorted(by_code.items())
    )

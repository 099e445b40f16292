"""A fleet of one instance: the request that EC2 answers at once, and what its answer says.

Everything that differs between two tries is in the request, and the token is that of the try: EC2 answers the same
request with the same token as it did before, and launches nothing more.

What it means when EC2 does not launch: nothing to be had now, or a reason worth showing on the NodeClaim.

Quotas count as shortages: another type, zone or way to buy may be within them. All of a fleet's errors are shortages:
the claim is given up and the next one asks for something else; any other error is shown, and the launch tried again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.offerings import OfferingKey, UnavailableOfferings
from dovetail.cloud.aws.clients import NO_CREDENTIALS, THROTTLED, UNAUTHORIZED, UNREACHABLE
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, Option
from dovetail.cloud.aws.launch.launch_templates import LaunchTemplate
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import ON_DEMAND, RESERVED, SPOT
from dovetail.model.nodeclaim import NodeClaim
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


MOST_OVERRIDES = 300  # that a fleet takes
Tags = Mapping[str, str]


@dataclass(frozen=True)
class FleetRequest:
    """An option, the subnet it would be launched in, and the template it would be launched from."""

    option: Option
    subnet_id: str
    template: LaunchTemplate


@dataclass(frozen=True)
class FleetInstance:
    """What a fleet launched."""

    instance_id: str
    bid: FleetRequest


def tags_of(claim: NodeClaim, node_class: EC2NodeClass, cluster_name: str, fingerprint: str) -> Tags:
    """What instance, volumes and fleet are tagged with. What the class says never replaces what we find them by."""
    return {
        "Name": claim.name,
        **node_class.spec.tags,
        labels.cluster_tag(cluster_name): "owned",
        labels.CLUSTER_NAME_TAG: cluster_name,
        labels.NODEPOOL_TAG: claim.nodepool_name,
        labels.NODECLAIM_TAG: claim.name,
        labels.NODE_CLASS_TAG: node_class.name,
        labels.CLAIM_UID_TAG: claim.metadata.uid,
        labels.CLASS_HASH: fingerprint,
    }


def fleet_request(
    purchase: FleetPurchase, bids: Sequence[FleetRequest], tags: Tags, token: str, context: str = ""
) -> dict[str, Any]:
    """One instance, of whichever bid EC2 takes."""
    listed = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    kind = SPOT if purchase.capacity_type == SPOT else ON_DEMAND
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": _configs(bids[:MOST_OVERRIDES]),
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": "capacity-block" if purchase.capacity_block else kind,
            "TotalTargetCapacity": 1,
        },
        "TagSpecifications": [{"ResourceType": each, "Tags": listed} for each in ("instance", "volume", "fleet")],
    }
    if context:
        request["Context"] = context
    if kind == SPOT:
        request["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    elif not purchase.capacity_block:
        request["OnDemandOptions"] = {"AllocationStrategy": "lowest-price"}
    return request


def _configs(bids: Iterable[FleetRequest]) -> list[dict[str, Any]]:
    by_template: dict[str, list[dict[str, Any]]] = {}
    for bid in bids:
        override = {
            "InstanceType": bid.option.instance_type.name,
            "SubnetId": bid.subnet_id,
            "AvailabilityZone": bid.option.offering.zone,
        }
        by_template.setdefault(bid.template.name, []).append(override)
    return [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
            "Overrides": overrides,
        }
        for name, overrides in by_template.items()
    ]


def bought(answer: Mapping[str, Any], bids: Sequence[FleetRequest]) -> FleetInstance | None:
    """What the fleet launched, if it did."""
    for each in answer.get("Instances") or ():
        for instance_id in each.get("InstanceIds", ()):
            override = _override(each)
            name = override.get("InstanceType") or each.get("InstanceType", "")
            bid = _find(bids, name, override.get("SubnetId", ""), override.get("AvailabilityZone", ""))
            if bid is not None:
                return FleetInstance(instance_id, bid)
    return None


def errors_of(answer: Mapping[str, Any], bids: Sequence[FleetRequest]) -> tuple[FleetError, ...]:
    """What the fleet could not have."""
    return tuple(_error(each, bids) for each in answer.get("Errors") or ())


def _error(said: Mapping[str, Any], bids: Sequence[FleetRequest]) -> FleetError:
    override = _override(said)
    name, subnet = override.get("InstanceType", ""), override.get("SubnetId", "")
    bid = _find(bids, name, subnet, override.get("AvailabilityZone", ""))
    return FleetError(
        code=said.get("ErrorCode", ""),
        message=said.get("ErrorMessage", ""),
        instance_type=name,
        zone=bid.option.offering.zone if bid is not None else override.get("AvailabilityZone", ""),
        subnet_id=subnet,
        reservation_id=bid.option.reservation_id if bid is not None else "",
    )


def _override(said: Mapping[str, Any]) -> Mapping[str, Any]:
    override: Mapping[str, Any] = (said.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return override


def _find(bids: Sequence[FleetRequest], name: str, subnet_id: str, zone: str) -> FleetRequest | None:
    """The bid that was taken or refused; EC2 may leave out the subnet or the zone."""
    fitting = [bid for bid in bids if bid.option.instance_type.name == name]
    if subnet_id:
        fitting = [bid for bid in fitting if bid.subnet_id == subnet_id]
    elif zone:
        fitting = [bid for bid in fitting if bid.option.offering.zone == zone]
    return fitting[0] if fitting else None

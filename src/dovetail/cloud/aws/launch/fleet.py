"""The CreateFleet request for one instance, and the meaning of its response.

The request is an instant fleet with one override for each combination of instance type, subnet and launch template. All
that distinguishes two attempts is in the request, and the client token names the attempt: EC2 answers a repeated
request with the same token as before and launches nothing more.

Errors that mean missing capacity, quotas included, mark their offering as unavailable, because another type, zone or
capacity type may work. If a fleet returns only these, the launch fails with `InsufficientCapacity`: the claim is
deleted, and the next one avoids the offerings. Any other error is `LaunchFailed`: its reason is shown on the NodeClaim,
and the launch is retried.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.offerings import OfferingKey, UnavailableOfferings
from dovetail.cloud.aws.clients import NO_CREDENTIALS, THROTTLED, UNAUTHORIZED, UNREACHABLE
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, LaunchOption
from dovetail.cloud.aws.launch.launch_templates import LaunchTemplate
from dovetail.cloud.aws.nodeclass_hash import recorded_hashes
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
    """An error of a fleet, and the override it is about."""

    code: str
    message: str
    instance_type: str = ""
    zone: str = ""
    subnet_id: str = ""
    reservation_id: str = ""


def record_shortages(errors: Sequence[FleetError], capacity_type: str, unavailable: UnavailableOfferings) -> None:
    """Mark the offerings that had no capacity as unavailable, even if the fleet launched another one."""
    for error in errors:
        if error.code == NO_SPOT_ROLE:
            unavailable.mark_all_spot()
        if error.code not in SHORTAGES or not error.instance_type:
            continue
        name = error.reservation_id if capacity_type == RESERVED else error.instance_type
        unavailable.mark(OfferingKey(capacity_type, name or error.instance_type, error.zone))
        if error.code == NO_ADDRESSES and error.subnet_id:
            unavailable.mark_subnet(error.subnet_id)


def launch_error(errors: Sequence[FleetError], capacity_type: str) -> CloudError:
    """The error to raise when a fleet launched nothing."""
    summary = _summary(errors)
    others = [error for error in errors if error.code not in SHORTAGES]
    if not others:
        return InsufficientCapacity(summary or "the fleet launched no instance and reported no error")
    if capacity_type == SPOT and all(error.code == NO_SPOT_ROLE for error in others):
        return LaunchFailed(_REASONS[NO_SPOT_ROLE], summary)
    return LaunchFailed(reason_of(others[0].code, others[0].message), summary)


def reason_of(code: str, message: str) -> str:
    """The reason shown on the NodeClaim for an EC2 error code."""
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
    """Each error code once, with its first message and the number of repetitions."""
    by_code: dict[str, list[FleetError]] = {}
    for error in errors:
        by_code.setdefault(error.code, []).append(error)
    return "; ".join(
        f"{code}: {many[0].message}" + (f" (and {len(many) - 1} more)" if len(many) > 1 else "")
        for code, many in sorted(by_code.items())
    )


MAX_OVERRIDES = 300  # overrides per request, an EC2 limit
Tags = Mapping[str, str]


@dataclass(frozen=True)
class FleetOverride:
    """One override of the fleet: a launch option, its subnet and its launch template."""

    option: LaunchOption
    subnet_id: str
    template: LaunchTemplate


@dataclass(frozen=True)
class FleetInstance:
    """The instance that a fleet launched, and the override it was launched from."""

    instance_id: str
    override: FleetOverride


def launch_tags(claim: NodeClaim, node_class: EC2NodeClass, cluster_name: str) -> Tags:
    """The tags of instance, volumes and fleet. Tags of the class cannot replace those that identify resources."""
    return {
        "Name": claim.name,
        **node_class.spec.tags,
        labels.cluster_tag(cluster_name): "owned",
        labels.CLUSTER_NAME_TAG: cluster_name,
        labels.NODEPOOL_TAG: claim.nodepool_name,
        labels.NODECLAIM_TAG: claim.name,
        labels.NODE_CLASS_TAG: node_class.name,
        labels.CLAIM_UID_TAG: claim.metadata.uid,
        **recorded_hashes(node_class.metadata.annotations),
    }


def fleet_request(
    purchase: FleetPurchase, overrides: Sequence[FleetOverride], tags: Tags, token: str, context: str = ""
) -> dict[str, Any]:
    """The request for one instance, from any of the overrides."""
    listed = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    kind = SPOT if purchase.capacity_type == SPOT else ON_DEMAND
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": _template_configs(overrides[:MAX_OVERRIDES]),
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


def _template_configs(overrides: Iterable[FleetOverride]) -> list[dict[str, Any]]:
    by_template: dict[str, list[dict[str, Any]]] = {}
    for each in overrides:
        override = {
            "InstanceType": each.option.instance_type.name,
            "SubnetId": each.subnet_id,
            "AvailabilityZone": each.option.offering.zone,
        }
        by_template.setdefault(each.template.name, []).append(override)
    return [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
            "Overrides": listed,
        }
        for name, listed in by_template.items()
    ]


def launched_instance(response: Mapping[str, Any], overrides: Sequence[FleetOverride]) -> FleetInstance | None:
    """The instance that the fleet launched, or None."""
    for each in response.get("Instances") or ():
        for instance_id in each.get("InstanceIds", ()):
            reported = _reported_override(each)
            name = reported.get("InstanceType") or each.get("InstanceType", "")
            override = _find(overrides, name, reported.get("SubnetId", ""), reported.get("AvailabilityZone", ""))
            if override is not None:
                return FleetInstance(instance_id, override)
    return None


def fleet_errors(response: Mapping[str, Any], overrides: Sequence[FleetOverride]) -> tuple[FleetError, ...]:
    """The errors of the fleet."""
    return tuple(_parse_error(each, overrides) for each in response.get("Errors") or ())


def _parse_error(error: Mapping[str, Any], overrides: Sequence[FleetOverride]) -> FleetError:
    reported = _reported_override(error)
    name, subnet = reported.get("InstanceType", ""), reported.get("SubnetId", "")
    override = _find(overrides, name, subnet, reported.get("AvailabilityZone", ""))
    return FleetError(
        code=error.get("ErrorCode", ""),
        message=error.get("ErrorMessage", ""),
        instance_type=name,
        zone=override.option.offering.zone if override is not None else reported.get("AvailabilityZone", ""),
        subnet_id=subnet,
        reservation_id=override.option.reservation_id if override is not None else "",
    )


def _reported_override(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    override: Mapping[str, Any] = (entry.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return override


def _find(overrides: Sequence[FleetOverride], name: str, subnet_id: str, zone: str) -> FleetOverride | None:
    """The override that a response is about; EC2 may leave out the subnet or the zone."""
    matching = [each for each in overrides if each.option.instance_type.name == name]
    if subnet_id:
        matching = [each for each in matching if each.subnet_id == subnet_id]
    elif zone:
        matching = [each for each in matching if each.option.offering.zone == zone]
    return matching[0] if matching else None

"""A fleet of one instance: the request that EC2 answers at once, and what its answer says.

Everything that differs between two tries is in the request, and the token is that of the try: EC2 answers the same
request with the same token as it did before, and launches nothing more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.launch.launch_errors import FleetError
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, Option
from dovetail.cloud.aws.launch.launch_templates import LaunchTemplate
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import ON_DEMAND, SPOT
from dovetail.model.nodeclaim import NodeClaim

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

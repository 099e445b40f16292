"""The status conditions of an EC2NodeClass, computed from what its selectors resolved to.

Reasons and messages are those of Karpenter. `ValidationSucceeded` depends on all the others.
"""

from collections.abc import Iterable

from dovetail.manifest.ec2nodeclass.semantics import kubelet_faults
from dovetail.model.conditions import ConditionVerdict
from dovetail.model.ec2nodeclass import (
    AMIS_READY,
    INSTANCE_PROFILE_READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    VALIDATION_SUCCEEDED,
    EC2NodeClassSpec,
)

SERVICE_CIDR_UNKNOWN = ConditionVerdict(
    VALIDATION_SUCCEEDED,
    "False",
    "ClusterCIDRResolutionFailed",
    "AL2023 nodes need the service CIDR of the cluster, which only EKS reports, and EKS_CONTROL_PLANE is false; on EKS"
    " leave that setting out, elsewhere use another amiFamily",
)
_MAX_USER_DATA_BYTES = 16 * 1024
_AL2_UNSUPPORTED_FROM = (1, 33)
_WINDOWS2025_SUPPORTED_FROM = (1, 35)


def images_condition(spec: EC2NodeClassSpec, found: int, kubernetes: str) -> ConditionVerdict:
    """AMIsReady: the terms match an AMI, and the alias exists for the cluster's Kubernetes version."""
    family = next((term.alias_family for term in spec.image_terms if term.alias), "")
    version = _minor(kubernetes)
    if family == "AL2" and version >= _AL2_UNSUPPORTED_FROM:
        message = f"there are no AL2 images for Kubernetes {kubernetes}"
        return ConditionVerdict(AMIS_READY, "False", "UnsupportedAlias", message)
    if family == "Windows2025" and version < _WINDOWS2025_SUPPORTED_FROM:
        message = f"there are no Windows2025 images for Kubernetes {kubernetes}"
        return ConditionVerdict(AMIS_READY, "False", "UnsupportedAlias", message)
    return _matched(AMIS_READY, found, "AMINotFound", "AMISelector did not match any AMIs")


def subnets_condition(found: int) -> ConditionVerdict:
    """SubnetsReady: the terms match a subnet."""
    return _matched(SUBNETS_READY, found, "SubnetsNotFound", "SubnetSelector did not match any Subnets")


def security_groups_condition(found: int) -> ConditionVerdict:
    """SecurityGroupsReady: the terms match a security group."""
    message = "SecurityGroupSelector did not match any SecurityGroups"
    return _matched(SECURITY_GROUPS_READY, found, "SecurityGroupsNotFound", message)


def instance_profile_condition(name: str) -> ConditionVerdict:
    """InstanceProfileReady. A profile that could not be created is an AWS error, not a condition."""
    return ConditionVerdict(INSTANCE_PROFILE_READY, "True" if name else "Unknown")


def validation_condition(
    spec: EC2NodeClassSpec, others: Iterable[ConditionVerdict], *, profile_exists: bool
) -> ConditionVerdict:
    """ValidationSucceeded, apart from the dry run: the other conditions, kubelet settings, profile and user data."""
    not_ready = [verdict for verdict in others if verdict.status != "True"]
    if not_ready:
        status = "False" if any(verdict.status == "False" for verdict in not_ready) else "Unknown"
        waiting = [verdict.type for verdict in not_ready]
        return ConditionVerdict(VALIDATION_SUCCEEDED, status, "DependenciesNotReady", f"awaiting {', '.join(waiting)}")
    faults = list(kubelet_faults(spec.kubelet or {}, "spec.kubelet"))
    if faults:
        message = "; ".join(map(str, faults))
        return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "InvalidKubeletConfiguration", message)
    if not profile_exists:
        message = f"there is no instance profile {spec.instance_profile!r}"
        return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "InstanceProfileNotFound", message)
    size = len((spec.user_data or "").encode())
    if size > _MAX_USER_DATA_BYTES:
        message = f"userData has {size} bytes; the limit of EC2 is {_MAX_USER_DATA_BYTES}"
        return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "UserDataSizeLimitExceeded", message)
    return ConditionVerdict(VALIDATION_SUCCEEDED)


def _matched(condition: str, count: int, reason: str, message: str) -> ConditionVerdict:
    return ConditionVerdict(condition) if count else ConditionVerdict(condition, "False", reason, message)


def _minor(kubernetes: str) -> tuple[int, int]:
    major, _, minor = kubernetes.partition(".")
    return int(major or 0), int(minor.partition(".")[0] or 0)

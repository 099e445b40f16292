"""What is said of a node class: each condition from what was found, and what validation makes of it."""

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

_LONGEST_USER_DATA = 16 * 1024
_AL2_ENDS = (1, 33)
_WINDOWS2025_BEGINS = (1, 35)


def judge_images(spec: EC2NodeClassSpec, found: int, kubernetes: str) -> ConditionVerdict:
    """Whether there are images, and whether the alias fits the cluster's version."""
    family = next((term.alias_family for term in spec.image_terms if term.alias), "")
    version = _minor(kubernetes)
    if family == "AL2" and version >= _AL2_ENDS:
        return ConditionVerdict(
            AMIS_READY, "False", "UnsupportedAlias", f"there are no AL2 images for Kubernetes {kubernetes}"
        )
    if family == "Windows2025" and version < _WINDOWS2025_BEGINS:
        message = f"there are no Windows2025 images for Kubernetes {kubernetes}"
        return ConditionVerdict(AMIS_READY, "False", "UnsupportedAlias", message)
    return _found(AMIS_READY, found, "AMINotFound", "AMISelector did not match any AMIs")


def judge_subnets(found: int) -> ConditionVerdict:
    """Whether there is anywhere to launch."""
    return _found(SUBNETS_READY, found, "SubnetsNotFound", "SubnetSelector did not match any Subnets")


def judge_groups(found: int) -> ConditionVerdict:
    """Whether there is a security group."""
    message = "SecurityGroupSelector did not match any SecurityGroups"
    return _found(SECURITY_GROUPS_READY, found, "SecurityGroupsNotFound", message)


def judge_profile(name: str) -> ConditionVerdict:
    """A profile that could not be made is an error and retried, so there is one."""
    return ConditionVerdict(INSTANCE_PROFILE_READY, "True" if name else "Unknown")


def judge_validation(
    spec: EC2NodeClassSpec, others: Iterable[ConditionVerdict], *, profile_exists: bool
) -> ConditionVerdict:
    """Whether nodes can be launched with what was written, as far as can be told without trying."""
    told = list(others)
    waiting = [verdict.type for verdict in told if verdict.status != "True"]
    if waiting:
        status = "False" if any(verdict.status == "False" for verdict in told) else "Unknown"
        return ConditionVerdict(VALIDATION_SUCCEEDED, status, "DependenciesNotReady", f"awaiting {', '.join(waiting)}")
    faults = list(kubelet_faults(spec.kubelet or {}, "spec.kubelet"))
    if faults:
        message = "; ".join(map(str, faults))
        return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "InvalidKubeletConfiguration", message)
    if not profile_exists:
        message = f"there is no instance profile {spec.instance_profile!r}"
        return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "InstanceProfileNotFound", message)
    size = len((spec.user_data or "").encode())
    if size > _LONGEST_USER_DATA:
        message = f"userData has {size} bytes; EC2 takes {_LONGEST_USER_DATA}"
        return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "UserDataSizeLimitExceeded", message)
    return ConditionVerdict(VALIDATION_SUCCEEDED)


def refused(condition: str, code: str, message: str) -> ConditionVerdict:
    """AWS does not let us look, and will not before somebody changes a policy."""
    return ConditionVerdict(condition, "False", code, message)


def _found(condition: str, count: int, reason: str, message: str) -> ConditionVerdict:
    return ConditionVerdict(condition) if count else ConditionVerdict(condition, "False", reason, message)


def _minor(kubernetes: str) -> tuple[int, int]:
    major, _, minor = kubernetes.partition(".")
    return int(major or 0), int(minor.partition(".")[0] or 0)

"""Node conditions that make a node unhealthy, and how long each is tolerated.

The provider defines the conditions, here in one table for each provider; a NodePool may set how long they are
tolerated. `GENERAL` has the conditions that all providers share: those of the kubelet under pressure, and those of
node-problem-detector with its usual configuration.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from dovetail.model.kube_object import Fault
from dovetail.model.nodepool import NodePool


@dataclass(frozen=True, slots=True)
class ProviderRepairPolicy:
    """A node condition that makes a node unhealthy, and how long it is tolerated unless the NodePool sets it."""

    condition_type: str
    status: str
    toleration: timedelta
    node_class_label: str = ""  # of the nodes it applies to; empty for all

    def applies_to(self, labels: Container[str]) -> bool:
        """Whether it applies to a node with these labels."""
        return not self.node_class_label or self.node_class_label in labels


_TEN = timedelta(minutes=10)  # the node does not work: wait only for a short interruption to end
_THIRTY = timedelta(minutes=30)  # the node still works, and the kubelet or a restart often fixes it

GENERAL = (
    ProviderRepairPolicy("NetworkUnavailable", "True", _TEN),
    ProviderRepairPolicy("KernelDeadlock", "True", _TEN),
    ProviderRepairPolicy("ReadonlyFilesystem", "True", _TEN),
    ProviderRepairPolicy("CorruptDockerOverlay2", "True", _TEN),
    ProviderRepairPolicy("KubeletUnhealthy", "True", _TEN),
    ProviderRepairPolicy("ContainerRuntimeUnhealthy", "True", _TEN),
    ProviderRepairPolicy("DiskPressure", "True", _THIRTY),
    ProviderRepairPolicy("MemoryPressure", "True", _THIRTY),
    ProviderRepairPolicy("FrequentKubeletRestart", "True", _THIRTY),
    ProviderRepairPolicy("FrequentDockerRestart", "True", _THIRTY),
    ProviderRepairPolicy("FrequentContainerdRestart", "True", _THIRTY),
    ProviderRepairPolicy("FrequentUnregisterNetDevice", "True", _THIRTY),
)
"""Conditions of the kubelet and of node-problem-detector. `PIDPressure` is left out: evicting pods fixes it."""


def unready(toleration: timedelta) -> tuple[ProviderRepairPolicy, ...]:
    """The conditions of a node that is not ready, or whose kubelet has stopped reporting."""
    return ProviderRepairPolicy("Ready", "False", toleration), ProviderRepairPolicy("Ready", "Unknown", toleration)


KWOK = (*unready(_TEN), *GENERAL)
AWS = (
    *unready(_THIRTY),
    ProviderRepairPolicy("AcceleratedHardwareReady", "False", _TEN),
    ProviderRepairPolicy("StorageReady", "False", _THIRTY),
    ProviderRepairPolicy("NetworkingReady", "False", _THIRTY),
    ProviderRepairPolicy("KernelReady", "False", _THIRTY),
    ProviderRepairPolicy("ContainerRuntimeReady", "False", _THIRTY),
    *GENERAL,
)
"""With the conditions of the EKS node monitoring agent."""
REPAIR_POLICIES_BY_GROUP = {"karpenter.kwok.sh": KWOK, "karpenter.k8s.aws": AWS}
"""By the API group of the provider's node classes."""


def policies_without_effect(pool: NodePool, statements: Iterable[ProviderRepairPolicy]) -> Iterator[Fault]:
    """Repair policies of a NodePool for conditions that its provider does not report."""
    reported = sorted({each.condition_type for each in statements if each.applies_to({pool.node_class_ref.label})})
    for index, policy in enumerate(pool.spec.repair.policies if pool.spec.repair is not None else ()):
        if policy.condition_type not in reported:
            yield Fault(
                f"spec.repair.policies[{index}].conditionType",
                f"has no effect: the provider of {pool.node_class_ref.api_group} does not report this condition",
                policy.condition_type,
                f"use one of {', '.join(reported)}",
            )

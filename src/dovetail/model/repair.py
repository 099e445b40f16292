"""Which node conditions make a node unhealthy, and for how long each is put up with.

A provider says which; a NodePool may say how long. `GENERAL` are the conditions that mean the same wherever a node
runs: what the kubelet reports under pressure, and what node-problem-detector reports with its usual configuration.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class RepairStatement:
    """A node condition that makes a node unhealthy, and how long it is tolerated unless the pool says otherwise."""

    condition_type: str
    status: str
    toleration: timedelta


_TEN = timedelta(minutes=10)  # the node cannot do its work: only a hiccup is waited out
_THIRTY = timedelta(minutes=30)  # the node still works, and the kubelet or a restart often mends it

GENERAL = (
    RepairStatement("NetworkUnavailable", "True", _TEN),
    RepairStatement("KernelDeadlock", "True", _TEN),
    RepairStatement("ReadonlyFilesystem", "True", _TEN),
    RepairStatement("CorruptDockerOverlay2", "True", _TEN),
    RepairStatement("KubeletUnhealthy", "True", _TEN),
    RepairStatement("ContainerRuntimeUnhealthy", "True", _TEN),
    RepairStatement("DiskPressure", "True", _THIRTY),
    RepairStatement("MemoryPressure", "True", _THIRTY),
    RepairStatement("FrequentKubeletRestart", "True", _THIRTY),
    RepairStatement("FrequentDockerRestart", "True", _THIRTY),
    RepairStatement("FrequentContainerdRestart", "True", _THIRTY),
    RepairStatement("FrequentUnregisterNetDevice", "True", _THIRTY),
)
"""Conditions of the kubelet and of node-problem-detector. `PIDPressure` is left out: evicting pods mends it."""


def unready(toleration: timedelta) -> tuple[RepairStatement, ...]:
    """A node that says it is not ready, or says nothing any more."""
    return RepairStatement("Ready", "False", toleration), RepairStatement("Ready", "Unknown", toleration)

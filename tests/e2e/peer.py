"""Karpenter itself on the same control plane: its kwok build, as its own process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.components import build
from e2e.controlplane.process import Process
from e2e.controlplane.stack import ControlPlane

LEASE = {"LEADER_ELECTION_NAME": "karpenter-leader-election", "LEADER_ELECTION_NAMESPACE": "kube-system"}
"""Karpenter's Lease. Two programs that use the same one exclude each other."""


@contextmanager
def karpenter(cluster: ControlPlane, name: str = "karpenter", **variables: str) -> Iterator[Process]:
    """Run Karpenter against the cluster until the end of the block; it then releases its Lease."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(cluster.directory),
        "KUBECONFIG": str(cluster.kubeconfig),
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        **LEASE,
        **variables,
    }
    process = cluster.launch(name, str(build.binaries_dir(build.KARPENTER) / "karpenter"), env=environment)
    try:
        yield process
        assert process.exit_code is None, process.tail()
    finally:
        process.stop(40)

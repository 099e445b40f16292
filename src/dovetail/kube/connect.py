"""From what the user said to a cluster that can be called."""

import os
from pathlib import Path
from random import Random

from dovetail.kube.client import KubeCluster
from dovetail.kube.cluster_access import ClusterAccess, find_access
from dovetail.kube.credentials import Credentials
from dovetail.kube.transport import DEFAULT_LIMITS, Transport, TransportLimits
from dovetail.ports.clock import Clock


async def connect(
    kubeconfig: Path | None, context: str | None, clock: Clock, random: Random, limits: TransportLimits = DEFAULT_LIMITS
) -> KubeCluster:
    """The cluster of a kubeconfig's context, or of the pod we run in. Nothing is called yet."""
    return await open_cluster(find_access(kubeconfig, context, os.environ), clock, random, limits)


async def open_cluster(
    access: ClusterAccess, clock: Clock, random: Random, limits: TransportLimits = DEFAULT_LIMITS
) -> KubeCluster:
    """The cluster behind an access already understood."""
    return KubeCluster(Transport(access.endpoint, Credentials(access.source, clock), limits), random)

"""Daemon overhead: what pods of DaemonSets take of a node before any other pod.

It is subtracted from each instance type, and kept free on nodes whose daemons have not started yet. `read_daemons` is
the only place that knows what the next pod of a DaemonSet requests: that of its newest live pod, since a LimitRange
or a webhook may change requests; without one that of its template, whose limits count as requests. The node affinity
is always the template's, since that of a pod binds it to its node.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dovetail.core.scheduling.host_ports import HostPort, host_ports
from dovetail.core.scheduling.node_affinity import Alternative, node_alternatives
from dovetail.model.cluster_objects import DaemonSet
from dovetail.model.pod import PodSpec, spec_requests
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources, add
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import Taint, Toleration, untolerated

SOFT = "PreferNoSchedule"
DAEMON_TOLERATIONS = (
    Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),
    Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute"),
    Toleration(key="node.kubernetes.io/disk-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/pid-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"),
)
"""What the DaemonSet controller lets every daemon tolerate, a cordon included."""


@dataclass(frozen=True)
class Daemon:
    """The pod a DaemonSet puts on every node it suits."""

    alternatives: tuple[Alternative, ...]
    tolerations: tuple[Toleration, ...]
    requests: Resources
    ports: tuple[HostPort, ...]


@dataclass(frozen=True)
class RunningDaemons:
    """The daemons of one node together."""

    overhead: Resources
    ports: tuple[HostPort, ...]


@dataclass(frozen=True)
class Daemons:
    """The DaemonSets of the cluster."""

    each: tuple[Daemon, ...]

    def running_on(self, node: Requirements, taints: Iterable[Taint], defined: frozenset[str]) -> RunningDaemons:
        """The daemons that would run on such a node; soft taints do not keep them away."""
        hard = tuple(taint for taint in taints if taint.effect != SOFT)
        chosen = [daemon for daemon in self.each if _runs_on(daemon, node, hard, defined)]
        return RunningDaemons(
            add(*(daemon.requests for daemon in chosen)), tuple(port for daemon in chosen for port in daemon.ports)
        )


def read_daemons(snapshot: Snapshot) -> Daemons:
    """The pods of all DaemonSets."""
    return Daemons(tuple(_read(_next_spec(each, snapshot)) for each in snapshot.daemon_sets))


def _next_spec(daemon_set: DaemonSet, snapshot: Snapshot) -> PodSpec:
    """What the next pod of a DaemonSet will be like, on whichever node."""
    template = daemon_set.spec.template.spec
    newest = snapshot.newest_daemon_pods.get(daemon_set.metadata.uid)
    return template if newest is None else msgspec.structs.replace(newest.spec, affinity=template.affinity)


def _read(spec: PodSpec) -> Daemon:
    tolerations = (*spec.tolerations, *DAEMON_TOLERATIONS)
    return Daemon(node_alternatives(spec), tolerations, spec_requests(spec), host_ports(spec))


def _runs_on(daemon: Daemon, node: Requirements, taints: tuple[Taint, ...], defined: frozenset[str]) -> bool:
    return untolerated(daemon.tolerations, taints) is None and any(
        alternative.fits(node, defined) for alternative in daemon.alternatives
    )

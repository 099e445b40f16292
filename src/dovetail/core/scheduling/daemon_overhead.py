"""Daemon overhead: the resources and host ports of a node that DaemonSet pods use before any other pod.

It is subtracted from each instance type, and kept free on nodes whose daemon pods have not started yet. `read_daemons`
is the only place that decides what the next pod of a DaemonSet requests: the same as its newest live pod, since a
LimitRange or a webhook may change requests; without a live pod, the requests of the template, whose limits count as
requests. The node affinity is always the template's, since that of a pod binds it to its node.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.host_ports import HostPort, host_ports
from dovetail.core.scheduling.node_affinity import Alternative, node_alternatives
from dovetail.model.cached import lazy
from dovetail.model.cluster_objects import DaemonSet
from dovetail.model.pod import PodSpec, spec_requests
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources, add
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import Taint, Toleration, untolerated

DAEMON_TOLERATIONS = (
    Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),
    Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute"),
    Toleration(key="node.kubernetes.io/disk-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/pid-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"),
)
"""The tolerations that the DaemonSet controller adds to every daemon pod."""


@dataclass(frozen=True)
class Daemon:
    """The next pod of a DaemonSet."""

    alternatives: tuple[Alternative, ...]
    tolerations: tuple[Toleration, ...]
    requests: Resources
    ports: tuple[HostPort, ...]


@dataclass(frozen=True)
class RunningDaemons:
    """The daemon pods of one node together."""

    overhead: Resources
    ports: tuple[HostPort, ...]

    @lazy
    def value(self) -> object:
        """Both as a value that can be a key."""
        return tuple(sorted((name, amount.nano) for name, amount in self.overhead.items())), self.ports


@dataclass(frozen=True)
class Daemons:
    """The DaemonSets of the cluster."""

    each: tuple[Daemon, ...]

    @lazy
    def labels_read(self) -> tuple[str, ...]:
        """The node labels that decide which of them run on a node."""
        alternatives = (alternative for daemon in self.each for alternative in daemon.alternatives)
        return tuple(sorted({expression.key for alternative in alternatives for expression in alternative.expressions}))

    def running_on(self, node: Requirements, taints: Iterable[Taint], defined: frozenset[str]) -> RunningDaemons:
        """The daemon pods of a node with these requirements and taints; PreferNoSchedule does not exclude them."""
        hard_taints = hard(taints)
        chosen = [daemon for daemon in self.each if _runs_on(daemon, node, hard_taints, defined)]
        return RunningDaemons(
            add(*(daemon.requests for daemon in chosen)), tuple(port for daemon in chosen for port in daemon.ports)
        )


def read_daemons(snapshot: Snapshot) -> Daemons:
    """The next pod of each DaemonSet."""
    return Daemons(tuple(_read(_next_spec(each, snapshot)) for each in snapshot.daemon_sets))


def _next_spec(daemon_set: DaemonSet, snapshot: Snapshot) -> PodSpec:
    """The spec of the next pod of a DaemonSet."""
    template = daemon_set.spec.template.spec
    newest = snapshot.newest_daemon_pods.get(daemon_set.metadata.uid)
    return template if newest is None else msgspec.structs.replace(newest.spec, affinity=template.affinity)


def _read(spec: PodSpec) -> Daemon:
    tolerations = (*spec.tolerations, *DAEMON_TOLERATIONS)
    return Daemon(node_alternatives(spec), tolerations, spec_requests(spec), host_ports(spec))


def _runs_on(daemon: Daemon, node: Requirements, taints: tuple[Taint, ...], defined: frozenset[str]) -> bool:
    return untolerated(daemon.tolerations, taints) is None and any(
        alternative.may_match(node, defined) for alternative in daemon.alternatives
    )

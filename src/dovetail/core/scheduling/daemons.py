"""What DaemonSets take of a node before any other pod: part of the price of a new one, kept free on a starting one."""

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.core.scheduling.shape import Shape, shape_of
from dovetail.model.quantity import ZERO
from dovetail.model.requests import spec_requests
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources, add, subtract
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import Taint, untolerated
from dovetail.model.workload import DaemonSet

SOFT = "PreferNoSchedule"


@dataclass(frozen=True)
class Daemons:
    """The DaemonSets of the cluster as shapes."""

    shapes: tuple[Shape, ...]

    def overhead(self, node: Requirements, taints: Iterable[Taint], undefined: frozenset[str]) -> Resources:
        """What all daemons that would run on such a node need."""
        hard = tuple(taint for taint in taints if taint.effect != SOFT)
        return add(*(shape.requests for shape in self.shapes if _runs_on(shape, node, hard, undefined)))

    def still_to_come(self, node: ClusterNode) -> Resources:
        """What daemons of an existing node need beyond those already there."""
        expected = self.overhead(node.requirements, node.taints, node.undefined_labels)
        present = add(*(spec_requests(pod.spec) for pod in node.pods if pod.daemon and not pod.terminal))
        return {name: max(amount, ZERO) for name, amount in subtract(expected, present).items()}


def read_daemons(daemon_sets: Iterable[DaemonSet]) -> Daemons:
    """The shapes of all DaemonSets."""
    return Daemons(tuple(shape_of(each.spec.template.spec) for each in daemon_sets))


def _runs_on(shape: Shape, node: Requirements, taints: tuple[Taint, ...], undefined: frozenset[str]) -> bool:
    return untolerated(shape.tolerations, taints) is None and any(
        node.compatible(alternative, undefined) is None for alternative in shape.alternatives
    )

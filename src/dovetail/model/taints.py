"""Taints of nodes and tolerations of pods.

The matching rules are those of Kubernetes, including the numeric operators `Gt` and `Lt`. Two taints are the same if
key and effect are equal, whatever their value. Callers decide which effects matter.
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from dovetail.model.kube_object import Instant

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {"Gt": operator.gt, "Lt": operator.lt}
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # neither "+1" nor "01"


class Taint(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """A taint of a node: only pods that tolerate it are scheduled there."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: Instant | None = None

    def matches(self, other: "Taint") -> bool:
        """Whether key and effect are equal."""
        return self.key == other.key and self.effect == other.effect

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}{':' + self.effect if self.effect else ''}"


class Toleration(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """A toleration of a pod. An empty key or effect matches all of them."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether it matches the taint."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        return _compares(self.operator, taint.value, self.value)


def _compares(operation: str, taint: str, toleration: str) -> bool:
    """Whether the taint's value is greater or less than the toleration's; False if either is not an integer."""
    comparison, theirs, ours = _COMPARISONS.get(operation), _integer(taint), _integer(toleration)
    return comparison is not None and theirs is not None and ours is not None and comparison(theirs, ours)


def _integer(text: str) -> int | None:
    number = int(text) if _PLAIN_INTEGER.fullmatch(text) else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations matches the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """The first taint that no toleration matches, or None."""
    return next((taint for taint in taints if not tolerates(tolerations, taint)), None)


DISRUPTED_TAINT = Taint("karpenter.sh/disrupted", effect=NO_SCHEDULE)
DISRUPTION_TAINT = Taint("karpenter.sh/disruption", "disrupting", NO_SCHEDULE)  # the v1beta1 spelling
REMOVED_NEXT_TAINT = Taint("dovetail.sh/removed-next", effect=PREFER_NO_SCHEDULE)
"""On nodes that consolidation will delete next, so that kube-scheduler prefers others for the pods it evicts."""
CORDON = Taint("node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
UNREGISTERED_TAINT = Taint("karpenter.sh/unregistered", effect=NO_EXECUTE)
CLOSED_TAINT = Taint("dovetail.sh/closed", effect=NO_SCHEDULE)  # until the pods it was launched for are nominated

EPHEMERAL_TAINTS = (
    Taint("node.kubernetes.io/not-ready", effect=NO_SCHEDULE),
    Taint("node.kubernetes.io/not-ready", effect=NO_EXECUTE),
    Taint("node.kubernetes.io/unreachable", effect=NO_SCHEDULE),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", NO_SCHEDULE),
    UNREGISTERED_TAINT,
    CLOSED_TAINT,
)
"""Taints that a node has while it starts, and that Kubernetes or Dovetail remove."""

_EPHEMERAL = frozenset((taint.key, taint.effect) for taint in EPHEMERAL_TAINTS)


def is_ephemeral(taint: Taint) -> bool:
    """Whether the taint of a starting node is removed once the node is ready."""
    return (taint.key, taint.effect) in _EPHEMERAL or taint.key.startswith("readiness.k8s.io/")

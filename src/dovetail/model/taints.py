"""Taints of nodes, tolerations of pods, and which of the first the second put up with.

Keeps Kubernetes' matching, the numeric `Gt` and `Lt` tolerations included. Two taints are the same taint when key and
effect agree: the value is not compared. Which effects matter for which decision is for the caller to say.
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
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: Instant | None = None

    def matches(self, other: "Taint") -> bool:
        """Whether both are the same taint, whatever their values."""
        return self.key == other.key and self.effect == other.effect

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}{':' + self.effect if self.effect else ''}"


class Toleration(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """A pod's consent to some taints. An empty key or effect stands for all of them."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration alone covers the taint."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        return _compares(self.operator, taint.value, self.value)


def _compares(operation: str, taint: str, toleration: str) -> bool:
    """A numeric toleration covers values of the taint beyond its own; either not being an integer means no."""
    comparison, theirs, ours = _COMPARISONS.get(operation), _integer(taint), _integer(toleration)
    return comparison is not None and theirs is not None and ours is not None and comparison(theirs, ours)


def _integer(text: str) -> int | None:
    number = int(text) if _PLAIN_INTEGER.fullmatch(text) else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """The first taint that none of the tolerations covers."""
    return next((taint for taint in taints if not tolerates(tolerations, taint)), None)


DISRUPTED_TAINT = Taint("karpenter.sh/disrupted", effect=NO_SCHEDULE)
DISRUPTION_TAINT = Taint("karpenter.sh/disruption", "disrupting", NO_SCHEDULE)  # the v1beta1 spelling
CORDON = Taint("node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
UNREGISTERED_TAINT = Taint("karpenter.sh/unregistered", effect=NO_EXECUTE)

EPHEMERAL_TAINTS = (
    Taint("node.kubernetes.io/not-ready", effect=NO_SCHEDULE),
    Taint("node.kubernetes.io/not-ready", effect=NO_EXECUTE),
    Taint("node.kubernetes.io/unreachable", effect=NO_SCHEDULE),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", NO_SCHEDULE),
    UNREGISTERED_TAINT,
)
"""Taints a node carries while it starts, and loses by itself."""

_EPHEMERAL = frozenset((taint.key, taint.effect) for taint in EPHEMERAL_TAINTS)


def is_ephemeral(taint: Taint) -> bool:
    """Whether a starting node is expected to lose this taint by itself."""
    return (taint.key, taint.effect) in _EPHEMERAL or taint.key.startswith("readiness.k8s.io/")

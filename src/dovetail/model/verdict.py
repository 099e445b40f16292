"""The answer about one node or pod as data: whether it leaves, when and how, or what keeps it; why it is pending.

`core.explain` builds these values, `core.wording` turns them into text. `explain`, `plan`, `top` and the dashboard show
the same value, so that they cannot disagree.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from dovetail.model.kube_object import Key
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


class Outcome(StrEnum):
    """What happens to a node. The values are part of JSON output: they do not change."""

    LEAVING = "Leaving"  # a command or a drain removes it already
    LEAVES = "Leaves"  # the next pass disrupts it
    CAN_LEAVE = "CanLeave"  # from a known time; without one, in a later pass
    STAYS = "Stays"  # no time is known


class ObstacleGroup(msgspec.Struct, frozen=True, gc=False):
    """Equal obstacles, listed once: a PDB with all its pods on the node, a pod, a budget, or any other refusal."""

    refusal: Refusal  # the first of them
    pods: tuple[Key, ...] = ()
    methods: tuple[str, ...] = ()  # the disruption methods that it stops


class FieldChange(msgspec.Struct, frozen=True, gc=False):
    """A field of a NodeClaim that differs from its NodePool; `old` or `new` is empty where it is not known."""

    field: str
    old: str = ""
    new: str = ""


class DriftCause(msgspec.Struct, frozen=True, gc=False):
    """Why a node has drifted: the reason of its `Drifted` condition, and the fields that changed."""

    reason: str
    changes: tuple[FieldChange, ...] = ()
    detail: str = ""  # the message of the provider


class NodeVerdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Whether a node leaves: now, from `at`, in a later pass, or not as far as is known.

    `permanent`: every method is blocked until a user changes something; if the node expires, its drain would not end.
    """

    outcome: Outcome
    method: str = ""  # the soonest way: a disruption method, or `repair`
    reason: Reason | None = None
    at: datetime | None = None
    permanent: bool = False
    obstacles: tuple[ObstacleGroup, ...] = ()  # what the node waits for, or what keeps it
    after: str = ""  # the method that acts first, if this node has to wait for that
    expires_at: datetime | None = None  # when expiration deletes its NodeClaim, if that is not the way above
    replacements: int = 0  # of the command that takes it
    together: int = 1  # nodes of that command
    saving_per_month: float = 0.0  # of that command, in dollars
    unpriced: int = 0  # nodes of that command whose price is not known, and not in the saving
    drift: DriftCause | None = None

    @property
    def code(self) -> RefusalCode:
        """The code of the obstacle that is named first; a node past its hard expiration is about to be deleted."""
        if self.outcome is Outcome.LEAVING and self.obstacles[0].refusal.code is RefusalCode.NEVER:
            return RefusalCode.DELETING
        return self.obstacles[0].refusal.code if self.obstacles and not self.after else RefusalCode.ANOTHER_FIRST


class HeldNodes(msgspec.Struct, frozen=True, gc=False):
    """Nodes that share an obstacle: a PDB, a protected pod or a budget."""

    obstacle: ObstacleGroup
    nodes: tuple[str, ...]


class DriftedNodes(msgspec.Struct, frozen=True, gc=False):
    """Nodes that drifted for the same cause."""

    cause: DriftCause
    nodes: tuple[str, ...]


class PoolVerdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The verdicts on the nodes of a NodePool, counted; and what they have in common."""

    outcomes: tuple[tuple[Outcome, int], ...]  # in the order of `Outcome`, without zeros
    next_at: datetime | None = None  # the first time at which one of them can leave
    paused: tuple[HeldNodes, ...] = ()  # nodes whose disruption is paused
    budgets: tuple[HeldNodes, ...] = ()  # nodes that could leave but for a budget
    pods: tuple[HeldNodes, ...] = ()  # nodes whose pods may not be evicted
    drifted: tuple[DriftedNodes, ...] = ()


class PodOutcome(StrEnum):
    """What becomes of a pod. The values are part of JSON output: they do not change."""

    RUNS = "Runs"
    ENDED = "Ended"
    DELETING = "Deleting"
    NODE_MISSING = "NodeMissing"  # bound to a node that the snapshot does not have
    PREEMPTS = "Preempts"
    NOT_MARKED = "NotMarked"  # kube-scheduler has not marked it unschedulable
    FITS = "Fits"  # an existing node
    LAUNCHES = "Launches"  # a node is launched for it
    UNSCHEDULABLE = "Unschedulable"
    NOT_CONSIDERED = "NotConsidered"


class LabelMismatch(msgspec.Struct, frozen=True, gc=False):
    """An expression of the node selector, the required node affinity or a volume that nodes do not match."""

    expression: str
    nodes: int
    found: tuple[str, ...] = ()  # values of that label on these nodes
    of_volume: bool = False


class ResourceShortage(msgspec.Struct, frozen=True, gc=False):
    """A resource of which a pod requests more than any node has free."""

    resource: str
    requested: str
    most_free: str


class PodVerdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Where a pod runs and what keeps it there, or why it is pending."""

    outcome: PodOutcome
    node: str = ""
    nodepool: str = ""  # of the node that is launched for it
    phase: str = ""  # of a pod that has ended
    static: bool = False  # the mirror pod of a static pod, which is not evicted
    unowned: bool = False  # no controller recreates it
    refusal: Refusal | None = None
    obstacles: tuple[ObstacleGroup, ...] = ()  # of its eviction
    labels: tuple[LabelMismatch, ...] = ()
    resources: tuple[ResourceShortage, ...] = ()

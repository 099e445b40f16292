"""An expected "no" as data: a code, the object it is about, and the evidence.

A `Refusal` is produced once, where the decision is made. Events, metrics, logs, `explain`, `plan`, the page and the
ledger all use that value; `core.wording` turns it into text. Code and evidence are compared, never texts.

Every code may use any of the evidence fields. An empty field was not part of the decision.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from dovetail.model.kube_object import Key
from dovetail.model.reason import Reason


class RefusalCode(StrEnum):
    """Why something is not done. The values are labels of metrics and part of JSON output: they do not change."""

    # The state of the node, for all disruption methods.
    UNREADABLE = "Unreadable"
    INTERNAL_ERROR = "InternalError"
    UNMANAGED = "Unmanaged"
    ALREADY_DISRUPTING = "AlreadyDisrupting"
    REPLACEMENT = "Replacement"
    NODE_MISSING = "NodeMissing"
    NOT_INITIALIZED = "NotInitialized"
    DELETING = "Deleting"
    NOMINATED = "Nominated"
    DO_NOT_DISRUPT_NODE = "DoNotDisruptNode"
    NO_NODE_POOL = "NoNodePool"
    NODE_POOL_MISSING = "NodePoolMissing"
    NO_PROVIDER = "NoProvider"
    NO_CATALOG = "NoCatalog"
    PAUSED = "Paused"
    # Pods of the node.
    DO_NOT_DISRUPT_POD = "DoNotDisruptPod"
    UNKNOWN_DEVICES = "UnknownDevices"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    UNPLANNED_POD = "UnplannedPod"
    EXPECTING = "Expecting"
    # The method does not apply to the node, or not yet.
    WAITING = "Waiting"
    NEVER = "Never"
    STATIC = "Static"
    GATE_CLOSED = "GateClosed"
    NOT_DRIFTED = "NotDrifted"
    DRIFT_NOT_FIXED = "DriftNotFixed"
    EMPTY = "Empty"
    NOT_EMPTY = "NotEmpty"
    CONSOLIDATION_DISABLED = "ConsolidationDisabled"
    POLICY_WHEN_EMPTY = "PolicyWhenEmpty"
    INSTANCE_TYPE_UNKNOWN = "InstanceTypeUnknown"
    LABEL_MISSING = "LabelMissing"
    COOLING_DOWN = "CoolingDown"
    # Budgets.
    BUDGET = "Budget"
    BUDGET_UNREADABLE = "BudgetUnreadable"
    BACKING_OFF = "BackingOff"
    # The simulation.
    UNSCHEDULABLE = "Unschedulable"
    CANT_REPLACE = "CantReplace"
    NOT_BALANCED = "NotBalanced"
    SAVES_TOO_LITTLE = "SavesTooLittle"
    PREFERENCE = "Preference"
    DRAIN_WOULD_STALL = "DrainWouldStall"
    LAUNCH_BACKOFF = "LaunchBackoff"
    REPLACEMENT_NOT_INITIALIZED = "ReplacementNotInitialized"
    DESTINATION_NOT_INITIALIZED = "DestinationNotInitialized"
    # Other nodes come first.
    ANOTHER_FIRST = "AnotherFirst"
    NEXT_PASS = "NextPass"  # noqa: S105 - not a password
    NO_SET = "NoSet"
    NOT_THE_BEST = "NotTheBest"
    # A command that fails its validation.
    CANDIDATES_CHANGED = "CandidatesChanged"
    BUDGETS_CHANGED = "BudgetsChanged"
    SIMULATION_CHANGED = "SimulationChanged"
    # What a node that is starting or being deleted waits for.
    COMING = "Coming"
    DISRUPTING = "Disrupting"
    DRAINING = "Draining"
    UNHEALTHY = "Unhealthy"
    # Provisioning.
    CONFIGURED_ELSEWHERE = "ConfiguredElsewhere"
    INVALID_POD = "InvalidPod"
    NO_COMPATIBLE_INSTANCE_TYPES = "NoCompatibleInstanceTypes"


GRACE_PERIOD = "consolidationGracePeriod"
RESOURCE_CLAIMS = "resourceClaims"
SPOT_TO_SPOT = "SpotToSpotConsolidation"
"""Values of `Refusal.setting` that change the message of a code."""


class ObjectRef(msgspec.Struct, frozen=True, gc=False):
    """A Kubernetes object by kind (`node`, `nodeclaim`, `nodepool`, `pod`) and name; `namespace` for pods only."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"


def node_ref(name: str) -> ObjectRef:
    """A node."""
    return ObjectRef("node", name)


def nodepool_ref(name: str) -> ObjectRef:
    """A NodePool."""
    return ObjectRef("nodepool", name)


def pod_ref(key: Key) -> ObjectRef:
    """A pod."""
    return ObjectRef("pod", key.name, key.namespace)


class SpentBudget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A disruption budget of a NodePool that leaves nothing."""

    nodes: str | int  # as it is written: 5, "10%"
    limit: int
    disrupting: int  # nodes that are disrupted already, or not ready
    users: tuple[str, ...] = ()  # the names of these nodes, if known
    ahead: int = 0  # nodes that the same pass disrupts first
    number: int = 0  # its position among the `of` budgets of the NodePool; 0 if only the tightest is known
    of: int = 0
    total: int = 0  # nodes of the pool
    later: bool = False  # not in force yet, but at the time when all other refusals have ended


class SmallSaving(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A saving that is not worth its evictions, in dollars an hour."""

    saving: float
    required: float
    evictions: int
    min_savings: str  # of the NodePool: "60%"
    turnover: float  # that the percentage is multiplied by


class FailedConstraint(msgspec.Struct, frozen=True, gc=False):
    """A constraint of a pod in the words of kube-scheduler, and the number of nodes that fail it."""

    reason: str
    nodes: int


class PoolFailure(msgspec.Struct, frozen=True, gc=False):
    """Why a new node of a NodePool would not accept a pod."""

    nodepool: str
    reason: str


class SchedulingFailure(msgspec.Struct, frozen=True, gc=False):
    """Why no node accepts a pod: the first filter that each existing node fails, and what excludes new nodes."""

    nodes: int  # existing ones
    constraints: tuple[FailedConstraint, ...]
    nodepools: tuple[PoolFailure, ...]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why something was not done.

    `until`: it ends at that time. `permanent`: it ends only when a user changes something. Neither: it may end at any
    time. The rest is evidence and is passed by name.
    """

    code: RefusalCode
    object: ObjectRef
    until: datetime | None = None
    permanent: bool = False
    nodepool: str = ""
    pod: Key | None = None
    pdbs: tuple[Key, ...] = ()  # PodDisruptionBudgets
    other: ObjectRef | None = None  # another node it depends on
    reason: Reason | None = None  # of the disruption that is refused
    budget: SpentBudget | None = None
    small_saving: SmallSaving | None = None
    limits: str = ""  # the NodePool limits that block a new node, with their figures
    command: str = ""  # the id of a running command
    setting: str = ""  # the field, label, annotation or feature gate that decides
    count: int = 0  # of pods, instance types or launches, depending on the code
    detail: str = ""  # other text: a decoding problem, an exception, the explanation of the solver
    cause: "Refusal | None" = None
    scheduling: SchedulingFailure | None = None  # of a pod that is unschedulable

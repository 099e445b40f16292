"""What `dovetail adopt` knows about a cluster that Karpenter runs. Everything in it was read; nothing is judged here.

A part that could not be read is None or empty, and listed in `unchecked` with the reason, so that a report never takes
"not read" for "not there".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dovetail.model.kube_object import Fault
from dovetail.model.snapshot import Snapshot

LEASE_NAME = "karpenter-leader-election"
"""The name of Karpenter's Lease, unless LEADER_ELECTION_NAME is set."""
KARPENTER_LABEL = "app.kubernetes.io/name=karpenter"
"""The label of Karpenter's Deployment and pods in its Helm chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterDeployment:
    """The Deployment that runs Karpenter."""

    namespace: str
    name: str
    replicas: int = 1
    image: str = ""
    selector: str = KARPENTER_LABEL
    service_account: str = ""
    role_arn: str = ""
    """The IAM role in the annotation of the service account (IRSA); empty with Pod Identity."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables and flags by the name of the variable."""
    unread: tuple[str, ...] = ()
    """Variables, ConfigMaps and Secrets whose values are not in the Deployment."""

    @property
    def version(self) -> str:
        """The tag of the image, without a digest; empty if it has none."""
        name, _, tag = self.image.partition("@")[0].rpartition(":")
        return tag if name and "/" not in tag else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The Lease of Karpenter's leader election."""

    namespace: str
    name: str = LEASE_NAME
    holder: str = ""
    held_until: datetime | None = None

    def held(self, now: datetime) -> bool:
        """Whether a process holds it now."""
        return bool(self.holder) and self.held_until is not None and now < self.held_until


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledCrd:
    """A CustomResourceDefinition in the cluster, compared with Dovetail's."""

    name: str
    served: tuple[str, ...]
    controller_gen: str = ""  # the version that generated it; Karpenter's have one
    helm_release: str = ""
    dropped: tuple[str, ...] = ()
    """Fields of the spec that Dovetail has and this definition drops."""

    @property
    def owner(self) -> str:
        """Whose definition it is. Dovetail's drops none of its fields and serves v1beta1 where Karpenter's does not.

        The annotation of controller-gen alone proves nothing: it stays when Dovetail's is applied over Karpenter's.
        """
        if not self.dropped and ("v1beta1" in self.served or not self.controller_gen):
            return "Dovetail's"
        return "Karpenter's" if self.controller_gen else "of unknown origin"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedObject:
    """A NodePool or node class, as `dovetail validate` judges it."""

    kind: str
    name: str
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableEffect:
    """What a variable of Karpenter's environment does in Dovetail."""

    name: str
    value: str
    effect: str
    refused: bool = False  # `dovetail run` does not start with it


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One permission in Kubernetes RBAC; `resource` may have a subresource, `name` is that of a single object."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        which = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{which}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionChecks:
    """The permissions that an account was asked about, and those that it lacks."""

    asked: tuple[Permission, ...]
    lacking: tuple[Permission, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCheck:
    """The answer of a dry run about one IAM action: allowed, denied, or None with the reason."""

    action: str
    allowed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IamChecks:
    """Dry runs with the credentials of this process, and whose they are."""

    caller: str
    actions: tuple[ActionCheck, ...] = ()

    def of_role(self, role_arn: str) -> bool:
        """Whether the caller is a session of this role."""
        role = role_arn.rpartition("/")[2]
        return bool(role) and f":assumed-role/{role}/" in self.caller


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHash:
    """The hash on a node class, and the one that Dovetail computes. Versions that differ are not comparable."""

    name: str
    version: str
    written: str
    own_version: str
    computed: str
    certain: bool = True  # whether all inputs of the computation are known to be Karpenter's


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedEvent:
    """A recent event of Karpenter about a Node or a NodeClaim."""

    kind: str
    name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncheckedPart:
    """A part of the report that could not be read, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMoment:
    """One event in the life of a simulated node, in seconds after the start."""

    at: float
    what: str  # launched, disrupted or gone
    node: str
    nodepool: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstHour:
    """What the controllers do in one hour, or less for a large cluster, on a copy of the cluster."""

    disruption: str  # the setting: off or on
    minutes: int = 60
    cost_before: float  # dollars an hour
    cost_after: float
    launched: int
    removed: int
    evictions: int
    pending_before: int  # pods without a node
    pending: int  # at the end
    moments: tuple[NodeMoment, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AdoptionFacts:
    """Everything that the report is made from."""

    snapshot: Snapshot
    karpenter: KarpenterDeployment | None = None
    karpenter_missing: bool = False
    """Whether the cluster was searched for Karpenter's Deployment, and has none."""
    lease: LeaseState | None = None
    crds: tuple[InstalledCrd, ...] = ()
    objects: tuple[CheckedObject, ...] = ()
    overlays: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    variables: tuple[VariableEffect, ...] = ()
    steps_rbac: PermissionChecks | None = None
    """What the steps need, of the account that runs this command."""
    run_rbac: PermissionChecks | None = None
    """What `dovetail run` needs, of its service account; only once step 2 has bound its roles."""
    iam: IamChecks | None = None
    class_hashes: tuple[ClassHash, ...] = ()
    events: tuple[ReportedEvent, ...] = ()
    unchecked: tuple[UncheckedPart, ...] = ()
    first_hours: tuple[FirstHour, ...] = ()

    @property
    def providers(self) -> frozenset[str]:
        """The API groups of the node classes that NodePools refer to."""
        return frozenset(pool.node_class_ref.api_group for pool in self.snapshot.nodepools.values())

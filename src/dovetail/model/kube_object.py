"""The shape every Kubernetes object shares: metadata, owners, conditions, and how field names are spelled on the wire.

A model value mirrors its object on the wire (`camelCase` there, `snake_case` here) and carries only the fields Dovetail
reads. Unknown fields are skipped when decoding and are therefore never written back: writes are patches.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A point in time. Without a zone it cannot be compared with now, so such a value cannot be read."""


class ApiStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Base of every value that is decoded from, or encoded to, the Kubernetes API."""


class Key(NamedTuple):
    """What tells two objects of one kind apart. Cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_new = tuple.__new__


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """A link from an object to the one whose deletion takes it along."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """Name, identity and bookkeeping of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One line of `status.conditions`, of a node, a pod or a custom object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Instant | None = None
    last_heartbeat_time: Instant | None = None
    observed_generation: int = 0


class KubeObject(ApiStruct, frozen=True, kw_only=True):
    """Anything with metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        metadata = self.metadata
        return _new(Key, (metadata.namespace, metadata.name))  # asked of everything, all the time

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def deleting(self) -> bool:
        """Whether a delete was asked for and finalizers or grace still hold the object."""
        return self.metadata.deletion_timestamp is not None

    def owned_by(self, kind: str, api_version: str) -> bool:
        """Whether any owner is of that kind; the controller flag is not asked for."""
        for owner in self.metadata.owner_references:  # noqa: SIM110 - asked of every pod, several times a pass
            if owner.kind == kind and owner.api_version == api_version:
                return True
        return False


SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One expression of a label selector; one with an unknown operator cannot be made."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.operator not in SELECTOR_OPERATORS:
            known = ", ".join(SELECTOR_OPERATORS)
            raise ValueError(f"label selector operator {self.operator!r} is unknown; use one of {known}")


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """Which labels an object must carry. An empty selector matches everything; an absent one matches nothing."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(_expression_holds(expression, labels) for expression in self.match_expressions)


def _expression_holds(expression: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case _:
            return value is None


class Fault(NamedTuple):
    """What is wrong at one place of one document, and what to do about it."""

    path: str
    problem: str
    value: object = None
    remedy: str = ""

    def __str__(self) -> str:
        shown = "" if self.value is None else f" (got {self.value!r})"
        return f"{self.path}: {self.problem}{shown}{'; ' + self.remedy if self.remedy else ''}"


class UnreadableObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that cannot be understood: kept by name with its faults, so that nothing is lost silently."""

    metadata: ObjectMeta
    faults: tuple[Fault, ...]
    partial: KubeObject = KubeObject()
    """The object with those of its fields that can be read; the others have their defaults."""
    lost: tuple[str, ...] = ("",)
    """The paths of the fields that cannot be read. Empty text stands for the whole object."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def problem(self) -> str:
        """What is wrong with it, in a sentence."""
        return str(self.faults[0]) if self.faults else "no reason is known"

    def knows(self, path: str) -> bool:
        """Whether the field at this path could be read, or is not set."""
        return not any(not lost or path == lost or path.startswith(f"{lost}.") for lost in self.lost)

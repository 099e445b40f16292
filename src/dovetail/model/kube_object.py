"""What all Kubernetes objects share: metadata, owner references, conditions, label selectors and the naming of fields.

A model value mirrors its object in the API (`camelCase` there, `snake_case` here) and has only the fields that Dovetail
reads. Unknown fields are skipped when decoding and are therefore never written back: writes are patches. An object that
cannot be decoded is an `UnreadableObject` with its faults.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A point in time. Decoding fails without a time zone, because it could not be compared with the current time."""


class ApiStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Base of every value that is decoded from, or encoded to, the Kubernetes API."""


class Key(NamedTuple):
    """Namespace and name of an object. Cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_new = tuple.__new__


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """An owner of an object; the object is garbage collected with it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """The metadata of an object."""

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
    """One entry of `status.conditions` of a node, a pod or a custom object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Instant | None = None
    last_heartbeat_time: Instant | None = None
    observed_generation: int = 0


class KubeObject(ApiStruct, frozen=True, kw_only=True):
    """Base of all objects with metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        metadata = self.metadata
        return _new(Key, (metadata.namespace, metadata.name))  # skips the checks of Key(): called very often

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def deleting(self) -> bool:
        """Whether the object has a deletion timestamp."""
        return self.metadata.deletion_timestamp is not None

    def owned_by(self, kind: str, api_version: str) -> bool:
        """Whether any owner is of that kind, controller or not."""
        for owner in self.metadata.owner_references:  # noqa: SIM110 - faster than any(), called for every pod
            if owner.kind == kind and owner.api_version == api_version:
                return True
        return False


SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One expression of a label selector; ValueError for an unknown operator."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.operator not in SELECTOR_OPERATORS:
            known = ", ".join(SELECTOR_OPERATORS)
            raise ValueError(f"label selector operator {self.operator!r} is unknown; use one of {known}")


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """Which labels an object must have. An empty selector matches everything; an absent one matches nothing."""

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
    """What is wrong with one field of a document, and how to fix it."""

    path: str
    problem: str
    value: object = None
    remedy: str = ""
    fix: object = None  # a valid value for the field, if one can be derived from the given one

    def __str__(self) -> str:
        shown = "" if self.value is None else f" (got {self.value!r})"
        return f"{self.path}: {self.problem}{shown}{'; ' + self.remedy if self.remedy else ''}"


class UnreadableObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that cannot be decoded, with its faults, so that it is not ignored silently."""

    metadata: ObjectMeta
    faults: tuple[Fault, ...]
    partial: KubeObject = KubeObject()
    """The object with the fields that can be decoded; the others have their defaults."""
    lost: tuple[str, ...] = ("",)
    """The paths of the fields that cannot be decoded. Empty text means the whole object."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def problem(self) -> str:
        """What is wrong with it, in a sentence."""
        return str(self.faults[0]) if self.faults else "no reason is known"

    def knows(self, path: str) -> bool:
        """Whether the field at this path could be decoded, or is not set."""
        return not any(not lost or path == lost or path.startswith(f"{lost}.") for lost in self.lost)

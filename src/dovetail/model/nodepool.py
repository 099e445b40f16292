"""NodePools: which nodes to launch, how many, and when they may be disrupted.

One model for v1 and v1beta1: it has every field of either version as written, and properties that combine them. Objects
have passed the CRD schema; what the schema cannot express is checked where it is read.

`budgets` decides which budgets govern which reason. The lists of `actionControls` come first: a reason is governed by
the list of the most specific entry that has one, and by no other entry. `spec.disruption.budgets` limits every reason
as well, with or without entries. Only the default list, 10%, applies just to the reasons that no entry governs. Whether
an entry governs a reason does not depend on whether one of its windows is open.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from dovetail.model.budget import DEFAULT_BUDGETS, Budget, BudgetSpec, parse_budget, read_action, unreadable_budget
from dovetail.model.cached import lazy
from dovetail.model.duration import NEVER, Delay, Duration
from dovetail.model.kube_object import ApiStruct, Condition, KubeObject
from dovetail.model.percentage import Percentage
from dovetail.model.pod import NodeSelectorRequirement
from dovetail.model.reason import ACTIONS_BY_REASON, VOLUNTARY, Action, Reason
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity
from dovetail.model.taints import Taint

DEFAULT_EXPIRE_AFTER = Delay.parse("720h")
DEFAULT_MIN_SAVINGS = Percentage(100)
"""Calm under churn, and still cheap after a scale-in; measured by `bench/churn.py` and `bench/settle.py`."""


class _Absent:
    """A value that was not written. It does not equal an empty one, because the hashes of their NodePools differ."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class _AbsentList(_Absent, tuple[Any, ...]):
    """An empty list that was not written."""

    __slots__ = ()


class _AbsentMap(dict[str, str]):
    """An empty map that was not written."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AbsentMap)

    __hash__ = dict.__hash__  # none


class _AbsentRequirements(_Absent, tuple["NodeRequirement", ...]):
    """No requirements, and none written: an empty list is written as such, because the CRD requires the field."""

    __slots__ = ()


ABSENT_LIST = _AbsentList()
ABSENT_REQUIREMENTS = _AbsentRequirements()
ABSENT_MAP = _AbsentMap()
"""Values of hashed fields that were not written: Karpenter's hash tells them from `[]` and `{}`."""
POLICY_ALIASES = {"WhenUnderutilized": "WhenEmptyOrUnderutilized"}


class NodeClassRef(ApiStruct, frozen=True, kw_only=True):
    """A reference to the node class of the provider. v1 has the group, v1beta1 the whole apiVersion."""

    kind: str = ""
    name: str = ""
    group: str = ""
    api_version: str = ""

    @property
    def api_group(self) -> str:
        """The API group, from either field."""
        return self.group or self.api_version.partition("/")[0]

    @property
    def as_v1(self) -> "NodeClassRef":
        """The reference with its group, which v1 requires."""
        return NodeClassRef(group=self.api_group, kind=self.kind, name=self.name)

    @property
    def label(self) -> str:
        """The label that marks objects of this class: `<group>/<lowercase kind>`."""
        return f"{self.api_group}/{self.kind.lower()}"


class NodeRequirement(NodeSelectorRequirement, frozen=True, kw_only=True):
    """A requirement on a label of the nodes."""

    # An invalid requirement raises here, so it is found when the object is decoded, not in a decision.
    def __post_init__(self) -> None:
        Requirement.of(self.key, self.operator, self.values, self.min_values)


class TemplateMetadata(ApiStruct, frozen=True, kw_only=True):
    """Labels and annotations of every node of the NodePool."""

    labels: Mapping[str, str] = ABSENT_MAP
    annotations: Mapping[str, str] = ABSENT_MAP


class NodeClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of every NodeClaim of the NodePool."""

    taints: tuple[Taint, ...] = ABSENT_LIST
    startup_taints: tuple[Taint, ...] = ABSENT_LIST
    requirements: tuple[NodeRequirement, ...] = ABSENT_REQUIREMENTS
    node_class_ref: NodeClassRef = NodeClassRef()
    termination_grace_period: Duration | None = None
    expire_after: Delay | None = None
    kubelet: Mapping[str, object] | None = None


class NodeClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The template of a NodePool."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeClaimTemplateSpec = NodeClaimTemplateSpec()


class ActionControls(ApiStruct, frozen=True, kw_only=True):
    """Controls for one disruption action."""

    disrupt_after: Delay | None = None
    budgets: tuple[BudgetSpec, ...] | None = None


class Disruption(ApiStruct, frozen=True, kw_only=True):
    """When nodes of the pool may be disrupted voluntarily."""

    consolidation_policy: str | None = None
    consolidate_after: Delay | None = None
    consolidation_grace_period: Delay | None = None
    min_savings: Percentage | None = None
    expire_after: Delay | None = None
    budgets: tuple[BudgetSpec, ...] | None = None
    action_controls: Mapping[str, ActionControls] | None = None
    generic_per_action_controls: Mapping[str, ActionControls] | None = None


class RepairPolicy(ApiStruct, frozen=True, kw_only=True):
    """How long one node condition is tolerated."""

    condition_type: str
    toleration: Duration


class Repair(ApiStruct, frozen=True, kw_only=True):
    """When unhealthy nodes of the pool are replaced by force. An absent block means never."""

    policies: tuple[RepairPolicy, ...] = ()
    default_toleration_duration: Duration | None = None


class NodePoolSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of a NodePool."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: Disruption = Disruption()
    repair: Repair | None = None
    limits: Mapping[str, Quantity] = {}
    weight: int | None = None
    replicas: int | None = None


class NodePoolStatus(ApiStruct, frozen=True, kw_only=True):
    """The resources, node count and conditions of a NodePool."""

    resources: Mapping[str, Quantity] = {}
    nodes: int = 0
    node_class_observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class NodePool(KubeObject, frozen=True, kw_only=True, dict=True, gc=True):  # `dict` stores `lazy` properties
    """A NodePool."""

    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()

    @lazy
    def name(self) -> str:
        """The NodePool's name."""
        return self.metadata.name

    def equal_ignoring_counts(self, other: "NodePool") -> bool:
        """Whether another version of this NodePool differs only in the counts of its status."""
        if self is other:
            return True
        version = self.metadata.resource_version
        return (
            self.spec == other.spec
            and self.status.conditions == other.status.conditions
            and self.metadata == msgspec.structs.replace(other.metadata, resource_version=version)
        )

    @lazy
    def weight(self) -> int:
        """NodePools with a greater weight are tried first."""
        return self.spec.weight or 0

    @lazy
    def static(self) -> bool:
        """Whether it keeps a fixed number of nodes (`replicas`) instead of following pods."""
        return self.spec.replicas is not None

    @property
    def node_class_ref(self) -> NodeClassRef:
        """The node class of the template."""
        return self.spec.template.spec.node_class_ref

    @lazy
    def requirements(self) -> Requirements:
        """The requirements on every node: those of the template, and its labels."""
        return read_requirements(self.spec.template.spec.requirements).add(
            Requirements.from_labels(self.spec.template.metadata.labels)
        )

    @lazy
    def hard_expire_after(self) -> Delay:
        """The age at which a node is deleted regardless of budgets and protections.

        The CRD writes 720h where nothing is written, so 720h does not count where a soft expiration is set.
        """
        written = self.spec.template.spec.expire_after or DEFAULT_EXPIRE_AFTER
        return NEVER if written == DEFAULT_EXPIRE_AFTER and self.soft_expiration else written

    @lazy
    def soft_expiration(self) -> bool:
        """Whether a field sets the age at which nodes are replaced within budgets, even to Never."""
        entry = self.action_controls.get(Action.EXPIRATION)
        return self.spec.disruption.expire_after is not None or (entry is not None and entry.disrupt_after is not None)

    @lazy
    def consolidation_policy(self) -> str:
        """The policy by its v1 name."""
        written = self.spec.disruption.consolidation_policy or "WhenEmptyOrUnderutilized"
        return POLICY_ALIASES.get(written, written)

    @lazy
    def min_savings(self) -> Percentage | None:
        """What consolidation must save, in percent of what the evicted pods cost; None if it is not restrained.

        The policy Balanced has a threshold of its own, so the default does not apply to it.
        """
        written = self.spec.disruption.min_savings
        if written is None:
            return None if self.consolidation_policy == "Balanced" else DEFAULT_MIN_SAVINGS
        return written if written.percent else None

    @lazy
    def action_controls(self) -> Mapping[str, ActionControls]:
        """Controls by action, from either of the two field names."""
        disruption = self.spec.disruption
        return disruption.action_controls or disruption.generic_per_action_controls or {}

    @lazy
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets that govern some reason; a single one that blocks everything if any of them is invalid."""
        try:
            return tuple(budget for budget in _read_budgets(self) if budget.reasons)
        except ValueError as error:
            return (unreadable_budget(str(error)),)

    @lazy
    def budget_specs(self) -> tuple[BudgetSpec, ...]:
        """The budgets of `spec.disruption` as written; absent means the default, explicitly empty means none."""
        written = self.spec.disruption.budgets
        return DEFAULT_BUDGETS if written is None else written


@lru_cache(maxsize=1024)
def read_requirements(written: tuple[NodeSelectorRequirement, ...]) -> Requirements:
    """A list of requirements as a set; requirements on the same label are intersected."""
    return Requirements.of(
        Requirement.of(entry.key, entry.operator, entry.values, entry.min_values) for entry in written
    )


def _read_budgets(pool: NodePool) -> Iterator[Budget]:
    disruption = pool.spec.disruption
    if disruption.action_controls is not None and disruption.generic_per_action_controls is not None:
        twice = "'actionControls' and 'genericPerActionControls' are two spellings of one thing; keep one"
        raise ValueError(f"spec.disruption: {twice}")
    governing = {reason: _governing_action(pool, reason) for reason in VOLUNTARY}
    left = frozenset(reason for reason, action in governing.items() if action is None)
    default = pool.budget_specs == DEFAULT_BUDGETS
    yield from _read(pool.budget_specs, "spec.disruption", left if default else VOLUNTARY)
    path = f"spec.disruption.{'actionControls' if disruption.action_controls else 'genericPerActionControls'}"
    for written, entry in sorted(pool.action_controls.items()):
        try:
            action = read_action(written)
            _check_entry(entry)
        except ValueError as error:
            raise ValueError(f"{path}.{written}: {error}") from None
        reasons = frozenset(reason for reason, governed_by in governing.items() if governed_by == action)
        yield from _read(entry.budgets or (), f"{path}.{written}", reasons)


def _governing_action(pool: NodePool, reason: Reason) -> Action | None:
    """The most specific action for a reason that has a list of budgets, even an empty one."""
    entries = pool.action_controls
    return next(
        (each for each in ACTIONS_BY_REASON[reason] if each in entries and entries[each].budgets is not None), None
    )


def _read(written: Iterable[BudgetSpec], path: str, governed: frozenset[Reason]) -> Iterator[Budget]:
    for number, spec in enumerate(written):
        try:
            budget = parse_budget(spec)
        except ValueError as error:
            raise ValueError(f"{path}.budgets[{number}]: {error}") from None
        yield replace(budget, reasons=budget.reasons & governed, path=f"{path}.budgets[{number}]")


def _check_entry(entry: ActionControls) -> None:
    """Budgets under an action must not name an action or reasons."""
    if any(spec.action is not None or spec.reasons is not None for spec in entry.budgets or ()):
        raise ValueError("budgets under an action are for that action; leave out 'action' and 'reasons'")

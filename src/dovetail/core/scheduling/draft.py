"""A draft: a node that would be launched, with the pods it takes.

It keeps all instance types open that can hold its pods (`draft_options`): each pod adds requirements and removes types
that are too small. Invariant: `witness` is the position of a type that holds the total of all its pods, so a draft can
always be launched. `counted` has, for each topology rule, how many of its pods the rule counts; the solver state
needs it when the draft's possible domains shrink.

Drafts are numbered after the rows of existing nodes, so that a number identifies a host in topology counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from dovetail.core.scheduling.catalog_table import CandidateType
from dovetail.core.scheduling.draft_options import UNLIMITED, DraftOptions
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.core.scheduling.instance_type_table import NodePoolTemplate
from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.topology_counts import TopologyCounts
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources, add


@dataclass(eq=False, slots=True)
class Draft:
    """A new node of one NodePool. `number` identifies it as a host; its offerings must cost less than `below`."""

    number: int
    options: DraftOptions
    total: list[int]
    below: float = UNLIMITED
    witness: int = 0  # the position of a type that holds all its pods
    pods: list[Pod] = field(default_factory=list)
    shapes: list[PodShape] = field(default_factory=list)
    ports: tuple[HostPort, ...] = ()
    counted: dict[TopologyCounts, int] = field(default_factory=dict)
    _possible: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _witnesses: dict[DraftOptions, int] = field(default_factory=dict)

    def apply(self, pods: Iterable[tuple[Pod, PodShape]], step: "DraftStep") -> None:
        """Add pods, and the narrower options that were found for them."""
        self.options, self.total, self.witness = step.options, step.total, step.witness
        for pod, shape in pods:
            self.pods.append(pod)
            self.shapes.append(shape)
            self.ports += shape.ports
        self._possible.clear()

    def possible(self, key: str) -> tuple[str, ...]:
        """The domains of a topology key in which some type that holds its pods has an offering."""
        known = self._possible.get(key)
        if known is None:
            known = self.options.domains(key)
            if len(known) > 1:
                known = tuple(each for each in known if self._holds(self.options.within(key, (each,))))
            self._possible[key] = known
        return known

    def with_options(self, options: DraftOptions, witness: int) -> "Draft":
        """The same pods and domains with other options; the type at `witness` holds the pods."""
        return Draft(
            self.number,
            options,
            self.total,
            self.below,
            witness,
            self.pods,
            self.shapes,
            self.ports,
            self.counted,
            self._possible,
        )

    def could_match(self, wanted: Alternative) -> bool:
        """Whether some type that holds its pods also matches this alternative."""
        narrowed = self.options.narrow(wanted)
        return not isinstance(narrowed, str) and self._holds(narrowed)

    def _holds(self, narrowed: DraftOptions) -> bool:
        witness = self._witnesses.get(narrowed, -1)
        if self.ports or witness < 0 or not narrowed.holds(witness, self.total):
            witness = self._witnesses[narrowed] = narrowed.find(self.total, self.below, self.ports)
        return witness >= 0

    @property
    def template(self) -> NodePoolTemplate:
        """The template of its NodePool."""
        return self.options.type_table.template

    @property
    def pool_name(self) -> str:
        """The name of its NodePool."""
        return self.template.pool.name

    @property
    def requirements(self) -> Requirements:
        """The requirements of its NodePool, narrowed by its pods."""
        return self.options.requirements

    @property
    def pod_keys(self) -> tuple[Key, ...]:
        """The keys of its pods, in the order they were placed."""
        return tuple(pod.key for pod in self.pods)

    @property
    def requests(self) -> Resources:
        """The sum of the requests of its pods."""
        return add(*(shape.requests for shape in self.shapes))

    @property
    def choices(self) -> Sequence[CandidateType]:
        """The types that hold all its pods, cheapest first."""
        return [self.options.choice(each) for each in self.options.left(self.total, self.below, self.ports)]

    @property
    def type_names(self) -> frozenset[str]:
        """The names of the types that hold all its pods."""
        return frozenset(choice.type.name for choice in self.choices)


class DraftStep(msgspec.Struct, frozen=True, eq=False):
    """The options, total and witness of a draft after it takes one more pod."""

    options: DraftOptions
    total: list[int]
    witness: int


def cheapest(draft: Draft) -> float:
    """The hourly price of the cheapest option of a draft; 0 if it has none."""
    left = draft.options.left(draft.total, draft.below, draft.ports)
    return float(draft.options.prices[left[0]]) if left else 0.0

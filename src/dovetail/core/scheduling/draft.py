"""A node to buy, still being narrowed: every pod it takes adds requirements and removes types that no longer fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from dovetail.core.scheduling.alternative import Alternative
from dovetail.core.scheduling.options import UNLIMITED, Options
from dovetail.core.scheduling.ports import HostPort
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.tally import Tally
from dovetail.core.scheduling.template import Choice, Template
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources, add
from dovetail.model.wire import Key


@dataclass(eq=False, slots=True)
class Draft:
    """A new node of one template. `number` is its bin; `below` the price its offerings must undercut."""

    number: int
    options: Options
    total: list[int]
    below: float = UNLIMITED
    witness: int = 0  # position of a type known to hold everything
    pods: list[Pod] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    ports: tuple[HostPort, ...] = ()
    counted: dict[Tally, int] = field(default_factory=dict)
    _possible: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _witnesses: dict[Options, int] = field(default_factory=dict)

    def become(self, pods: Iterable[tuple[Pod, Shape]], step: "Step") -> None:
        """Take pods and be what was found."""
        self.options, self.total, self.witness = step.options, step.total, step.witness
        for pod, shape in pods:
            self.pods.append(pod)
            self.shapes.append(shape)
            self.ports += shape.ports
        self._possible.clear()

    def possible(self, key: str) -> tuple[str, ...]:
        """The domains it can still become: some type that holds everything is sold there."""
        known = self._possible.get(key)
        if known is None:
            known = self.options.domains(key)
            if len(known) > 1:
                known = tuple(each for each in known if self._holds(self.options.within(key, (each,))))
            self._possible[key] = known
        return known

    def could_be(self, wanted: Alternative) -> bool:
        """Whether some type that holds everything would satisfy this, too."""
        narrowed = self.options.narrow(wanted)
        return not isinstance(narrowed, str) and self._holds(narrowed)

    def _holds(self, narrowed: Options) -> bool:
        witness = self._witnesses.get(narrowed, -1)
        if self.ports or witness < 0 or not narrowed.holds(witness, self.total):
            witness = self._witnesses[narrowed] = narrowed.find(self.total, self.below, self.ports)
        return witness >= 0

    @property
    def template(self) -> Template:
        """What it is a node of."""
        return self.options.market.template

    @property
    def pool_name(self) -> str:
        """The NodePool that would make it."""
        return self.template.pool.name

    @property
    def requirements(self) -> Requirements:
        """What is settled about it."""
        return self.options.requirements

    @property
    def pod_keys(self) -> tuple[Key, ...]:
        """The pods it takes, in the order they were placed."""
        return tuple(pod.key for pod in self.pods)

    @property
    def requests(self) -> Resources:
        """What its pods ask for together."""
        return add(*(shape.requests for shape in self.shapes))

    @property
    def choices(self) -> Sequence[Choice]:
        """The types that are left, cheapest first."""
        return [self.options.choice(each) for each in self.options.left(self.total, self.below, self.ports)]

    @property
    def type_names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(choice.type.name for choice in self.choices)


class Step(msgspec.Struct, frozen=True, eq=False):
    """What a draft would be after taking one more pod."""

    options: Options
    total: list[int]
    witness: int

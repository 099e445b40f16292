"""A node to buy, still being narrowed: every pod it takes adds requirements and removes types that no longer fit."""

from dataclasses import dataclass, field

from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.template import Choice, Template
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources, add, fits
from dovetail.model.taints import untolerated


@dataclass(frozen=True)
class Narrowed:
    """What a draft would be after taking one more pod."""

    requirements: Requirements
    choices: tuple[Choice, ...]
    requests: Resources


@dataclass(eq=False)
class Draft:
    """A new node of one template. A draft only ever narrows, so a refusal is final."""

    template: Template
    requirements: Requirements
    choices: tuple[Choice, ...]
    requests: Resources = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)

    def try_shape(self, shape: Shape) -> Narrowed | str:
        """The draft with one more pod of this shape, or why that cannot be."""
        taint = untolerated(shape.tolerations, self.template.pool.spec.template.spec.taints)
        if taint is not None:
            return f"did not tolerate taint {taint}"
        requests = add(self.requests, shape.requests)
        problem = ""
        for wanted in shape.alternatives:
            outcome = self._try_alternative(wanted, requests)
            if isinstance(outcome, Narrowed):
                return outcome
            problem = problem or outcome
        return problem

    def _try_alternative(self, wanted: Requirements, requests: Resources) -> Narrowed | str:
        conflict = self.requirements.compatible(wanted, self.template.well_known)
        if conflict is not None:
            return f"incompatible requirements, {conflict}"
        narrowed = self.requirements.add(wanted)
        candidates = self.choices if narrowed == self.requirements else self._meeting(narrowed)
        if not candidates:
            return "no instance type met all requirements"
        roomy = tuple(each for each in candidates if fits(add(requests, each.overhead), each.type.allocatable))
        if not roomy:
            return "no instance type has enough resources"
        return Narrowed(narrowed, roomy, requests)

    def _meeting(self, narrowed: Requirements) -> tuple[Choice, ...]:
        known = self.template.well_known
        return tuple(
            each
            for each in self.choices
            if each.type.requirements.intersects(narrowed) is None
            and any(True for _ in each.type.compatible_offerings(narrowed, known))
        )

    def take(self, pod: Pod, narrowed: Narrowed) -> None:
        """Take the pod and become what was narrowed."""
        self.requirements = narrowed.requirements
        self.choices = narrowed.choices
        self.requests = narrowed.requests
        self.pods.append(pod)


def open_draft(template: Template, choices: tuple[Choice, ...]) -> Draft:
    """A new draft of a template, with the types its limits leave."""
    return Draft(template, template.requirements, choices)

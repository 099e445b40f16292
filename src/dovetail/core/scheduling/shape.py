"""Pods that are equal to the scheduler form one shape: what holds for one of them holds for all.

Node selectors and required node affinity become alternatives of requirements, of which one must be met.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from dovetail.model.pod import NodeSelectorTerm, Pod, PodSpec
from dovetail.model.requests import spec_requests
from dovetail.model.requirement import Requirement
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources
from dovetail.model.taints import Toleration


@dataclass(frozen=True, eq=False)
class Shape:
    """What a set of equal pods asks for."""

    alternatives: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]
    requests: Resources


def shape_of(spec: PodSpec) -> Shape:
    """The scheduling-relevant part of a pod."""
    return Shape(node_alternatives(spec), spec.tolerations, spec_requests(spec))


def node_alternatives(spec: PodSpec) -> tuple[Requirements, ...]:
    """The ways in which a node can satisfy selector and required affinity; any one of them is enough."""
    selector = Requirements.from_labels(spec.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return (selector,)
    return tuple(selector.add(term_requirements(term)) for term in required.node_selector_terms)


def term_requirements(term: NodeSelectorTerm) -> Requirements:
    """The expressions of one term, all together."""
    return Requirements.of(Requirement.of(each.key, each.operator, each.values) for each in term.match_expressions)


class Shapes:
    """Finds the shape of a pod, made once for all that are equal."""

    def __init__(self) -> None:
        self._by_spec: dict[bytes, Shape] = {}

    def of(self, pod: Pod) -> Shape:
        """The shape of `pod`; the node it is bound to does not count."""
        unbound = msgspec.structs.replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
        key = msgspec.json.encode(unbound, enc_hook=str)
        shape = self._by_spec.get(key)
        if shape is None:
            shape = self._by_spec[key] = shape_of(unbound)
        return shape

    def by_pod(self, pods: tuple[Pod, ...]) -> Mapping[str, Shape]:
        """The shape of each pod, by uid."""
        return {pod.metadata.uid: self.of(pod) for pod in pods}

"""What a pod needs of its node, by the scheduler's own arithmetic.

Containers add up; init containers run one after another, beside the sidecars declared before them, so their peak
counts; pod-level requests replace cpu, memory and huge pages; overhead comes on top, and every pod takes one slot.
"""

from collections.abc import Iterable

from dovetail.model.pod import Container, PodSpec
from dovetail.model.quantity import Quantity
from dovetail.model.resources import CPU, MEMORY, PODS, Resources, add, maximum

ONE_POD: Resources = {PODS: Quantity.of(1)}


def spec_requests(spec: PodSpec) -> Resources:
    """The effective request of a pod with this spec, its pod slot included."""
    request = maximum(_running(spec), _init_peak(spec.init_containers))
    if spec.resources is not None:
        replaced = {name: amount for name, amount in spec.resources.requests.items() if _pod_level(name)}
        request = {**request, **replaced}
    return add(request, spec.overhead, ONE_POD)


def _pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _running(spec: PodSpec) -> Resources:
    sidecars = (container for container in spec.init_containers if _sidecar(container))
    return add(*(container.resources.requests for container in (*spec.containers, *sidecars)))


def _init_peak(containers: Iterable[Container]) -> Resources:
    peak: Resources = {}
    sidecars: Resources = {}
    for container in containers:
        together = add(sidecars, container.resources.requests)
        if _sidecar(container):
            sidecars = together
        peak = maximum(peak, together)
    return peak


def _sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"

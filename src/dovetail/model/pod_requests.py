"""What a pod needs of its node, by the scheduler's own arithmetic.

Containers add up; init containers run one after another, beside the sidecars declared before them, so their peak
counts; pod-level requests replace cpu, memory and huge pages; overhead comes on top, and every pod takes one slot.

A limit without a request counts as the request, as the API server writes it into every pod it accepts. Templates of
workloads, and pods in files, have not been through the API server.
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
        limits = {name: amount for name, amount in spec.resources.limits.items() if name not in request}
        asked = {**limits, **spec.resources.requests}
        request = {**request, **{name: amount for name, amount in asked.items() if _pod_level(name)}}
    return add(request, spec.overhead, ONE_POD)


def _pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _running(spec: PodSpec) -> Resources:
    sidecars = (container for container in spec.init_containers if _sidecar(container))
    return add(*(_requests(container) for container in (*spec.containers, *sidecars)))


def _init_peak(containers: Iterable[Container]) -> Resources:
    peak: Resources = {}
    sidecars: Resources = {}
    for container in containers:
        together = add(sidecars, _requests(container))
        if _sidecar(container):
            sidecars = together
        peak = maximum(peak, together)
    return peak


def _requests(container: Container) -> Resources:
    resources = container.resources
    if resources.limits.keys() <= resources.requests.keys():  # of every pod from the API server
        return resources.requests
    return {**resources.limits, **resources.requests}


def _sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"

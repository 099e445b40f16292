"""Host ports: which of them cannot be on one node together."""

from collections.abc import Iterable

from dovetail.model.pod import ContainerPort, PodSpec

WILDCARDS = {"", "0.0.0.0", "::"}  # noqa: S104 - the words Kubernetes uses for every address


def host_ports(spec: PodSpec) -> list[ContainerPort]:
    """Ports of containers and sidecars; plain init containers are gone when the pod runs, as kube-scheduler sees it."""
    running = [*spec.containers, *(each for each in spec.init_containers if each.restart_policy == "Always")]
    return [port for container in running for port in container.ports if port.host_port]


def conflict(one: ContainerPort, other: ContainerPort) -> bool:
    return (
        one.host_port == other.host_port
        and one.protocol == other.protocol
        and (one.host_ip == other.host_ip or one.host_ip in WILDCARDS or other.host_ip in WILDCARDS)
    )


def ports_conflict(spec: PodSpec, others: Iterable[PodSpec]) -> bool:
    taken = [port for other in others for port in host_ports(other)]
    return any(conflict(wanted, port) for wanted in host_ports(spec) for port in taken)

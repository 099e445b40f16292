"""Host ports: a node can bind each port once for each protocol and address.

The address is empty for "all addresses", which conflicts with every address. Ports of containers and sidecars count;
ports of other init containers do not. The rule is that of kube-scheduler's NodePorts plugin, except that `::` also
means all addresses.
"""

from collections.abc import Collection, Iterable

from dovetail.model.pod import PodSpec

HostPort = tuple[str, int, str]
"""Address (empty: all addresses), port, protocol."""

EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers and sidecars."""
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    return tuple(
        ("" if port.host_ip in EVERY_ADDRESS else port.host_ip, port.host_port, port.protocol or "TCP")
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port
    )


def conflict(requested: Iterable[HostPort], used: Collection[HostPort]) -> HostPort | None:
    """The first requested port that is in use, or None."""
    for port in requested:
        address, number, protocol = port
        for other_address, other_number, other_protocol in used:
            same = number == other_number and protocol == other_protocol
            if same and (not address or not other_address or address == other_address):
                return port
    return None

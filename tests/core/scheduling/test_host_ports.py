"""Host ports: which a pod takes, and which exclude each other."""

import pytest

from builders import pod
from dovetail.core.scheduling.host_ports import conflict, host_ports


def container(name="main", port=80, **fields):
    return {"name": name, "image": "app", "ports": [{"containerPort": port, "hostPort": port, **fields}]}


def ports_of(*containers, init=()):
    return host_ports(pod(spec={"containers": list(containers), "initContainers": list(init)}).spec)


def test_a_port_without_host_port_takes_nothing():
    assert ports_of({"name": "main", "image": "app", "ports": [{"containerPort": 80}]}) == ()


def test_the_protocol_is_tcp_unless_written():
    assert ports_of(container(), container("dns", 53, protocol="UDP")) == (("", 80, "TCP"), ("", 53, "UDP"))


def test_ports_of_sidecars_count_and_those_of_init_containers_that_end_do_not():
    sidecar = {**container("proxy", 81), "restartPolicy": "Always"}
    assert ports_of(container(), init=[container("setup", 82), sidecar]) == (("", 80, "TCP"), ("", 81, "TCP"))


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 - compared with, not listened on
def test_the_wildcard_addresses_mean_every_address(address):
    assert ports_of(container(hostIP=address)) == (("", 80, "TCP"),)


@pytest.mark.parametrize(
    ("wanted", "taken", "conflicts"),
    [
        (("", 80, "TCP"), ("", 80, "TCP"), True),
        (("", 80, "TCP"), ("10.0.0.1", 80, "TCP"), True),
        (("10.0.0.1", 80, "TCP"), ("", 80, "TCP"), True),
        (("10.0.0.1", 80, "TCP"), ("10.0.0.2", 80, "TCP"), False),
        (("", 80, "TCP"), ("", 80, "UDP"), False),
        (("", 80, "TCP"), ("", 81, "TCP"), False),
    ],
)
def test_a_port_can_be_taken_once_per_protocol_and_address(wanted, taken, conflicts):
    assert conflict([wanted], [taken]) == (wanted if conflicts else None)

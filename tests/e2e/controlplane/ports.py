"""Ports for the components of one control plane, which nobody else takes before they listen.

Several control planes may start at the same time. Numbers lie below those that the kernel hands out by itself, and a
UDP socket of each number is held for as long as the control plane lives: it is in no listener's way, and whoever else
looks for ports here passes over what is held.
"""

import dataclasses
import secrets
import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"
NUMBERS = range(15_000, 32_000)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """One port for each listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int

    @classmethod
    def reserve(cls, held: ExitStack) -> "Ports":
        """Take a port for each, until `held` is closed."""
        return cls(**{field.name: _reserve(held) for field in dataclasses.fields(cls)})


def _reserve(held: ExitStack) -> int:
    while True:
        number = secrets.choice(NUMBERS)
        with ExitStack() as attempt:
            try:
                attempt.enter_context(socket.socket(type=socket.SOCK_DGRAM)).bind((LOOPBACK, number))
                with socket.socket() as listener:
                    listener.bind((LOOPBACK, number))
            except OSError:  # somebody has it
                continue
            held.push(attempt.pop_all())
            return number
